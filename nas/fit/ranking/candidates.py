"""The first two stages: uniform draws within every limit, and their scores, which order them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float64, Int8, Int64
from numpy import ndarray

from edgenas_core.types.architectures import Enumerable
from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from edgenas_core.types.task import Task
from latency.base import Latencies, UnmeasuredError
from latency.models.confidence import of_residuals
from latency.models.regression import fit, held_out_ms
from latency.sources.layers import layers_of_live
from nas.accuracy.base import Accuracies
from nas.spaces.base import SearchSpace
from nas.spaces.function import complete_rows
from nas.trials.problem import SearchProblem
from nas.trials.survey import with_margin
from nas.trials.trial import Trials

LEAST_SCORED = 20
"""Candidates that are scored however long it takes; among fewer there is little to choose."""

MEASURED, PREDICTED = 60, 1000
"""Most networks that a live device is asked for, and draws whose latency is known or predicted then."""

_FEWEST_FITTED = 6
"""Times that a model of the other latencies needs."""

_ENOUGH_TIMED = 20
"""Times beside which predictions by layers add nothing (`benchmarks/results/layers.md`)."""

BY_LAYERS, _LEAST_LIST_S, _MOST_LIST_S = 30, 15.0, 300.0
"""Networks whose layers are listed, an export each, and the fewest and most seconds for that."""

CORRECTING_WEIGHT = 0.2
"""Weight of all features in the correction of what layers say."""

_DOUBTFUL_ERROR = 0.3
"""A median error of predicted latencies above this is worth a warning."""

_COST_WEIGHT = 3.0
"""Weight of the logarithms of costs beside the other features, all standardised."""


@final
@dataclass(frozen=True)
class Candidates:
    """Distinct networks within every limit, in the order in which they were drawn."""

    architectures: Int64[ndarray, "n D"]
    latency_ms: Float64[ndarray, "n"]
    latency_kind: Int8[ndarray, "n"]
    flops: Float64[ndarray, "n"]
    prior: Float64[ndarray, "n"]  # by proxies, or the inherited accuracy; higher is better
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

    def rows(self, which: ndarray) -> Candidates:
        """Some of them."""
        return replace(self, **{name: getattr(self, name)[which] for name in _COLUMNS})

    def values(self) -> dict[str, Any]:
        """All fields as numbers and lists, for a journal."""
        columns = {name: getattr(self, name).tolist() for name in _COLUMNS}
        return {field.name: getattr(self, field.name) for field in fields(self)} | columns

    def judged(
        self,
        problem: SearchProblem,
        first: int,
        at: Int64[ndarray, "k"],
        accuracies: Accuracies,
        *,
        seconds: float,
        fidelity: int,
    ) -> Trials:
        """Records of some candidates with their accuracies, numbered from `first`."""
        latencies = Latencies(self.latency_ms[at], self.latency_kind[at])
        trials = problem.judge(first, self.architectures[at], latencies, accuracies, seconds)
        return replace(trials, fidelity=np.full(len(at), fidelity, np.int8))


_COLUMNS = ("architectures", "latency_ms", "latency_kind", "flops", "prior")


def draw(
    problem: SearchProblem,
    seed: int,
    draws: int,
    seconds: float,
    tell: Callable[[str], None] = lambda _line: None,
    *,
    networks: int = MEASURED,
    say: Callable[[str], None] = lambda _line: None,
    first: Int64[ndarray, "k D"] | None = None,
) -> Candidates:
    """Draw uniformly, and keep of equal networks the fastest one that is within every limit.

    An oracle that measures is asked for one draw after another until the seconds are over and two
    are within the limit, for twice as many draws at most and, where one is within, twice as long; a
    model that is fitted to its answers, or where these are few corrects what the board's layers say,
    predicts other draws, those whose costs are counted in half as many seconds.

    `first` are considered before the draws. What has no path from the images to the output is dropped.

    Raises:
      UserError: if no draw is within every limit.
    """
    began_s = time.monotonic()
    space, oracle = problem.space, problem.oracle
    rows = space.normal(space.sample(np.random.default_rng(seed), draws))
    if first is not None:
        rows = np.concatenate([space.normal(first), rows])
        draws = len(rows)
    latency_ms, kind = np.full(draws, np.nan), np.zeros(draws, np.int8)
    margin = problem.margin
    if oracle.instant:
        is_known = oracle.known(rows)
        answered = oracle.answer(rows[is_known])
        latency_ms[is_known], kind[is_known] = answered.ms, answered.kind
    else:
        draws, margin = _measure(
            problem, rows, latency_ms, kind, seconds=seconds, most=networks, tell=tell, say=say
        )
    rows = rows[:draws]
    fitted_ms = with_margin(latency_ms[:draws], kind[:draws], margin)
    met, costs = _met(problem, rows, Latencies(fitted_ms, kind[:draws]))
    distinct = _distinct(space.groups(rows), met, latency_ms[:draws])
    kept = distinct[met[distinct]]
    if not len(kept):
        if not oracle.instant:
            costs = problem.limits.costs(rows)  # which were counted before the timing
        raise UserError(_none_within(problem, draws, latency_ms, costs))
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


def _met(
    problem: SearchProblem, rows: Int64[ndarray, "n D"], latencies: Latencies
) -> tuple[Bool[ndarray, "n"], Float64[ndarray, "k limits"]]:
    """Which networks meet every limit, and the costs of those within the time limit, which take long to count."""
    met = _connected(problem, rows) & (problem.compared_ms(latencies) <= problem.limit_ms)
    costs = problem.limits.costs(rows[met])
    met[met] = problem.limits.met(costs)
    return met, costs


def _distinct(
    group: Int64[ndarray, "n"], met: Bool[ndarray, "n"], latency_ms: Float64[ndarray, "n"]
) -> Int64[ndarray, "k"]:
    """Positions of one network of each group: the fastest within the limits, since costs may differ."""
    best_first = np.lexsort((latency_ms, ~met, group))
    _, first = np.unique(group[best_first], return_index=True)
    return np.asarray(np.sort(best_first[first]))


def _none_within(
    problem: SearchProblem,
    draws: int,
    latency_ms: Float64[ndarray, "n"],
    costs: Float64[ndarray, "k limits"],
) -> str:
    """Message with the fastest latency and the smallest costs, where no draw is within the limits."""
    answers_ms = latency_ms[~np.isnan(latency_ms)]
    fastest = f"; the fastest takes {answers_ms.min():.3g} ms" if len(answers_ms) else ""
    label, least = problem.limits.label, problem.limits.least(costs)
    return (
        f"none of {draws:,} uniform draws is within {label} on {problem.oracle.device}"
        f"{fastest}{least}; raise {'that' if least else label}"
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
    *,
    seconds: float,
    most: int,
    tell: Callable[[str], None],
    say: Callable[[str], None],
) -> tuple[int, float]:
    """Ask for one network after another, until two are within the limit, and predict others.

    What is beyond another limit is not timed. Returns how many rows were considered, and the margin of
    what was predicted.
    """
    began_s, list_s = time.monotonic(), min(seconds / 4, _MOST_LIST_S)
    network_ms = _by_layers(problem, rows) if list_s >= _LEAST_LIST_S else None
    list_s = 0.0 if network_ms is None else list_s
    until_s = began_s + seconds - list_s
    asked = np.sort(np.unique(problem.space.canonical(rows), axis=0, return_index=True)[1])
    i = number = 0
    for i in map(int, asked):
        within = int((latency_ms <= problem.limit_ms).sum())
        if (~np.isnan(latency_ms)).sum() >= _ENOUGH_TIMED:  # time on instead of listing layers
            network_ms, until_s, list_s = None, until_s + list_s, 0.0
        late_s = time.monotonic() - until_s
        enough = number >= (_FEWEST_FITTED if late_s >= 0 else most)
        if enough and (within > 1 or number >= 2 * most or (within and late_s >= seconds)):
            break
        if not problem.limits.met(problem.limits.costs(rows[i])):
            if late_s >= seconds:
                break
            continue
        number += 1
        tell(f"networks with a latency: {number - 1:,}; within {problem.limits.label}: {within:,}")
        with suppress(UnmeasuredError):
            answered = problem.oracle.answer(rows[[i]])
            latency_ms[i], kind[i] = answered.ms[0], answered.kind[0]
    else:
        return len(rows), 0.0
    timed = np.flatnonzero(~np.isnan(latency_ms))
    if len(timed) < _FEWEST_FITTED:
        return i, 0.0
    considered = min(len(rows), max(i, PREDICTED))
    unknown = asked[(asked >= i) & (asked < considered)]
    counted = _counted(problem, rows[unknown], most, until_s + seconds / 2)
    if counted < len(unknown):
        unknown, considered = unknown[:counted], int(unknown[counted])
    latency_ms[unknown], margin = _fitted(
        problem,
        rows[unknown],
        rows[timed],
        np.log(latency_ms[timed]),
        network_ms=network_ms,
        until_s=time.monotonic() + list_s,
        say=say,
    )
    kind[unknown] = Kind.regression
    return considered, margin


def _counted(problem: SearchProblem, rows: Int64[ndarray, "n D"], least: int, ends_s: float) -> int:
    """Number of networks whose costs were counted in time, `least` at least; a space remembers them."""
    for count, row in enumerate(rows):
        if count >= least and time.monotonic() >= ends_s:
            return count
        problem.space.costs(row, problem.task)
        problem.limits.costs(row)
    return len(rows)


def _by_layers(
    problem: SearchProblem, rows: Int64[ndarray, "n D"]
) -> Callable[[Int64[ndarray, "D"]], float] | None:
    """Milliseconds by the layer model of the board, fitted; None if it has none, or lists no layers of the first rows."""
    layers = layers_of_live(problem.oracle, problem.space, problem.task)
    if layers is not None:
        for row in rows[:_FEWEST_FITTED]:
            with suppress(UserError):
                if layers.network_ms(row) > 0:
                    return layers.network_ms
    return None


def _fitted(
    problem: SearchProblem,
    unknown: Int64[ndarray, "n D"],
    timed: Int64[ndarray, "timed D"],
    log_ms: Float64[ndarray, "timed"],
    *,
    network_ms: Callable[[Int64[ndarray, "D"]], float] | None,
    until_s: float,
    say: Callable[[str], None],
) -> tuple[Float64[ndarray, "n"], float]:
    """Milliseconds of the unknown rows, and their margin."""
    rows, n = np.concatenate([unknown, timed]), len(unknown)
    features = log_features(problem.space, problem.task, rows)
    expected, by_layers = _expected_logs(network_ms, rows, features, until_s)
    if by_layers:
        features *= CORRECTING_WEIGHT
    beyond = log_ms - expected[n:]
    model = fit(features[n:], beyond)
    missed = beyond - held_out_ms(features[n:], beyond, np.arange(len(timed)))
    uncertainty = of_residuals(missed)
    if not isinstance(problem.space, Enumerable):
        uncertainty = uncertainty.without_slack()
    margin = uncertainty.margin(problem.confidence)
    error = float(np.median(np.abs(np.expm1(-missed))))
    doubt = ", not to be trusted: time more of them by networks= or hours="
    prior = f" and predictions of {by_layers:,} by their layers" if by_layers else ""
    say(
        f"predicted latencies, from those of {len(timed):,} networks{prior}: median error {error:.1%} on those "
        f"left out{doubt if error > _DOUBTFUL_ERROR else ''}; those of at most "
        f"{problem.limit_ms * np.exp(-margin):.3g} ms are considered"
    )
    return np.exp((expected + model.predict_ms(features))[:n]), margin


def _expected_logs(
    network_ms: Callable[[Int64[ndarray, "D"]], float] | None,
    rows: Int64[ndarray, "n D"],
    features: Float64[ndarray, "n features"],
    until_s: float,
) -> tuple[Float64[ndarray, "n"], int]:
    """Logarithms of latencies by a regression on predictions by layers, and how many of these there are.

    A prediction takes an export; zeros where there is time for too few.
    """
    predicted: dict[int, float] = {}
    for number, row in enumerate(rows[:BY_LAYERS]):
        if network_ms is None or time.monotonic() >= until_s:
            break
        with suppress(UserError):  # one that cannot be exported
            if (ms := network_ms(row)) > 0:  # 0 where no layers are listed
                predicted[number] = ms
    if len(predicted) < _FEWEST_FITTED:
        return np.zeros(len(rows)), 0
    model = fit(features[[*predicted]], np.log([*predicted.values()]))
    return model.predict_ms(features), len(predicted)


def log_features(
    space: SearchSpace, task: Task, rows: Int64[ndarray, "n D"]
) -> Float64[ndarray, "n features"]:
    """What the logarithm of a latency depends on: those of the costs, and the space's features."""
    costs = space.costs(rows, task)
    logs = np.log1p(np.stack([costs["parameters"], costs["flops"]], axis=-1))
    features: Float64[ndarray, "n features"] = np.concatenate([logs, space.features(rows)], axis=-1)
    spread = features.std(axis=0)
    features = (features - features.mean(axis=0)) / np.where(spread > 0, spread, 1)
    features[:, : logs.shape[1]] *= _COST_WEIGHT
    return features


