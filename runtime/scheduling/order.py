"""Who comes first of those who wait."""

from __future__ import annotations

from bisect import insort_right
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import TypeVar

from runtime.scheduling.chain import Request

T = TypeVar("T")


class Order(Enum):
    """Of requests that wait for their network, and of jobs that wait for a synchronous lane.

    Equals keep the order in which they came. What runs is never interrupted, and what was launched
    on an asynchronous lane keeps its place: a stream takes jobs as they come.
    """

    FIRST_COME = "first_come"
    PRIORITY = "priority"
    """The least number of `Request.priority` first."""
    DEADLINE = "deadline"
    """The earliest moment first by which a request is due; those without one last."""

    def rank(self, request: Request) -> float:
        """The least is first."""
        if self is Order.PRIORITY:
            return request.priority
        if self is Order.DEADLINE:
            return request.arrival_ms + request.deadline_ms
        return 0.0


def insert(queue: deque[T], item: T, rank: Callable[[T], float]) -> None:
    """Behind all of the same rank or a lesser; at once where that is the end."""
    if not queue or rank(queue[-1]) <= rank(item):
        queue.append(item)
    else:
        insort_right(queue, item, key=rank)
