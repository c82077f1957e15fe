"""Accuracy that a network needs at each cost to exceed the best reward, and the expected improvement on it.

The reward is a known function that rises with the accuracy, so it is not learned: for each cost, bisection finds
the accuracy at which it exceeds the best reward. A limit stays as sharp as the reward makes it (Bayesian
optimisation of composite functions: Astudillo & Frazier, ICML 2019).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from controller.base import Score
from controller.model_based.gaussian_process import Normal

EDGES = 2.0 ** (np.arange(-24, 25) / 8)
"""Edges of the cost bins, as shares of the limit: 1 / 8 to 8 in 48 equal ratios, including 1."""

BINS = len(EDGES) + 1
_WITHIN = int(np.searchsorted(EDGES, 1.0)) + 1  # number of bins within the limits
_HALVINGS = 30  # steps of the bisection
_LEAST = 1e-150  # so that a product of two is still a number


def needed_accuracy(
    score: Score, best: float, accuracy: Float64[ndarray, "n"], limits: int
) -> Float64[ndarray, "bins"]:
    """Least accuracy at which the score exceeds `best`, for a cost in each bin; inf if there is none.

    The bisection covers twice the range of the known accuracies. With several limits, each cost has the largest
    share, as in every reward here. While any network within the limits would be the best one, the bins beyond the
    limits are inf, so that no evaluation is spent on being less far beyond.
    """
    middle = np.concatenate([EDGES[:1], np.sqrt(EDGES[1:] * EDGES[:-1]), EDGES[-1:]])
    ratios = np.repeat(middle[:, None], limits, axis=1)
    spread = np.ptp(accuracy)
    low, high = np.full(BINS, accuracy.min() - spread), np.full(BINS, accuracy.max() + spread)
    impossible = score(high, ratios) <= best
    always = score(low, ratios) > best
    for _ in range(_HALVINGS):
        half = (low + high) / 2
        enough = score(half, ratios) > best
        low, high = np.where(enough, low, half), np.where(enough, half, high)
    needed = np.where(always, accuracy.min() - spread, high)
    if always[:_WITHIN].all():
        impossible[_WITHIN:] = True
    return np.where(impossible, np.inf, needed)


def without_noise(
    needed: Float64[ndarray, "bins"],
    smoothed: Float64[ndarray, "n"],
    ratios: Float64[ndarray, "n M"],
) -> Float64[ndarray, "bins"]:
    """Needed scores relative to the smoothed score of the best network instead of its noisy one.

    This is plug-in expected improvement (Picheny et al., 2013). Returns `needed` unchanged if no known network
    could be better at any accuracy.
    """
    at = np.searchsorted(EDGES, ratios.max(-1, initial=0.0))
    best = float((smoothed - needed[at]).max())
    return needed + min(0.0, best) if np.isfinite(best) else needed


def expected_improvement(
    accuracy: Normal, log_costs: Sequence[Normal], needed: Float64[ndarray, "bins"]
) -> Float64[ndarray, "n"]:
    """Expected improvement sum_b P(cost in bin b) E[max(accuracy - needed_b, 0)] of each network.

    Args:
      accuracy: on the scale of `needed`.
      log_costs: logarithm of each cost's share of its limit.
      needed: accuracy needed in each bin of the largest share.
    """
    total = np.zeros(len(accuracy.mean))
    starts = [0, *(1 + np.flatnonzero(needed[1:] != needed[:-1])).tolist()]
    below = [_below(edge, log_costs) for edge in [*starts, BINS]]
    for start, (less, more) in zip(starts, pairwise(below), strict=True):
        if np.isfinite(needed[start]):
            gain = excess(accuracy, needed[start])
            total += np.maximum(gain, _LEAST) * np.maximum(more - less, _LEAST)
    return total


def normal_cdf(z: Float64[ndarray, "n"]) -> Float64[ndarray, "n"]:
    """Probability of a standard normal variable to be below z."""
    from scipy.special import ndtr  # noqa: PLC0415 - half a second that other searchers do not need

    return np.asarray(ndtr(z))


def excess(values: Normal, bound: float) -> Float64[ndarray, "n"]:
    """E[max(v - bound, 0)] = sd (z Phi(z) + phi(z)) with z = (mean - bound) / sd, for normal variables v."""
    z = (values.mean - bound) / values.sd
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    return np.asarray(values.sd * (z * normal_cdf(z) + density))


def _below(edge: int, log_costs: Sequence[Normal]) -> Float64[ndarray, "*n"]:
    """Probability that the largest share of a limit lies in one of the first `edge` bins."""
    if edge in {0, BINS}:
        return np.array(float(edge > 0))
    each = [normal_cdf((np.log(EDGES[edge - 1]) - cost.mean) / cost.sd) for cost in log_costs]
    return np.asarray(np.prod(each, axis=0))
