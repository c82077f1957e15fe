"""The asynchronous search loop: trials are submitted, and learned from in order of completion."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from jaxtyping import Int64
from numpy import ndarray

from common.types.kind import Kind
from controller.base import Controller
from latency.base import Latencies, UnmeasuredError
from nas.accuracy.base import Accuracies
from nas.accuracy.slow import Evaluation, SlowAccuracySource
from nas.trials.loop import OnAsked
from nas.trials.problem import SearchProblem
from nas.trials.trial import State, Trials

LOST_IN_A_ROW = 3
"""Trials in a row that lose the board of the latencies, after which a search ends."""

_POLL_S = 0.2


def next_ended(source: SlowAccuracySource, check: Callable[[], None]) -> Future[Evaluation]:
    """The next evaluation to end; `check` is called while it runs, and raises to leave the search."""
    future = None
    while future is None:
        check()
        future = source.wait(_POLL_S)
    if future.exception() is not None:
        check()  # what leaves the search may also have ended the evaluation
    return future


@final
@dataclass(frozen=True)
class Budget:
    """Limits of a search; the first that is reached ends it, after the evaluations that still run."""

    trials: int
    seconds: float = np.inf  # on the clock of the accuracy source
    cost: float = np.inf  # seconds that all evaluations took together


@final
@dataclass(frozen=True)
class Asynchronous:
    """A search of one replica with at most `parallel` evaluations at once.

    The latency, which is cheap, is asked first: a trial that has none fails without being evaluated,
    and one that takes longer than `prune_beyond` times T is pruned. A failed trial is recorded with
    its error, and the search goes on; where `LOST_IN_A_ROW` trials lose the board of the latencies,
    it ends with the evaluations that still run.
    """

    problem: SearchProblem
    source: SlowAccuracySource
    parallel: int
    budget: Budget
    seed: int = 0
    fidelity: int = -1  # position among the source's fidelities; -1 is the most thorough
    prune_beyond: float = np.inf
    on_asked: OnAsked = lambda _first, _architectures: None
    check: Callable[[], None] = lambda: None  # called while waiting; raises to leave the search

    def __post_init__(self) -> None:
        if not -1 <= self.fidelity < len(self.source.fidelities):
            raise ValueError(
                f"there is no fidelity {self.fidelity} among {len(self.source.fidelities)}"
            )

    def search(
        self,
        controller: Controller,
        *,
        asked: int = 0,
        running: Mapping[int, Int64[ndarray, "D"]] | None = None,
        cost: float = 0.0,
        elapsed_s: float = 0.0,
    ) -> Iterator[Trials]:
        """Yield each trial when it has ended, as `(1, 1)` columns; `first` is its number.

        Args:
          controller: a search of one replica.
          asked: trials that were asked before, by an earlier part of the same search.
          running: those of them that have not ended, by number; they are submitted again.
          cost: seconds that the earlier part's evaluations took.
          elapsed_s: duration of the earlier part.

        Raises:
          ConnectionError: if the board of the latencies is lost.
        """
        began_s = self.source.now_s() - elapsed_s
        lost: list[ConnectionError] = []
        waiting = dict(running or {})
        at_work: dict[Future[Evaluation], tuple[Trials, float]] = {}  # and when it began
        try:
            while True:
                spent = cost >= self.budget.cost
                late = self.source.now_s() - began_s >= self.budget.seconds
                may_ask = asked < self.budget.trials and not (spent or late)
                gone = len(lost) >= LOST_IN_A_ROW
                if len(at_work) < self.parallel and (waiting or may_ask) and not gone:
                    if waiting:
                        number = min(waiting)
                        architectures = waiting.pop(number)[None, None]
                    else:
                        number, architectures = asked, controller.sample(1)
                        asked += 1
                        self.on_asked(number, architectures)
                    trial = self._with_latency(number, architectures, lost)
                    if trial.state[0, 0] == State.asked:
                        at_work[self._submit(trial)] = trial, self.source.now_s()
                    else:
                        yield self._learned(controller, trial)
                elif at_work:
                    future = next_ended(self.source, self.check)
                    trial, submitted_s = at_work.pop(future)
                    trial = self._ended(trial, future, self.source.now_s() - submitted_s)
                    cost += float(trial.seconds[0, 0])
                    yield self._learned(controller, trial)
                elif gone:
                    raise lost[-1]
                else:
                    return
        finally:
            self.source.close()

    def _submit(self, trial: Trials) -> Future[Evaluation]:
        seed = self.seed + trial.first
        return self.source.submit(
            trial.first, trial.architectures[0, 0], self._fidelity_index, seed
        )

    @property
    def _fidelity_index(self) -> int:
        return range(len(self.source.fidelities))[self.fidelity]

    def _learned(self, controller: Controller, trial: Trials) -> Trials:
        controller.learn(trial, self.problem.score)
        return trial

    def _with_latency(
        self, number: int, architectures: Int64[ndarray, "1 1 D"], lost: list[ConnectionError]
    ) -> Trials:
        """Ask for the latency; `lost` holds the errors of a board that was lost, those in a row."""
        try:
            latencies = self.problem.oracle.answer(architectures)
            lost.clear()
        except (UnmeasuredError, ConnectionError) as error:
            if isinstance(error, ConnectionError):
                lost.append(error)
            missing = Latencies(np.full((1, 1), np.nan), np.full((1, 1), Kind.missing, np.int8))
            return _failed(self._judged(number, architectures, missing, None), error)
        trial = self._judged(number, architectures, latencies, None)
        if trial.ratios[0, 0, 0] > self.prune_beyond:
            return replace(trial, state=np.full((1, 1), State.pruned, np.int8))
        return trial

    def _ended(self, trial: Trials, future: Future[Evaluation], took_s: float) -> Trials:
        error = future.exception()
        if error is not None:  # what it took counts toward the cost
            return replace(_failed(trial, error), seconds=np.full((1, 1), took_s))
        evaluation = future.result()
        if not 0 <= evaluation.seconds < math.inf:  # NaN included
            evaluation = replace(evaluation, seconds=took_s)
        if not math.isfinite(evaluation.accuracy):  # a training that diverged
            failed = _failed(trial, ValueError(f"the accuracy is {evaluation.accuracy}"))
            return replace(failed, seconds=np.full((1, 1), evaluation.seconds))
        latencies = Latencies(trial.latency_ms, trial.latency_kind)
        return self._judged(trial.first, trial.architectures, latencies, evaluation)

    def _judged(
        self,
        number: int,
        architectures: Int64[ndarray, "1 1 D"],
        latencies: Latencies,
        evaluation: Evaluation | None,
    ) -> Trials:
        accuracy = np.nan if evaluation is None else evaluation.accuracy
        kind = Kind.missing if evaluation is None else evaluation.kind
        accuracies = Accuracies(np.full((1, 1), accuracy), np.full((1, 1), kind, np.int8))
        seconds = 0.0 if evaluation is None else evaluation.seconds
        judged = self.problem.judge(number, architectures, latencies, accuracies, seconds)
        state = State.asked if evaluation is None else State.done
        rewards = judged.rewards if evaluation is not None else np.full((1, 1), np.nan)
        return replace(
            judged,
            state=np.full((1, 1), state, np.int8),
            rewards=rewards,
            fidelity=np.full((1, 1), self._fidelity_index, np.int8),
        )


def _failed(trial: Trials, error: BaseException) -> Trials:
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return replace(
        trial,
        state=np.full((1, 1), State.failed, np.int8),
        error=np.full((1, 1), text, object),
    )
