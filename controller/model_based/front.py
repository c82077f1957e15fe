"""Expected growth of the front of accuracy against the first cost, for searches without one limit.

The hypervolume that a network adds to that of the front is, at each cost that is not less than its
own, its excess over the accuracy of the front. With accuracy and logarithm of the cost independent
and normal, its expectation is a sum of closed forms, one for each step of the front (expected
hypervolume improvement: Emmerich et al., CEC 2011).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float64
from numpy import ndarray
from scipy.special import ndtr

from controller.model_based.gaussian_process import Normal
from controller.model_based.needed_accuracy import excess


@final
@dataclass(frozen=True)
class Front:
    """Steps of a front: from each cost to the next, the best accuracy at no more than it."""

    log_costs: Float64[ndarray, "k"]  # ascending
    accuracy: Float64[ndarray, "k"]  # ascending
    least: float  # accuracy below which nothing counts
    most: float  # logarithm of the cost beyond which nothing counts

    @classmethod
    def of(
        cls, accuracy: Float64[ndarray, "n"], ratios: Float64[ndarray, "n M"]
    ) -> tuple[Front, Bool[ndarray, "n"]]:
        """The front of known networks, and which of them are on it.

        Those beyond a limit of a further cost are not; none may be.
        """
        log_costs = np.log(ratios[:, 0])
        order = np.lexsort((-accuracy, log_costs))
        order = order[(ratios[order, 1:] <= 1).all(-1)]
        before = np.maximum.accumulate(np.append(-np.inf, accuracy[order]))[:-1]
        on = order[accuracy[order] > before]
        which = np.zeros(len(accuracy), bool)
        which[on] = True
        return cls(log_costs[on], accuracy[on], accuracy.min(), log_costs.max()), which

    def growth(self, accuracy: Normal, log_costs: Sequence[Normal]) -> Float64[ndarray, "n"]:
        """Expected hypervolume that each network adds, times the chance to meet further limits."""
        cost, *further = log_costs
        below = [_room(cost, bound) for bound in (*self.log_costs, self.most)]
        width = np.diff([np.zeros_like(below[0]), *below], axis=0)
        height = np.array([excess(accuracy, step) for step in (self.least, *self.accuracy)])
        met = np.prod([ndtr(-one.mean / one.sd) for one in further], axis=0)
        found: Float64[ndarray, "n"] = (width * height).sum(0) * met
        return found


def _room(cost: Normal, bound: float) -> Float64[ndarray, "n"]:
    """Expected distance of a cost below a bound."""
    return excess(_Negative(cost), -bound)


@final
class _Negative:
    """The negative of normal variables."""

    def __init__(self, values: Normal) -> None:
        self.mean, self.sd = -values.mean, values.sd
