"""The order in which waiting requests and jobs are served."""

from __future__ import annotations

from bisect import insort_right
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import TypeVar

from runtime.scheduling.chain import Request

T = TypeVar("T")


class ServingOrder(Enum):
    """Order of requests waiting for their network, and of jobs waiting for a synchronous lane.

    Ties keep the order of arrival. A running job is never preempted, and a job launched on an
    asynchronous lane keeps its position.
    """

    FIRST_COME = "first_come"
    PRIORITY = "priority"
    """Lowest `Request.priority` first."""
    DEADLINE = "deadline"
    """Earliest absolute deadline first; requests without a deadline last."""

    def rank(self, request: Request) -> float:
        """Return the sort key of a request; the lowest is served first."""
        if self is ServingOrder.PRIORITY:
            return request.priority
        if self is ServingOrder.DEADLINE:
            return request.arrival_ms + request.deadline_ms
        return 0.0


def insert(queue: deque[T], item: T, rank: Callable[[T], float]) -> None:
    """Insert an item behind all items of the same or a lower rank; O(1) if that is the end."""
    if not queue or rank(queue[-1]) <= rank(item):
        queue.append(item)
    else:
        insort_right(queue, item, key=rank)
