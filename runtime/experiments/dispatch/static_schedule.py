"""A closed set of inferences that a policy gave to lanes beforehand: nothing is decided while it runs.

To place a job, to tell of its end and to wake who waits takes Python some tenths of a millisecond, more
than the job where networks are small and lanes are many. Where all that will come is known, the same
policy decides on the simulator's clock first. Then each core gets its inferences in one go, a stream
all of its launches, and nobody speaks before the end.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from threading import Event
from typing import Protocol, final

from torch import Tensor

from runtime.experiments.dispatch.executor import Executor, Outcome, outcome
from runtime.experiments.dispatch.feed import Feed
from runtime.experiments.dispatch.prepared import Prepared, Ready, Source, Stream
from runtime.lanes.cpu import one_core
from runtime.network.completion import Compute
from runtime.network.segment_kind import Kind
from runtime.scheduling.chain import Lane
from runtime.scheduling.schedule import Schedule


class PlannedLane(Stream, Protocol):
    """A stream of which a scheduler knows: every `GpuLane` and `CpuLane` is one."""

    @property
    def lane(self) -> Lane:
        """What a scheduler knows of it."""


def shares(schedule: Schedule) -> list[list[int]]:
    """Of each lane of a schedule, the networks of its requests, in the order of their begin.

    Raises:
      ValueError: if a request runs on two lanes: only whole inferences can be given ahead.
    """
    found: list[list[int]] = [[] for _ in schedule.lanes]
    lane_of: dict[int, int] = {}
    for one in schedule.executed:
        if lane_of.setdefault(one.job.request, one.lane) != one.lane:
            name = schedule.chains[one.job.network].name
            raise ValueError(f"an inference of {name} changes lanes; plan whole inferences only")
        if one.job.index == 0:
            found[one.lane].append(one.job.network)
    return found


@final
class Planned(Executor):
    """Networks on lanes that stay open; on each lane a network has memory of its own.

    So inferences are independent, also two of one network on two lanes. Weights are shared by the
    lanes of a device.
    """

    def __init__(self, sources: Sequence[Source], lanes: Sequence[PlannedLane]) -> None:
        """Makes nothing ready before it is known where it runs.

        Args:
          sources: the networks that plans name; inputs lie ready, as in `issuing`.
          lanes: where they run; captured, if their engines capture.
        """
        self._sources = sources
        self._lanes = lanes
        self._ready: dict[tuple[int, int], Prepared] = {}
        """By lane and network."""
        self._shares: list[list[int]] = [[] for _ in lanes]
        self._cores = [i for i, one in enumerate(lanes) if not one.lane.asynchronous]

    def give(self, shares: Sequence[Sequence[int]]) -> None:
        """From now on a run is this: of each lane, the networks that it is to run, one by one.

        Raises:
          BaseException: what making a network ready raises.
          ValueError: if there are not as many shares as lanes.
        """
        if len(shares) != len(self._lanes):
            raise ValueError(f"{len(shares)} shares are no plan for {len(self._lanes)} lanes")
        of_cores = {k for i in self._cores for k in shares[i]}
        for lane, share in enumerate(shares):
            if lane not in self._cores:
                self._prepare(lane, share)
        # The first makes what a session consists of; each further core only runs its networks, and
        # that cores can do at once.
        for lane in self._cores[:1]:
            self._prepare(lane, of_cores)
        with ThreadPoolExecutor(max(1, len(self._cores))) as threads:
            for done in [threads.submit(self._prepare_alone, i, of_cores) for i in self._cores[1:]]:
                done.result()
        self._shares = [[*share] for share in shares]

    def run(
        self,
        inferences: int = 1,
        *,
        each_job: bool = False,
        ahead: int = 0,  # noqa: ARG002 - all is launched before anything is waited for
    ) -> Outcome:
        """Runs the plan so many times; a lane whose network raises goes no further.

        Returns:
          The schedule has a chain a lane that has a share; its outputs are the latest of the last
          network of each share. Without `each_job` a share is one job, and cores help each other.
        """
        active = [lane for lane, share in enumerate(self._shares) if share]
        stop = Event()
        feeds, kinds = [], []
        left: list[deque[int]] = []
        for lane in active:
            share = _Share([self._ready[lane, k] for k in self._shares[lane]])
            own: Ready = share
            if lane in self._cores and not each_job:
                jobs = {k: one.inference() for (i, k), one in self._ready.items() if i == lane}
                own = _AtOnce(share, self._shares[lane], jobs, left, stop)
            feeds.append(Feed(own, self._lanes[lane], inferences, stop, each_job=each_job))
            kinds.append(own.kinds if each_job else (Kind.NETWORK,))
        for lane in active:
            self._lanes[lane].renew_origin()
        begin_s = time.perf_counter()
        try:
            while ready := [feed for feed in feeds if feed.has_more]:
                for feed in ready:
                    feed.launch()
            ran = [feed.ran() for feed in feeds]
        except BaseException:
            stop.set()
            for feed in feeds:
                feed.ran()
            raise
        names = [self._lanes[lane].lane.name for lane in active]
        outputs: list[Tensor | BaseException] = [
            self._ready[lane, self._shares[lane][-1]].outputs[0]
            if feed.error is None
            else feed.error
            for lane, feed in zip(active, feeds, strict=True)
        ]
        found = outcome(names, kinds, active, inferences, begin_s, ran, outputs)
        described = tuple(one.lane for one in self._lanes)[: len(found.schedule.lanes)]
        return replace(found, schedule=replace(found.schedule, lanes=described))

    def kinds(self, network: int) -> tuple[Kind, ...]:
        """Of each job of a network that some plan gave to a lane."""
        return next(one.kinds for (_, k), one in self._ready.items() if k == network)

    def close(self) -> None:
        """Lets go of the networks; the lanes stay open."""
        self._ready.clear()
        self._shares = [[] for _ in self._lanes]

    def _prepare(self, lane: int, networks: Iterable[int]) -> None:
        for k in networks:
            if (lane, k) not in self._ready:
                self._ready[lane, k] = Prepared(self._sources[k], self._lanes[lane], captured=True)

    def _prepare_alone(self, lane: int, networks: Iterable[int]) -> None:
        with one_core(None):
            self._prepare(lane, networks)


@final
class _Share(Ready):
    """What a lane does, as one inference of many jobs."""

    def __init__(self, networks: Sequence[Prepared]) -> None:
        self._networks = networks
        self._jobs = [job for network in networks for job in network.inference()]

    @property
    def count(self) -> int:
        """One lane's."""
        return 1

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Of each job."""
        return tuple(kind for network in self._networks for kind in network.kinds)

    def inference(self) -> Sequence[Compute]:
        """All jobs."""
        return self._jobs

    @property
    def outputs(self) -> list[Tensor]:
        """Of the last."""
        return self._networks[-1].outputs


@final
class _AtOnce(Ready):
    """A core's share as one job, so that the core is spoken to once."""

    def __init__(
        self,
        share: _Share,
        networks: Sequence[int],
        jobs: Mapping[int, Sequence[Compute]],
        left: list[deque[int]],
        stop: Event,
    ) -> None:
        """Puts itself among those who help each other.

        Args:
          share: of the core.
          networks: the same, by number.
          jobs: of every network that any core may have, on this core.
          left: of each core the inferences that nobody has begun.
          stop: ends it between two inferences, with CancelledError.
        """
        self._share = share
        self._networks = networks
        self._jobs = jobs
        self._own: deque[int] = deque()
        self._left = left
        self._stop = stop
        left.append(self._own)

    @property
    def count(self) -> int:
        """One lane's."""
        return 1

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """One."""
        return (Kind.NETWORK,)

    def inference(self) -> Sequence[Compute]:
        """All of it, and what others are late with."""
        self._own.extend(self._networks)
        return [self._work]

    @property
    def outputs(self) -> list[Tensor]:
        """Of the last."""
        return self._share.outputs

    def _work(self) -> None:
        while (network := self._next()) is not None:
            if self._stop.is_set():
                raise CancelledError
            for job in self._jobs[network]:
                job()

    def _next(self) -> int | None:
        with suppress(IndexError):
            return self._own.popleft()
        while longest := max(self._left, key=len):
            with suppress(IndexError):  # another was quicker
                return longest.pop()
        return None
