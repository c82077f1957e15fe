"""One latency for a search whose network may run in any of several configurations.

Configuration j leaves a network T_j milliseconds (`runtime.mapping.solving.slack`). A network is admissible if
its latency in some configuration is within what that one leaves. Scaled by a limit T, the best of the
ratios is a latency that a reward with the limit T takes as any other:

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
    """Within the limit if and only if a configuration has room for the network.

    Args:
      latency_ms: in each configuration; nan or infinite where the network cannot run.
      slack_ms: by each configuration; where it is 0 nothing fits.
      limit_ms: the reward's, such as the largest of `slack_ms`.

    Raises:
      ValueError: if nothing is left anywhere.
    """
    if not (slack_ms > 0).any():
        raise ValueError("no configuration has time left: no network is admissible")
    has_room = slack_ms > 0
    ratios = latency_ms[..., has_room] / slack_ms[has_room]
    best: Float64[ndarray, "*n"] = np.where(np.isnan(ratios), np.inf, ratios).min(-1)
    return limit_ms * best
