"""Timing the best again before one of them wins: of many noisy times, the best are often luck."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from nas.trials.trial import Trials

_ROUNDS = 10
"""Most batches that are timed again, for a device on which none stays within the limit."""


@final
@dataclass(frozen=True)
class Confirmation:
    """Feasible trials that were timed again, the most accurate first."""

    positions: Int64[ndarray, "n"]  # in the record of the search
    again_ms: Float64[ndarray, "n"]  # NaN where the device could not run the network again
    limit_ms: float

    @property
    def within_limit(self) -> Bool[ndarray, "n"]:
        """True where the network was within the limit again."""
        return np.asarray(self.again_ms <= self.limit_ms)

    @property
    def winner(self) -> int | None:
        """Place of the most accurate that is within the limit again; None if none is."""
        return int(np.argmax(self.within_limit)) if self.within_limit.any() else None


def confirm(
    trials: Trials,
    feasible: Bool[ndarray, "n"],
    measure_again: Callable[[Int64[ndarray, "m D"]], Float64[ndarray, "m"]],
    *,
    top: int,
    limit_ms: float,
) -> Confirmation:
    """Time the most accurate feasible trials again, until one is within the limit again.

    `measure_again` gives new milliseconds, NaN where there are none. `top` architectures are timed
    at once; more only if none of them is within the limit again, ten times as many at most.
    """
    order = _candidates(trials, feasible)[: _ROUNDS * top]
    again_ms = np.empty(0)
    for start in range(0, len(order), top):
        rows = order[start : start + top]
        again_ms = np.append(again_ms, measure_again(trials.architectures[rows]))
        if (again_ms <= limit_ms).any():
            break
    return Confirmation(order[: len(again_ms)], again_ms, limit_ms)


def _candidates(trials: Trials, feasible: Bool[ndarray, "n"]) -> Int64[ndarray, "m"]:
    """Positions of feasible trials, the most accurate first, one for each architecture."""
    order = np.argsort(-trials.accuracy, kind="stable")
    order = order[feasible[order]]
    _, first = np.unique(trials.architectures[order], axis=0, return_index=True)
    return np.asarray(order[np.sort(first)])
