"""What can be known before the first sample: can T be met, and what does the reward ask for?"""

from __future__ import annotations

import numpy as np

from nas.errors import UserError
from nas.landscape import Landscape
from nas.search_space import NAS_BENCH_201
from rewards.base import Reward

UNUSED_SHARE = 0.4
"""Leaving more of T than this unused is worth a warning."""


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
    """How much of the space meets the limit, in one line.

    Raises:
      UserError: if nothing does.
    """
    fastest, median, slowest = np.quantile(landscape.latency_ms, [0, 0.5, 1])
    if not landscape.feasible.any():
        raise UserError(
            f"T={landscape.limit_ms:g}ms cannot be met on {device}: its fastest architecture takes "
            f"{fastest:.3g} ms (median {median:.3g}, slowest {slowest:.3g}); raise T"
        )
    return (
        f"{landscape.feasible_share:.1%} of the space is within T "
        f"(fastest {fastest:.2f}, median {median:.2f}, slowest {slowest:.2f} ms)"
    )


def describe_reward(landscape: Landscape, reward: Reward) -> str:
    """Where the reward's own maximum lies, in one line; a warning if that is not what T means."""
    favourite = landscape.favourite(reward)
    optimum = landscape.optimum
    if favourite is None or optimum is None:
        return "warning: nothing is known of the reward's maximum"
    accuracy, latency_ms = landscape.accuracy[favourite], landscape.latency_ms[favourite]
    used = latency_ms / landscape.limit_ms
    where = f"the reward's maximum is {accuracy:.2%} at {latency_ms:.2f} ms"
    if used > 1:
        return (
            f"warning: {where}: it breaks T by {used - 1:.0%}, so a perfect searcher would too; "
            f"reward=constrained cannot"
        )
    lost = landscape.accuracy[optimum] - accuracy
    if used < 1 - UNUSED_SHARE:
        return (
            f"warning: {where}: it leaves {1 - used:.0%} of T unused and {lost * 100:.2f} points of "
            f"accuracy with it; reward=constrained does not"
        )
    return f"{where}, {used:.0%} of T, {lost * 100:.2f} points below the best within T"
