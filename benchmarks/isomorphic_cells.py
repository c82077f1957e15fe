"""Claim: no runtime here finds out that two cells are the same network, so each has its own time.

    $ python -m benchmarks.isomorphic_cells

Ten cells, drawn at random (seed 0) from the 9,159 that are the same network as an earlier one, are
timed in turns with that one and with that one again, whose difference is the noise; the lower
quartile of 60 calls each, one thread on one core. The last column says whether ONNX Runtime's
optimised graphs of the two have as many operations of each kind.

Recorded 2026-11-21, 2-core AMD EPYC virtual machine that others kept busy (the same cell again is
the measure of that), Python 3.11.7:
ONNX Runtime 9.3 % apart (median; the same cell again 0.8 %, worst 1.9 %), from 0.32 to 3.1 times as
long; eager torch 15.9 % (0.7 %, worst 45 %, of a neighbour), from 0.58 to 1.6 times. Same operations:
2 of 10.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from pathlib import Path

os.environ["OMP_WAIT_POLICY"] = "PASSIVE"  # read when torch is imported

import numpy as np
import onnx
import onnxruntime
import torch

from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201, TASKS
from runtime.machine.timing import Stopwatch, TimingConfig, time_interleaved
from runtime.network.backend import Backend, Device
from runtime.network.formats.onnx_export import onnx_bytes
from runtime.network.inference import prepare

PAIRS = 10
IMAGES = SPACE.example_input(SPACE.control(), TASKS["cifar100"], 1)


def network(index):
    return SPACE.network(NAS_BENCH_201.rows[index], TASKS["cifar100"])


def optimised_operations(index):
    """How many operations of each kind ONNX Runtime is left with."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "optimised.onnx"
        options.optimized_model_filepath = str(path)
        model = onnx_bytes(network(index).eval(), [IMAGES])
        onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        return Counter(node.op_type for node in onnx.load(path).graph.node)


def main():
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    classes = NAS_BENCH_201.network_class
    generator = np.random.default_rng(0)
    others = np.flatnonzero(classes != np.arange(len(classes)))
    drawn = generator.choice(others, PAIRS, replace=False)
    same_graph = [optimised_operations(classes[c]) == optimised_operations(c) for c in drawn]
    for backend in (Backend.onnxruntime, Backend.torch):
        differences = []
        for cell, same in zip(drawn, same_graph, strict=True):
            trio = (classes[cell], cell, classes[cell])
            subjects = [prepare(network(i), IMAGES, Device.cpu, backend) for i in trio]
            timed = time_interleaved(subjects, TimingConfig(60), generator, Stopwatch())
            first, other, again = (np.quantile(samples.ms, 0.25) for samples in timed)
            differences.append((abs(other / first - 1), abs(again / first - 1)))
            print(
                f"{backend.value}: {classes[cell]} {first:.3f} ms, {cell} {other / first - 1:+.1%}, "
                f"again {again / first - 1:+.1%}, same graph {same}",
                flush=True,
            )
        print(f"{backend.value}: median difference, of the same {np.median(differences, axis=0)}")


if __name__ == "__main__":
    main()
