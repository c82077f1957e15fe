"""What the benchmarks of trainings share: their images, NAS-Bench-201's table as the judge, a log."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import torch

from latency.sources.table import AutoLatencyConfig
from nas.accuracy.base import Split
from nas.accuracy.table import TableAccuracyConfig
from nas.fit.data.open import open_images
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.trials.problem import SearchProblem

DEVICES = (("jetson-nano/fp32/b1", 17.0), ("raspberry-pi-4/b1", 17.0), ("xeon-gold-6226/b1", 11.0))
TASK = SPACE.tasks["cifar10"]
STARTED_S = time.monotonic()


def say(*texts):
    """Print a line with the seconds since the start."""
    print(f"[{time.monotonic() - STARTED_S:6.1f} s]", *texts, flush=True)


def images_of(*, tiny=False, side=None):
    """A drawn half of CIFAR-10's training images, validated on the other half; digits if tiny."""
    if tiny:
        return open_images("digits", side=side or 8, seed=0)
    path = Path(os.environ["NAS_DATA"]) / "images" / "cifar10-jpeg.parquet"
    return open_images(str(path), side=side or 32, seed=0, share=0.5)


def network_of(number, images, seed=None):
    """The untrained cell of this number; by default the seed is the number."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(number if seed is None else seed)
        return SPACE.network(SPACE.architectures(np.array(number)), images.task)


def problem_of(device, limit_ms, epochs, split):
    """The search whose accuracies are the table's after so many epochs."""
    return SearchProblem(
        SPACE,
        TASK,
        TableAccuracyConfig().build(SPACE, TASK, split, epochs),
        AutoLatencyConfig().build(device, SPACE, TASK),
        limit_ms,
    )


def accuracy_of_table(cells, epochs, split=Split.valid):
    """The table's accuracies of these cells, as fractions."""
    rows = SPACE.architectures(np.asarray(cells))
    return TableAccuracyConfig().build(SPACE, TASK, split, epochs).answer(rows).fraction
