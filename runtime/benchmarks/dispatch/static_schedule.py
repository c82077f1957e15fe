"""Static schedules: a policy assigns a closed set of inferences to lanes before they run.

To place a job, to report its end and to wake a waiting thread takes Python some tenths of a
millisecond, more than a job of a small network. If all requests are known, the same policy can decide
on the simulator's clock first. Then each core gets all of its inferences at once, and each stream all
of its launches, without communication until the end.
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

from benchmarks.dispatch.executor import DispatchOutcome, outcome
from benchmarks.dispatch.feed import Feed
from benchmarks.dispatch.prepared import DispatchedNetwork, Prepared, Ready, Stream
from edgenas_core.types.closeable import Closeable
from edgenas_runtime.lanes.cpu import one_core
from edgenas_runtime.network.completion import Compute
from edgenas_runtime.network.segment_kind import SegmentKind
from edgenas_runtime.scheduling.chain import Lane
from edgenas_runtime.scheduling.schedule import Schedule


class PlannedLane(Stream, Protocol):
    """A stream with the properties that a scheduler needs, such as `GpuLane` and `CpuLane`."""

    lane: Lane
    """The lane as the scheduler sees it."""


def shares(schedule: Schedule) -> list[list[int]]:
    """The networks of the requests of each lane of a schedule, in the order of their begin.

    Raises:
      ValueError: if a request runs on two lanes: only whole inferences can be assigned statically.
    """
    by_lane: list[list[int]] = [[] for _ in schedule.lanes]
    lane_of: dict[int, int] = {}
    for execution in schedule.executed:
        if lane_of.setdefault(execution.job.request, execution.lane) != execution.lane:
            name = schedule.chains[execution.job.network].name
            raise ValueError(f"an inference of {name} changes lanes; plan whole inferences only")
        if execution.job.index == 0:
            by_lane[execution.lane].append(execution.job.network)
    return by_lane


@final
class StaticSchedule(Closeable):
    """Networks on open lanes, with memory of their own on each lane.

    Inferences are therefore independent, even those of one network on two lanes. The lanes of a
    device share the weights.
    """

    def __init__(self, sources: Sequence[DispatchedNetwork], lanes: Sequence[PlannedLane]) -> None:
        """Prepare nothing until the lanes of the networks are known.

        Networks are captured if the engines of the lanes capture.
        """
        self._sources = sources
        self._lanes = lanes
        self._ready: dict[tuple[int, int], Prepared] = {}
        """Prepared networks by lane and network."""
        self._shares: list[list[int]] = [[] for _ in lanes]
        self._cores = [i for i, lane in enumerate(lanes) if not lane.lane.asynchronous]

    def give(self, shares: Sequence[Sequence[int]]) -> None:
        """Set the networks that each lane runs, in order.

        Raises:
          BaseException: any error of preparing a network.
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

    def run(self, inferences: int = 1) -> DispatchOutcome:
        """Run the schedule `inferences` times; a lane stops when its network raises.

        Returns:
          A schedule with one chain for each lane that has a share; outputs are those of the last
          network of each share. A share is one job, and cores steal work.
        """
        active = [lane for lane, share in enumerate(self._shares) if share]
        stop = Event()
        feeds = []
        left: list[deque[int]] = []
        for lane in active:
            share = _Share([self._ready[lane, k] for k in self._shares[lane]])
            own: Ready = share
            if lane in self._cores:
                jobs = {k: entry.inference() for (i, k), entry in self._ready.items() if i == lane}
                own = _AtOnce(share, self._shares[lane], jobs, left, stop)
            feeds.append(Feed(own, self._lanes[lane], inferences, stop, each_job=False))
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
        result = outcome(
            names, [(SegmentKind.NETWORK,)] * len(active), active, inferences, begin_s, ran, outputs
        )
        described = tuple(lane.lane for lane in self._lanes)[: len(result.schedule.lanes)]
        return replace(result, schedule=replace(result.schedule, lanes=described))

    def close(self) -> None:
        """Release the networks; the lanes stay open."""
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
    """The share of a lane, as one inference of many jobs."""

    def __init__(self, networks: Sequence[Prepared]) -> None:
        self._networks = networks
        self.kinds = tuple(kind for network in networks for kind in network.kinds)
        self._jobs = [job for network in networks for job in network.inference()]

    count = 1

    def inference(self) -> Sequence[Compute]:
        """The jobs of all networks of the share."""
        return self._jobs

    @property
    def outputs(self) -> list[Tensor]:
        """The output of the last network."""
        return self._networks[-1].outputs


@final
class _AtOnce(Ready):
    """The share of a core as one job, so that it is launched once."""

    def __init__(
        self,
        share: _Share,
        networks: Sequence[int],
        jobs: Mapping[int, Sequence[Compute]],
        left: list[deque[int]],
        stop: Event,
    ) -> None:
        """Join the cores that steal work from each other.

        `left` has the inferences of each core that have not begun.
        """
        self._share = share
        self._networks = networks
        self._jobs = jobs
        self._own: deque[int] = deque()
        self._left = left
        self._stop = stop
        left.append(self._own)

    count = 1

    kinds = (SegmentKind.NETWORK,)

    def inference(self) -> Sequence[Compute]:
        """One job: the whole share, then inferences of cores that are late."""
        self._own.extend(self._networks)
        return [self._work]

    @property
    def outputs(self) -> list[Tensor]:
        """The output of the last network."""
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
