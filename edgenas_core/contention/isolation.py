"""The kinds of isolation, the bandwidth budgets that each gives to the hogs, and stopped processes."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from enum import Enum
from typing import final


class Isolation(Enum):
    """Protection of a network from hogs."""

    none = "none"
    budget = "budget"  # a bandwidth budget per period, or a token bucket, always active
    fine_lock = "fine_lock"  # the budget is active while the network runs
    stop = "stop"  # SIGSTOP while the network runs
    priority = "priority"  # the network's CUDA stream has the highest priority
    partition = "partition"  # the network has its own multiprocessors

    @property
    def has_budget(self) -> bool:
        """Whether it needs a limit in MB/s."""
        return self in {Isolation.budget, Isolation.fine_lock}

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
            able = ", ".join(way.value for way in Isolation if way.may_have_budget)
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
        if limit_mb_per_s is None:
            return demand_mb_per_s, demand_mb_per_s
        limited = min(demand_mb_per_s, limit_mb_per_s)
        return (demand_mb_per_s if self is Isolation.fine_lock else limited), limited


@final
class Stop:
    """Stops each process by SIGSTOP and resumes it by SIGCONT."""

    def __init__(self, processes: Sequence[int]) -> None:
        self._processes = processes

    def apply(self) -> None:
        """Stop the processes, before the network runs."""
        self._send(signal.SIGSTOP)

    def release(self) -> None:
        """Resume the processes, after the network has run."""
        self._send(signal.SIGCONT)

    def close(self) -> None:
        """Resume the processes for good."""
        self.release()

    def _send(self, number: signal.Signals) -> None:
        for process in self._processes:
            with suppress(ProcessLookupError):  # it has ended by itself
                os.kill(process, number)
