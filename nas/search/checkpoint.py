"""The controller's state, its history, and how many events of the journal they have learned."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, final

import numpy as np

from common.files.atomic_file import replacing
from common.files.safe_file import load_arrays
from common.types.errors import UserError
from controller.base import Controller
from nas.trials.statistics import ChoiceHistory
from nas.trials.trial import Trials

INTERVAL_S = 1.0
_EVENTS = "events"
_HISTORY = "history_"


@final
class Checkpoint:
    """The file of the state, saved once a second; `asked` and the call are consumers of the loop."""

    def __init__(self, path: Path, controller: Controller, history: ChoiceHistory) -> None:
        self._path = path
        self._controller = controller
        self._history = history
        self._events = 0  # of the journal
        self._saved_s = time.monotonic()

    def restore(self, recorded: int) -> int:
        """Restore the controller and its history, and return the events that they have learned.

        Without a checkpoint, or with one that is ahead of the `recorded` events of the journal, both
        are left as they are, and 0 returned. The caller teaches them the others.

        Raises:
          UserError: if the file is corrupt or of another controller.
        """
        self._events = recorded
        if not self._path.is_file():
            return 0
        try:
            arrays = dict(load_arrays(self._path))
            events = int(arrays.pop(_EVENTS))
            if events > recorded:
                return 0
            past = {name: arrays.pop(name) for name in list(arrays) if name.startswith(_HISTORY)}
            self._controller.restore(arrays)
            self._history.restore(
                {name.removeprefix(_HISTORY): array for name, array in past.items()}
            )
        except (
            OSError,
            ValueError,
            TypeError,
            LookupError,
            ArithmeticError,
            RuntimeError,
        ) as error:
            raise UserError(
                f"{self._path} is not a checkpoint of this controller ({error}); "
                f"remove it, and resume learns again from the journal alone"
            ) from error
        return max(events, 0)

    def asked(self) -> None:
        """Count an event of the journal."""
        self._events += 1

    def __call__(self, _trials: Trials) -> None:
        """Count an event of the journal; save if the last time is long enough ago."""
        self._events += 1
        if time.monotonic() - self._saved_s >= INTERVAL_S:
            self.save()

    def save(self) -> None:
        """Save the state after the events so far atomically, as arrays without objects."""
        arrays: dict[str, Any] = {_EVENTS: np.array(self._events), **self._controller.state()}
        arrays |= {_HISTORY + name: array for name, array in self._history.state().items()}
        with replacing(self._path) as file:
            np.savez(file, **arrays)
        self._saved_s = time.monotonic()
