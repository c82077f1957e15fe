"""Whether two scenarios order architectures differently, or only the noise of their measurements does.

Two noisy measurements of one order disagree in some pairs, so Kendall's tau between a latency alone and
in a scenario is below 1 even if nothing changes its place. How far below is found by simulation: the
latency in the scenario is taken to be a power of that alone (the order is the same then), both get
noise that is drawn from the differences of networks that were measured twice, and tau is counted. Where
the measured tau lies below 95 % of those, the order changes beyond the noise.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from latency.models.slowdown import kendall_tau

DRAWS = 200
FEWEST_REPEATS = 20
"""With 3 to 6, a fifth of orders that only noise disturbs seem to change; with 20 of which each is told, 2 %."""
MOST_CELLS = 1000
_LEVEL = 0.95


@final
@dataclass(frozen=True)
class Noise:
    """Noise of single measurements of one device in one scenario."""

    repeats: Float64[ndarray, " n"]  # logarithm of a network's second time over its first

    def factors(
        self, draws: int, architectures: int, generator: np.random.Generator
    ) -> Float64[ndarray, "draws architectures"]:
        """Ratios of simulated measurements to times without noise.

        A difference of two measurements has the noise of both. Each draw resamples the repeats, so
        that few of them make it uncertain.
        """
        count = len(self.repeats)
        resampled = self.repeats[generator.integers(count, size=(draws, count))]
        difference = np.take_along_axis(
            resampled, generator.integers(count, size=(draws, architectures)), axis=1
        )
        signs = generator.choice([-1.0, 1.0], (draws, architectures))
        return np.asarray(np.exp(signs * difference / np.sqrt(2)))


@final
@dataclass(frozen=True)
class OneFactor:
    """Choosing in a scenario by the latency alone and one factor, over many limits T.

    Each share and mean is over limits between the 10 % and the 90 % quantile of the latencies.
    """

    same: float  # share of limits for which the best network is chosen
    missed: float  # share for which the chosen one misses T
    beyond: float  # by how much of T, mean of those; 0 if none does
    lost: float  # accuracy to the best, mean of those for which T is met; 0 if none is


@final
@dataclass(frozen=True)
class NoiseAlone:
    """Expected results if no architecture changed its place, from simulated measurements."""

    tau: float  # mean
    tau_low: float  # 95 % lie between
    tau_high: float
    one_factor: OneFactor  # means


@final
@dataclass(frozen=True)
class OrderComparison:
    """Comparison of the two orders, over the architectures that were measured in both."""

    architectures: int
    median_ratio: float
    ratio_low: float  # 5 % quantile
    ratio_high: float  # 95 % quantile
    kendall_tau: float
    one_factor: OneFactor
    noise: NoiseAlone | None  # None where it is not known

    @property
    def changes(self) -> bool | None:
        """Whether the order differs beyond the noise; None where that is not known."""
        return None if self.noise is None else self.kendall_tau < self.noise.tau_low


def compare(
    alone_ms: Float64[ndarray, " n"],
    scenario_ms: Float64[ndarray, " n"],
    accuracy: Float64[ndarray, " n"],
    noises: tuple[Noise, Noise] | None,
    seed: int = 0,
) -> OrderComparison:
    """Two measurements of the same architectures, with the noise of each; of many, a thousand drawn.

    Args:
      alone_ms: latency of each alone.
      scenario_ms: latency of each in the scenario.
      accuracy: of each, a fraction.
      noises: of the one and of the other; None where they are not known.
      seed: of the simulation.
    """
    if len(alone_ms) > MOST_CELLS:
        some = np.random.default_rng(seed).permutation(len(alone_ms))[:MOST_CELLS]
        alone_ms, scenario_ms, accuracy = alone_ms[some], scenario_ms[some], accuracy[some]
    ratio = scenario_ms / alone_ms
    low, middle, high = np.quantile(ratio, [0.05, 0.5, 0.95]).tolist()
    return OrderComparison(
        len(ratio),
        middle,
        low,
        high,
        kendall_tau(alone_ms, scenario_ms),
        one_factor(alone_ms, scenario_ms, accuracy),
        None if noises is None else _alone(alone_ms, scenario_ms, accuracy, noises, seed),
    )


def _alone(
    alone_ms: Float64[ndarray, " n"],
    scenario_ms: Float64[ndarray, " n"],
    accuracy: Float64[ndarray, " n"],
    noises: tuple[Noise, Noise],
    seed: int,
) -> NoiseAlone:
    generator = np.random.default_rng(seed)
    drawn = [noise.factors(DRAWS, len(alone_ms), generator) for noise in noises]
    same_ms = _power(alone_ms, scenario_ms)
    simulated = [(alone_ms * a, same_ms * b) for a, b in zip(*drawn, strict=True)]
    tau = np.array([kendall_tau(a, b) for a, b in simulated])
    low, high = np.quantile(tau, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2]).tolist()
    each = [astuple(one_factor(a, b, accuracy)) for a, b in simulated]
    return NoiseAlone(float(tau.mean()), low, high, OneFactor(*np.mean(each, axis=0).tolist()))


_LIMITS = 101


def one_factor(
    alone_ms: Float64[ndarray, " n"],
    scenario_ms: Float64[ndarray, " n"],
    accuracy: Float64[ndarray, " n"],
) -> OneFactor:
    """Error of the median ratio as a prediction of the second from the first."""
    limits_ms = np.quantile(scenario_ms, np.linspace(0.1, 0.9, _LIMITS))
    factor = np.median(scenario_ms / alone_ms)
    best = _best(scenario_ms, accuracy, limits_ms)
    chosen = _best(alone_ms * factor, accuracy, limits_ms)
    known = (best >= 0) & (chosen >= 0)
    best, chosen, limits_ms = best[known], chosen[known], limits_ms[known]
    over = scenario_ms[chosen] / limits_ms - 1
    missed = over > 0
    lost = accuracy[best] - accuracy[chosen]
    return OneFactor(
        same=float((best == chosen).mean()),
        missed=float(missed.mean()),
        beyond=float(over[missed].mean()) if missed.any() else 0.0,
        lost=float(lost[~missed].mean()) if (~missed).any() else 0.0,
    )


def _best(
    latency_ms: Float64[ndarray, " n"],
    accuracy: Float64[ndarray, " n"],
    limits_ms: Float64[ndarray, " limits"],
) -> Int64[ndarray, " limits"]:
    """The most accurate within each limit; -1 where none is."""
    order = np.argsort(latency_ms, kind="stable")
    heights = np.maximum.accumulate(accuracy[order])
    # the place of the running maximum: the latest that reached it for the first time
    new = np.r_[True, heights[1:] > heights[:-1]]
    place = np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
    last = np.searchsorted(latency_ms[order], limits_ms, side="right") - 1
    return np.where(last < 0, -1, order[place[np.maximum(last, 0)]])


def _power(
    alone_ms: Float64[ndarray, " n"], scenario_ms: Float64[ndarray, " n"]
) -> Float64[ndarray, " n"]:
    """The latency in the scenario as a power of that alone, by least squares of logarithms."""
    slope, level = np.polyfit(np.log(alone_ms), np.log(scenario_ms), 1)
    return np.asarray(np.exp(level + max(slope, 0.0) * np.log(alone_ms)))
