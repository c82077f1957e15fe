"""Timing the best again before one of them wins: of many noisy times, the best are often luck."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Int64
from numpy import ndarray

from edgenas_core.types.kind import Kind
from latency.base import Latencies
from nas.trials.trial import Trials

_ROUNDS = 10
"""Most batches that are timed again, for a device on which none stays within the limit."""


@final
@dataclass(frozen=True)
class Confirmation:
    """Feasible trials that were timed again, the most accurate first."""

    positions: Int64[ndarray, "n"]  # in the record of the search
    again: Latencies  # NaN where the device could not run the network again
    limit_ms: float

    @property
    def within_limit(self) -> Bool[ndarray, "n"]:
        """True where the second latency was within the limit, also under other load."""
        return np.asarray(self.again.ms <= self.limit_ms)

    @property
    def confirmed(self) -> Bool[ndarray, "n"]:
        """True where the network was within the limit again, in a time that was not taken under load."""
        return np.asarray(self.within_limit & (self.again.kind != Kind.disturbed))

    @property
    def winner(self) -> int | None:
        """Index of the most accurate confirmed network, or else of one within the limit under other load.

        None if no network was within the limit again.
        """
        for wins in (self.confirmed, self.within_limit):
            if wins.any():
                return int(np.argmax(wins))
        return None


def confirm(
    trials: Trials,
    feasible: Bool[ndarray, "n"],
    measure_again: Callable[[Int64[ndarray, "m D"]], Latencies],
    *,
    top: int,
    limit_ms: float,
) -> Confirmation:
    """Time the most accurate feasible trials again, until one is within the limit again.

    `top` architectures are timed at once; more only if none of them is confirmed, ten times as many
    at most. A round in which every time was taken under load is the last: so would be the next.
    """
    order = _candidates(trials, feasible)[: _ROUNDS * top]
    ms, kinds = np.empty(0), np.empty(0, np.int8)
    for start in range(0, len(order), top):
        answered = measure_again(trials.architectures[order[start : start + top]])
        ms, kinds = np.append(ms, answered.ms), np.append(kinds, answered.kind)
        confirmation = Confirmation(order[: len(ms)], Latencies(ms, kinds), limit_ms)
        if confirmation.confirmed.any() or (answered.kind == Kind.disturbed).all():
            return confirmation
    return Confirmation(order[: len(ms)], Latencies(ms, kinds), limit_ms)


def _candidates(trials: Trials, feasible: Bool[ndarray, "n"]) -> Int64[ndarray, "m"]:
    """Positions of feasible trials, the most accurate first, one for each architecture."""
    order = np.argsort(-trials.accuracy, kind="stable")
    order = order[feasible[order]]
    _, first = np.unique(trials.architectures[order], axis=0, return_index=True)
    return np.asarray(order[np.sort(first)])
