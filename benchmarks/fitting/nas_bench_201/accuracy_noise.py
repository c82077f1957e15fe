"""Noise of the accuracy table, which limits any prediction: its seeds, and equal functions that differ."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray
from numpy.random import Generator

from benchmarks.fitting.nas_bench_201.agreement import agreement_by_part
from common.files.keyed_table import CsvTable
from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from nas.spaces.nas_bench_201.surrogate import TARGETS

_SEED = 2

_STD_COLUMNS = {
    "cifar10_valid": "cifar10_valid_std",
    "cifar100_valid": "cifar100_std",
    "cifar100_test": "cifar100_std",
    "imagenet16_valid": "imagenet16_std",
    "imagenet16_test": "imagenet16_std",
}
"""Column of the standard deviation over seeds, by target; other targets have none."""

_IMAGES = {
    "cifar10_valid": 25_000,
    "cifar100_valid": 5_000,
    "cifar100_test": 5_000,
    "imagenet16_valid": 3_000,
    "imagenet16_test": 3_000,
}
"""Number of images that one seed's accuracy was measured on (NATS-Bench's splits)."""


def noise_of(table: CsvTable) -> dict[str, dict[str, Any]]:
    """By target: `twin_mae`; with a standard deviation in the table also `seeds` and `seed_noise`."""
    generator = np.random.default_rng(_SEED)
    noise: dict[str, dict[str, Any]] = {}
    for target in TARGETS:
        measured = table.column(target)
        noise[target] = {"twin_mae": twin_mae(measured, NAS_BENCH_201.function_class)}
        if target in _STD_COLUMNS:
            seeds = mean_seeds(measured, 100 / _IMAGES[target])
            std = table.column(_STD_COLUMNS[target])
            noise[target] |= {"seeds": seeds, **seed_noise(measured, std, seeds, generator)}
    return noise


def mean_seeds(values: Float64[ndarray, "n"], step: float) -> float:
    """Average number of seeds of the values, which are means over one, two or three seeds each.

    The value of one seed is a multiple of `step` (one image), a mean over two seeds is a multiple of
    half a step, and one over three of a third; half or a third of these are multiples of a whole step
    by chance.
    """

    def share_on(grid: float) -> float:
        return float(np.mean(np.abs(values / grid - np.round(values / grid)) < 0.1))

    three = (1 - share_on(step / 2)) * 3 / 2
    two = (1 - share_on(step / 3)) * 2
    return 1 + two + 2 * three


def seed_noise(
    measured: Float64[ndarray, "n"],
    std_over_seeds: Float64[ndarray, "n"],
    seeds: float,
    generator: Generator,
) -> dict[str, dict[str, float]]:
    """Agreement of the table with a copy whose means are resampled: that of a perfect predictor."""
    error = std_over_seeds / np.sqrt(seeds) * generator.standard_normal(len(measured))
    return agreement_by_part(measured + error, measured)


def twin_mae(measured: Float64[ndarray, "n"], function_class: Int64[ndarray, "n"]) -> float:
    """MAE of predicting a cell by the mean of the other cells that compute its function."""
    _, of_cell, size = np.unique(function_class, return_inverse=True, return_counts=True)
    total = np.bincount(of_cell, measured)
    twins = size[of_cell] > 1
    others = (total[of_cell] - measured)[twins] / (size[of_cell][twins] - 1)
    return float(np.abs(others - measured[twins]).mean())
