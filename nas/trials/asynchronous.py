"""The asynchronous search loop: trials are submitted, and learned from in order of completion."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Protocol, final, runtime_checkable

import numpy as np
from jaxtyping import Int64
from numpy import ndarray

from controller.base import Controller
from edgenas_core.types.kind import Kind
from latency.base import Latencies, UnmeasuredError
from nas.accuracy.base import Accuracies
from nas.accuracy.slow import Evaluation, SlowAccuracySource
from nas.trials.loop import OnAsked
from nas.trials.problem import RewardedProblem, SearchProblem
from nas.trials.trial import State, Trials

LOST_IN_A_ROW = 3
"""Trials in a row that lose the board of the latencies, after which a search ends."""

_POLL_S = 0.2


@final
@dataclass(frozen=True)
class Proposal:
    """A trial to begin: an architecture, how thoroughly to evaluate it, and with which seed."""

    number: int
    architecture: Int64[ndarray, "D"]
    seed: int
    fidelity: int = 0  # position among the source's fidelities
    latencies: Latencies | None = None  # (1, 1); None: to be asked for


@runtime_checkable
class Proposer(Protocol):
    """Decides what an asynchronous search evaluates next."""

    def propose(self, elapsed_s: float) -> Proposal | None:
        """The next trial after so many seconds; None if there is none before another has ended.

        The search ends where there is none and nothing is being evaluated.
        """

    def learn(self, trial: Trials) -> None:
        """Learn from a trial that has ended, done or failed: (1, 1) columns."""


@final
@dataclass
class ControllerProposer:
    """Proposes what a controller of one replica samples, to the end of a budget.

    Of a search that goes on, what was running when it ended is proposed first, under its numbers.
    """

    controller: Controller
    problem: RewardedProblem
    budget: int
    seed: int = 0  # of the first trial; later ones count on
    asked: int = 0  # trials, by an earlier part of the same search
    running: dict[int, Int64[ndarray, "D"]] = field(default_factory=dict)  # of those, by number
    on_asked: OnAsked = lambda _first, _architectures: None

    def propose(self, elapsed_s: float) -> Proposal | None:
        """The controller's next sample."""
        del elapsed_s  # the budget counts trials
        if self.running:
            number = min(self.running)
            return Proposal(number, self.running.pop(number), self.seed + number)
        if self.asked >= self.budget:
            return None
        number, architectures = self.asked, self.controller.sample(1)
        self.asked += 1
        self.on_asked(number, architectures)
        return Proposal(number, architectures[0, 0], self.seed + number)

    def learn(self, trial: Trials) -> None:
        """Hand the trial to the controller."""
        self.controller.learn(trial, self.problem.score)


@final
@dataclass(frozen=True)
class Asynchronous:
    """A search of one replica with at most `parallel` evaluations at once.

    The latency, which is cheap, is asked first: a trial that has none fails without being evaluated.
    A failed trial is recorded with its error, and the search goes on; where `LOST_IN_A_ROW` trials
    lose the board of the latencies, it ends with the evaluations that still run.
    """

    problem: SearchProblem
    source: SlowAccuracySource
    parallel: int
    check: Callable[[], None] = lambda: None  # called while waiting; raises to leave the search
    on_evaluated: Callable[[Trials, Evaluation], None] = lambda _trial, _evaluation: None

    def search(self, proposer: Proposer, *, elapsed_s: float = 0.0) -> Iterator[Trials]:
        """Yield each trial when it has ended, as `(1, 1)` columns; `first` is its number.

        Args:
          proposer: decides what is evaluated, and learns from it.
          elapsed_s: duration of an earlier part of the same search.

        Raises:
          ConnectionError: if the board of the latencies is lost.
        """
        began_s = self.source.now_s() - elapsed_s
        lost: list[ConnectionError] = []
        at_work: dict[Future[Evaluation], tuple[Trials, float]] = {}  # and when it began
        try:
            while True:
                proposal = None
                if len(at_work) < self.parallel and len(lost) < LOST_IN_A_ROW:
                    proposal = proposer.propose(self.source.now_s() - began_s)
                if proposal is not None:
                    trial = self._with_latency(proposal, lost)
                    if trial.state[0, 0] == State.asked:
                        at_work[self._submitted(proposal)] = trial, self.source.now_s()
                        continue
                elif at_work:
                    future = self._next_ended()
                    trial, submitted_s = at_work.pop(future)
                    trial = self._answered(trial, future, self.source.now_s() - submitted_s)
                elif len(lost) >= LOST_IN_A_ROW:
                    raise lost[-1]
                else:
                    return
                proposer.learn(trial)
                yield trial
        finally:
            self.source.close()

    def _submitted(self, proposal: Proposal) -> Future[Evaluation]:
        return self.source.submit(
            proposal.number, proposal.architecture, proposal.fidelity, proposal.seed
        )

    def _next_ended(self) -> Future[Evaluation]:
        """The next evaluation to end; `check` is called while it runs."""
        future = None
        while future is None:
            self.check()
            future = self.source.wait(_POLL_S)
        if future.exception() is not None:
            self.check()  # what leaves the search may also have ended the evaluation
        return future

    def _with_latency(self, proposal: Proposal, lost: list[ConnectionError]) -> Trials:
        """The trial before its evaluation; `lost` holds the errors in a row of a board that was lost."""
        architectures, error = proposal.architecture[None, None], None
        latencies = proposal.latencies
        if latencies is None:
            try:
                latencies = self.problem.oracle.answer(architectures.copy())
                lost.clear()
            except (UnmeasuredError, ConnectionError) as raised:
                error = raised
                if isinstance(error, ConnectionError):
                    lost.append(error)
                latencies = Latencies(np.full((1, 1), np.nan), _column(Kind.missing))
        nothing = Accuracies(np.full((1, 1), np.nan), _column(Kind.missing))
        trial = replace(
            self.problem.judge(proposal.number, architectures, latencies, nothing, 0.0),
            state=_column(State.asked),
            rewards=np.full((1, 1), np.nan),
            fidelity=_column(proposal.fidelity),
        )
        return trial if error is None else _failed(trial, error, 0.0)

    def _answered(self, trial: Trials, future: Future[Evaluation], took_s: float) -> Trials:
        """The trial with its accuracy, or failed; either way with the seconds that it took."""
        error = future.exception()
        if error is not None:
            return _failed(trial, error, took_s)
        evaluation = future.result()
        if not 0 <= evaluation.seconds < math.inf:  # NaN included
            evaluation = replace(evaluation, seconds=took_s)
        if not math.isfinite(evaluation.accuracy):  # a training that diverged
            error = ValueError(f"the accuracy is {evaluation.accuracy}")
            return _failed(trial, error, evaluation.seconds)
        done = self.problem.judge(
            trial.first,
            trial.architectures,
            Latencies(trial.latency_ms, trial.latency_kind),
            Accuracies(np.full((1, 1), evaluation.accuracy), _column(evaluation.kind)),
            evaluation.seconds,
        )
        done = replace(done, fidelity=trial.fidelity)
        self.on_evaluated(done, evaluation)
        return done


def _failed(trial: Trials, error: BaseException, seconds: float) -> Trials:
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return replace(
        trial,
        state=_column(State.failed),
        error=np.full((1, 1), text, object),
        seconds=np.full((1, 1), seconds),
    )


def _column(value: int) -> ndarray:
    return np.full((1, 1), value, np.int8)
