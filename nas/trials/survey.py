"""Survey of the whole space: exact answers where they are free, else an estimate.

The searcher never sees them. Before its first sample they tell whether the limits can be met, and
what the reward prefers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int8, Int64
from numpy import ndarray

from edgenas_core.types.architectures import Enumerable
from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind, is_predicted
from latency.base import EnumerableSpace, LatencyOracle, every_architecture
from nas.accuracy.base import Accuracy
from nas.spaces.base import SearchSpace
from nas.trials.limits import NO_FURTHER_LIMITS, Limits, share_text
from rewards.base import Reward

ESTIMATED_FROM = 10_000
"""Uniform samples from which the feasible share of a space is estimated that cannot be listed."""

UNUSED_SHARE = 0.4
"""Leaving more of every limit than this unused is worth a warning."""

_Z95 = 1.959964  # two-sided 95 % of the normal distribution


@final
@dataclass(frozen=True)
class Survey:
    """Accuracy and costs of every architecture, by number, and what is within the limits."""

    space: EnumerableSpace
    accuracy: Float64[ndarray, "size"]  # on the split that is searched on, a fraction
    accuracy_kind: Int8[ndarray, "size"]
    latency_ms: Float64[ndarray, "size"]  # NaN where there is none for this device
    latency_kind: Int8[ndarray, "size"]
    costs: Float64[ndarray, "size L"]  # those that have a limit beside the latency
    limit_ms: float
    limits: Limits = NO_FURTHER_LIMITS
    margin: float = 0.0  # logarithm of the factor by which predicted latencies must be below T

    @cached_property
    def compared_ms(self) -> Float64[ndarray, "size"]:
        """Latencies to compare with T: predictions with the margin."""
        return with_margin(self.latency_ms, self.latency_kind, self.margin)

    @cached_property
    def met(self) -> Bool[ndarray, "size"]:
        """True where every limit but the latency's is met."""
        return self.limits.met(self.costs)

    @property
    def feasible(self) -> Bool[ndarray, "size"]:
        """True where every limit is known to be met."""
        return np.asarray((self.compared_ms <= self.limit_ms) & self.met)  # not for NaN

    @property
    def feasible_share(self) -> float:
        """Share of the whole space that meets every limit."""
        return float(self.feasible.mean())

    @property
    def optimum(self) -> int | None:
        """Number of the most accurate feasible architecture, the faster of two; None if none is."""
        return self._best(np.where(self.feasible, self.accuracy, -np.inf))

    @property
    def latency_predicted_share(self) -> float:
        """Share of the latencies that a model gave."""
        return float(is_predicted(self.latency_kind).mean())

    @property
    def optimum_is_exact(self) -> bool | None:
        """Whether no prediction can change the optimum; None without an optimum.

        It is exact where the accuracies, and the latencies of itself and of every more accurate
        architecture within the further limits, were measured.
        """
        if self.optimum is None:
            return None
        rivals = self.accuracy > self.accuracy[self.optimum]
        rivals[self.optimum] = True
        doubtful = is_predicted(self.latency_kind) & rivals & self.met
        return not (doubtful.any() or is_predicted(self.accuracy_kind).any())

    def favourite(self, reward: Reward) -> int | None:
        """Number of the architecture that the reward itself likes best."""
        measured = ~np.isnan(self.latency_ms)
        latency_ms = np.where(measured, self.compared_ms, 1.0)
        rewards = reward(self.accuracy, latency_ms, self.costs / self.limits.bounds)
        return self._best(np.where(measured, rewards, -np.inf))

    def rank(self, accuracy: float) -> int:
        """1 + how many feasible architectures are more accurate."""
        return 1 + int((self.feasible & (self.accuracy > accuracy)).sum())

    @property
    def pareto_front(self) -> Int64[ndarray, "n"]:
        """Numbers of the architectures that none beats in both, from fast to slow.

        Those beyond a limit other than the latency's take no part.
        """
        return pareto_front(self.accuracy, np.where(self.met, self.latency_ms, np.nan))

    def _best(self, values: Float64[ndarray, "size"]) -> int | None:
        best = np.flatnonzero(values == values.max())
        if np.isneginf(values[best[0]]):
            return None
        return int(best[np.argmin(self.latency_ms[best])])


def with_margin(
    latency_ms: Float64[ndarray, "*n"], kinds: Int8[ndarray, "*n"], margin: float
) -> Float64[ndarray, "*n"]:
    """Latencies, with predictions multiplied by exp(margin)."""
    if not margin:
        return latency_ms
    return np.asarray(np.where(is_predicted(kinds), latency_ms * math.exp(margin), latency_ms))


FILLED = "latency=auto predicts and marks them"
"""The way out of a table with holes."""


