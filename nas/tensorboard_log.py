"""What TensorBoard shows: convergence toward the limit, hyper-parameters and the figures."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, final

import numpy as np

from nas.atomic_file import naming
from nas.landscape import Landscape
from nas.operation_history import OperationHistory
from nas.search import Step
from nas.search_space import EDGES, OPERATIONS
from nas.tracker import Tracker
from nas.trajectory import BAND

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


POINTS = 500
"""Points a curve: each is a mean over the last 100 samples, so more would show no more."""

FLUSH_S = 5
"""A killed run loses no more of its curves than these seconds; the writer's own 120 are a run."""

_ACCURACY = "accuracy/mean of the last 100"
_LATENCY = "latency_ms/mean of the last 100"
_LIMIT = "latency_ms/T"
_BEST = "search/best within T"
_OPTIMUM = "search/optimum within T"
_SHARE = "search/feasible share"
_LOW, _HIGH = "low end of the middle 80 percent", "high end of the middle 80 percent"


def _operation(edge: tuple[int, int], operation: str) -> str:
    return f"operations {edge[0]} to {edge[1]}/{operation}"


def layout(*, has_policy: bool) -> dict[str, dict[str, list[Any]]]:
    """The tab "custom scalars": the curves of `report.html` under the same names."""
    what = "probability" if has_policy else "share of the samples"
    return {
        "Convergence": {
            "latency and its limit T (ms)": ["Multiline", [_LATENCY, _LIMIT]],
            "latency: mean and middle 80 % (ms)": [
                "Margin",
                [_LATENCY, f"latency_ms/{_LOW}", f"latency_ms/{_HIGH}"],
            ],
            "accuracy: mean and middle 80 %": [
                "Margin",
                [_ACCURACY, f"accuracy/{_LOW}", f"accuracy/{_HIGH}"],
            ],
            "best within T, and the optimum": ["Multiline", [_BEST, _OPTIMUM]],
            "share of the samples within T": ["Multiline", [_SHARE]],
        },
        f"Operations by edge: {what}": {
            f"{source} to {target}": [
                "Multiline",
                [_operation((source, target), name) for name in OPERATIONS],
            ]
            for source, target in EDGES
        },
    }


@final
class TensorBoardLog:
    """Writes event files; a consumer of the loop. Torch is imported at its first point."""

    def __init__(
        self,
        folder: Path,
        tracker: Tracker,
        *,
        sources: str,
        limit_ms: float,
        budget: int,
        landscape: Landscape | None,
        history: OperationHistory,
    ) -> None:
        self._folder = folder
        self._tracker = tracker
        self._sources = sources
        self._limit_ms = limit_ms
        self._every = max(1, budget // POINTS)
        self._budget = budget
        optimum = None if landscape is None else landscape.optimum
        self._optimum_accuracy = (
            None if landscape is None or optimum is None else float(landscape.accuracy[optimum])
        )
        self._done = self._logged = tracker.samples
        self._history = history
        self._bins = self._bins_until(self._done)  # that are written
        self._writer: SummaryWriter | None = None

    def __enter__(self) -> TensorBoardLog:
        # its writer's thread prints a traceback where the disk is full, and raises here as well
        self._hook, threading.excepthook = threading.excepthook, _silent
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self._writer is not None:
                with naming(self._folder):
                    self._writer.close()
        finally:
            threading.excepthook = self._hook

    def __call__(self, step: Step) -> None:
        """Write a point of every curve, a few hundred times a run.

        Raises:
          OSError: if it cannot be written; with the folder's name in it.
        """
        with naming(self._folder):
            self._point(step)
            self._operations(step.samples)

    def _point(self, step: Step) -> None:
        samples = step.samples
        if samples - self._logged < self._every and samples < self._budget:
            return
        self._logged = samples
        writer = self._open()
        accuracy, latency_ms, reward = self._tracker.recent_means()
        writer.add_scalar("reward/mean of the last 100", reward, samples)
        writer.add_scalar(_ACCURACY, accuracy, samples)
        writer.add_scalar(_LATENCY, latency_ms, samples)
        writer.add_scalar(_LIMIT, self._limit_ms, samples)
        for end, values in zip((_LOW, _HIGH), self._tracker.recent_band(BAND), strict=True):
            writer.add_scalar(f"accuracy/{end}", values[0], samples)
            writer.add_scalar(f"latency_ms/{end}", values[1], samples)
        writer.add_scalar(_SHARE, self._tracker.feasible_share, samples)
        if self._optimum_accuracy is not None:
            writer.add_scalar(_OPTIMUM, self._optimum_accuracy, samples)
        best = self._tracker.best_accuracy
        if best >= 0:
            writer.add_scalar(_BEST, best, samples)
            if self._optimum_accuracy is not None:
                writer.add_scalar(
                    "search/gap to the optimum", self._optimum_accuracy - best, samples
                )
        for name, values in step.diagnostics.items():
            writer.add_scalar(f"controller/{name}", float(values[0]), samples)

    def _operations(self, samples: int) -> None:
        """Write the bins that have ended since the last call."""
        ended = self._bins_until(samples)
        if ended == self._bins:
            return
        writer, means = self._open(), self._history.means()
        for position in range(self._bins, ended):
            if np.isnan(means[position]).any():
                continue  # within a batch
            end = int(self._history.edges[position + 1])
            for edge, values in zip(EDGES, means[position], strict=True):
                for name, value in zip(OPERATIONS, values, strict=True):
                    writer.add_scalar(_operation(edge, name), value, end)
        self._bins = ended

    def _bins_until(self, samples: int) -> int:
        """How many bins have ended with so many samples."""
        return int(np.searchsorted(self._history.edges[1:], samples, side="right"))

    def finish(
        self,
        settings: Mapping[str, bool | str | float],
        results: Mapping[str, float],
        figures: Mapping[str, Path],
    ) -> None:
        """Add the hyper-parameters with the results they led to, and the pictures."""
        from PIL import Image  # noqa: PLC0415 - a run's first sample does not wait for it

        writer = self._open()
        for name, path in figures.items():
            with Image.open(path) as picture:
                pixels = np.asarray(picture.convert("RGB"))
            writer.add_image(f"figures/{name}", pixels, self._tracker.samples, dataformats="HWC")
        writer.flush()
        # by default a run of its own for each call; this keeps one run one row
        writer.add_hparams(
            dict(settings), dict(results), run_name=".", global_step=self._tracker.samples
        )

    def _open(self) -> SummaryWriter:
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - seconds

            self._writer = SummaryWriter(
                str(self._folder),
                purge_step=self._done + 1 if self._done else None,
                flush_secs=FLUSH_S,
            )
            self._writer.add_text("sources", self._sources)
            self._writer.add_custom_scalars(layout(has_policy=self._history.has_policy))
        return self._writer


def _silent(_: threading.ExceptHookArgs) -> None:
    """What a thread could not do is told by the main thread."""
