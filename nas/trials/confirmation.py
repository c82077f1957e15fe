"""Timing the best again before one of them wins: of many noisy times, the best are often luck."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from nas.trials.trial import Samples

_ROUNDS = 10
"""On a device that is slower now than it was told to be, none may be within the limit again."""


@final
@dataclass(frozen=True)
class Candidate:
    """A sample that was within the limit, and was timed again."""

    sample: int  # position among the samples
    latency_ms: float
    latency_again_ms: float  # NaN where the device could not run it again
    within_limit: bool  # again


def confirm(
    samples: Samples,
    feasible: Bool[ndarray, "n"],
    measure_again: Callable[[Int64[ndarray, "n 6"]], Float64[ndarray, "n"]],
    *,
    top: int,
    limit_ms: float,
) -> list[Candidate]:
    """Time the most accurate feasible samples again, until one is within the limit again.

    `measure_again` gives new milliseconds, NaN where there are none. `top` cells are timed at
    once; more only if none of them is within the limit again, ten times as many at most. Returns all
    that were timed, the most accurate first.
    """
    order = _candidates(samples, feasible)[: _ROUNDS * top]
    timed: list[Candidate] = []
    for start in range(0, len(order), top):
        rows = order[start : start + top]
        again_ms = measure_again(samples.architectures[rows])
        timed += [
            Candidate(row, float(samples.latency_ms[row]), again, again <= limit_ms)
            for row, again in zip(rows.tolist(), again_ms.tolist(), strict=True)
        ]
        if winner(timed) is not None:
            break
    return timed


def winner(timed: list[Candidate]) -> Candidate | None:
    """The most accurate that is within the limit again; None if none is."""
    return next((one for one in timed if one.within_limit), None)


def _candidates(samples: Samples, feasible: Bool[ndarray, "n"]) -> Int64[ndarray, " m"]:
    """Positions of feasible samples, the most accurate first, one a cell.

    Cells of one network are timed each, for their times differ (docs/explanation/timing.md).
    """
    order = np.argsort(-samples.accuracy, kind="stable")
    order = order[feasible[order]]
    _, first = np.unique(NAS_BENCH_201.numbers(samples.architectures[order]), return_index=True)
    return np.asarray(order[np.sort(first)])
