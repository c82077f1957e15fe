"""Ways to hold processes back that keep no budget of their own: stop, freeze, or slow them."""

from __future__ import annotations

import os
import signal
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol, final, runtime_checkable

from runtime.contention.isolation.cgroups import QUOTA_PERIOD_S, Group, Hierarchy, hierarchy
from runtime.contention.isolation.guarded import Guardian


@runtime_checkable
class Holding(Protocol):
    """Holds some processes back while it is asked to."""

    @abstractmethod
    def hold(self) -> None:
        """The network begins."""

    @abstractmethod
    def let_go(self) -> None:
        """The network has ended."""

    @abstractmethod
    def close(self) -> None:
        """Leaves the processes as they were."""


@final
class Stop(Holding):
    """SIGSTOP and SIGCONT to each process."""

    def __init__(self, processes: Sequence[int], guardian: Guardian) -> None:
        """Of processes that this user may send signals to.

        Raises:
          ValueError: if one is not there or not this user's.
        """
        for process in processes:
            _check(process)
        self._processes = processes
        self._guardian = guardian
        self._keys = [guardian.continue_later(process) for process in processes]

    def hold(self) -> None:
        """Stops them."""
        self._send(signal.SIGSTOP)

    def let_go(self) -> None:
        """Lets them go on."""
        self._send(signal.SIGCONT)

    def close(self) -> None:
        """Lets them go on for good."""
        self.let_go()
        for key in self._keys:
            self._guardian.forget(key)

    def _send(self, number: signal.Signals) -> None:
        for process in self._processes:
            with suppress(ProcessLookupError):  # it has ended by itself
                os.kill(process, number)


def _check(process: int) -> None:
    if process < 1 or process == os.getpid():
        raise ValueError(
            f"process {process} cannot be held back: give numbers of single processes, not this one's"
        )
    try:
        os.kill(process, 0)
    except OSError as error:
        raise ValueError(f"process {process} cannot be held back: {error.strerror}") from error


@final
class Freeze(Holding):
    """The freezer of control groups: the whole group at once, children included."""

    def __init__(
        self, processes: Sequence[int], guardian: Guardian, where: Hierarchy | None = None
    ) -> None:
        """Puts them into a group of their own.

        Raises:
          ValueError: if there is no freezer or no permission, or a process is not there.
        """
        for process in processes:
            _check(process)
        where = hierarchy("freezer") if where is None else where
        self._group = Group(where, processes, guardian)
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

    def hold(self) -> None:
        """Freezes them."""
        self._path.write_text(self._frozen)

    def let_go(self) -> None:
        """Thaws them."""
        self._path.write_text(self._thawed)

    def close(self) -> None:
        """Thaws them for good."""
        self.let_go()
        self._group.close()


@final
class Quota(Holding):
    """A share of a processor for all of them together, all the time: the scheduler's quota."""

    def __init__(
        self,
        processes: Sequence[int],
        share: float,
        guardian: Guardian,
        where: Hierarchy | None = None,
    ) -> None:
        """Puts them into a group of their own.

        Args:
          processes: to slow.
          share: processors, above 0; the kernel takes no less than 1 ms in 20.
          guardian: undoes it after a crash.
          where: None for where this machine has them.

        Raises:
          ValueError: if there is no such control group or no permission.
        """
        where = hierarchy("cpu") if where is None else where
        self._group = Group(where, processes, guardian)
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

    def hold(self) -> None:
        """It holds all the time."""

    def let_go(self) -> None:
        """It holds all the time."""

    def close(self) -> None:
        """Gives them back what they had."""
        self._group.close()
