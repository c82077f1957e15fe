"""Arrival times of requests: all at once, or at a frame rate."""

from __future__ import annotations

import math

import numpy as np

from edgenas_runtime.scheduling.chain import Request


def closed(networks: int, inferences: int = 1) -> tuple[Request, ...]:
    """Return `inferences` requests of every network, all arriving at time 0.

    Raises:
      ValueError: if a count is negative or not an integer.
    """
    _check_counts(networks=networks, inferences=inferences)
    return tuple(Request(network) for _ in range(inferences) for network in range(networks))


def periodic(
    network: int,
    period_ms: float,
    count: int,
    *,
    deadline_ms: float | None = None,
) -> tuple[Request, ...]:
    """Return one request per period, due by default when the next one arrives.

    Raises:
      ValueError: if an argument is out of range.
    """
    _check_counts(network=network, count=count)
    _check_times(period_ms=period_ms)
    due_ms = period_ms if deadline_ms is None else deadline_ms
    return tuple(Request(network, i * period_ms, due_ms) for i in range(count))


def _check_counts(**counts: int) -> None:
    for name, value in counts.items():
        if not isinstance(value, int | np.integer) or value < 0:
            raise ValueError(f"{name}={value!r} must be an integer of at least 0")


def _check_times(**times_ms: float) -> None:
    for name, value in times_ms.items():
        if not 0 < value < math.inf:
            raise ValueError(f"{name}={value} must be above 0 and finite")