def scored(
    candidates: Candidates,
    each: Callable[[Int64[ndarray, "n D"]], Iterable[Sequence[float]]],
    aggregate: Callable[[Float64[ndarray, "m c"]], Float64[ndarray, "m"]],
    seconds: float,
    *,
    check: Callable[[], None] = lambda: None,
    tell: Callable[[str], None] = lambda _line: None,
    least: int = LEAST_SCORED,
    first: Int64[ndarray, "k D"] | None = None,
) -> Candidates:
    """Score candidates, those of most FLOPs first, until the seconds are over; drop the others.

    Args:
      candidates: to be scored.
      each: yields the scores of architectures, in their order.
      aggregate: makes one number of a candidate's scores; higher is better.
      seconds: for all from the first score on, since processes may have to start.
      check: called after each; it raises to leave the search.
      tell: called after each with the number scored.
      least: candidates that are scored however long it takes.
      first: architectures that are scored before others, if they are candidates.
    """
    began_s = time.monotonic()
    others = np.ones(len(candidates), bool)
    for row in () if first is None else first:
        others &= (candidates.architectures != row).any(-1)
    ordered = candidates.rows(np.lexsort((-candidates.flops, others)))
    scores: list[Sequence[float]] = []
    first_s = math.inf
    for row in each(ordered.architectures):
        scores.append(row)
        first_s = min(first_s, time.monotonic())
        check()
        tell(f"scored {len(scores):,} of {len(ordered):,} networks")
        if len(scores) >= least and time.monotonic() - first_s >= seconds:
            break
    kept = ordered.rows(np.arange(len(scores)))
    prior = aggregate(np.array(scores, np.float64))
    return replace(kept, prior=prior, score_s=time.monotonic() - began_s)


