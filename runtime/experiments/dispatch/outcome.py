"""What a run of many networks gave."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from torch import Tensor

from runtime.network.segment_kind import Kind
from runtime.scheduling.arrivals import closed
from runtime.scheduling.chain import Chain, Job, Lane
from runtime.scheduling.schedule import Executed, Schedule


@final
@dataclass(frozen=True)
class Ran:
    """A job that ran to its end, on the clock of `time.perf_counter`, which processes share."""

    inference: int
    index: int
    began_s: float
    ended_s: float


@final
@dataclass(frozen=True)
class Outcome:
    """What happened when, and what came of it."""

    schedule: Schedule
    """A lane a stream; request `i * networks + k` is inference i of network k, and all arrive at 0.
    Its jobs are the network's, or each a whole inference. Nothing was predicted: the times of the
    chains are 0."""
    outputs: tuple[Tensor | BaseException, ...]
    """Of each network: that of its last inference, or what ended it."""


def outcome(  # noqa: PLR0917 - called in two places, with all of them
    names: Sequence[str],
    kinds: Sequence[Sequence[Kind]],
    lane_of: Sequence[int],
    inferences: int,
    begin_s: float,
    ran: Sequence[Sequence[Ran]],
    outputs: Sequence[Tensor | BaseException],
) -> Outcome:
    """Puts together what each network did.

    Args:
      names: of the networks.
      kinds: of each network's jobs.
      lane_of: which stream served each network.
      inferences: asked of each.
      begin_s: when all of them arrived.
      ran: what each network ran, in its order.
      outputs: of each network.
    """
    lanes = tuple(
        Lane(f"stream{i}", asynchronous=True) for i in range(max(lane_of, default=-1) + 1)
    )
    chains = tuple(
        Chain(
            name,
            tuple(own),
            (tuple(0.0 if i == lane else math.inf for i in range(len(lanes))),) * len(own),
        )
        for name, own, lane in zip(names, kinds, lane_of, strict=True)
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
    return Outcome(Schedule(chains, lanes, requests, tuple(executed)), tuple(outputs))
