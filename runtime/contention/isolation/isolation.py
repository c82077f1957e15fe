"""What keeps a network's memory from the hogs, by name, and what each way means for their budgets."""

from __future__ import annotations

import math
from enum import Enum


class Isolation(Enum):
    """How a network is protected."""

    none = "none"
    budget = "budget"  # a budget a period, or a token bucket, all the time
    fine_lock = "fine_lock"  # the budget holds while the network runs
    coarse_lock = "coarse_lock"  # it holds while the device is open, for the network's own CPU too
    stop = "stop"  # SIGSTOP while the network runs
    freezer = "freezer"  # the same by control groups
    quota = "quota"  # a share of the processor by control groups, all the time
    priority = "priority"  # the network's stream of the GPU comes first
    partition = "partition"  # the network has multiprocessors of its own

    @property
    def has_budget(self) -> bool:
        """Whether a limit in MB/s is what it works by."""
        return self in {
            Isolation.budget,
            Isolation.fine_lock,
            Isolation.coarse_lock,
            Isolation.quota,
        }

    @property
    def may_have_budget(self) -> bool:
        """Whether a limit can be set beside it."""
        return self.has_budget or self.is_of_gpu

    @property
    def is_of_gpu(self) -> bool:
        """Whether it is about the GPU's own means."""
        return self in {Isolation.priority, Isolation.partition}

    def check(self, limit_mb_per_s: float | None) -> None:
        """Refuses a limit that means nothing.

        Raises:
          ValueError: naming what is allowed.
        """
        if self.has_budget and limit_mb_per_s is None:
            raise ValueError(f"isolation={self.value} needs limit_mb_per_s, as 1000")
        if limit_mb_per_s is None:
            return
        if not self.may_have_budget:
            able = ", ".join(one.value for one in Isolation if one.may_have_budget)
            raise ValueError(
                f"isolation={self.value} has no use for limit_mb_per_s={limit_mb_per_s:g}; "
                f"{able} have"
            )
        if math.isnan(limit_mb_per_s) or limit_mb_per_s <= 0:
            raise ValueError(
                f"limit_mb_per_s={limit_mb_per_s:g} must be above 0; to leave the hogs nothing while the "
                f"network runs take isolation=stop without limit_mb_per_s"
            )

    def budgets(self, demand_mb_per_s: float, limit_mb_per_s: float | None) -> tuple[float, float]:
        """What a hog may use while the lock is free, and while it is held; MB/s."""
        if limit_mb_per_s is None or self is Isolation.quota:
            return demand_mb_per_s, demand_mb_per_s
        limited = min(demand_mb_per_s, limit_mb_per_s)
        return (demand_mb_per_s if self is Isolation.fine_lock else limited), limited
