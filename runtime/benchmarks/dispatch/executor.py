"""The interface of all dispatch modes, and the outcome of a run."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, final

from torch import Tensor

from edgenas_core.types.closeable import Closeable
from edgenas_runtime.network.segment_kind import SegmentKind
from edgenas_runtime.scheduling.arrivals import closed
from edgenas_runtime.scheduling.chain import Chain, Job, Lane
from edgenas_runtime.scheduling.schedule import Executed, Schedule


@final
@dataclass(frozen=True)
class Ran:
    """Begin and end of one job, on the clock of `time.perf_counter`, which processes share."""

    inference: int
    index: int
    began_s: float
    ended_s: float


@final
@dataclass(frozen=True)
class DispatchOutcome:
    """The schedule of a run, and the outputs of its networks."""

    schedule: Schedule
    """One lane for each stream. Request `i * networks + k` is inference i of network k; all arrive at
    0. A job is one job of the network, or a whole inference. Predicted times are 0."""
    outputs: tuple[Tensor | BaseException, ...]
    """For each network the output of its last inference, or the error that ended it."""


class Executor(Closeable, Protocol):
    """Prepared networks that can be run repeatedly; used in a `with` statement."""

    @abstractmethod
    def run(self, inferences: int, *, each_job: bool = True) -> DispatchOutcome:
        """Run that many inferences of every network; a network that raises runs no further one.

        With `each_job` each job is timed, else each inference, which costs less.
        """

    @abstractmethod
    def close(self) -> None:
        """End threads and processes, and release the networks."""


def outcome(  # noqa: PLR0917 - called in two places, with all of them
    names: Sequence[str],
    kinds: Sequence[Sequence[SegmentKind]],
    lane_of: Sequence[int],
    inferences: int,
    begin_s: float,
    ran: Sequence[Sequence[Ran]],
    outputs: Sequence[Tensor | BaseException],
) -> DispatchOutcome:
    """Combine the jobs of all networks into one outcome.

    `lane_of` is the stream of each network; all inferences arrive at `begin_s`.
    """
    lanes = tuple(
        Lane(f"stream{i}", asynchronous=True) for i in range(max(lane_of, default=-1) + 1)
    )
    chains = tuple(
        Chain(
            name,
            tuple(kind),
            (tuple(0.0 if i == lane else math.inf for i in range(len(lanes))),) * len(kind),
        )
        for name, kind, lane in zip(names, kinds, lane_of, strict=True)
    )
    executed = [
        Executed(
            Job(one.inference * len(names) + k, k, one.index),
            lane_of[k],
            max(1e3 * (one.began_s - begin_s), 0.0),
            1e3 * (one.ended_s - begin_s),
        )
        for k, own in enumerate(ran)
        for one in own
    ]
    executed.sort(key=lambda one: (one.start_ms, one.end_ms, one.lane))
    requests = closed(len(names), inferences)
    return DispatchOutcome(Schedule(chains, lanes, requests, tuple(executed)), tuple(outputs))
