"""What TensorBoard shows: convergence toward the limit, hyper-parameters and the figures."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, final

from nas.atomic_file import naming
from nas.landscape import Landscape
from nas.search import Step
from nas.tracker import Tracker

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


POINTS = 500
"""Points a curve: each is a mean over the last 100 samples, so more would show no more."""

_LATENCY = "latency_ms/mean of the last 100"
_LIMIT = "latency_ms/T"


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

    def _point(self, step: Step) -> None:
        samples = step.samples
        if samples - self._logged < self._every and samples < self._budget:
            return
        self._logged = samples
        writer = self._open()
        accuracy, latency_ms, reward = self._tracker.recent_means()
        writer.add_scalar("reward/mean of the last 100", reward, samples)
        writer.add_scalar("accuracy/mean of the last 100", accuracy, samples)
        writer.add_scalar(_LATENCY, latency_ms, samples)
        writer.add_scalar(_LIMIT, self._limit_ms, samples)
        for limit, mean in self._tracker.recent_costs():
            writer.add_scalar(f"{limit.name}/mean of the last 100", mean, samples)
            writer.add_scalar(f"{limit.name}/{limit.symbol}", limit.bound, samples)
        writer.add_scalar("search/feasible share", self._tracker.feasible_share, samples)
        best = self._tracker.best_accuracy
        if best >= 0:
            writer.add_scalar(f"search/best within {self._tracker.limits.label}", best, samples)
            if self._optimum_accuracy is not None:
                writer.add_scalar(
                    "search/gap to the optimum", self._optimum_accuracy - best, samples
                )
        for name, values in step.diagnostics.items():
            writer.add_scalar(f"controller/{name}", float(values[0]), samples)

    def finish(
        self,
        settings: Mapping[str, bool | str | float],
        results: Mapping[str, float],
        figures: Mapping[str, Path],
    ) -> None:
        """Add the hyper-parameters with the results they led to, and the pictures."""
        import numpy as np  # noqa: PLC0415 - beside the imports it needs
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
                str(self._folder), purge_step=self._done + 1 if self._done else None
            )
            self._writer.add_text("sources", self._sources)
            charts = {"latency and its limit (ms)": ["Multiline", [_LATENCY, _LIMIT]]}
            for limit in self._tracker.limits.each:
                tags = [f"{limit.name}/mean of the last 100", f"{limit.name}/{limit.symbol}"]
                charts[f"{limit.name} and its limit"] = ["Multiline", tags]
            self._writer.add_custom_scalars({"Convergence": charts})
        return self._writer


def _silent(_: threading.ExceptHookArgs) -> None:
    """What a thread could not do is told by the main thread."""
