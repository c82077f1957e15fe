"""What each lane has been given and has not finished, as predicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from runtime.scheduling.chain import Job, Lane


@dataclass
class _Entry:
    charged_ms: float
    upto_ms: float
    """What the lane was charged since it was empty, for this job and all before it."""
    taken_at_ms: float | None = None


@final
class Ledger:
    """Keeps the queue times of figure 4-5: grown at placing, shrunk at taking or ending."""

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self._lanes = lanes
        self._entries: list[dict[Job, _Entry]] = [{} for _ in lanes]
        self._last_end_ms = [0.0] * len(lanes)

    def put(self, job: Job, lane: int, charged_ms: float) -> None:
        """The job was put to a lane."""
        entries = self._entries[lane]
        before_ms = entries[next(reversed(entries))].upto_ms if entries else 0.0
        entries[job] = _Entry(charged_ms, before_ms + charged_ms)

    def take(self, job: Job, lane: int, now_ms: float) -> None:
        """A worker took it, or it was launched."""
        self._entries[lane][job].taken_at_ms = now_ms

    def end(self, job: Job, lane: int, now_ms: float) -> None:
        """It ended, or will never run."""
        entries = self._entries[lane]
        is_first = next(iter(entries)) == job
        del entries[job]
        if not is_first:
            upto_ms = 0.0
            for entry in entries.values():
                upto_ms += entry.charged_ms
                entry.upto_ms = upto_ms
        self._last_end_ms[lane] = now_ms

    def queue_ms(self) -> tuple[float, ...]:
        """QTime of each lane."""
        return tuple(
            _sum_to_the_last_ms(entries)
            if lane.asynchronous
            else sum(one.charged_ms for one in entries.values() if one.taken_at_ms is None)
            for lane, entries in zip(self._lanes, self._entries, strict=True)
        )

    def backlog_ms(self, now_ms: float) -> tuple[float, ...]:
        """Predicted time until each lane is idle; a job that overstays has 0 left."""
        return tuple(
            self.left_ms(next(reversed(entries)), lane, now_ms) if entries else 0.0
            for lane, entries in enumerate(self._entries)
        )

    def left_ms(self, job: Job, lane: int, now_ms: float) -> float:
        """Predicted time until a job ends that was put to the lane; 0 if it has."""
        entries = self._entries[lane]
        if job not in entries:
            return 0.0
        first = next(iter(entries.values()))
        left_ms = _sum_ms(first, entries[job])
        if first.taken_at_ms is not None:
            began_ms = max(first.taken_at_ms, self._last_end_ms[lane])
            left_ms -= min(first.charged_ms, now_ms - began_ms)
        return left_ms


def _sum_ms(first: _Entry, last: _Entry) -> float:
    if first is last:
        return first.charged_ms  # without rounding
    return last.upto_ms - first.upto_ms + first.charged_ms


def _sum_to_the_last_ms(entries: dict[Job, _Entry]) -> float:
    if not entries:
        return 0.0
    return _sum_ms(next(iter(entries.values())), entries[next(reversed(entries))])
