"""Which unstated rates give the table published for YOLOv4, and whether anything less does.

    $ python -m benchmarks.streaming_table

Deviations in % of the synchronous, asynchronous and zero-copy delay (Ji et al., RTSS 2022, section I)
by read and copy rate, kernels in proportion to their multiplications; `*` marks all within 3 %. Then
the nearest of 3,000 random settings if only the layers with weights take turns.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.demand_layering import MIB, PRELOADED_MS, ROWS, yolov4
from benchmarks.papers.streaming.architectures import asynchronous, enlarged, synchronous, zero_copy

PUBLISHED_MS = np.array([row.delay_ms for row in ROWS[:3]])


def at_rates(layers, read, copy, kernels_ms=None):
    kernels_ms = kernels_ms if kernels_ms is not None else [layer.kernel_ms for layer in layers]
    return [
        replace(
            layer,
            read_ms=layer.weight_bytes / MIB / read,
            copy_ms=layer.weight_bytes / MIB / copy,
            kernel_ms=float(kernel_ms),
        )
        for layer, kernel_ms in zip(layers, kernels_ms, strict=True)
    ]


def deviations(layers):
    delays_ms = [find(layers).predicted_ms for find in (synchronous, asynchronous, zero_copy)]
    return np.array(delays_ms) / PUBLISHED_MS - 1


def main():
    layers = yolov4()
    copies = (6.0, 8.0, 10.0, 12.0, 15.0, 20.0, 30.0)
    print("read, MiB/ms | copy: " + ", ".join(f"{copy:g}" for copy in copies) + " | enlarged ring")
    for read in np.arange(3.4, 5.6, 0.2):
        cells = []
        for copy in copies:
            found = deviations(at_rates(layers, read, copy))
            mark = "*" if np.abs(found).max() < 0.03 else " "
            cells.append(" ".join(f"{100 * one:+5.1f}" for one in found) + mark)
        ring = enlarged(at_rates(layers, read, 12.0), tolerance=1 / PRELOADED_MS)
        extra_ms = ring.predicted_ms - PRELOADED_MS
        print(
            f"{read:.1f} | {' | '.join(cells)} | {ring.memory_bytes / MIB:.2f} MiB, {extra_ms:+.2f}"
        )

    with_weights = [layer for layer in layers if layer.weight_bytes]
    by_flops = np.array([weight.kernel_ms for weight in with_weights])
    by_bytes = np.array([float(weight.weight_bytes) for weight in with_weights])
    parts = [part / part.sum() for part in (by_flops, by_bytes, np.ones(len(by_flops)))]
    draw = np.random.default_rng(0)
    best = np.inf
    for _ in range(3000):
        mixed = draw.dirichlet([1, 1, 1]) @ np.array(parts) * PRELOADED_MS
        own = at_rates(with_weights, draw.uniform(1.8, 6), draw.uniform(3, 40), mixed)
        best = min(best, float(np.abs(deviations(own)).max()))
    print(f"turns for layers with weights only: at best {100 * best:.1f} % off in one of the three")


if __name__ == "__main__":
    main()
