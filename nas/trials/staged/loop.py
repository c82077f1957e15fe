"""The loop of the staged search over a slow accuracy source: submit, wait, record."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from jaxtyping import Int64
from numpy import ndarray

from common.types.kind import Kind
from latency.base import Latencies
from nas.accuracy.base import Accuracies
from nas.accuracy.slow import Evaluation, SlowAccuracySource
from nas.trials.asynchronous import next_ended
from nas.trials.loop import OnAsked
from nas.trials.problem import SearchProblem
from nas.trials.staged.stages import Job, Result, Stages
from nas.trials.trial import State, Trials


@final
@dataclass
class StagedLoop:
    """Trains what the stages ask for, at most `stages.parallel` networks at once.

    A training that fails is recorded with its error, and the search goes on.
    """

    problem: SearchProblem
    source: SlowAccuracySource
    stages: Stages
    seed: int
    on_asked: OnAsked = lambda _first, _architectures: None
    check: Callable[[], None] = lambda: None  # called while waiting; raises to leave the search
    on_ended: Callable[[int, Job, Evaluation], None] = lambda _number, _job, _evaluation: None

    def __post_init__(self) -> None:
        self.results: dict[Job, Result] = {}
        self.asked = 0

    def replay(self, recorded: Trials, asked: int) -> None:
        """Take over the trials of an earlier part of the same search, in which so many were asked.

        Those that were not answered are forgotten: the stages ask for them again, or for better ones.
        """
        rows = self.stages.candidates.architectures
        at = {row.tobytes(): i for i, row in enumerate(rows)}
        for i, row in enumerate(recorded.architectures):
            job = Job(at[row.tobytes()], int(recorded.fidelity[i]))
            self.results[job] = Result(float(recorded.accuracy[i]), float(recorded.seconds[i]))
        self.asked = asked

    def search(self, elapsed_s: float) -> Iterator[Trials]:
        """Yield each trial when it has ended, as columns of length 1.

        Args:
          elapsed_s: seconds that the search has taken already.
        """
        began_s = self.source.now_s() - elapsed_s
        at_work: dict[Future[Evaluation], tuple[int, Job, float]] = {}
        try:
            while True:
                running = [job for _, job, _ in at_work.values()]
                now_s = self.source.now_s()
                job = None
                if len(running) < self.stages.parallel:
                    job = self.stages.next(self.results, running, now_s - began_s)
                if job is not None:
                    row = self.stages.candidates.architectures[job.candidate]
                    number, self.asked = self.asked, self.asked + 1
                    self.on_asked(number, row[None, None])
                    future = self.source.submit(number, row, job.fidelity, self.seed)
                    at_work[future] = number, job, now_s
                elif at_work:
                    future = next_ended(self.source, self.check)
                    number, job, submitted_s = at_work.pop(future)
                    yield self._ended(number, job, future, self.source.now_s() - submitted_s)
                else:
                    return
        finally:
            self.source.close()

    def _ended(self, number: int, job: Job, future: Future[Evaluation], took_s: float) -> Trials:
        error = future.exception()
        if error is None:
            evaluation = future.result()
            if not math.isfinite(evaluation.accuracy):
                error = ValueError(f"the accuracy is {evaluation.accuracy}")
        if error is not None:  # what it took counts as well
            evaluation = Evaluation(math.nan, Kind.missing, took_s)
        else:
            self.on_ended(number, job, evaluation)
        self.results[job] = Result(evaluation.accuracy, evaluation.seconds)
        return self.trial(number, job, evaluation, error)

    def scored(self, first: int, kind: Kind) -> Trials:
        """Records of all candidates with their scores as accuracies of a kind; of fidelity -1."""
        candidates = self.stages.candidates
        kinds = np.full(len(candidates), kind, np.int8)
        judged = self.problem.judge(
            first,
            candidates.architectures,
            Latencies(candidates.latency_ms, candidates.latency_kind),
            Accuracies(candidates.prior, kinds),
            candidates.score_s,
        )
        return replace(judged, fidelity=np.full(len(candidates), -1, np.int8))

    def trial(
        self, number: int, job: Job, evaluation: Evaluation, error: BaseException | None = None
    ) -> Trials:
        """The record of one training, as columns of length 1."""
        candidates, at = self.stages.candidates, np.array([job.candidate])
        rows: Int64[ndarray, "1 D"] = candidates.architectures[at]
        judged = self.problem.judge(
            number,
            rows,
            Latencies(candidates.latency_ms[at], candidates.latency_kind[at]),
            Accuracies(np.array([evaluation.accuracy]), np.array([evaluation.kind], np.int8)),
            evaluation.seconds,
        )
        text = "" if error is None else " ".join(f"{type(error).__name__}: {error}".split())
        return replace(
            judged,
            state=np.full(1, State.done if error is None else State.failed, np.int8),
            fidelity=np.full(1, job.fidelity, np.int8),
            error=np.array([text], object),
        )
