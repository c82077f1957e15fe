"""What each lane has been given and has not finished, as predicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from runtime.chain import Job, Lane


@dataclass
class _Entry:
    charged_ms: float
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
        self._entries[lane][job] = _Entry(charged_ms)

    def take(self, job: Job, lane: int, now_ms: float) -> None:
        """A worker took it, or it was launched."""
        self._entries[lane][job].taken_at_ms = now_ms

    def end(self, job: Job, lane: int, now_ms: float) -> None:
        """It ended, or will never run."""
        del self._entries[lane][job]
        self._last_end_ms[lane] = now_ms

    def queue_ms(self) -> tuple[float, ...]:
        """QTime of each lane."""
        return tuple(
            sum(
                entry.charged_ms
                for entry in entries.values()
                if lane.asynchronous or entry.taken_at_ms is None
            )
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
        left_ms = 0.0
        for i, (other, entry) in enumerate(entries.items()):
            left_ms += entry.charged_ms
            if i == 0 and entry.taken_at_ms is not None:
                began_ms = max(entry.taken_at_ms, self._last_end_ms[lane])
                left_ms -= min(entry.charged_ms, now_ms - began_ms)
            if other == job:
                break
        return left_ms
