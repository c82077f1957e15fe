"""Learn again what a journal holds: how an interrupted search comes back to where it was.

The controller proposes as it did before, and takes the answers from the journal instead of asking
again. So nothing that was answered is lost or paid twice, and a journal of other settings is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from controller.base import Controller
from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import is_predicted
from latency.base import Latencies
from nas.runs.journal import Asked, Event, JournalNote
from nas.trials.problem import RewardedProblem
from nas.trials.statistics import ChoiceHistory
from nas.trials.trial import State, Trials

_ROUNDING = 1e-5
"""Relative difference of a prediction on another processor, whose float32 arithmetic rounds otherwise."""


@final
@dataclass(frozen=True)
class Replayed:
    """State of an interrupted search after its journal was replayed."""

    asked: int  # trials
    running: dict[int, Int64[ndarray, "D"]]  # by number: asked, and not answered
    trials: Trials | None  # answered, in order of the answers; None if there are none
    now_s: float = 0.0  # that the evaluations took, beside each other as they ran
    begun_s: Mapping[int, float] = field(default_factory=dict)  # by number of each trial


NOTHING = Replayed(0, {}, None)
"""State before the first trial."""


def replay(
    controller: Controller,
    problem: RewardedProblem,
    events: Sequence[Event],
    history: ChoiceHistory,
) -> Replayed:
    """Advance a controller and its history over a journal.

    Raises:
      UserError: if the controller does not propose what the journal holds.
    """
    running: dict[int, Int64[ndarray, "D"]] = {}
    answered: list[Trials] = []
    asked, now_s = 0, 0.0
    begun_s: dict[int, float] = {}
    for event in events:
        if isinstance(event, JournalNote):
            continue
        if isinstance(event, Asked):
            _ask_again(controller, event)
            history(event.first, event.architectures)
            rows = event.architectures[0]
            running |= {event.first + i: row for i, row in enumerate(rows)}
            begun_s |= dict.fromkeys(range(event.first, event.first + len(rows)), now_s)
            asked = max(asked, event.first + len(rows))
        else:
            answered.append(event)
            for number, took_s in zip(event.number.tolist(), event.seconds.tolist(), strict=True):
                running.pop(number, None)
                now_s = max(now_s, begun_s.get(number, now_s) + took_s)
            controller.learn(event.as_batch(), problem.score)
    trials = Trials.joined(answered) if answered else None
    return Replayed(asked, running, trials, now_s, begun_s)


def _ask_again(controller: Controller, event: Asked) -> None:
    proposed = controller.sample(event.architectures.shape[1])
    if not np.array_equal(proposed, event.architectures):
        raise UserError(
            f"trial {event.first + 1:,} of the run is not what its controller proposes; it was made "
            f"with other settings or another version"
        )


def complete(events: Sequence[Event]) -> Sequence[Event]:
    """The events up to the last answer: a batch that was cut off is asked again."""
    last = max((i for i, event in enumerate(events) if isinstance(event, Trials)), default=-1)
    return events[: last + 1]


def check_answers(recorded: Trials, problem: RewardedProblem) -> None:
    """Refuse a journal whose numbers are not those of the sources, where asking is free.

    Table entries have to be equal, predictions up to the rounding of another processor.

    Raises:
      UserError: if a recorded accuracy, latency or reward differs.
    """
    done = recorded.rows(recorded.state == State.done)
    if problem.accuracy.instant:
        fraction = problem.accuracy.answer(done.architectures).fraction
        near = np.where(is_predicted(done.accuracy_kind), _ROUNDING, 0.0)
        source = problem.accuracy.description
        _require_same("accuracy", done.accuracy, fraction, near, done, source)
    if problem.oracle.instant:
        ms = problem.oracle.answer(done.architectures).ms
        near = np.where(is_predicted(done.latency_kind), _ROUNDING, 0.0)
        _require_same("latency", done.latency_ms, ms, near, done, problem.oracle.description)
    costs = problem.limits.costs(done.architectures)
    compared_ms = problem.compared_ms(Latencies(done.latency_ms, done.latency_kind))
    rewards = problem.reward(done.accuracy, compared_ms, costs / problem.limits.bounds)
    near = np.where(is_predicted(done.latency_kind), _ROUNDING, 1e-9)
    _require_same("reward", done.rewards, rewards, near, done, "the limits and their costs")


def _require_same(  # noqa: PLR0917 - called above alone
    name: str,
    recorded: Float64[ndarray, "n"],
    now: Float64[ndarray, "n"],
    tolerance: Float64[ndarray, "n"],  # relative
    trials: Trials,
    source: str,
) -> None:
    differs = ~np.isclose(now, recorded, rtol=tolerance, atol=tolerance * 1e-3)
    if differs.any():
        row = int(np.argmax(differs))
        raise UserError(
            f"trial {trials.number[row] + 1:,} of the run has {name} {recorded[row]:g}, but the "
            f"source now says {now[row]:g} ({source}); resume it with the data it was begun with"
        )
