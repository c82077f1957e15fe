"""The staged search as a proposer of the asynchronous loop."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import final

import numpy as np

from edgenas_core.types.errors import UserError
from latency.base import Latencies
from nas.fit.ranking.stages import Jobs, Result, StageJob
from nas.trials.asynchronous import Proposal
from nas.trials.loop import OnAsked
from nas.trials.trial import Trials


@final
class StagedProposer:
    """Proposes the trainings that the stages ask for, all with the seed of the search.

    An earlier part of the same search is learned trial by trial. What was running when it ended is
    forgotten: the stages ask for it again, or for something better.
    """

    def __init__(
        self,
        stages: Jobs,
        seed: int,
        *,
        asked: int = 0,
        on_asked: OnAsked = lambda _first, _architectures: None,
    ) -> None:
        self.stages = stages
        self.results: dict[StageJob, Result] = {}
        self.asked = asked  # trainings, with those of an earlier part
        self._on_asked = on_asked
        self._seed = seed
        self._running: set[StageJob] = set()
        rows = stages.candidates.architectures
        self._candidate = {row.tobytes(): i for i, row in enumerate(rows)}

    def propose(self, elapsed_s: float) -> Proposal | None:
        """The next training; None if there is none now, or none any more."""
        job = self.stages.next(self.results, self._running, elapsed_s)
        if job is None:
            return None
        self._running.add(job)
        candidates, at = self.stages.candidates, np.array([[job.candidate]])
        latencies = Latencies(candidates.latency_ms[at], candidates.latency_kind[at])
        row = candidates.architectures[job.candidate]
        number = self.asked
        self.asked += 1
        self._on_asked(number, row[None, None])
        return Proposal(number, row, self._seed, job.fidelity, latencies)

    def learn(self, trial: Trials) -> None:
        """Take in the accuracy of a training, NaN where it failed, and its duration."""
        job = self.job(trial)
        self._running.discard(job)
        self.results[job] = Result(float(trial.accuracy[0, 0]), float(trial.seconds[0, 0]))

    def learn_all(self, trials: Iterable[Trials], path: Path) -> None:
        """Take in the trainings of an earlier part.

        Raises:
          UserError: if one is of a network that is no candidate; it names the journal, `path`.
        """
        try:
            for trial in trials:
                self.learn(trial.as_batch())
        except KeyError as error:
            raise UserError(f"{path} holds a training of a network that was not drawn") from error

    def job(self, trial: Trials) -> StageJob:
        """The training that a trial was."""
        row = trial.architectures[0, 0]
        return StageJob(self._candidate[row.tobytes()], int(trial.fidelity[0, 0]))
