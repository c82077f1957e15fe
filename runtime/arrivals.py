"""When inferences are asked for: all at once, at a frame rate, or at random."""

from __future__ import annotations

import numpy as np

from runtime.chain import Request


def closed(networks: int, inferences: int = 1) -> tuple[Request, ...]:
    """Every network asked for so many inferences at time 0."""
    return tuple(Request(network) for _ in range(inferences) for network in range(networks))


def periodic(
    network: int,
    period_ms: float,
    count: int,
    *,
    deadline_ms: float | None = None,
    offset_ms: float = 0.0,
) -> tuple[Request, ...]:
    """One inference a period; due, unless said otherwise, before the next arrives."""
    due_ms = period_ms if deadline_ms is None else deadline_ms
    return tuple(Request(network, offset_ms + i * period_ms, due_ms) for i in range(count))


def poisson(
    network: int, mean_gap_ms: float, count: int, generator: np.random.Generator
) -> tuple[Request, ...]:
    """Arrivals that know nothing of each other: exponential gaps from time 0 on."""
    arrivals_ms = generator.exponential(mean_gap_ms, count).cumsum()
    return tuple(Request(network, float(arrival_ms)) for arrival_ms in arrivals_ms)
