"""What can be known before the first sample: can the limits be met, and what does the reward ask for?"""

from __future__ import annotations

import numpy as np

from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from nas.trials.survey import Landscape
from rewards.base import Reward
from runtime.shell.errors import UserError

UNUSED_SHARE = 0.4
"""Leaving more of every limit than this unused is worth a warning."""


def require_complete(landscape: Landscape, device: str) -> None:
    """Refuse a table with holes before the first sample falls into one.

    Raises:
      UserError: if some architecture has no latency.
    """
    missing = np.flatnonzero(np.isnan(landscape.latency_ms))
    if missing.size:
        raise UserError(
            f"{missing.size:,} of the {landscape.latency_ms.size:,} architectures were not measured "
            f"on {device}, such as {NAS_BENCH_201.strings[missing[0]]}; latency=table "
            f"latency.unmeasured=regression, or latency=auto, predicts them and marks them"
        )


def describe_limit(landscape: Landscape, device: str) -> str:
    """How much of the space meets the limits, in one line.

    Raises:
      UserError: if nothing does.
    """
    fastest, median, slowest = np.quantile(landscape.latency_ms, [0, 0.5, 1])
    limits = landscape.limits
    within = landscape.latency_ms <= landscape.limit_ms
    if not within.any():
        raise UserError(
            f"T={landscape.limit_ms:g}ms cannot be met on {device}: its fastest architecture takes "
            f"{fastest:.3g} ms (median {median:.3g}, slowest {slowest:.3g}); raise T"
        )
    shares = [f"T {within.mean():.1%}"]
    ranges = [f"fastest {fastest:.2f}, median {median:.2f}, slowest {slowest:.2f} ms"]
    for limit in limits.each:
        least, middle, most = map(limit.text, np.quantile(limit.costs, [0, 0.5, 1]))
        met = limit.costs <= limit.bound
        if not met.any():
            raise UserError(
                f"{limit} cannot be met: the least is {least} (median {middle}, most {most}); "
                f"raise {limit.symbol}"
            )
        shares.append(f"{limit.symbol} {met.mean():.1%}")
        ranges.append(f"{limit.symbol} least {least}, median {middle}, most {most}")
    if not landscape.feasible.any():
        raise UserError(
            f"{limits.label} cannot be met together on {device}: alone, {', '.join(shares)} of the "
            f"space is within; raise one of them"
        )
    alone = f"; alone, {', '.join(shares)}" if limits else ""
    return (
        f"{landscape.feasible_share:.1%} of the space is within {limits.label} "
        f"({'; '.join(ranges)}{alone})"
    )


def describe_reward(landscape: Landscape, reward: Reward) -> str:
    """Where the reward's own maximum lies, in one line; a warning if that breaks a limit or wastes it."""
    favourite = landscape.favourite(reward)
    optimum = landscape.optimum
    if favourite is None or optimum is None:
        return "warning: nothing is known of the reward's maximum"
    accuracy, latency_ms = landscape.accuracy[favourite], landscape.latency_ms[favourite]
    limits = landscape.limits
    costs = "".join(f", {limit.text(limit.costs[favourite])}" for limit in limits.each)
    shares = {"T": latency_ms / landscape.limit_ms}
    for limit in limits.each:
        shares[limit.symbol] = limit.costs[favourite] / limit.bound
    tightest = max(shares, key=lambda symbol: shares[symbol])
    used = shares[tightest]
    where = f"the reward's maximum is {accuracy:.2%} at {latency_ms:.2f} ms{costs}"
    if used > 1:
        return (
            f"warning: {where}: it breaks {tightest} by {used - 1:.0%}, so a perfect searcher would "
            f"too; reward=constrained cannot"
        )
    if landscape.feasible.all():
        return f"{where}; every cell is within {limits.label}, so {limits.label} {'do' if limits else 'does'} not bind"
    lost = landscape.accuracy[optimum] - accuracy
    if used < 1 - UNUSED_SHARE:
        return (
            f"warning: {where}: it leaves {1 - used:.0%} of {tightest} unused and "
            f"{lost * 100:.2f} points of accuracy with it; reward=constrained does not"
        )
    return (
        f"{where}, {used:.0%} of {tightest}, "
        f"{lost * 100:.2f} points below the best within {limits.label}"
    )
