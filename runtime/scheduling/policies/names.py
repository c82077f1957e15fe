"""The policies that need nothing but the times between lanes, by name."""

from __future__ import annotations

from runtime.scheduling.policies.base import Policy
from runtime.scheduling.policies.look_ahead import LookAhead
from runtime.scheduling.policies.rules import ByNetwork, Delays, EarliestFinish, QueueTime

NAMES = ("queue_time", "earliest_finish", "look_ahead", "by_network")


def named(name: str, sync_ms: Delays | None = None) -> Policy:
    """The policy of this name, with its defaults.

    Args:
      name: one of `NAMES`.
      sync_ms: what a job takes longer by the lane before and its own; None for nothing. The queue
        times of figure 4-5 know one time, the longest of these.

    Raises:
      ValueError: if there is no such policy.
    """
    if name == "queue_time":
        return QueueTime(max((max(row) for row in sync_ms or ()), default=0.0))
    if name == "earliest_finish":
        return EarliestFinish(sync_ms)
    if name == "look_ahead":
        return LookAhead(sync_ms)
    if name == "by_network":
        return ByNetwork()
    raise ValueError(f"no policy is called {name!r}; there are {', '.join(NAMES)}")
