"""TensorBoard's events: mean latency against the limit."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, final

from controller.base import Controller
from edgenas_core.files.atomic_file import naming
from nas.trials.statistics import Tracker
from nas.trials.survey import Survey
from nas.trials.trial import Trials

if TYPE_CHECKING:
    from nas.report.event_file import EventFile


POINTS = 500
"""Points a curve: each is a mean over the last 100 samples, so more would show no more."""

# TensorBoard shows the groups before the slash in alphabetical order, so this one comes first. It cuts long tags,
# so what they mean stands in the text `sources`.
_ACCURACY = "answer/accuracy"
_LATENCY = "answer/latency_ms"
_BEST = "answer/best_accuracy"
_MEANING = (
    "accuracy, latency_ms, reward and costs: mean of the last 100 samples; best_accuracy: of the samples within "
    "the limits"
)


@final
class TensorBoardLog:
    """Writes event files; a consumer of the loop. Its messages are imported at its first point."""

    def __init__(
        self,
        folder: Path,
        tracker: Tracker,
        *,
        sources: str,
        limit_ms: float,
        budget: int,
        survey: Survey | None,
        controller: Controller,
    ) -> None:
        self._folder = folder
        self._tracker = tracker
        self._sources = sources
        self._limit_ms = limit_ms
        self._every = max(1, budget // POINTS)
        self._budget = budget
        optimum = None if survey is None else survey.optimum
        self._optimum_accuracy = (
            None if survey is None or optimum is None else float(survey.accuracy[optimum])
        )
        self._done = self._logged = tracker.samples
        self._controller = controller
        self._writer: EventFile | None = None

    def __enter__(self) -> TensorBoardLog:
        # its writer's thread prints a traceback where the disk is full, and raises here as well
        self._hook, threading.excepthook = threading.excepthook, _silent
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._writer is not None:
                with naming(self._folder):
                    self._writer.close()
        finally:
            threading.excepthook = self._hook

    def __call__(self, _trials: Trials) -> None:
        """Write a point of every curve, a few hundred times a run.

        Raises:
          OSError: if it cannot be written; with the folder's name in it.
        """
        samples = self._tracker.samples
        is_due = samples - self._logged >= self._every or samples >= self._budget
        if not is_due or not self._tracker.has_recent:
            return
        self._logged = samples
        with naming(self._folder):
            writer = self._open()
            for tag, value in self._curves():
                writer.scalar(tag, value, samples)

    def _curves(self) -> Iterator[tuple[str, float]]:
        """A point of each curve, by its tag."""
        tracker, optimum = self._tracker, self._optimum_accuracy
        accuracy, latency_ms, reward = tracker.recent_means()
        yield "reward/reward", reward
        yield _ACCURACY, accuracy
        yield _LATENCY, latency_ms
        yield "latency_ms/T", self._limit_ms
        for limit, mean in tracker.recent_costs():
            yield f"{limit.name}/{limit.name}", mean
            yield f"{limit.name}/{limit.symbol}", limit.bound
        yield "search/share_within", tracker.feasible_share
        if optimum is not None:
            yield "search/optimum", optimum
        if tracker.best_accuracy >= 0:
            yield _BEST, tracker.best_accuracy
            if optimum is not None:
                yield "search/gap", optimum - tracker.best_accuracy
        for name, values in self._controller.diagnostics().items():
            yield f"controller/{name}", float(values[0])

    def _open(self) -> EventFile:
        if self._writer is None:
            from nas.report.event_file import EventFile  # noqa: PLC0415 - a quarter of a second

            self._writer = EventFile(self._folder, done=self._done)
            # the same curve of a run of its own lies in the same chart
            limit = EventFile(self._folder / "T")
            for step in range(0, self._budget + 1, self._every):  # fewer would count as outliers
                limit.scalar(_LATENCY, self._limit_ms, step)
            limit.close()
            self._writer.text("sources", f"{_MEANING}; {self._sources}")
        return self._writer


def _silent(_: threading.ExceptHookArgs) -> None:
    """Print nothing: the main thread reports the error."""
