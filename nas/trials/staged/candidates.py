"""The first two stages: uniform draws within every limit, and their scores by proxies."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float64, Int8, Int64
from numpy import ndarray

from common.files.atomic_file import replacing
from common.files.safe_arrays import load_arrays
from common.types.errors import UserError
from latency.base import Latencies, UnmeasuredError
from nas.spaces.base import SearchSpace
from nas.trials.problem import SearchProblem

LEAST_SCORED = 100
"""Candidates that are scored however long it takes; among fewer there is little to choose."""


@final
@dataclass(frozen=True)
class Candidates:
    """Distinct networks within every limit, in the order in which they were drawn."""

    architectures: Int64[ndarray, "n D"]
    latency_ms: Float64[ndarray, "n"]
    latency_kind: Int8[ndarray, "n"]
    flops: Float64[ndarray, "n"]
    prior: Float64[ndarray, "n"]  # by proxies; higher is better
    drawn: int  # draws that were asked for their latency
    distinct: int  # different networks among them
    within: int  # of those, within every limit; more than n where the time for proxies ended
    draw_s: float
    score_s: float

    def __len__(self) -> int:
        return len(self.architectures)

    @property
    def seconds(self) -> float:
        """Duration of both stages."""
        return self.draw_s + self.score_s

    def in_random_order(self, seed: int) -> Candidates:
        """The same, preferred by chance."""
        prior = np.random.default_rng([seed, 1]).permutation(len(self)).astype(np.float64)
        return replace(self, prior=prior)

    def rows(self, which: ndarray) -> Candidates:
        """Some of them."""
        columns = ("architectures", "latency_ms", "latency_kind", "flops", "prior")
        return replace(self, **{name: getattr(self, name)[which] for name in columns})


def draw(problem: SearchProblem, seed: int, draws: int, seconds: float) -> Candidates:
    """Draw uniformly, and keep of equal networks the fastest one that is within every limit.

    An oracle that measures is asked for one draw after another until the seconds are over and two
    are within the limit.

    What has no path from the images to the output is dropped as well.

    Raises:
      UserError: if no draw is within every limit.
    """
    began_s = time.monotonic()
    space, oracle = problem.space, problem.oracle
    rows = space.normal(space.sample(np.random.default_rng(seed), draws))
    latency_ms, kind = np.full(draws, np.nan), np.zeros(draws, np.int8)
    if oracle.instant:
        known = oracle.known(rows)
        answered = oracle.answer(rows[known])
        latency_ms[known], kind[known] = answered.ms, answered.kind
    else:
        draws = _measure(problem, rows, latency_ms, kind, began_s + seconds)
    rows = rows[:draws]
    group = space.groups(rows)
    met = problem.limits.met(problem.limits.costs(rows)) & _connected(problem, rows)
    best_first = np.lexsort((latency_ms[:draws], ~met, group))  # equal networks may differ in costs
    _, first = np.unique(group[best_first], return_index=True)
    distinct = np.sort(best_first[first])
    compared_ms = problem.compared_ms(Latencies(latency_ms, kind))
    kept = distinct[(compared_ms[distinct] <= problem.limit_ms) & met[distinct]]
    if not len(kept):
        fastest = f"; the fastest took {np.nanmin(latency_ms):.3g} ms" if draws else ""
        raise UserError(
            f"none of {draws:,} uniform draws is within {problem.limits.label} on {oracle.device}"
            f"{fastest}; raise {problem.limits.label}"
        )
    return Candidates(
        rows[kept],
        latency_ms[kept],
        kind[kept],
        space.costs(rows[kept], problem.task)["flops"],
        np.zeros(len(kept)),
        draws,
        len(distinct),
        len(kept),
        time.monotonic() - began_s,
        0.0,
    )


def _connected(problem: SearchProblem, rows: Int64[ndarray, "n D"]) -> Bool[ndarray, "n"]:
    """False where the output does not depend on the images, as far as the space's features know."""
    names = problem.space.feature_names
    if "connected" not in names:
        return np.ones(len(rows), bool)
    return np.asarray(problem.space.features(rows)[..., names.index("connected")] > 0)


def _measure(
    problem: SearchProblem,
    rows: Int64[ndarray, "n D"],
    latency_ms: Float64[ndarray, "n"],
    kind: Int8[ndarray, "n"],
    until_s: float,
) -> int:
    """Ask for one row after another, for two within the limit at least; returns how many were asked for."""
    for i, row in enumerate(rows):
        if time.monotonic() >= until_s and (latency_ms[:i] <= problem.limit_ms).sum() > 1:
            return i
        try:
            answered = problem.oracle.answer(row[None])
        except UnmeasuredError:
            continue
        latency_ms[i], kind[i] = answered.ms[0], answered.kind[0]
    return len(rows)


def scored(
    candidates: Candidates,
    each: Callable[[Int64[ndarray, "n D"]], Iterable[Sequence[float]]],
    aggregate: Callable[[Float64[ndarray, "m c"]], Float64[ndarray, "m"]],
    seconds: float,
    check: Callable[[], None] = lambda: None,
) -> Candidates:
    """Score candidates, those of most FLOPs first, until the seconds are over; drop the others.

    Args:
      candidates: to be scored.
      each: yields the scores of architectures, in their order.
      aggregate: makes one number of a candidate's scores; higher is better.
      seconds: for all from the first score on, since processes may have to start; `LEAST_SCORED`
        candidates are scored at least.
      check: called after each; it raises to leave the search.
    """
    began_s = time.monotonic()
    ordered = candidates.rows(np.argsort(-candidates.flops, kind="stable"))
    found: list[Sequence[float]] = []
    first_s = math.inf
    for one in each(ordered.architectures):
        found.append(one)
        first_s = min(first_s, time.monotonic())
        check()
        if len(found) >= LEAST_SCORED and time.monotonic() - first_s >= seconds:
            break
    kept = ordered.rows(np.arange(len(found)))
    prior = aggregate(np.array(found, np.float64))
    return replace(kept, prior=prior, score_s=time.monotonic() - began_s)


def save_candidates(path: Path, candidates: Candidates) -> None:
    """Write them as arrays, atomically."""
    with replacing(path) as file:
        np.savez(file, **{one.name: getattr(candidates, one.name) for one in fields(Candidates)})


def load_candidates(path: Path, space: SearchSpace) -> Candidates:
    """Read what `save_candidates` wrote for a search of this space.

    Raises:
      UserError: if the file is corrupt.
    """
    try:
        arrays: dict[str, Any] = {**load_arrays(path)}
        found = Candidates(
            **{name: one.item() if one.ndim == 0 else one for name, one in arrays.items()}
        )
        _require_sound(found, space)
    except (OSError, ValueError, TypeError) as error:
        raise UserError(
            f"{path} does not hold the candidates of a staged search ({error}); remove it, and "
            f"resume draws and scores them again"
        ) from error
    return found


def _require_sound(found: Candidates, space: SearchSpace) -> None:
    rows, n = found.architectures, len(found)
    columns = (found.latency_ms, found.latency_kind, found.flops, found.prior)
    if rows.shape != (n, len(space.num_choices)) or not n or not space.valid(rows).all():
        raise ValueError("it holds a row that is no architecture")
    if any(column.shape != (n,) or np.isnan(column).any() for column in columns):
        raise ValueError("a column is not a number of each")
    if not (0 <= found.seconds < math.inf and 0 < found.within <= found.distinct <= found.drawn):
        raise ValueError("its counts or times cannot be")
