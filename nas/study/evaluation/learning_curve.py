"""Learning curves: the searches of one setting, sample by sample.

A *sample* is an architecture that a search proposes, a *query* one that it has not proposed before.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64, Integer
from numpy import ndarray

from edgenas_core.types.architectures import Enumerable
from edgenas_core.types.kind import is_predicted
from nas.spaces.base import SearchSpace
from nas.study.answers import Answers
from nas.study.search_log import SearchLog
from nas.trials.survey import Survey, hypervolume

BINS = 20
"""Bins of figure 5-2 of the thesis: 250 samples each at 5,000 samples."""


@final
@dataclass(frozen=True)
class LearningCurve:
    """R searches of n samples each, with the answers about every sample."""

    log: SearchLog
    answers: Answers  # by the numbers of the log
    limit_ms: float
    space: SearchSpace
    survey: Survey | None = None  # None where the optimum of the space is not known

    @property
    def whole(self) -> Survey:
        """The survey.

        Raises:
          ValueError: if the optimum of the space is not known.
        """
        if self.survey is None:
            raise ValueError("the optimum of the space is not known")
        return self.survey

    @property
    def optimum_name(self) -> str:
        """`exact optimum`, or `predicted optimum` where a model gave some number of it."""
        optimum = self.survey.optimum if self.survey else None
        where = np.zeros(0, np.int64) if optimum is None else np.array([optimum])
        return f"{'predicted' if self._predicted(where) else 'exact'} optimum"

    @property
    def front_name(self) -> str:
        """`true front` of the whole space, or `predicted front` where a model gave some number of it."""
        front = np.zeros(0, np.int64) if self.survey is None else self.survey.pareto_front
        return f"{'predicted' if self._predicted(front) else 'true'} front"

    def _predicted(self, numbers: Int64[ndarray, "k"]) -> bool:
        """Whether any accuracy or any of these latencies is predicted."""
        return bool(
            is_predicted(self.answers.accuracy_kind).any()
            or is_predicted(self.answers.latency_kind[numbers]).any()
        )

    @property
    def accuracy(self) -> Float64[ndarray, "R n"]:
        """Accuracy of every sample on the split that is searched on, a fraction."""
        return np.asarray(self.answers.accuracy[self.log.index])

    @property
    def latency_ms(self) -> Float64[ndarray, "R n"]:
        """Latency of every sample."""
        return np.asarray(self.answers.latency_ms[self.log.index])

    @property
    def feasible(self) -> Bool[ndarray, "R n"]:
        """True where a sample meets the limit."""
        return np.asarray((self.latency_ms <= self.limit_ms) & ~np.isnan(self.accuracy))

    @property
    def new(self) -> Bool[ndarray, "R n"]:
        """True where a sample is a query: not proposed before in its search."""
        return first_times(self.log.index)

    @cached_property
    def best(self) -> Float64[ndarray, "R n"]:
        """Accuracy of the best within T so far, a fraction; -inf before there is one."""
        return np.maximum.accumulate(np.where(self.feasible, self.accuracy, -np.inf), axis=1)

    def gap(self) -> Float64[ndarray, "R n"]:
        """Points that the best so far lies below the optimum; infinite before there is one.

        Raises:
          ValueError: if the optimum is not known, or no architecture meets the limit.
        """
        optimum = self.whole.optimum
        if optimum is None:
            raise ValueError("no architecture meets the limit")
        return np.asarray(100 * (self.answers.accuracy[optimum] - self.best))

    def best_numbers(self, samples: int | None = None) -> Int64[ndarray, "R"]:
        """Number of the best within T of each search, after so many samples or all; -1 if none is."""
        within = np.where(self.feasible, self.accuracy, -np.inf)[:, :samples]
        rows, best = np.arange(len(within)), within.argmax(1)
        index = self.log.index[rows, best].astype(np.int64)
        return np.where(np.isneginf(within[rows, best]), -1, index)

    @property
    def training_hours(self) -> Float64[ndarray, "R n"]:
        """Simulated hours by each sample, if every query is trained once; NaN if unknown."""
        seconds = self.answers.train_s[self.log.index]
        return np.asarray(np.where(self.new, seconds, 0.0).cumsum(1) / 3600)

    def hypervolume_share(self) -> Float64[ndarray, "R"]:
        """Area under the found front over that under the front of the whole space.

        Areas end at the slowest architecture of the space; answers must be about all of it.
        """
        latency_ms, accuracy = self.answers.latency_ms, self.answers.accuracy
        worst_ms = float(latency_ms.max())
        whole = hypervolume(accuracy, latency_ms, 0.0, worst_ms)
        sampled = [np.unique(row) for row in self.log.index]
        areas = [hypervolume(accuracy[f], latency_ms[f], 0.0, worst_ms) for f in sampled]
        return np.array(areas) / whole

    def text(self, number: int) -> str:
        """The architecture of a number, as its space writes it."""
        if self.log.sampled is not None:
            return self.space.text(self.log.sampled.architectures[number])
        assert isinstance(self.space, Enumerable)
        return self.space.text(self.space.architectures(np.array(number)))


def bins_of(samples: int) -> list[Int64[ndarray, "_"]]:
    """Samples of each of figure 5-2's 20 bins; fewer bins if there are fewer samples."""
    return np.array_split(np.arange(samples), min(BINS, samples))


def bin_means(values: Float64[ndarray, "R n"]) -> Float64[ndarray, "R bins"]:
    """Means of figure 5-2's 20 bins of samples, in order."""
    return np.stack([values[:, b].mean(1) for b in bins_of(values.shape[1])], axis=1)


def first_times(numbers: Integer[ndarray, "R n"]) -> Bool[ndarray, "R n"]:
    """True where a number occurs in its row for the first time."""
    new = np.zeros(numbers.shape, bool)
    for row, sequence in zip(new, numbers, strict=True):
        row[np.unique(sequence, return_index=True)[1]] = True
    return new


def at_query(
    values: Float64[ndarray, "R n"], queries: Int64[ndarray, "R n"], count: int
) -> Float64[ndarray, "R"]:
    """Value of each row after so many queries, or at its end if it made fewer."""
    last = [np.searchsorted(row, count, side="right") - 1 for row in queries]
    return np.asarray(values[np.arange(len(values)), last])


def bin_within_limit(latency_ms: Float64[ndarray, "R n"], limit_ms: float) -> Float64[ndarray, "R"]:
    """Samples before the first of 20 bins from which on every bin's mean is within the limit."""
    starts = [float(samples[0]) for samples in bins_of(latency_ms.shape[1])]
    beyond = bin_means(latency_ms) > limit_ms * (1 + 1e-9)
    # position after the last bin beyond; 0 where none is
    settled = np.where(beyond.any(1), len(starts) - np.argmax(beyond[:, ::-1], axis=1), 0)
    return np.asarray(np.array([*starts, np.inf])[settled])
