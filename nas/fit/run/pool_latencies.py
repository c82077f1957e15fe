"""Latencies of the networks of a pool: which of them a board times, and what it is expected to take for others."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from latency.base import Latencies, LiveOracle, UnmeasuredError
from latency.sources.layers import layers_of_live
from nas.accuracy.base import HasWeights
from nas.fit.run.context import FitContext
from nas.trials.problem import SearchProblem

_HOPELESS = 1.2
"""Predicted latency, as a share of the limit, above which a network is not timed."""

ENOUGH = 12
"""Networks within the limit after which only those of a better prior are timed: frozen features of ten fit into theirs."""


@final
@dataclass(frozen=True)
class Pool:
    """Networks with weights within the limits that need no timing."""

    rows: Int64[ndarray, "n D"]
    prior: Float64[ndarray, "n"]  # accuracy that is expected of each
    flops: Float64[ndarray, "n"]


def pool_latencies(
    context: FitContext, space: HasWeights, pool: Pool, check: Callable[[], None]
) -> Latencies:
    """Latency of each network at its side; NaN where it was not timed.

    In turn, the network of the best prior and the quickest one are timed, until the time for latencies is over
    and one is within the limit, or `ENOUGH` are. Networks are not timed that are predicted to be too slow: by their layers where
    the device has a table of them, else by their multiply-accumulates.
    """
    problem, began_s = context.problem, time.monotonic()
    ends_s = began_s + context.rule.shares["scores"] * context.seconds
    # Networks of the same layers are timed once.
    canonical = problem.space.canonical(pool.rows)
    _, first, group = np.unique(canonical, axis=0, return_index=True, return_inverse=True)
    best = np.array([pool.prior[group == number].max() for number in range(len(first))])
    flops, networks = pool.flops[first], space.layers(pool.rows[first])
    until_s = (3 * began_s + ends_s) / 4
    work = _work(problem, canonical[first], networks, flops, best, until_s=until_s)
    measured = np.full(len(first), np.nan)
    kinds = np.full(len(first), Kind.missing, np.int8)
    skipped = np.zeros(len(first), bool)
    while True:
        is_one_within = (measured <= problem.limit_ms).any()
        hopeless = expected_ms(networks, work, measured) > _HOPELESS * problem.limit_ms
        if not is_one_within:
            hopeless[np.argmin(flops)] = False  # the message names the fastest
        is_open = np.isnan(measured) & ~skipped & ~hopeless
        within = np.sort(best[measured <= problem.limit_ms])
        if len(within) >= ENOUGH:
            is_open &= best > within[-ENOUGH]
        if (time.monotonic() >= ends_s and is_one_within) or not is_open.any():
            return Latencies(measured[group], kinds[group])
        tried = int((~np.isnan(measured)).sum())
        at = _next(is_open, tried, flops, best)
        try:
            answered = problem.oracle.answer(canonical[first[at]][None])
            measured[at], kinds[at] = answered.ms[0], answered.kind[0]
        except UnmeasuredError as error:
            skipped[at] = True
            context.say(f"{problem.space.text(pool.rows[first[at]])}: {error}")
        done = "timed" if isinstance(problem.oracle, LiveOracle) else "predicted"
        context.tell(f"networks {done}: {tried + 1:,} of {len(first):,}")
        check()


def _next(
    is_open: Bool[ndarray, "n"],
    tried: int,
    flops: Float64[ndarray, "n"],
    best: Float64[ndarray, "n"],
) -> int:
    """The network to time next: a small one first, which tells how fast the device is."""
    unknown = np.flatnonzero(is_open)
    if tried % 2:
        return int(unknown[np.argmax(best[unknown])])
    easy = unknown[np.argsort(flops[unknown], kind="stable")]
    return int(easy[0] if tried else easy[len(easy) // 4])


def _work(
    problem: SearchProblem,
    rows: Int64[ndarray, "n D"],
    networks: Int64[ndarray, "n"],
    flops: Float64[ndarray, "n"],
    best: Float64[ndarray, "n"],
    *,
    until_s: float,
) -> Float64[ndarray, "n"]:
    """Predicted milliseconds where the device has a table of layers, else multiply-accumulates."""
    model = layers_of_live(problem.oracle, problem.space, problem.task)
    work = flops.copy()
    if model is not None:
        by_prior = np.argsort(-best)
        work[by_prior] = layer_work(
            model.network_ms, rows[by_prior], networks[by_prior], work[by_prior], until_s
        )
    return np.asarray(work)


def layer_work(
    predict_ms: Callable[[Int64[ndarray, "D"]], float],
    architectures: Int64[ndarray, "n D"],
    networks: Int64[ndarray, "n"],
    flops: Float64[ndarray, "n"],
    until_s: float,
) -> Float64[ndarray, "n"]:
    """Milliseconds that a model predicts at one side of each network, at the others in proportion to `flops`.

    A prediction takes an export: what is left when the time is over is in proportion to all others.

    Args:
      predict_ms: by the device's layers.
      architectures: rows, those to predict first at the beginning.
      networks: the same number for rows that differ in their side alone.
      flops: multiply-accumulates.
      until_s: end of the time, by `time.monotonic`.
    """
    rates = np.full(len(networks), np.nan)
    for number in dict.fromkeys(networks.tolist()):
        if time.monotonic() >= until_s:
            break
        alike = np.flatnonzero(networks == number)
        middle = alike[len(alike) // 2]
        with suppress(UserError):  # as timing it will say, if it comes to that
            rates[alike] = predict_ms(architectures[middle]) / flops[middle]
    left = np.isnan(rates)
    rates[left] = 1.0 if left.all() else np.nanmedian(rates)
    return np.asarray(rates * flops)


def expected_ms(
    networks: Int64[ndarray, "n"], work: Float64[ndarray, "n"], measured_ms: Float64[ndarray, "n"]
) -> Float64[ndarray, "n"]:
    """Latencies in proportion to work, by what was measured of the same network, else of all.

    Work is predicted milliseconds, or multiply-accumulates; NaN as long as nothing was measured.
    """
    rate = measured_ms / work
    if np.isnan(rate).all():
        return np.full(len(networks), np.nan)
    rates = np.full(len(networks), np.nanmedian(rate))
    for number in np.unique(networks):
        same = networks == number
        if not np.isnan(rate[same]).all():
            rates[same] = np.nanmedian(rate[same])
    return np.asarray(rates * work)
