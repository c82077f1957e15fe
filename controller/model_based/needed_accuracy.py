"""Accuracy that a network needs at each cost, to be better than the best known.

A reward is known, and rises with the accuracy. So it is not learned but solved: at each cost, for
the accuracy at which it exceeds the best reward. A limit stays as sharp as it is (Bayesian
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
"""Bounds of the bins of the cost: shares of the limit from 1 / 8 to 8, with 1 among them."""

BINS = len(EDGES) + 1
_WITHIN = int(np.searchsorted(EDGES, 1.0)) + 1  # bins of networks within the limits
_HALVINGS = 30
_LEAST = 1e-150  # so that a product of two is still a number


def needed_accuracy(
    score: Score, best: float, accuracy: Float64[ndarray, "n"], limits: int
) -> Float64[ndarray, "bins"]:
    """Least accuracy at which the score exceeds `best`, for a cost in each bin.

    It is sought within twice the range of the known accuracies; inf where there is none. With
    several limits the largest share of a limit counts, as it does for every reward here. While any
    network within the limits would be the best, none beyond them counts: the way is not the aim.
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


def lowered(
    needed: Float64[ndarray, "bins"],
    smoothed: Float64[ndarray, "n"],
    ratios: Float64[ndarray, "n M"],
) -> Float64[ndarray, "bins"]:
    """Scores needed to be better than the best known, taken without its noise.

    The best of all then need not be as good as it was measured (plug-in expected improvement:
    Picheny et al., 2013). Where no accuracy would make one of them better, nothing is lowered.
    """
    at = np.searchsorted(EDGES, ratios.max(-1, initial=0.0))
    best = float((smoothed - needed[at]).max())
    return needed + min(0.0, best) if np.isfinite(best) else needed


def expected_improvement(
    accuracy: Normal, log_costs: Sequence[Normal], needed: Float64[ndarray, "bins"]
) -> Float64[ndarray, "n"]:
    """Expected excess over what is needed at the cost that a network turns out to have.

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
    """Expected excess of normal variables over a bound."""
    z = (values.mean - bound) / values.sd
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    return np.asarray(values.sd * (z * normal_cdf(z) + density))


def _below(edge: int, log_costs: Sequence[Normal]) -> Float64[ndarray, "*n"]:
    """Probability that the largest cost lies in one of the first bins."""
    if edge in {0, BINS}:
        return np.array(float(edge > 0))
    each = [normal_cdf((np.log(EDGES[edge - 1]) - cost.mean) / cost.sd) for cost in log_costs]
    return np.asarray(np.prod(each, axis=0))