@final
@dataclass(frozen=True)
class EstimatedShare:
    """Share of a space that meets every limit, from uniform samples, with its 95 % interval."""

    share: float
    low: float  # Wilson's interval
    high: float
    samples: int

    def __str__(self) -> str:
        return (
            f"about {share_text(self.share)} of the space ({share_text(self.low)} to "
            f"{share_text(self.high)}, from {self.samples:,} uniform samples)"
        )


def pareto_front(
    accuracy: Float64[ndarray, "n"], latency_ms: Float64[ndarray, "n"]
) -> Int64[ndarray, "front"]:
    """Indices of the Pareto front, from fast to slow; architectures with a NaN latency are not on it."""
    order = np.lexsort((-accuracy, latency_ms))
    order = order[~np.isnan(latency_ms[order])]
    best_before = np.maximum.accumulate(np.concatenate([[-np.inf], accuracy[order]]))[:-1]
    front: Int64[ndarray, "front"] = order[accuracy[order] > best_before]
    return front


def hypervolume(
    accuracy: Float64[ndarray, "n"],
    latency_ms: Float64[ndarray, "n"],
    least_accuracy: float,
    most_ms: float,
) -> float:
    """Area that networks dominate, down to an accuracy and up to a latency; NaN latencies have none."""
    front = pareto_front(accuracy, latency_ms)
    front = front[(latency_ms[front] <= most_ms) & (accuracy[front] > least_accuracy)]
    widths = np.diff(np.append(latency_ms[front], most_ms))
    return float(widths @ (accuracy[front] - least_accuracy))


def survey(
    space: SearchSpace,
    accuracy: Accuracy,
    oracle: LatencyOracle,
    limit_ms: float,
    limits: Limits = NO_FURTHER_LIMITS,
    *,
    margin: float = 0.0,
) -> Survey | None:
    """The survey, or None where the space cannot be listed or asking for all of it is not free."""
    if not (isinstance(space, Enumerable) and accuracy.instant and oracle.instant):
        return None
    rows = every_architecture(space)
    is_known = oracle.known(rows)
    latency_ms = np.full(len(rows), np.nan)
    latency_kind = np.full(len(rows), Kind.missing, np.int8)
    answered = oracle.answer(rows[is_known])
    latency_ms[is_known], latency_kind[is_known] = answered.ms, answered.kind
    accuracies = accuracy.answer(rows)
    return Survey(
        space,
        accuracies.fraction,
        accuracies.kind,
        latency_ms,
        latency_kind,
        limits.costs(rows),
        limit_ms,
        limits,
        margin,
    )


def estimated_share(
    space: SearchSpace,
    oracle: LatencyOracle,
    limit_ms: float,
    limits: Limits,
    margin: float = 0.0,
) -> EstimatedShare | None:
    """The feasible share by uniform sampling; None where latencies are not free.

    Raises:
      UserError: if latencies are missing. The share of those that were measured says nothing of the
        space: they were not drawn uniformly.
    """
    if not oracle.instant:
        return None
    rows = space.sample(np.random.default_rng(0), ESTIMATED_FROM)
    missing = ~oracle.known(rows)
    if missing.any():
        raise UserError(
            f"{missing.mean():.0%} of {len(rows):,} architectures drawn from {space.name} were not "
            f"measured on {oracle.device}, such as {space.text(rows[missing][0])}; {FILLED}"
        )
    n = len(rows)
    answered = oracle.answer(rows)
    compared_ms = with_margin(answered.ms, answered.kind, margin)
    within = (compared_ms <= limit_ms) & limits.met(limits.costs(rows))
    share = float(within.mean())
    if not (compared_ms <= limit_ms).any():
        _require_fast_enough(space, oracle, limit_ms, margin, rows[[compared_ms.argmin()]])
    return EstimatedShare(share, *wilson_interval(share, n), n)


def _require_fast_enough(
    space: SearchSpace,
    oracle: LatencyOracle,
    limit_ms: float,
    margin: float,
    fastest: Int64[ndarray, "1 D"],
) -> None:
    """Descend from an architecture to faster neighbours, and refuse a limit that none of them meets.

    Raises:
      UserError: if the fastest is beyond the limit.
    """
    before_ms = math.inf
    while True:
        rows = np.concatenate([fastest, space.neighbours(fastest[0])])
        answered = oracle.answer(rows)
        compared_ms = with_margin(answered.ms, answered.kind, margin)
        at = compared_ms.argmin()
        if compared_ms[at] <= limit_ms:
            return
        if compared_ms[at] >= before_ms:
            raise UserError(
                f"T={limit_ms:g}ms is met by no architecture that was tried on {oracle.device}: the fastest, "
                f"{space.text(fastest[0])}, needs a limit of {before_ms:.4g} ms; raise T"
            )
        fastest, before_ms = rows[[at]], compared_ms[at]