def candidates_of(values: Mapping[str, Any], space: SearchSpace) -> Candidates:
    """The candidates of `Candidates.values`, for a search of this space.

    Raises:
      ValueError: if they are not candidates.
    """
    typed: dict[str, Any] = {
        name: np.array(values[name], dtype)
        for name, dtype in zip(_COLUMNS, (np.int64, float, np.int8, float, float), strict=True)
    }
    typed["architectures"] = complete_rows(typed["architectures"], space)
    typed |= {name: int(values[name]) for name in ("drawn", "distinct", "within")}
    typed |= {name: float(values[name]) for name in ("draw_s", "score_s")}
    candidates = Candidates(**typed)
    _require_sound(candidates, space)
    return candidates


def _require_sound(candidates: Candidates, space: SearchSpace) -> None:
    rows, n = candidates.architectures, len(candidates)
    if rows.shape != (n, len(space.num_choices)) or not n or not space.valid(rows).all():
        raise ValueError("a candidate is no architecture; begin the search anew")
    for name in _COLUMNS[1:]:
        column = getattr(candidates, name)
        if column.shape != (n,) or np.isnan(column).any():
            raise ValueError(f"the candidates lack a {name} each")
    counts = (1, candidates.within, candidates.distinct, candidates.drawn)
    if sorted(counts) != list(counts) or not 0 <= candidates.seconds < math.inf:
        raise ValueError("the counts or times of the candidates cannot be")
