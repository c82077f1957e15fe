"""Checks before the first sample: whether the limits can be met, and what the reward prefers."""

from __future__ import annotations

import numpy as np

from common.types.errors import UserError
from nas.trials.survey import FILLED, Survey
from rewards.base import Reward

UNUSED_SHARE = 0.4
"""Leaving more of every limit than this unused is worth a warning."""


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
    shares = [f"T {within.mean():.1%}"]
    ranges = [f"fastest {fastest:.2f}, median {median:.2f}, slowest {slowest:.2f} ms"]
    for limit, costs in zip(limits.each, survey.costs.T, strict=True):
        least, middle, most = map(limit.text, np.quantile(costs, [0, 0.5, 1]))
        met = costs <= limit.bound
        if not met.any():
            raise UserError(
                f"{limit} cannot be met: the least is {least} (median {middle}, most {most}); "
                f"raise {limit.symbol}"
            )
        shares.append(f"{limit.symbol} {met.mean():.1%}")
        ranges.append(f"{limit.symbol} least {least}, median {middle}, most {most}")
    if not survey.feasible.any():
        raise UserError(
            f"{limits.label} cannot be met together on {device}: alone, {', '.join(shares)} of the "
            f"space is within; raise one of them"
        )
    alone = f"; alone, {', '.join(shares)}" if limits else ""
    return (
        f"{survey.feasible_share:.1%} of the space is within {limits.label} "
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
