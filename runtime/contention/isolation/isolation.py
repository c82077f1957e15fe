"""The kinds of isolation, and the bandwidth budgets that each gives to the hogs."""

from __future__ import annotations

import math
from enum import Enum


class Isolation(Enum):
    """Protection of a network from hogs."""

    none = "none"
    budget = "budget"  # a bandwidth budget per period, or a token bucket, always active
    fine_lock = "fine_lock"  # the budget is active while the network runs
    coarse_lock = "coarse_lock"  # active while the device is open, for the network's own CPU too
    stop = "stop"  # SIGSTOP while the network runs
    freezer = "freezer"  # the same through control groups
    quota = "quota"  # a share of the processor through control groups, always active
    priority = "priority"  # the network's CUDA stream has the highest priority
    partition = "partition"  # the network has its own multiprocessors

    @property
    def has_budget(self) -> bool:
        """Whether it needs a limit in MB/s."""
        return self in {
            Isolation.budget,
            Isolation.fine_lock,
            Isolation.coarse_lock,
            Isolation.quota,
        }

    @property
    def may_have_budget(self) -> bool:
        """Whether a limit in MB/s can be given."""
        return self.has_budget or self.needs_gpu

    @property
    def needs_gpu(self) -> bool:
        """Whether it exists on a GPU only."""
        return self in {Isolation.priority, Isolation.partition}

    def check(self, limit_mb_per_s: float | None) -> None:
        """Check the limit against the isolation.

        Raises:
          ValueError: naming what is allowed.
        """
        if self.has_budget and limit_mb_per_s is None:
            raise ValueError(f"isolation={self.value} needs limit_mb_per_s, such as 1000")
        if limit_mb_per_s is None:
            return
        if not self.may_have_budget:
            able = ", ".join(one.value for one in Isolation if one.may_have_budget)
            raise ValueError(
                f"isolation={self.value} takes no limit_mb_per_s={limit_mb_per_s:g}; "
                f"use one of {able}"
            )
        if math.isnan(limit_mb_per_s) or limit_mb_per_s <= 0:
            raise ValueError(
                f"limit_mb_per_s={limit_mb_per_s:g} must be above 0; to stop the hogs while the network "
                "runs, use isolation=stop without limit_mb_per_s"
            )

    def budgets(self, demand_mb_per_s: float, limit_mb_per_s: float | None) -> tuple[float, float]:
        """Return a hog's limits in MB/s: while the lock is free, and while it is held."""
        if limit_mb_per_s is None or self is Isolation.quota:
            return demand_mb_per_s, demand_mb_per_s
        limited = min(demand_mb_per_s, limit_mb_per_s)
        return (demand_mb_per_s if self is Isolation.fine_lock else limited), limited
