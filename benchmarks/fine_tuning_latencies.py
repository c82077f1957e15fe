"""Latencies of the candidates of `fine_tuning_table`: on a core of this machine, and on its GPU.

    $ python -m benchmarks.fine_tuning_latencies --weights FOLDER --device core --core 3 --out core.csv
    $ python -m benchmarks.fine_tuning_latencies --weights FOLDER --device gpu --out gpu.csv

One image at a time: ONNX Runtime (fp32) with one thread on one core that has nothing else to do, or torch (fp32)
as a captured graph. Medians of `PASSES` passes, in each of which all networks take turns; the spread is that of
the passes' medians, as a share of the least. Weights do not matter, so that each network is timed once.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np

from benchmarks.fine_tuning_table import NetworkAtSide, candidates_of, space_of
from benchmarks.mobilenet_v3_trained import CALLS, PASSES, in_turns
from nas.fit.starts.pretrained.space import SIDES
from nas.fit.training.network import untrained


def main() -> None:
    """Write a row for each network and side."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weights", required=True)
    parser.add_argument("--device", default="core", choices=CALLS)
    parser.add_argument("--core", type=int, help="number of the core")
    parser.add_argument("--sides", type=int, nargs="+", default=SIDES)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    space = space_of(arguments.weights)
    shapes: dict[tuple[str, int], NetworkAtSide] = {}
    for candidate in candidates_of(space, arguments.sides):
        shapes.setdefault(candidate.shape, candidate)
    task = space.tasks[space.default_task]
    networks = []
    for name, side in shapes.values():
        row = space.parse(f"network={name} side={side} tuning=head")
        networks.append((untrained(space, row, task).eval(), side))
    calls = CALLS[arguments.device](networks)
    if arguments.core is not None:
        os.sched_setaffinity(0, {arguments.core})
    passes = np.array([in_turns(calls) for _ in range(PASSES)])
    with arguments.out.open("w", encoding="utf-8") as file:
        file.write("network,side,device,ms,spread\n")
        for (network, side), ms in zip(shapes, passes.T, strict=True):
            spread = ms.max() / ms.min() - 1
            file.write(f"{network},{side},{arguments.device},{np.median(ms):.4f},{spread:.3f}\n")


if __name__ == "__main__":
    main()
