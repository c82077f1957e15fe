"""What one search came to, by number: every measure says on which axis it counts.

Gaps are points of accuracy below the optimum within T, on the split that was searched on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from nas.study.learning_curve import BINS, Course, at_query, bin_within_limit
from nas.trials.trajectory import sample_within_limit

CHECKPOINTS = (50, 100, 200, 500, 1000, 2000, 5000)
LAST = 200
"""Samples at the end of a search over which its accuracy and latency are averaged."""
_TOLERANCE = 1e-7  # points


@final
@dataclass(frozen=True)
class Measure:
    """One number a search, and how to read it."""

    name: str
    title: str
    axis: str  # what it counts, or is taken after: samples, queries, hours, seconds
    unit: str = ""
    less_is_better: bool | None = True  # None: neither


Measured = tuple[Measure, Float64[ndarray, "R"]]


def measures_of(course: Course) -> list[Measured]:
    """The measures of a cell, a value a seed; infinite for what never happened, NaN if unknown."""
    return [
        *_gaps(course),
        *_within_limit(course),
        *_at_the_end(course),
        *_cost(course),
        *_predicted(course),
    ]


def _gaps(course: Course) -> Iterator[Measured]:
    gap, queries = course.gap(), course.new.cumsum(1)
    samples = gap.shape[1]
    counts = [count for count in CHECKPOINTS if count <= samples]
    for count in counts:
        measure = Measure(f"gap_at_{count}_queries", f"gap at {count:,}", "queries", "points")
        yield measure, at_query(gap, queries, count)
    for count in counts:
        measure = Measure(f"gap_at_{count}_samples", f"gap at {count:,}", "samples", "points")
        yield measure, gap[:, count - 1]
    yield Measure("gap", f"gap after {samples:,}", "samples", "points"), gap[:, -1]
    reached = gap <= _TOLERANCE
    when = reached.argmax(1)
    for axis, spent in (
        ("queries", queries[np.arange(len(gap)), when]),
        ("samples", when + 1),
    ):
        measure = Measure(f"{axis}_to_optimum", "until the optimum", axis)
        yield measure, np.where(reached.any(1), spent.astype(float), np.inf)


def _within_limit(course: Course) -> Iterator[Measured]:
    latency_ms, limit_ms = course.latency_ms, course.landscape.limit_ms
    settled = [sample_within_limit(row, limit_ms) for row in latency_ms]
    yield (
        Measure("settled", "until within T", "samples"),
        np.array([np.inf if sample is None else float(sample) for sample in settled]),
    )
    yield (
        Measure("settled_bin", f"until within T by {BINS} bins", "samples"),
        bin_within_limit(latency_ms, limit_ms),
    )
    yield (
        Measure("feasible_share", "share within T", "samples", less_is_better=False),
        course.feasible.mean(1),
    )


def _at_the_end(course: Course) -> Iterator[Measured]:
    last = course.trace.index[:, -LAST:]
    yield (
        Measure(
            "end_accuracy",
            f"test accuracy of the last {LAST}",
            "samples",
            "%",
            less_is_better=False,
        ),
        100 * course.tables.accuracy_test[last].mean(1),
    )
    yield (
        Measure("end_latency", f"latency of the last {LAST}", "samples", "ms", less_is_better=None),
        course.latency_ms[:, -LAST:].mean(1),
    )
    within = np.where(course.feasible, course.accuracy, -np.inf)
    rows, best = np.arange(len(within)), within.argmax(1)
    test = 100 * course.tables.accuracy_test[course.trace.index[rows, best]]
    yield (
        Measure(
            "best_test", "test accuracy of the best within T", "samples", "%", less_is_better=False
        ),
        np.where(np.isneginf(within[rows, best]), np.nan, test),
    )
    yield (
        Measure("hypervolume", "share of hypervolume", "samples", less_is_better=False),
        course.hypervolume_share(),
    )


def _predicted(course: Course) -> Iterator[Measured]:
    """Which share of what the search was told is a prediction."""
    index = course.trace.index
    for what, shares in (
        ("accuracy", np.full(len(index), float(course.accuracy_is_predicted))),
        ("latency", course.latency_predicted[index].mean(1)),
    ):
        title = f"share of {what} predicted"
        yield Measure(f"{what}_predicted", title, "samples", less_is_better=None), shares


def _cost(course: Course) -> Iterator[Measured]:
    index = course.trace.index
    yield (
        Measure("queries", "architectures", "queries", less_is_better=None),
        course.new.sum(1).astype(float),
    )
    yield (
        Measure(
            "training_hours",
            "training, simulated",
            "hours",
            "h",
            less_is_better=None,
        ),
        course.training_hours[:, -1],
    )
    yield (
        Measure(
            "seconds",
            "searching",
            "seconds",
            "s",
            less_is_better=None,
        ),
        np.full(len(index), course.trace.seconds / len(index)),
    )
