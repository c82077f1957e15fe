"""Predicted work that is queued or running on each lane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from edgenas_runtime.scheduling.chain import Job, Lane


@dataclass
class _Entry:
    charged_ms: float
    upto_ms: float
    """Sum of the charges since the lane was empty, up to and including this job."""
    taken_at_ms: float | None = None


@final
class Ledger:
    """Queue times of figure 4-5: they grow when a job is placed and shrink when it starts or ends."""

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self._lanes = lanes
        self._entries: list[dict[Job, _Entry]] = [{} for _ in lanes]
        self._last_end_ms = [0.0] * len(lanes)

    def put(self, job: Job, lane: int, charged_ms: float) -> None:
        """Record that a job was placed on a lane."""
        entries = self._entries[lane]
        before_ms = entries[next(reversed(entries))].upto_ms if entries else 0.0
        entries[job] = _Entry(charged_ms, before_ms + charged_ms)

    def take(self, job: Job, lane: int, now_ms: float) -> None:
        """Record that a worker took the job, or that it was launched."""
        self._entries[lane][job].taken_at_ms = now_ms

    def end(self, job: Job, lane: int, now_ms: float) -> None:
        """Record that the job ended or will never run."""
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
        """Return QTime of each lane."""
        return tuple(
            _sum_to_the_last_ms(entries)
            if lane.asynchronous
            else sum(entry.charged_ms for entry in entries.values() if entry.taken_at_ms is None)
            for lane, entries in zip(self._lanes, self._entries, strict=True)
        )

    def backlog_ms(self, now_ms: float) -> tuple[float, ...]:
        """Return the predicted time until each lane is idle; an overdue job counts as 0."""
        return tuple(
            self.remaining_ms(next(reversed(entries)), lane, now_ms) if entries else 0.0
            for lane, entries in enumerate(self._entries)
        )

    def remaining_ms(self, job: Job, lane: int, now_ms: float) -> float:
        """Return the predicted time until a job on the lane ends; 0 if it has ended."""
        entries = self._entries[lane]
        if job not in entries:
            return 0.0
        first = next(iter(entries.values()))
        remaining_ms = _sum_ms(first, entries[job])
        if first.taken_at_ms is not None:
            began_ms = max(first.taken_at_ms, self._last_end_ms[lane])
            remaining_ms -= min(first.charged_ms, now_ms - began_ms)
        return remaining_ms


def _sum_ms(first: _Entry, last: _Entry) -> float:
    if first is last:
        return first.charged_ms  # without rounding
    return last.upto_ms - first.upto_ms + first.charged_ms


def _sum_to_the_last_ms(entries: dict[Job, _Entry]) -> float:
    if not entries:
        return 0.0
    return _sum_ms(next(iter(entries.values())), entries[next(reversed(entries))])
