"""Measures of one search: numbers, each with the axis that it counts or is taken after.

Gaps are points of accuracy below the optimum within T, on the split that was searched on. Where the
optimum of the space is not known, the accuracy of the best within T takes their place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from edgenas_core.types.kind import is_predicted
from nas.study.evaluation.learning_curve import BINS, LearningCurve, at_query, bin_within_limit
from nas.trials.statistics import sample_within_limit

CHECKPOINTS = (50, 100, 200, 500, 1000, 2000, 5000)
LAST = 200
"""Samples at the end of a search over which its accuracy and latency are averaged."""
_TOLERANCE = 1e-7  # points


@final
@dataclass(frozen=True)
class Measure:
    """Name, title and axis of one number per search."""

    name: str
    title: str
    axis: str  # samples, queries, hours or seconds
    unit: str = ""
    less_is_better: bool | None = True  # None: neither


Measured = tuple[Measure, Float64[ndarray, "R"]]


def measures_of(curve: LearningCurve) -> list[Measured]:
    """Measures of a setting, one value per seed; infinite for what never happened, NaN if unknown."""
    return [
        *(_gaps(curve) if curve.survey else _best(curve)),
        *_within_limit(curve),
        *_at_the_end(curve),
        *_cost(curve),
        *_predicted(curve),
    ]


def _gaps(curve: LearningCurve) -> Iterator[Measured]:
    gap, queries = curve.gap(), curve.new.cumsum(1)
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


def _best(curve: LearningCurve) -> Iterator[Measured]:
    best, queries = 100 * curve.best, curve.new.cumsum(1)
    samples = best.shape[1]
    for count in (count for count in CHECKPOINTS if count <= samples):
        name, title = f"best_at_{count}_queries", f"best at {count:,}"
        yield _accuracy(name, title, "queries"), at_query(best, queries, count)
    title = f"best after {samples:,}"
    yield _accuracy("best_accuracy", title, "samples"), best[:, -1]


def _accuracy(name: str, title: str, axis: str) -> Measure:
    return Measure(name, title, axis, "%", less_is_better=False)


def _within_limit(curve: LearningCurve) -> Iterator[Measured]:
    latency_ms, limit_ms = curve.latency_ms, curve.limit_ms
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
        curve.feasible.mean(1),
    )


def _at_the_end(curve: LearningCurve) -> Iterator[Measured]:
    test = curve.answers.accuracy_test
    if curve.survey:
        title = f"test accuracy of the last {LAST}"
        last = curve.log.index[:, -LAST:]
        yield _accuracy("end_accuracy", title, "samples"), 100 * test[last].mean(1)
    yield (
        Measure("end_latency", f"latency of the last {LAST}", "samples", "ms", less_is_better=None),
        curve.latency_ms[:, -LAST:].mean(1),
    )
    numbers = curve.best_numbers()
    title = "test accuracy of the best within T"
    yield (
        _accuracy("best_test", title, "samples"),
        np.where(numbers < 0, np.nan, 100 * test[numbers]),
    )
    if curve.survey:
        yield (
            Measure("hypervolume", "share of hypervolume", "samples", less_is_better=False),
            curve.hypervolume_share(),
        )


def _predicted(curve: LearningCurve) -> Iterator[Measured]:
    """Shares of the samples' accuracies and latencies that a model gave."""
    for what, kinds in (
        ("accuracy", curve.answers.accuracy_kind),
        ("latency", curve.answers.latency_kind),
    ):
        measure = Measure(
            f"{what}_predicted", f"share of {what} predicted", "samples", less_is_better=None
        )
        yield measure, is_predicted(kinds)[curve.log.index].mean(1)


def _cost(curve: LearningCurve) -> Iterator[Measured]:
    index = curve.log.index
    yield (
        Measure("queries", "architectures", "queries", less_is_better=None),
        curve.new.sum(1).astype(float),
    )
    yield (
        Measure("training_hours", "training, simulated", "hours", "h", less_is_better=None),
        curve.training_hours[:, -1],
    )
    yield (
        Measure("seconds", "searching", "seconds", "s", less_is_better=None),
        np.full(len(index), curve.log.seconds / len(index)),
    )
