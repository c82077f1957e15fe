"""Expected hypervolume improvement of the front of accuracy against the first cost (Emmerich et al., CEC 2011).

Let the front have the accuracy a_i from the cost t_i to the next one, t_(i+1), with a_0 the least accuracy that
counts, t_0 = 0, and t_(k+1) the largest cost that counts. A network of accuracy z and cost c adds

    sum_i (max(t_(i+1) - c, 0) - max(t_i - c, 0)) max(z - a_i, 0)

to the hypervolume. For independent z ~ N(mu, sigma^2) and log c ~ N(nu, tau^2), the expectation is a sum of
products of closed forms: E[max(z - a, 0)] (`excess`) and E[max(t - c, 0)] (`_room`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float64
from numpy import ndarray

from controller.model_based.gaussian_process import Normal
from controller.model_based.needed_accuracy import excess, normal_cdf

_BEYOND = 0.5  # share of the range of known costs by which a larger cost still counts


@final
@dataclass(frozen=True)
class Front:
    """Steps of a front: from each cost to the next, the best accuracy at no more than it."""

    log_costs: Float64[ndarray, "k"]  # ascending
    accuracy: Float64[ndarray, "k"]  # ascending
    least: float  # accuracy below which nothing counts
    most: float  # logarithm of the cost beyond which nothing counts

    @classmethod
    def from_values(
        cls, accuracy: Float64[ndarray, "n"], log_ratios: Float64[ndarray, "n M"]
    ) -> tuple[Front, Bool[ndarray, "n"]]:
        """The front of known networks, and which of them are on it: none beyond a further limit.

        Args:
          accuracy: on any scale.
          log_ratios: logarithm of each cost's share of its limit, that of the latency first.
        """
        log_costs = log_ratios[:, 0]
        order = np.lexsort((-accuracy, log_costs))
        order = order[(log_ratios[order, 1:] <= 0).all(-1)]
        before = np.maximum.accumulate(np.append(-np.inf, accuracy[order]))[:-1]
        on = order[accuracy[order] > before]
        which = np.zeros(len(accuracy), bool)
        which[on] = True
        costs = np.exp(log_costs)
        most = float(np.log(costs.max() + _BEYOND * np.ptp(costs)))
        return cls(log_costs[on], accuracy[on], accuracy.min(), most), which

    def growth(self, accuracy: Normal, log_costs: Sequence[Normal]) -> Float64[ndarray, "n"]:
        """Expected hypervolume that each network adds, times the probability of meeting the further limits."""
        cost, *further = log_costs
        room = [cost.sd * 0, *(_room(cost, bound) for bound in (*self.log_costs, self.most))]
        height = np.array([excess(accuracy, step) for step in (self.least, *self.accuracy)])
        met = np.prod([normal_cdf(-beside.mean / beside.sd) for beside in further], axis=0)
        growth: Float64[ndarray, "n"] = (np.diff(room, axis=0) * height).sum(0) * met
        return growth


def _room(cost: Normal, bound: float) -> Float64[ndarray, "n"]:
    """Expected distance E[max(t - c, 0)] of a log-normal cost c below a bound t = exp(bound).

    It is t Phi(z) - E[c] Phi(z - tau) with z = (log t - nu) / tau: the price of a put option without interest
    (Black & Scholes, 1973, eq. 13).
    """
    z = (bound - cost.mean) / cost.sd
    expected = np.exp(cost.mean + cost.sd**2 / 2)
    return np.asarray(np.exp(bound) * normal_cdf(z) - expected * normal_cdf(z - cost.sd))
