"""Limits on the processes of hogs by control groups: frozen while the network runs, or slowed always."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import final

from benchmarks.papers.contention.cgroups import QUOTA_PERIOD_S, Group, Hierarchy, hierarchy
from runtime.contention.contention import Contention
from runtime.contention.hogs.control_page import GB, MB
from runtime.contention.hogs.running_hogs import RunningHogs
from runtime.contention.hogs.token_bucket import TokenBucket
from runtime.contention.isolation import ProcessLimit

_SOLO_S = 0.2
"""Time for which hogs run without limit, to know their bandwidth per processor for a quota."""


@final
class Freeze(ProcessLimit):
    """Freezes a control group of the processes, children included."""

    def __init__(self, processes: Sequence[int], where: Hierarchy | None = None) -> None:
        """Move the processes into a new control group.

        Raises:
          ValueError: if there is no freezer or no permission, or a process does not exist.
        """
        where = hierarchy("freezer") if where is None else where
        self._group = Group(where, processes)
        self._name, self._frozen, self._thawed = (
            ("freezer.state", "FROZEN", "THAWED")
            if where.version == 1
            else ("cgroup.freeze", "1", "0")
        )
        try:
            self._group.set(self._name, self._thawed)
        except ValueError:
            self._group.close()
            raise
        self._path = self._group.folder / self._name

    def apply(self) -> None:
        """Freeze the processes."""
        self._path.write_text(self._frozen)

    def release(self) -> None:
        """Thaw the processes."""
        self._path.write_text(self._thawed)

    def close(self) -> None:
        """Thaw the processes and move them back to their groups."""
        self.release()
        self._group.close()


@final
class Quota(ProcessLimit):
    """Limits all processes together to a share of processor time, always, by the CFS quota."""

    def __init__(
        self, processes: Sequence[int], share: float, where: Hierarchy | None = None
    ) -> None:
        """Move the processes into a new control group.

        `share` is a number of processors above 0; the kernel's minimum is 1 ms of 20 ms.

        Raises:
          ValueError: if there is no such hierarchy, or no permission.
        """
        where = hierarchy("cpu") if where is None else where
        self._group = Group(where, processes)
        period_us = round(1e6 * QUOTA_PERIOD_S)
        quota_us = max(1000, round(share * period_us))
        try:
            if where.version == 1:
                self._group.set("cpu.cfs_period_us", str(period_us))
                self._group.set("cpu.cfs_quota_us", str(quota_us))
            else:
                self._group.set("cpu.max", f"{quota_us} {period_us}")
        except ValueError:
            self._group.close()
            raise

    def apply(self) -> None:
        """Do nothing: the quota is always active."""

    def release(self) -> None:
        """Do nothing: the quota is always active."""

    def close(self) -> None:
        """Move the processes back to their groups."""
        self._group.close()


def under_quota(hogs: RunningHogs, limit_mb_per_s: float) -> Contention:
    """Contention whose hogs all together get the processors with which they reach the limit."""
    with Contention(hogs) as beside:
        time.sleep(_SOLO_S)
        alone_mb_per_s = sum(beside.gb_per_s()) * GB / MB
    count = len(hogs.hogs)
    share = count * min(1.0, count * limit_mb_per_s / max(alone_mb_per_s, limit_mb_per_s))
    return Contention(hogs, process_limit=partial(Quota, share=share))


def own_cpu_limit(limit_mb_per_s: float) -> Callable[[int], None]:
    """Return a function that the network's own CPU part calls with the bytes that it moved.

    It waits until they are within the limit: with it a budget of the hogs is the coarse lock of the
    source, which limits every core while the device is open, including the one that feeds the
    network. That is its known flaw.
    """
    bucket = TokenBucket(limit_mb_per_s * MB)

    def charge(size: int) -> None:
        while (wait_s := bucket.take(size)) > 0:
            time.sleep(wait_s)

    return charge
