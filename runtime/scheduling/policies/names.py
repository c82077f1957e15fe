"""Policies by name, with their defaults."""

from __future__ import annotations

from collections.abc import Callable

from runtime.scheduling.policies.base import Policy
from runtime.scheduling.policies.rules import ByNetwork, EarliestFinish, OneLane, QueueTime

POLICIES: dict[str, Callable[[], Policy]] = {
    "earliest_finish": EarliestFinish,
    "queue_time": QueueTime,
    "by_network": ByNetwork,
    "one_lane": OneLane,
}


def policy_named(name: str) -> Policy:
    """Build a policy by name.

    Raises:
      ValueError: if there is no such policy.
    """
    if name not in POLICIES:
        raise ValueError(f"policy={name!r} must be one of {', '.join(POLICIES)}")
    return POLICIES[name]()
