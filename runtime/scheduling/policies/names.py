"""Policies by name, with their defaults."""

from __future__ import annotations

from collections.abc import Callable

from runtime.scheduling.policies.base import Policy
from runtime.scheduling.policies.rules import (
    ByNetwork,
    Delays,
    EarliestFinish,
    OneLane,
    QueueTime,
)

POLICIES: dict[str, Callable[[Delays | None], Policy]] = {
    "earliest_finish": EarliestFinish,
    "queue_time": lambda sync_ms: QueueTime(max((max(row) for row in sync_ms or ()), default=0.0)),
    "by_network": lambda _: ByNetwork(),
    "one_lane": lambda _: OneLane(),
}
"""Each is built from the delays between lanes; queue_time, which has one delay, takes the longest."""


def policy_named(name: str, sync_ms: Delays | None = None) -> Policy:
    """Build a policy by name.

    `sync_ms` is the delay of a job by the previous job's lane and its own.

    Raises:
      ValueError: if there is no such policy.
    """
    if name not in POLICIES:
        raise ValueError(f"policy={name!r} must be one of {', '.join(POLICIES)}")
    return POLICIES[name](sync_ms)
