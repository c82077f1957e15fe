"""Limits on processes that keep no bandwidth budget themselves: stop, freeze or slow them."""

from __future__ import annotations

import os
import signal
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol, final, runtime_checkable

from runtime.contention.isolation.cgroups import QUOTA_PERIOD_S, Group, Hierarchy, hierarchy
from runtime.contention.isolation.crash_cleanup import CrashCleanup


@runtime_checkable
class ProcessLimit(Protocol):
    """Limits some processes while the network runs."""

    @abstractmethod
    def apply(self) -> None:
        """Apply the limit, before the network runs."""

    @abstractmethod
    def release(self) -> None:
        """Lift the limit, after the network has run."""

    @abstractmethod
    def close(self) -> None:
        """Restore the processes to their original state."""


@final
class Stop(ProcessLimit):
    """Stops each process by SIGSTOP and resumes it by SIGCONT."""

    def __init__(self, processes: Sequence[int], cleanup: CrashCleanup) -> None:
        """Register the processes.

        Raises:
          ValueError: if a process does not exist, or this user may not signal it.
        """
        for process in processes:
            _check(process)
        self._processes = processes
        self._cleanup = cleanup
        self._keys = [cleanup.register_continue(process) for process in processes]

    def apply(self) -> None:
        """Stop the processes."""
        self._send(signal.SIGSTOP)

    def release(self) -> None:
        """Resume the processes."""
        self._send(signal.SIGCONT)

    def close(self) -> None:
        """Resume the processes for good."""
        self.release()
        for key in self._keys:
            self._cleanup.unregister(key)

    def _send(self, number: signal.Signals) -> None:
        for process in self._processes:
            with suppress(ProcessLookupError):  # it has ended by itself
                os.kill(process, number)


def _check(process: int) -> None:
    if process < 1 or process == os.getpid():
        raise ValueError(
            f"process {process} cannot be limited: give ids of single processes other than this one"
        )
    try:
        os.kill(process, 0)
    except OSError as error:
        raise ValueError(f"process {process} cannot be limited: {error.strerror}") from error


@final
class Freeze(ProcessLimit):
    """Freezes a control group of the processes, children included."""

    def __init__(
        self, processes: Sequence[int], cleanup: CrashCleanup, where: Hierarchy | None = None
    ) -> None:
        """Move the processes into a new control group.

        Raises:
          ValueError: if there is no freezer or no permission, or a process does not exist.
        """
        for process in processes:
            _check(process)
        where = hierarchy("freezer") if where is None else where
        self._group = Group(where, processes, cleanup)
        self._name, self._frozen, self._thawed = (
            ("freezer.state", "FROZEN", "THAWED")
            if where.version == 1
            else ("cgroup.freeze", "1", "0")
        )
        try:
            self._group.set(self._name, self._thawed, undo=self._thawed)
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
        self,
        processes: Sequence[int],
        share: float,
        cleanup: CrashCleanup,
        where: Hierarchy | None = None,
    ) -> None:
        """Move the processes into a new control group.

        `share` is a number of processors above 0; the kernel's minimum is 1 ms of 20 ms.

        Raises:
          ValueError: if there is no such hierarchy, or no permission.
        """
        where = hierarchy("cpu") if where is None else where
        self._group = Group(where, processes, cleanup)
        period_us = round(1e6 * QUOTA_PERIOD_S)
        quota_us = max(1000, round(share * period_us))
        try:
            if where.version == 1:
                self._group.set("cpu.cfs_period_us", str(period_us), undo="")
                self._group.set("cpu.cfs_quota_us", str(quota_us), undo="-1")
            else:
                self._group.set("cpu.max", f"{quota_us} {period_us}", undo="max")
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