def wilson_interval(share: float, n: int) -> tuple[float, float]:
    """95 % interval of a share of n independent draws (Wilson, 1927)."""
    middle = (share + _Z95**2 / (2 * n)) / (1 + _Z95**2 / n)
    half = _Z95 / (1 + _Z95**2 / n) * math.sqrt(share * (1 - share) / n + _Z95**2 / (4 * n**2))
    return max(0.0, middle - half), min(1.0, middle + half)


def accuracy_text(share: float, n: int) -> str:
    """A share of n independent draws with its 95 % interval."""
    low, high = wilson_interval(share, n)
    return f"{share:.2%} [{low:.2%}, {high:.2%}]"


def require_complete(survey: Survey, device: str) -> None:
    """Refuse a table with holes before the first sample falls into one.

    Raises:
      UserError: if some architecture has no latency.
    """
    missing = np.flatnonzero(np.isnan(survey.latency_ms))
    if missing.size:
        first = survey.space.text(survey.space.architectures(missing[:1])[0])
        raise UserError(
            f"{missing.size:,} of the {survey.latency_ms.size:,} architectures were not measured "
            f"on {device}, such as {first}; {FILLED}"
        )


def describe_limit(survey: Survey, device: str) -> str:
    """Share of the space that meets the limits, in one line.

    Raises:
      UserError: if nothing does.
    """
    fastest, median, slowest = np.quantile(survey.latency_ms, [0, 0.5, 1])
    limits = survey.limits
    within = survey.compared_ms <= survey.limit_ms
    if not within.any() and fastest <= survey.limit_ms:
        raise UserError(
            f"T={survey.limit_ms:g}ms cannot be met on {device} with the confidence that is asked for: its "
            f"fastest architecture is predicted to take {fastest:.3g} ms, which needs a limit of "
            f"{survey.compared_ms.min():.3g} ms; raise T, or take a lower confidence="
        )
    if not within.any():
        raise UserError(
            f"T={survey.limit_ms:g}ms cannot be met on {device}: its fastest architecture takes "
            f"{fastest:.3g} ms (median {median:.3g}, slowest {slowest:.3g}); raise T"
        )
    shares = [f"T {share_text(within.mean())}"]
    ranges = [f"fastest {fastest:.2f}, median {median:.2f}, slowest {slowest:.2f} ms"]
    for limit, costs in zip(limits.each, survey.costs.T, strict=True):
        least, middle, most = map(limit.text, np.quantile(costs, [0, 0.5, 1]))
        met = costs <= limit.bound
        if not met.any():
            raise UserError(
                f"{limit} cannot be met: the least is {least} (median {middle}, most {most}); "
                f"raise {limit.symbol}"
            )
        shares.append(f"{limit.symbol} {share_text(met.mean())}")
        ranges.append(f"{limit.symbol} least {least}, median {middle}, most {most}")
    if not survey.feasible.any():
        raise UserError(
            f"{limits.label} cannot be met together on {device}: alone, {', '.join(shares)} of the "
            f"space is within; raise one of them"
        )
    alone = f"; alone, {', '.join(shares)}" if limits else ""
    return (
        f"{share_text(survey.feasible_share)} of the space is within {limits.label} "
        f"({'; '.join(ranges)}{alone})"
    )


def describe_reward(survey: Survey, reward: Reward) -> str:
    """The reward's own maximum, in one line; a warning if it breaks a limit or wastes it."""
    favourite = survey.favourite(reward)
    optimum = survey.optimum
    if favourite is None or optimum is None:
        return "warning: nothing is known of the reward's maximum"
    accuracy, latency_ms = survey.accuracy[favourite], survey.latency_ms[favourite]
    limits = survey.limits
    at_favourite = list(zip(limits.each, survey.costs[favourite], strict=True))
    costs = "".join(f", {limit.text(cost)}" for limit, cost in at_favourite)
    shares = {"T": survey.compared_ms[favourite] / survey.limit_ms}
    for limit, cost in at_favourite:
        shares[limit.symbol] = cost / limit.bound
    tightest = max(shares, key=lambda symbol: shares[symbol])
    used = shares[tightest]
    where = f"the reward's maximum is {accuracy:.2%} at {latency_ms:.2f} ms{costs}"
    if used > 1:
        return (
            f"warning: {where}: it breaks {tightest} by {used - 1:.0%}, so a perfect searcher would "
            f"too; reward=constrained cannot"
        )
    if survey.feasible.all():
        return f"{where}; every architecture is within {limits.label}, so {limits.label} {'do' if limits else 'does'} not bind"
    lost = survey.accuracy[optimum] - accuracy
    if used < 1 - UNUSED_SHARE:
        return (
            f"warning: {where}: it leaves {1 - used:.0%} of {tightest} unused and "
            f"{lost * 100:.2f} points of accuracy with it; reward=constrained does not"
        )
    return (
        f"{where}, {used:.0%} of {tightest}, "
        f"{lost * 100:.2f} points below the best within {limits.label}"
    )
