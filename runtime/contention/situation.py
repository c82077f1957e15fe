"""A network's surroundings, for as long as a `with` lasts: who takes bandwidth, and what holds them.

with Situation([MemoryHog(core=1)], limit_mb_per_s=1000, isolation=Isolation.fine_lock) as beside:
    measure(beside.during(infer))
    beside.gb_per_s()  # what is left to the hogs
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, final

from runtime.contention.hogs.hog import Hog
from runtime.contention.hogs.running_hogs import RunningHogs
from runtime.contention.hogs.token_bucket import TokenBucket
from runtime.contention.isolation.budget import GB, MB
from runtime.contention.isolation.holding import Freeze, Holding, Quota, Stop
from runtime.contention.isolation.isolation import Isolation

if TYPE_CHECKING:
    import torch

_SOLO_S = 0.2
"""For which a hog runs alone, so that a quota knows what a whole processor takes."""


@final
class Situation:
    """Open, hogs run beside whatever is measured; closed, none does."""

    def __init__(
        self,
        hogs: Sequence[Hog] | RunningHogs,
        *,
        limit_mb_per_s: float | None = None,
        isolation: Isolation = Isolation.none,
        count: int | None = None,
        processes: Sequence[int] = (),
        victim_sms: int | None = None,
    ) -> None:
        """Nothing runs before it is entered.

        Args:
          hogs: to be started with it and ended with it; or hogs that run already, which it
            lets go on and parks at its end.
          limit_mb_per_s: what each hog may use while the isolation holds; MB of 2 ** 20 bytes.
          isolation: what protects the network.
          count: how many of the hogs, the first ones, take part; None for all.
          processes: of other programs, to be stopped or frozen with the hogs.
          victim_sms: of `Isolation.partition`: the network's multiprocessors, a multiple of 8.

        Raises:
          ValueError: if what is given means nothing to the isolation.
        """
        isolation.check(limit_mb_per_s)
        if processes and isolation not in {Isolation.stop, Isolation.freezer}:
            raise ValueError(
                f"isolation={isolation.value} cannot hold back processes of other programs; "
                "stop and freezer can"
            )
        running_sliced = isinstance(hogs, RunningHogs) and bool(hogs.slices)
        if (isolation is Isolation.partition) != (victim_sms is not None or running_sliced):
            raise ValueError("isolation=partition goes with victim_sms, as 32, and no other does")
        self._given = hogs
        self._limit = limit_mb_per_s
        self._isolation = isolation
        self._count = count
        self._processes = tuple(processes)
        self._victim_sms = victim_sms
        self._stream: torch.cuda.Stream | None = None
        self._own_cpu = TokenBucket()
        self._hold: Callable[[], None] = _nothing
        self._let_go: Callable[[], None] = _nothing

    def __enter__(self) -> Situation:
        """Starts the hogs, or lets those that run go on.

        Raises:
          ValueError: if something is missing on this machine; the message says what is possible.
        """
        with ExitStack() as opened:
            if isinstance(self._given, RunningHogs):
                self._hogs = self._given
            else:
                self._hogs = opened.enter_context(RunningHogs(self._given, self._victim_sms))
            opened.callback(self._hogs.park)
            if self._isolation is Isolation.coarse_lock and self._limit is not None:
                self._own_cpu.rate(self._limit * MB)
            holding = self._holding()
            if holding is not None:
                opened.callback(holding.close)
                self._hold, self._let_go = holding.hold, holding.let_go
            elif self._isolation is Isolation.fine_lock:
                self._hold, self._let_go = self._hogs.page.hold, self._hogs.page.let_go
                opened.callback(self._let_go)
            self._hogs.tell(
                [self._isolation.budgets(one, self._limit) for one in self._demands_mb_per_s()]
            )
            self._opened = opened.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._opened.close()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """While the network runs; without a lock among the isolation it does nothing."""
        self._hold()
        try:
            yield
        finally:
            self._let_go()

    def during(self, inference: Callable[[], object]) -> Callable[[], None]:
        """The inference under the lock; one on a GPU must wait for the GPU before it returns."""
        return partial(self._locked, inference)

    def charge(self, size: int) -> None:
        """The network's own process moved so many bytes by its CPU, as to prepare a picture.

        Only the coarse lock cares: it holds back every core while the device is open, the one that
        feeds the network, too. That is its known flaw.
        """
        while (wait_s := self._own_cpu.take(size)) > 0:
            time.sleep(wait_s)

    def gb_per_s(self) -> list[float]:
        """What each hog achieved since the situation was entered or this was asked."""
        return self._hogs.gb_per_s()

    @property
    def stream(self) -> torch.cuda.Stream:
        """The GPU's stream on which to prepare and run the network.

        Raises:
          ValueError: if there is no GPU.
        """
        if self._stream is None:
            from runtime.contention.hogs.gpu_hogs import victim_streams  # noqa: PLC0415 - needs a GPU

            stock, priority = victim_streams(
                self._hogs.slices, is_first=self._isolation is Isolation.priority
            )
            self._stream = stock.take(priority)
            self._opened.callback(stock.give_back, self._stream)
        return self._stream

    def _demands_mb_per_s(self) -> list[float]:
        """What each hog would take; nothing of those that take no part."""
        all_of_them = self._hogs.hogs
        count = len(all_of_them) if self._count is None else self._count
        return [hog.gb_per_s * GB / MB if k < count else 0.0 for k, hog in enumerate(all_of_them)]

    def _locked(self, inference: Callable[[], object]) -> None:
        self._hold()
        try:
            inference()
        finally:
            self._let_go()

    def _holding(self) -> Holding | None:
        ours, guardian = self._hogs.process_ids, self._hogs.guardian
        if self._isolation not in {Isolation.stop, Isolation.freezer, Isolation.quota}:
            return None
        if len(ours) < len(self._hogs.hogs):
            raise ValueError(
                f"isolation={self._isolation.value} holds back processes, and a GPU's hog is none; "
                "isolation=budget holds it back"
            )
        processes = [*ours, *self._processes]
        if self._isolation is Isolation.stop:
            return Stop(processes, guardian)
        if self._isolation is Isolation.freezer:
            return Freeze(processes, guardian)
        assert self._limit is not None
        return Quota(processes, self._share(), guardian)

    def _share(self) -> float:
        """Processors for which all hogs together take what the limit allows them."""
        demands = self._demands_mb_per_s()
        self._hogs.tell([(one, one) for one in demands])
        time.sleep(_SOLO_S)
        alone = sum(self._hogs.gb_per_s()) * GB / MB
        count = sum(one > 0 for one in demands)
        assert self._limit is not None
        return count * min(1.0, count * self._limit / max(alone, self._limit))


def _nothing() -> None:
    return None
