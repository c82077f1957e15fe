"""Where the winner is decided: the networks that may be returned, and the one that is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from latency.base import Latencies, LiveOracle, UnmeasuredError
from nas.fit.ranking.candidates import Candidates
from nas.fit.ranking.stages import Result, StageJob
from nas.fit.run.context import FitContext
from nas.fit.run.winner import Winner
from nas.fit.training.trained_folder import Training
from nas.trials.problem import SearchProblem

BEYOND_CHANCE = 2.0
"""Standard errors above which a difference of accuracies on validation images is not due to chance."""


@final
@dataclass(frozen=True)
class Entry:
    """A network that may be returned."""

    candidate: int  # position among the candidates
    accuracy: float  # on validation images: expected of its training, or measured
    plan: Callable[[], Winner]  # its training, as the time left allows; the latency is missing
    words: str = ""  # why it is returned instead of a winner that was trained
    training: Training | None = None  # if it was trained in full before


def choose(
    context: FitContext,
    candidates: Candidates,
    entries: Sequence[Entry],
    limit_ms: float | None = None,
) -> tuple[Entry, Winner]:
    """The first entry that the device confirms to be within T, and the plan of its training.

    Args:
      context: the fit.
      candidates: latencies that entries were chosen by.
      entries: the preferred first.
      limit_ms: another T; None: that of the fit.

    Raises:
      UserError: if there is none, or none is within T when timed again.
    """
    if not entries and limit_ms is not None:
        raise UserError("no network that was ranked is within it")
    if not entries:
        raise UserError("every training failed; the journal in the run's folder holds the errors")
    order = [entry.candidate for entry in entries]
    candidate, ms, kind = confirmed(context, candidates, order, limit_ms)
    chosen = entries[order.index(candidate)]
    return chosen, replace(chosen.plan(), latency_ms=ms, latency_kind=kind)


def confirmed(
    context: FitContext,
    candidates: Candidates,
    order: Sequence[int],
    limit_ms: float | None = None,
) -> tuple[int, float, int]:
    """The first candidate that a live device times within T again, its latency and the kind.

    Timed again are the first, more of those that were measured, and the fastest of all. Where every second time
    was taken while the machine was busy and exceeds T, the first times stand. Of a source
    that is not live, it is the first whose own answer is within T, not a regression from others' answers.

    Raises:
      UserError: if none of them is within T.
    """
    problem = context.problem
    oracle, rows = problem.oracle, candidates.architectures
    first_ms, first_kind = candidates.latency_ms.tolist(), candidates.latency_kind.tolist()
    if not isinstance(oracle, LiveOracle):
        return _first_answered(context.problem, candidates, order, limit_ms)
    if not oracle.confirm_top:
        return order[0], first_ms[order[0]], first_kind[order[0]]
    top = oracle.confirm_top
    is_predicted = Latencies(candidates.latency_ms, candidates.latency_kind).is_predicted
    measured = [at for at in order[top:] if not is_predicted[at]]
    fastest = sorted(order, key=first_ms.__getitem__)[:top]  # for a board that is slower now
    within: list[tuple[int, float, int]] = []  # timed while the machine was busy
    times, kinds = list[float](), list[Kind]()
    for candidate in dict.fromkeys((*order[:top], *measured[:top], *fastest)):
        again = oracle.measure_again(rows[[candidate]])
        ms, kind = float(again.ms[0]), Kind(int(again.kind[0]))
        times.append(ms)
        kinds.append(kind)
        before = "predicted" if is_predicted[candidate] else "at first"
        context.say(
            f"timed again: {problem.space.text(rows[candidate])} {ms:.3f} ms, {kind.words}; "
            f"{before} {first_ms[candidate]:.3f} ms"
        )
        if ms > (problem.limit_ms if limit_ms is None else limit_ms):
            continue
        if kind is not Kind.disturbed:
            return candidate, ms, kind
        within.append((candidate, ms, int(kind)))
    if within:
        return within[0]
    if all(kind is Kind.disturbed for kind in kinds):
        context.say(
            f"all second times exceed T, but were taken while the machine was busy, so that the first times stand; "
            f"measure the winner again on an idle machine: the fastest took {min(times):.3g} ms"
        )
        return order[0], first_ms[order[0]], first_kind[order[0]]
    why = "check for other load on the device, and whether its clock is fixed"
    if all(is_predicted[at] for at in order[:top]):
        why = "the predictions were too low; time more with networks="
    raise UserError(
        f"{len(times)} networks were measured again, the best and the fastest, and all exceed T: the fastest takes "
        f"{min(times):.3g} ms; {why}"
    )


def _first_answered(
    problem: SearchProblem, candidates: Candidates, order: Sequence[int], limit_ms: float | None
) -> tuple[int, float, int]:
    """The first candidate within T by the answer of a source that is not live.

    Raises:
      UserError: if none of them is within T.
    """
    rows, limit_ms = candidates.architectures, problem.limit_ms if limit_ms is None else limit_ms
    for candidate in order:
        ms, kind = candidates.latency_ms[candidate], candidates.latency_kind[candidate]
        if kind != Kind.regression:
            return candidate, float(ms), int(kind)
        try:
            answer = problem.oracle.answer(rows[[candidate]])
        except UnmeasuredError:  # the device does not run one of its operations
            continue
        if problem.compared_ms(answer)[0] <= limit_ms:
            return candidate, float(answer.ms[0]), int(answer.kind[0])
    raise UserError(
        f"none of {len(order)} ranked networks is within T by {problem.oracle.device}'s own model: their latencies "
        f"were predicted from others'; time more with networks="
    )


def better(entries: Iterable[Entry], accuracy: float) -> list[Entry]:
    """Entries above an accuracy, the most accurate first."""
    above = [entry for entry in entries if entry.accuracy > accuracy]
    return sorted(above, key=lambda entry: -entry.accuracy)


def default_first(
    order: list[int], default: int, results: Mapping[StageJob, Result], judges: int
) -> list[int]:
    """The default candidate before the others, unless the first is better beyond chance.

    Both are compared after the longest training of the same length; without one the default is first.

    Args:
      order: candidates, the best first.
      default: one of them or, where time was short, a candidate that was not trained.
      results: of the trainings.
      judges: number of validation images.
    """
    lengths = [job.fidelity for job in results if job.candidate == default]
    if any(math.isnan(results[StageJob(default, at)].accuracy) for at in lengths):
        return order
    shared = [at for at in lengths if StageJob(order[0], at) in results]
    if shared:
        best, usual = (results[StageJob(at, max(shared))].accuracy for at in (order[0], default))
        if best - usual > beyond_chance(best, usual, judges):
            return order
    return [default, *(at for at in order if at != default)]


def beyond_chance(best: float, usual: float, judges: int) -> float:
    """Difference of two accuracies on this many images that chance hardly reaches.

    It is `BEYOND_CHANCE * sqrt((p (1 - p) + q (1 - q)) / judges)`, for accuracies p and q.
    """
    return BEYOND_CHANCE * math.sqrt((best * (1 - best) + usual * (1 - usual)) / judges)
