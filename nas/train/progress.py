"""Progress of a training: a bar with the time left on a terminal, lines elsewhere, and TensorBoard."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import final

from rich.console import Console

from edgenas_core.command.progress import progress_bar
from nas.fit.learners.data import TrainingData
from nas.fit.training.trainer import Epoch
from nas.report.event_file import EventFile

_LINES = 20


@final
class TrainingProgress:
    """Shows each epoch; a consumer of `train`."""

    def __init__(
        self,
        console: Console,
        tensorboard: Path | None,
        epochs: int,
        done: int,
        data: TrainingData,
        *,
        is_timed: bool = False,
    ) -> None:
        """Begins at the epoch after the `done` ones; without a folder there are no event files.

        Where a time ends the training, `is_timed`, the number of the last epoch is not shown: it is an estimate that changes.
        """
        self._console, self._metric, self._items = console, data.metric, data.items
        self._events = None if tensorboard is None else EventFile(tensorboard, done=done)
        self._every = max(1, epochs // _LINES)
        self._is_timed = is_timed
        self._bar = progress_bar(console)
        self._task = self._bar.add_task("", total=epochs, completed=done)
        self.epoch_s = 0.0
        """Duration of the last epoch."""

    def __enter__(self) -> TrainingProgress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
        if self._events is not None:
            self._events.close()

    def _epoch_text(self, epoch: Epoch) -> str:
        """The epoch's number, and that of the last one where it is fixed."""
        last = "" if self._is_timed else f" of {epoch.epochs}"
        return f"epoch {epoch.number:>3}{last}"

    def __call__(self, epoch: Epoch) -> None:
        """Show an epoch."""
        self.epoch_s = epoch.seconds
        figures = f"loss {epoch.loss:.4f}"
        curves = {"loss": epoch.loss, f"{self._items} per second": epoch.images_per_second}
        if epoch.accuracy is not None:
            figures += f"  {self._metric} {epoch.accuracy:.2%}"
            curves[self._metric] = epoch.accuracy
        if self._events is not None:
            for name, value in curves.items():
                self._events.scalar(f"training/{name}", value, epoch.number)
        figures += f"  {epoch.images_per_second:,.0f} {self._items}/s"
        if self._console.is_terminal:
            self._bar.update(self._task, completed=epoch.number, description=figures)
        elif epoch.number % self._every == 0 or epoch.number == epoch.epochs:
            left = timedelta(seconds=round(epoch.seconds * (epoch.epochs - epoch.number)))
            self._console.print(
                f"{self._epoch_text(epoch)}  {figures}  {left} left",
                soft_wrap=True,
            )
