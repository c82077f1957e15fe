"""Interleaved runs of timetables: some frames of each per round, in random order."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import final

import numpy as np
import torch
from torch import Tensor

from runtime.machine.watchdog import Watchdog
from runtime.mapping.running.frames import Frame
from runtime.mapping.solving.candidates import Candidate

_WARM_UP = 2
"""Frames at the beginning of a turn that are not counted, because other timetables used the caches."""


@final
class Rounds:
    """Runs rounds; a round is one turn of each timetable that has not failed."""

    def __init__(
        self,
        found: Sequence[Candidate],
        frames: Sequence[Frame],
        references: Sequence[Sequence[Tensor]],
        *,
        frame_ms: float,
        tolerance: float,
    ) -> None:
        """Run nothing yet.

        The references are fp32 outputs of each network, for each of its inputs.
        """
        self._found = found
        self._frames = frames
        self._references = references
        self._frame_ms = frame_ms
        self._tolerance = tolerance
        self._order = np.random.default_rng(0)
        self._round = 0

    def run(self, count: int, watchdog: Watchdog) -> None:
        """Run one more round with `count` frames of each timetable."""
        for i in self._order.permutation(len(self._found)):
            one = self._found[i]
            if one.error:
                continue
            try:
                self._turn(one, self._frames[i], count, watchdog)
            except RuntimeError as error:
                one.error = str(error)
        self._round += 1

    def _turn(self, one: Candidate, frame: Frame, count: int, watchdog: Watchdog) -> None:
        frame.put(self._round)
        next_s = time.perf_counter()
        for k in range(count + _WARM_UP):
            time.sleep(max(0.0, next_s - time.perf_counter()))
            next_s = time.perf_counter() + self._frame_ms / 1e3
            ms = frame.run()
            watchdog.beat()
            if k >= _WARM_UP:
                one.ms.append(ms)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        differences = frame.differences(self._references, self._round)
        before = 0.0 if one.differences is None else one.differences
        one.differences = np.maximum(differences, before)
        for i, difference in enumerate(differences):
            if not difference <= self._tolerance:  # also if it is NaN
                raise RuntimeError(
                    f"{frame.label(i)}: its output differs from fp32 by {difference:.2g} of the "
                    f"largest output, more than {self._tolerance:g}"
                )
