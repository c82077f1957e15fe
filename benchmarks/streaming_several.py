"""Streamed networks beside each other in one budget: are delays within what was promised?

    $ python benchmarks/streaming_several.py [budget, default 64MB]

Two chains of linear layers with generated weights, one thread each, weights read from this machine's
disk past the page cache. For each pair of deadlines: what each share promises beside the other at its
worst, what is predicted if both begin together (one disk, two processors), and what 15 runs took that
began together: median, worst, deadlines missed. The control is the same run before and after.
"""

from __future__ import annotations

import sys
from itertools import product
from statistics import median

import torch
from torch import nn

from runtime.stream.several import Wanted, stream_several
from runtime.stream.together import Streaming, run_together

RUNS = 15
BATCH = 128


def chain(width, layers):
    parts = [part for _ in range(layers) for part in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*parts).eval()


def main():
    budget = sys.argv[1] if len(sys.argv) > 1 else "64MB"
    torch.set_num_threads(1)
    torch.manual_seed(0)
    models = {"wide": chain(2048, 12), "deep": chain(1024, 32)}
    inputs = {"wide": torch.randn(BATCH, 2048), "deep": torch.randn(BATCH, 1024)}
    for wide_ms, deep_ms in product((400.0, 1500.0), (250.0, 1500.0)):
        deadlines_ms = {"wide": wide_ms, "deep": deep_ms}
        wanted = [
            Wanted(name, model, inputs[name], deadlines_ms[name]) for name, model in models.items()
        ]
        with torch.inference_mode():
            expected = {name: model(inputs[name]) for name, model in models.items()}
        with stream_several(wanted, budget=budget, processors=2) as both:
            simulated = run_together(
                [Streaming(one.tenant.layers, one.plan) for one in both.shares.values()],
                processors=2,
            )
            both.run(inputs)
            answers = [both.run(inputs) for _ in range(RUNS)]
            print(f"deadlines {wide_ms:.0f} and {deep_ms:.0f} ms, {budget}")
            for (name, given), run in zip(both.shares.items(), simulated, strict=True):
                own = [answer[name] for answer in answers]
                assert all(torch.equal(one.output, expected[name]) for one in own)
                took_ms = [one.took_ms for one in own]
                print(
                    f"  {name}: {given.plan.memory_bytes / 1e6:5.1f} MB, promised "
                    f"{given.plan.predicted_ms:6.1f} (strain {given.strain:.2f}), together "
                    f"{run.makespan_ms:6.1f}, measured {median(took_ms):6.1f}, worst "
                    f"{max(took_ms):6.1f}, missed {sum(not one.is_in_time for one in own)} of {RUNS}"
                )


if __name__ == "__main__":
    main()
