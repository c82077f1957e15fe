"""How the searches of one cell went, sample by sample.

A *sample* is an architecture that a search proposes, a *query* one that it has not proposed before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from nas.study.statistics import hypervolume
from nas.study.tables import Tables
from nas.study.trace import Trace
from nas.trials.survey import Landscape

BINS = 20
"""Bins of figure 5-2 of the thesis: 250 samples each at 5,000 samples."""


@final
@dataclass(frozen=True)
class Course:
    """How the searches of a cell went, sample by sample."""

    trace: Trace
    landscape: Landscape
    tables: Tables
    accuracy_is_predicted: bool = False  # of every architecture, by a model
    latency_predicted: Bool[ndarray, "15625"] = field(
        default_factory=lambda: np.zeros(NAS_BENCH_201.size, bool)
    )

    @property
    def optimum_name(self) -> str:
        """What the best architecture within T is called: exact, where nothing of it is predicted."""
        optimum = self.landscape.optimum
        predicted = optimum is not None and bool(self.latency_predicted[optimum])
        return f"{'predicted' if predicted or self.accuracy_is_predicted else 'exact'} optimum"

    @property
    def front_name(self) -> str:
        """What the front of the whole space is called: true, where nothing of it is predicted."""
        predicted = bool(self.latency_predicted[self.landscape.pareto_front].any())
        return f"{'predicted' if predicted or self.accuracy_is_predicted else 'true'} front"

    @property
    def accuracy(self) -> Float64[ndarray, "R n"]:
        """As searched on."""
        return np.asarray(self.landscape.accuracy[self.trace.index])

    @property
    def latency_ms(self) -> Float64[ndarray, "R n"]:
        """Of every sample."""
        return np.asarray(self.landscape.latency_ms[self.trace.index])

    @property
    def feasible(self) -> Bool[ndarray, "R n"]:
        """Which samples meet the limit."""
        return self.latency_ms <= self.landscape.limit_ms

    @property
    def new(self) -> Bool[ndarray, "R n"]:
        """Which samples are queries: not proposed before in this search."""
        return first_times(self.trace.index.astype(np.int64))

    def gap(self) -> Float64[ndarray, "R n"]:
        """Points that the best so far lies below the optimum; infinite while there is none."""
        optimum = self.landscape.optimum
        if optimum is None:
            raise ValueError("no architecture meets the limit")
        best = np.maximum.accumulate(np.where(self.feasible, self.accuracy, -np.inf), axis=1)
        return np.asarray(100 * (self.landscape.accuracy[optimum] - best))

    def found(self, samples: int | None = None) -> Int64[ndarray, "R"]:
        """The architecture that each search declares its best, after so many samples or all.

        -1 where none is within T.
        """
        within = np.where(self.feasible, self.accuracy, -np.inf)[:, :samples]
        rows, best = np.arange(len(within)), within.argmax(1)
        index = self.trace.index[rows, best].astype(np.int64)
        return np.where(np.isneginf(within[rows, best]), -1, index)

    @property
    def training_hours(self) -> Float64[ndarray, "R n"]:
        """Simulated hours by each sample, if every query is trained; NaN if it is unknown."""
        seconds = self.tables.train_s[self.trace.index]
        return np.asarray(np.where(self.new, seconds, 0.0).cumsum(1) / 3600)

    def hypervolume_share(self) -> Float64[ndarray, "R"]:
        """Area under the found front over that under the true one, up to the slowest cell."""
        space = self.landscape
        worst_ms = float(space.latency_ms.max())
        whole = hypervolume(space.latency_ms, space.accuracy, worst_ms)
        found = [np.unique(row) for row in self.trace.index]
        areas = [hypervolume(space.latency_ms[f], space.accuracy[f], worst_ms) for f in found]
        return np.array(areas) / whole


def bins_of(samples: int) -> list[Int64[ndarray, "_"]]:
    """Which samples are in each of figure 5-2's 20 bins; fewer bins if there are fewer samples."""
    return np.array_split(np.arange(samples), min(BINS, samples))


def bin_means(values: Float64[ndarray, "R n"]) -> Float64[ndarray, "R bins"]:
    """Means of figure 5-2's 20 bins of samples, in order."""
    return np.stack([values[:, b].mean(1) for b in bins_of(values.shape[1])], axis=1)


def first_times(numbers: Int64[ndarray, "R n"]) -> Bool[ndarray, "R n"]:
    """Where each row has a number that it has not had before."""
    new = np.zeros(numbers.shape, bool)
    for row, sequence in zip(new, numbers, strict=True):
        row[np.unique(sequence, return_index=True)[1]] = True
    return new


def at_query(
    values: Float64[ndarray, "R n"], queries: Int64[ndarray, "R n"], count: int
) -> Float64[ndarray, "R"]:
    """Each row's value when it had made so many queries, or at its end if it made fewer."""
    last = [np.searchsorted(row, count, side="right") - 1 for row in queries]
    return np.asarray(values[np.arange(len(values)), last])


def bin_within_limit(latency_ms: Float64[ndarray, "R n"], limit_ms: float) -> Float64[ndarray, "R"]:
    """Samples before the first of 20 bins from which on every bin's mean is within the limit."""
    starts = [float(samples[0]) for samples in bins_of(latency_ms.shape[1])]
    beyond = bin_means(latency_ms) > limit_ms * (1 + 1e-9)
    # position after the last bin beyond; 0 where none is
    settled = np.where(beyond.any(1), len(starts) - np.argmax(beyond[:, ::-1], axis=1), 0)
    return np.asarray(np.array([*starts, np.inf])[settled])
