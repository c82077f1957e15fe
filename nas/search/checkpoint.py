"""The controller's state, its history, and how many events of the journal they have learned."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy import ndarray

from common.files.atomic_file import replacing
from common.files.safe_arrays import load_arrays
from common.types.errors import UserError
from controller.base import Controller
from nas.trials.statistics import ChoiceHistory
from nas.trials.trial import Trials

INTERVAL_S = 1.0
_EVENTS = "events"
_HISTORY = "history_"


def save_checkpoint(
    path: Path, controller: Controller, history: ChoiceHistory, events: int
) -> None:
    """Write the state atomically, as arrays without objects."""
    arrays: dict[str, Any] = {_EVENTS: np.array(events), **controller.state()}
    arrays |= {_HISTORY + name: array for name, array in history.state().items()}
    with replacing(path) as file:
        np.savez(file, **arrays)


def load_checkpoint(
    path: Path, controller: Controller, history: ChoiceHistory, recorded: int
) -> int:
    """Restore a controller and its history, and return the events they have learned.

    Without a checkpoint, or with one that is ahead of the `recorded` events of the journal, both
    are left as they are, and 0 returned.

    Raises:
      UserError: if the file is corrupt or of another controller.
    """
    if not path.is_file():
        return 0
    try:
        arrays = dict(load_arrays(path))
        events = int(arrays.pop(_EVENTS))
        if events > recorded:
            return 0
        past = {name: arrays.pop(name) for name in list(arrays) if name.startswith(_HISTORY)}
        _require_same_types(arrays, controller.state())
        controller.restore(arrays)
        history.restore({name.removeprefix(_HISTORY): array for name, array in past.items()})
    except (OSError, ValueError, TypeError, LookupError, ArithmeticError, RuntimeError) as error:
        raise UserError(
            f"{path} is not a checkpoint of this controller ({error}); "
            f"remove it, and resume learns again from the journal alone"
        ) from error
    return max(events, 0)


def _require_same_types(arrays: Mapping[str, ndarray], own: Mapping[str, ndarray]) -> None:
    for name, array in own.items():
        stored = arrays.get(name)
        if (
            stored is not None
            and stored.dtype.kind == "f" == array.dtype.kind
            and stored.dtype != array.dtype
        ):
            raise ValueError(f"{name} is of type {stored.dtype}, not {array.dtype}")


@final
class Checkpointer:
    """Saves the controller once a second; `asked` and the call itself are consumers of the loop."""

    def __init__(
        self, path: Path, controller: Controller, history: ChoiceHistory, events: int
    ) -> None:
        self._path = path
        self._controller = controller
        self._history = history
        self._events = events
        self._saved_s = time.monotonic()

    def asked(self) -> None:
        """Count an event of the journal."""
        self._events += 1

    def __call__(self, _trials: Trials) -> None:
        """Count an event of the journal; save if the last time is long enough ago."""
        self._events += 1
        if time.monotonic() - self._saved_s >= INTERVAL_S:
            self.save()

    def save(self) -> None:
        """Save the state after the events so far."""
        save_checkpoint(self._path, self._controller, self._history, self._events)
        self._saved_s = time.monotonic()
