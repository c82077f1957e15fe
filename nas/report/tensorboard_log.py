"""TensorBoard's events: mean latency against the limit, and hyper-parameters."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, final

import numpy as np

from common.files.atomic_file import naming
from controller.base import Controller
from nas.spaces.base import SearchSpace
from nas.trials.choice_history import ChoiceHistory
from nas.trials.survey import Survey
from nas.trials.tracker import Tracker
from nas.trials.trajectory import BAND
from nas.trials.trial import Trials

if TYPE_CHECKING:
    from nas.report.event_file import EventFile


POINTS = 500
"""Points a curve: each is a mean over the last 100 samples, so more would show no more."""

FLUSH_S = 5.0
"""A killed run loses no more of its curves than these seconds; the writer's own 120 are a run."""

# TensorBoard shows the groups before the slash in alphabetical order, so this one comes first
_ACCURACY = "answer/accuracy, mean of the last 100"
_LATENCY = "answer/latency_ms, mean of the last 100"
_BEST = "answer/accuracy, best within the limits"
_ENDS = tuple(f"{end} end of the middle {BAND * 100:.0f} percent" for end in ("low", "high"))


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
        history: ChoiceHistory,
        controller: Controller,
        space: SearchSpace,
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
        self._history = history
        self._controller = controller
        self._space = space
        self._bins = self._bins_until(self._done)  # that are written
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
        with naming(self._folder):
            self._point()
            self._choices(self._tracker.samples)

    def _point(self) -> None:
        samples = self._tracker.samples
        if samples - self._logged < self._every and samples < self._budget:
            return
        if not self._tracker.has_recent:
            return
        self._logged = samples
        writer = self._open()
        accuracy, latency_ms, reward = self._tracker.recent_means()
        writer.scalar("reward/mean of the last 100", reward, samples)
        writer.scalar(_ACCURACY, accuracy, samples)
        writer.scalar(_LATENCY, latency_ms, samples)
        writer.scalar("latency_ms/T", self._limit_ms, samples)
        for limit, mean in self._tracker.recent_costs():
            writer.scalar(f"{limit.name}/mean of the last 100", mean, samples)
            writer.scalar(f"{limit.name}/{limit.symbol}", limit.bound, samples)
        for end, (accuracy_end, latency_end, _) in zip(
            _ENDS, self._tracker.recent_band(BAND), strict=True
        ):
            writer.scalar(f"spread/accuracy, {end}", accuracy_end, samples)
            writer.scalar(f"spread/latency_ms, {end}", latency_end, samples)
        writer.scalar("search/feasible share", self._tracker.feasible_share, samples)
        if self._optimum_accuracy is not None:
            label = self._tracker.limits.label
            writer.scalar(f"search/optimum within {label}", self._optimum_accuracy, samples)
        best = self._tracker.best_accuracy
        if best >= 0:
            writer.scalar("answer/accuracy, best within the limits", best, samples)
            if self._optimum_accuracy is not None:
                writer.scalar("search/gap to the optimum", self._optimum_accuracy - best, samples)
        for name, values in self._controller.diagnostics().items():
            writer.scalar(f"controller/{name}", float(values[0]), samples)

    def _choices(self, samples: int) -> None:
        """Write the bins that have ended since the last call."""
        ended = self._bins_until(samples)
        if ended == self._bins:
            return
        writer, means = self._open(), self._history.means()
        for position in range(self._bins, ended):
            if np.isnan(means[position]).any():
                continue  # within a batch
            end = int(self._history.edges[position + 1])
            for number, name in enumerate(self._space.positions):
                options = self._space.options(number)
                for option, value in zip(options, means[position, number], strict=False):
                    writer.scalar(f"choices {name}/{option}", value, end)
        self._bins = ended

    def _bins_until(self, samples: int) -> int:
        """Number of bins that have ended after so many samples."""
        return int(np.searchsorted(self._history.edges[1:], samples, side="right"))

    def finish(
        self, settings: Mapping[str, bool | str | float], results: Mapping[str, float]
    ) -> None:
        """Add the hyper-parameters with the results they led to."""
        self._open().hparams(settings, results, self._tracker.samples)

    def _open(self) -> EventFile:
        if self._writer is None:
            from nas.report.event_file import EventFile  # noqa: PLC0415 - a quarter of a second

            self._writer = EventFile(
                self._folder,
                purge_from=self._done + 1 if self._done else None,
                flush_s=FLUSH_S,
            )
            # the same curve of a run of its own lies in the same chart
            limit = EventFile(self._folder / "T", purge_from=None, flush_s=FLUSH_S)
            for step in range(0, self._budget + 1, self._every):  # fewer would count as outliers
                limit.scalar(_LATENCY, self._limit_ms, step)
            limit.close()
            self._writer.text("sources", self._sources)
        return self._writer


def _silent(_: threading.ExceptHookArgs) -> None:
    """Print nothing: the main thread reports the error."""
