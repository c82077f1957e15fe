"""How a run searches: by a controller, or by trainings on the user's data, on the same journal."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, final, runtime_checkable

from jaxtyping import Int64
from numpy import ndarray
from rich.console import Console

from nas.config.run_config import Experiment
from nas.fit.ranking.stage_result import StageResult
from nas.fit.training.trained_folder import Training
from nas.report.handed_network import HandedNetwork
from nas.report.run_folder import RunFolder
from nas.report.summary import Int8Accuracy, RunSettings, Summary
from nas.runs.journal import Event, Journal
from nas.trials.confirmation import Confirmation
from nas.trials.trial import Trials

Experiment_co = TypeVar("Experiment_co", bound=Experiment, covariant=True)


@final
@dataclass(frozen=True)
class Begun(Generic[Experiment_co]):
    """An experiment, the names it was asked for by, and the folder it is written to."""

    module: str  # of the command: nas.search or nas.fit
    experiment: Experiment_co
    choices: Mapping[str, str]  # group -> name, as in reward -> proposed
    folder: RunFolder
    console: Console
    command: str  # that begins the same run
    again: str  # settings that resume it
    began_s: float  # on the monotonic clock, before images were opened and a board was connected


@final
@dataclass(frozen=True)
class Outcome:
    """Results of a search, from which its summary is made."""

    trials: Trials  # all, in the order of the answers
    settings: RunSettings
    mode: Int64[ndarray, "D"] | None = None  # architecture that a policy prefers
    confirmed: Confirmation | None = None
    stages: tuple[StageResult, ...] = ()
    training: Training | None = None  # of the winner, on own images
    first_ms: float | None = None  # its latency before a live device timed it again
    int8: Int8Accuracy | None = None  # its accuracy after quantisation, of a search for int8
    handed: tuple[HandedNetwork, ...] = ()  # of a fit for several limits, the largest first


@runtime_checkable
class Strategy(AbstractContextManager["Strategy"], Protocol):
    """Searches, and says what the page of the results is."""

    def restore(self, events: Sequence[Event]) -> Sequence[Event]:
        """Go on after the events of an earlier part; returns those that it keeps."""

    def loop(self, journal: Journal, check: Callable[[], None]) -> Generator[Trials, None, None]:
        """Yield batches of one replica as they are answered; what is asked goes to the journal.

        `check` raises to leave the search.
        """

    def consume(self, trials: Trials) -> None:
        """Show the trials of one batch, which were written to the journal."""

    def outcome(self, parts: Sequence[Trials]) -> Outcome:
        """What the search ends with: the answer is confirmed, or trained."""

    def page(self, summary: Summary, trials: Trials) -> str:
        """The report as HTML."""

    def clean(self, summary: Summary) -> None:
        """Remove the files that only an unfinished run needs."""
