"""What depends on what the networks of a fit begin with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic

from jaxtyping import Bool, Int64
from numpy import ndarray
from torch import nn

from edgenas_core.types.kind import Kind
from nas.accuracy.slow import Fidelity, SlowAccuracySource
from nas.fit.learners.data import TrainingData
from nas.fit.ranking.candidates import Candidates
from nas.fit.ranking.stage_result import StageResult
from nas.fit.run.context import AnyJobs, FitContext, Ranking
from nas.fit.run.entries import Entry
from nas.fit.run.winner import Winner
from nas.fit.training.trained_folder import Training
from nas.train.job import Start


class FitKind(ABC, Generic[AnyJobs]):
    """The steps of a fit that depend on the start; the rest is in `Fit`."""

    def __init__(self, context: FitContext) -> None:
        self.context = context

    @property
    @abstractmethod
    def fidelities(self) -> tuple[Fidelity, ...]:
        """Lengths of the trainings that rank, the shortest first."""

    @abstractmethod
    def draw(self, check: Callable[[], None]) -> Candidates:
        """Candidates within every limit; `check` raises to leave the fit."""

    @abstractmethod
    def jobs(self, candidates: Candidates, *, is_decided: bool) -> AnyJobs:
        """What decides which candidates are trained next; nothing is once the winner is known."""

    @abstractmethod
    def trainings(self, jobs: AnyJobs) -> SlowAccuracySource:
        """The source of the trainings that rank."""

    @abstractmethod
    def after_training(self, ranking: Ranking[AnyJobs]) -> None:
        """Clean up, or report, after a training that ranks."""

    def plan_beside(self, candidates: Candidates, seconds: float) -> Winner | None:  # noqa: ARG002 - of one kind
        """Plan a network of another start, to be trained in so many seconds and compared; None: there is none."""
        return None

    @abstractmethod
    def entries(
        self, ranking: Ranking[AnyJobs], beside: Training | None, ends_s: float
    ) -> list[Entry]:
        """Networks to train in full until `ends_s` on the monotonic clock, the preferred first.

        `beside` is the training that `plan_beside` planned.
        """

    def alternatives(
        self,
        ranking: Ranking[AnyJobs],  # noqa: ARG002 - of two kinds
        arch: str | None,  # noqa: ARG002 - other kinds use it
    ) -> list[Entry]:
        """Networks as they were ranked, to be returned instead of a winner that is worse.

        `arch` is the winner's architecture; None if its training failed.
        """
        return []

    def comparing_s(self, ranking: Ranking[AnyJobs]) -> float:  # noqa: ARG002 - of one kind
        """Seconds that evaluating and returning an alternative takes."""
        return 0.0

    @abstractmethod
    def stage_results(
        self, ranking: Ranking[AnyJobs], beside: Training | None
    ) -> tuple[StageResult, ...]:
        """Results of the stages before the winner's training."""

    def baseline_within(
        self,
        ranking: Ranking[AnyJobs],  # noqa: ARG002 - of two kinds
        within: Bool[ndarray, "n"],  # noqa: ARG002 - of two kinds
    ) -> StageResult | None:
        """The baseline among some of the candidates; None: there is none."""
        return None

    @abstractmethod
    def start(self, winner: Winner) -> Start:
        """The network of a decision, and the training that it continues."""

    @abstractmethod
    def most_epochs(self, recipe: str) -> int:
        """Most epochs of a winner by this recipe."""

    def unlearnt(self, architecture: Int64[ndarray, "D"]) -> nn.Module | None:  # noqa: ARG002 - of one kind
        """A network with weights of elsewhere, which have not learnt these labels; None: there are none."""
        return None

    def just_beyond(self) -> tuple[Int64[ndarray, "D"], float, Kind] | None:
        """The most promising network just outside T, its latency in milliseconds and its kind; None: it is not known."""
        return None

    def images(self, architecture: Int64[ndarray, "D"]) -> TrainingData:  # noqa: ARG002 - most take the same
        """The data as the network takes it."""
        return self.context.images
