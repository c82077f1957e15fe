"""One latency for a network that may run in any of several configurations.

Configuration j has a slack of T_j milliseconds (`edgenas_runtime.mapping.solving.slack`). A network is
feasible if its latency in some configuration is within the slack of that configuration. The smallest
ratio, scaled by a limit T, is a latency for a reward with the limit T:

    t_eff = T * min_j latency_j / T_j
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64
from numpy import ndarray


def effective_ms(
    latency_ms: Float64[ndarray, "*n configurations"],
    slack_ms: Float64[ndarray, " configurations"],
    limit_ms: float,
) -> Float64[ndarray, "*n"]:
    """Return a latency that is within the limit if and only if some configuration has room.

    Args:
      latency_ms: latency in each configuration; NaN or infinite where the network cannot run.
      slack_ms: slack of each configuration; 0 where nothing fits.
      limit_ms: limit of the reward, such as the largest of `slack_ms`.

    Raises:
      ValueError: if no configuration has slack.
    """
    if not (slack_ms > 0).any():
        raise ValueError("no configuration has slack, so no network is feasible")
    has_room = slack_ms > 0
    ratios = latency_ms[..., has_room] / slack_ms[has_room]
    best: Float64[ndarray, "*n"] = np.where(np.isnan(ratios), np.inf, ratios).min(-1)
    return limit_ms * best
