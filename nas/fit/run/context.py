"""What the steps of a fit share: its problem, its data, its folder and its clock."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar, final

import numpy as np
import torch
from jaxtyping import Bool, Int64
from numpy import ndarray

from edgenas_core.command.console import say
from latency.base import Latencies
from nas.fit.config import Begun, FitConfig
from nas.fit.learners.data import TrainingData
from nas.fit.own_images import OwnImages, OwnImagesConfig
from nas.fit.ranking.candidates import Candidates
from nas.fit.ranking.stages import Jobs, Result, StageJob
from nas.trials.executor import Workers
from nas.trials.problem import SearchProblem

GPU_WORKERS = 8
"""Trainings at once on a GPU, which one small network leaves mostly idle."""

_BRIEF_S = 600.0
"""Time of a fit for which starting another process, which imports torch, takes too long."""

_TOLD_EVERY_S = 5.0
"""Seconds between two lines about the progress of a stage."""

AnyJobs = TypeVar("AnyJobs", bound=Jobs)


@final
@dataclass
class Clock:
    """Seconds of a fit since it began, those of an interrupted part included."""

    began_s: float  # on the monotonic clock
    spent_s: float = 0.0  # before `resumed_s`
    resumed_s: float = 0.0  # on the monotonic clock
    promised_s: float = 0.0  # to the winner, in the forecast of its epochs
    told_s: float = 0.0  # last line about progress, on the monotonic clock

    def __post_init__(self) -> None:
        self.resumed_s = self.told_s = time.monotonic()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the beginning."""
        return self.spent_s + time.monotonic() - self.resumed_s

    def resume(self, spent_s: float) -> None:
        """Count from this many seconds on, or from those since the beginning if they are more."""
        self.resumed_s = time.monotonic()
        self.spent_s = max(spent_s, self.resumed_s - self.began_s)


@final
@dataclass(frozen=True)
class FitContext:
    """One fit in its folder."""

    begun: Begun
    accuracy: OwnImages
    images: TrainingData  # normalised as the start needs it
    clock: Clock

    @property
    def problem(self) -> SearchProblem:
        """Space, limits and device."""
        return self.begun.experiment.problem

    @property
    def config(self) -> FitConfig:
        """Settings of the user."""
        return self.begun.experiment.config

    @property
    def rule(self) -> OwnImagesConfig:
        """Recipe of the trainings, and shares of the time."""
        return self.begun.experiment.rule

    @property
    def folder(self) -> Path:
        """Folder of the run, as other processes see it."""
        return self.begun.folder.path.absolute()

    @property
    def checkpoints(self) -> Path:
        """Folder of the trainings that rank."""
        return self.folder / "checkpoints"

    @property
    def seconds(self) -> float:
        """Time of the whole fit."""
        return 3600 * self.config.hours

    @property
    def parallel(self) -> int:
        """Networks that are trained at once."""
        if self.config.executor is Workers.threads:
            return 1
        return self.config.workers or max(1, GPU_WORKERS * torch.cuda.device_count())

    @property
    def executor(self) -> Workers:
        """Executor of the trainings: that of the setting, or threads for a brief fit with one worker."""
        is_alone = self.config.executor is Workers.processes and self.parallel == 1
        return Workers.threads if is_alone and self.seconds <= _BRIEF_S else self.config.executor

    def until_scored_s(self, candidates: Candidates) -> float:
        """Seconds until the candidates were known; opening images and boards takes time, too."""
        return max(candidates.seconds, time.monotonic() - self.clock.began_s)

    def say(self, line: str) -> None:
        """Print a line for the user."""
        say(self.begun.console, line)

    def tell(self, line: str) -> None:
        """Print how far a stage is, at most every few seconds."""
        if time.monotonic() >= self.clock.told_s + _TOLD_EVERY_S:
            self.clock.told_s = time.monotonic()
            self.say(line)


def within_smaller(context: FitContext, candidates: Candidates) -> list[Bool[ndarray, "n"]]:
    """Which candidates are within each smaller limit of the fit, the largest limit first."""
    latencies = Latencies(candidates.latency_ms, candidates.latency_kind)
    compared_ms = context.problem.compared_ms(latencies)
    return [
        limits.met(compared_ms, candidates.architectures)
        for limits in context.begun.experiment.smaller
    ]


@final
@dataclass(frozen=True)
class Ranking(Generic[AnyJobs]):
    """Candidates, and the trainings that have ranked them so far."""

    candidates: Candidates
    jobs: AnyJobs
    results: Mapping[StageJob, Result]

    def position(self, architecture: Int64[ndarray, "D"]) -> int:
        """Position of an architecture among the candidates."""
        return int((self.candidates.architectures == architecture).all(-1).argmax())

    @property
    def accuracies(self) -> dict[int, float]:
        """Accuracy of each candidate after its longest training.

        Accuracies of frozen features are not among them: they are of other images.
        """
        longest: dict[int, tuple[int, float]] = {}
        for job, result in self.results.items():
            epochs = self.jobs.fidelities[job.fidelity].epochs
            if epochs and not np.isnan(result.accuracy):
                trained = (epochs, result.accuracy)
                longest[job.candidate] = max(longest.get(job.candidate, trained), trained)
        return {candidate: accuracy for candidate, (_, accuracy) in longest.items()}
