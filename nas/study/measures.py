"""What one search came to, by number: every measure says on which axis it counts.

A *sample* is an architecture that the search proposes, a *query* one that it has not proposed
before, and seconds are those of this machine or, simulated, of training every query. Gaps are
points of accuracy below the exact optimum within T, on the split that was searched on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from nas.landscape import Landscape
from nas.search_space import NAS_BENCH_201
from nas.study.statistics import hypervolume
from nas.study.tables import Tables
from nas.study.trace import Trace
from nas.trajectory import sample_within_limit

CHECKPOINTS = (50, 100, 200, 500, 1000, 2000, 5000)
LAST = 200
"""Samples at the end of a search over which its accuracy and latency are averaged."""
BINS = 20
"""Bins of figure 5-2 of the thesis: 250 samples each at 5,000 samples."""
_TOLERANCE = 1e-9


@final
@dataclass(frozen=True)
class Measure:
    """One number a search, and how to read it."""

    name: str
    title: str
    axis: str  # what is counted: samples, queries, seconds, or none
    unit: str
    less_is_better: bool | None  # None: neither


@final
@dataclass(frozen=True)
class Course:
    """How the searches of a cell went, sample by sample."""

    trace: Trace
    landscape: Landscape
    tables: Tables

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
    bins = np.array_split(np.arange(latency_ms.shape[1]), min(BINS, latency_ms.shape[1]))
    means = np.stack([latency_ms[:, b].mean(1) for b in bins], axis=1)
    starts = np.array([*(float(b[0]) for b in bins), np.inf])
    beyond = means > limit_ms * (1 + 1e-9)
    # position after the last bin beyond; 0 where none is
    settled = np.where(beyond.any(1), len(bins) - np.argmax(beyond[:, ::-1], axis=1), 0)
    return np.asarray(starts[settled])


def measures_of(
    course: Course,
) -> tuple[tuple[Measure, ...], dict[str, Float64[ndarray, "R"]]]:
    """The measures of a cell and, by name, their values for each seed."""
    made: list[tuple[Measure, Float64[ndarray, "R"]]] = []

    def add(
        name: str,
        title: str,
        axis: str,
        unit: str,
        values: Float64[ndarray, "R"],
        *,
        less_is_better: bool | None = True,
    ) -> None:
        made.append((Measure(name, title, axis, unit, less_is_better), values))

    latency_ms, new, gap = course.latency_ms, course.new, course.gap()
    limit_ms = course.landscape.limit_ms
    samples = gap.shape[1]
    queries = new.cumsum(1)
    for count in (n for n in CHECKPOINTS if n <= samples):
        title = f"gap at {count:,}"
        add(f"gap_at_{count}_queries", title, "queries", "points", at_query(gap, queries, count))
    for count in (n for n in CHECKPOINTS if n <= samples):
        title = f"gap at {count:,}"
        add(f"gap_at_{count}_samples", title, "samples", "points", gap[:, count - 1])
    add("gap", f"gap at the end, after {samples:,}", "samples", "points", gap[:, -1])
    reached = gap <= 100 * _TOLERANCE
    when = reached.argmax(1)
    never = ~reached.any(1)
    rows = np.arange(len(gap))
    add(
        "queries_to_optimum",
        "to the exact optimum",
        "queries",
        "",
        np.where(never, np.inf, queries[rows, when]),
    )
    add(
        "samples_to_optimum",
        "to the exact optimum",
        "samples",
        "",
        np.where(never, np.inf, when + 1.0),
    )
    settled = [sample_within_limit(row, limit_ms) for row in latency_ms]
    add(
        "settled",
        "until the mean of 100 stays within T",
        "samples",
        "",
        np.array([np.inf if s is None else float(s) for s in settled]),
    )
    add(
        "settled_bin",
        f"before the first of {BINS} bins from which on all means are within T",
        "samples",
        "",
        bin_within_limit(latency_ms, limit_ms),
    )
    add(
        "feasible_share",
        "share within T",
        "samples",
        "",
        course.feasible.mean(1),
        less_is_better=False,
    )
    tail = slice(max(0, samples - LAST), None)
    test = course.tables.accuracy_test[course.trace.index[:, tail]]
    add(
        "end_accuracy",
        f"mean test accuracy of the last {LAST}",
        "samples",
        "%",
        100 * test.mean(1),
        less_is_better=False,
    )
    add(
        "end_latency",
        f"mean latency of the last {LAST}",
        "samples",
        "ms",
        latency_ms[:, tail].mean(1),
        less_is_better=None,
    )
    add(
        "best_test",
        "test accuracy of the best within T",
        "samples",
        "%",
        _best_test(course),
        less_is_better=False,
    )
    add(
        "hypervolume",
        "share of the true front's hypervolume",
        "samples",
        "",
        _hypervolume(course),
        less_is_better=False,
    )
    add(
        "queries",
        "distinct architectures evaluated",
        "queries",
        "",
        queries[:, -1].astype(float),
        less_is_better=None,
    )
    networks = [len(np.unique(NAS_BENCH_201.network_class[row])) for row in course.trace.index]
    add(
        "networks",
        "distinct networks evaluated",
        "queries",
        "",
        np.array(networks, float),
        less_is_better=None,
    )
    trained = np.where(new, course.tables.train_s[course.trace.index], 0.0).sum(1) / 3600
    add(
        "training_hours",
        "simulated: training every query once",
        "hours",
        "h",
        trained,
        less_is_better=None,
    )
    seconds = np.full(len(gap), course.trace.seconds / len(gap))
    add(
        "seconds",
        "of one search, its share of the seeds that ran together",
        "seconds",
        "s",
        seconds,
        less_is_better=None,
    )
    return tuple(measure for measure, _ in made), {m.name: values for m, values in made}


def _best_test(course: Course) -> Float64[ndarray, "R"]:
    """Test accuracy, in percent, of the network that each search would hand over; NaN if none."""
    within = np.where(course.feasible, course.accuracy, -np.inf)
    best = within.argmax(1)
    rows = np.arange(len(best))
    test = 100 * course.tables.accuracy_test[course.trace.index[rows, best]]
    return np.where(np.isneginf(within[rows, best]), np.nan, test)


def _hypervolume(course: Course) -> Float64[ndarray, "R"]:
    """Area under the found front over that under the true one, up to the slowest architecture."""
    space = course.landscape
    worst_ms = float(space.latency_ms.max())
    whole = hypervolume(space.latency_ms, space.accuracy, worst_ms)
    found = [np.unique(row) for row in course.trace.index]
    areas = [hypervolume(space.latency_ms[f], space.accuracy[f], worst_ms) for f in found]
    return np.array(areas) / whole
