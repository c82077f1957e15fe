"""The controller's state beside the number of samples it has learned from, and its history."""

from __future__ import annotations

import time
import zipfile
from pathlib import Path
from typing import Any, final

import numpy as np

from controller.base import Controller
from nas.trials.choice_history import OperationHistory
from nas.trials.loop import Step
from runtime.shell.atomic_file import replacing
from runtime.shell.errors import UserError

INTERVAL_S = 1.0
_SAMPLES = "samples"
_HISTORY = "history_"


def save_checkpoint(
    path: Path, controller: Controller, history: OperationHistory, samples: int
) -> None:
    """Write the state atomically, as arrays without objects."""
    arrays: dict[str, Any] = {_SAMPLES: np.array(samples), **controller.state()}
    arrays |= {_HISTORY + name: array for name, array in history.state().items()}
    with replacing(path) as file:
        np.savez(file, **arrays)


def load_checkpoint(
    path: Path, controller: Controller, history: OperationHistory, recorded: int
) -> int:
    """Restore a controller and its history, and return the samples it has learned from.

    Without a checkpoint, or with one that is ahead of the samples that were recorded, both are
    left as they are, and 0 returned.

    Raises:
      UserError: if the file is corrupt or of another controller.
    """
    if not path.is_file():
        return 0
    try:
        # opened here, because NumPy leaves a file open that is no archive
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        samples = int(arrays.pop(_SAMPLES))
        if samples > recorded:
            return 0
        past = {name: arrays.pop(name) for name in list(arrays) if name.startswith(_HISTORY)}
        controller.restore(arrays)
        history.restore({name.removeprefix(_HISTORY): array for name, array in past.items()})
    except (OSError, ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise UserError(
            f"{path} is not a checkpoint of this controller ({error}); "
            f"remove it, and resume learns again from the samples alone"
        ) from error
    return max(samples, 0)


@final
class Checkpointer:
    """Saves the controller once a second; a consumer of the loop."""

    def __init__(self, path: Path, controller: Controller, history: OperationHistory) -> None:
        self._path = path
        self._controller = controller
        self._history = history
        self._saved_s = time.monotonic()

    def __call__(self, step: Step) -> None:
        """Save if the last time is long enough ago."""
        if time.monotonic() - self._saved_s >= INTERVAL_S:
            save_checkpoint(self._path, self._controller, self._history, step.samples)
            self._saved_s = time.monotonic()
