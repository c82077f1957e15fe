"""Latency measured on a live board while the search waits: what is known first, then the board."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from latency.base import Latencies, UnmeasuredError
from latency.probe.board import BoardError, Timed
from latency.probe.cache import Cache
from latency.probe.farm import Farm, Outcome
from runtime.machine.stability import StabilityConfig, drifted
from runtime.machine.timing import Statistic
from runtime.shell.provenance import Kind


class OnDisturbance(Enum):
    """What happens when a board is not quiet, and is not when the network is timed once more."""

    flag = "flag"  # a line for the user
    stop = "stop"


@final
@dataclass(frozen=True)
class Networks:
    """What the oracle is told of the search space, which it does not know.

    `number_of` gives the same number to architectures that are the same network, that of one of
    them; `own_number_of` to each its own. Both raise IndexError outside the space. `content_of`
    writes a number's network in a format (onnx, torchscript); `name_of` is for messages.
    """

    number_of: Callable[[Int64[ndarray, "*n D"]], Int64[ndarray, "*n"]]
    own_number_of: Callable[[Int64[ndarray, "*n D"]], Int64[ndarray, "*n"]]
    content_of: Callable[[int, str], bytes]
    name_of: Callable[[int], str]


@final
@dataclass(frozen=True)
class ProbeLatency:
    """Asks the boards for each new network once; a `LiveOracle`."""

    device: str
    description: str
    farm: Farm
    cache: Cache
    networks: Networks
    tell: Callable[[str], None]  # takes a line for the user
    statistic: Statistic = Statistic.median
    quiet: StabilityConfig = field(default_factory=StabilityConfig)
    on_disturbance: OnDisturbance = OnDisturbance.flag
    unrunnable_ms: float | None = None  # what a network counts as that the board cannot run
    confirm_top: int = 5
    source: str = "probe"
    tabular: bool = False
    _known_ms: dict[int, float] = field(default_factory=dict, repr=False)
    _unrunnable: set[int] = field(default_factory=set, repr=False)

    def latency_ms(self, architectures: Int64[ndarray, "*n D"]) -> Float64[ndarray, "*n"]:
        """Milliseconds per inference of the device's batch.

        Raises:
          IndexError: if an architecture lies outside the space.
          UnmeasuredError: if the board cannot run an architecture's network.
          LinkError, BoardError: if the boards are lost, or disturbed where that is to stop.
        """
        numbers, position = np.unique(self.networks.number_of(architectures), return_inverse=True)
        self._learn([number for number in numbers.tolist() if number not in self._known_ms])
        found_ms = np.array([self._known_ms[number] for number in numbers.tolist()], np.float64)
        return np.asarray(found_ms[position.reshape(architectures.shape[:-1])])

    def answer(self, architectures: Int64[ndarray, "*n D"]) -> Latencies:
        """Milliseconds per inference of the device's batch, and the kind of each.

        Raises:
          IndexError: if an architecture lies outside the space.
          UnmeasuredError: if an architecture has no latency.
        """
        ms = self.latency_ms(architectures)
        predicted = self.predicted(architectures)
        return Latencies(ms, np.where(predicted, Kind.penalty, Kind.measured).astype(np.int8))

    def known(self, architectures: Int64[ndarray, "*n D"]) -> Bool[ndarray, "*n"]:
        """All of them: the board is asked.

        Raises:
          IndexError: if an architecture lies outside the space.
        """
        return np.ones(self.networks.number_of(architectures).shape, bool)

    def predicted(self, architectures: Int64[ndarray, "*n D"]) -> Bool[ndarray, "*n"]:
        """Those that the board cannot run, which count as `unrunnable_ms`."""
        numbers = self.networks.number_of(architectures)
        return np.asarray(np.isin(numbers, sorted(self._unrunnable)))

    def remember(
        self, architectures: Int64[ndarray, "n D"], latency_ms: Float64[ndarray, " n"]
    ) -> None:
        """Answer as an earlier part of the same search was answered."""
        numbers = self.networks.number_of(architectures)
        for number, ms in zip(numbers.tolist(), latency_ms.tolist(), strict=True):
            self._known_ms[number] = ms
            if ms == self.unrunnable_ms:
                self._unrunnable.add(number)

    def measure_again(self, architectures: Int64[ndarray, "n D"]) -> Float64[ndarray, " n"]:
        """New times, whatever is known; NaN where the board cannot run it. They are not kept.

        Each architecture is timed as it is, and not as another that is the same network.

        Raises:
          IndexError: if an architecture lies outside the space.
          LinkError, BoardError: if the boards are lost, or disturbed where that is to stop.
        """
        numbers = self.networks.own_number_of(architectures)
        again_ms = dict.fromkeys(numbers.tolist(), np.nan)
        for outcome in self.farm.measure(list(again_ms), self.networks.content_of):
            if outcome.timed is not None:
                self._judge(outcome)
                again_ms[outcome.number] = self._ms(outcome.timed)
        return np.array([again_ms[number] for number in numbers.tolist()], np.float64)

    def still_holds(self, cached: Timed) -> bool:
        """Whether the control takes now what it took then; else the board is not what it was."""
        now_ms = np.median([board.control_ms for board in self.farm.boards])
        limit = self.quiet.control_drift
        return not drifted(cached.control_median_ms, float(now_ms), limit)

    def _learn(self, numbers: Sequence[int]) -> None:
        unknown = []
        for number in numbers:
            cached = self.cache.get(number)
            if cached is None or not self.still_holds(cached):
                unknown.append(number)
            else:
                self._known_ms[number] = self._ms(cached)
        for outcome in self.farm.measure(unknown, self.networks.content_of):
            if outcome.timed is None:
                self._refuse(outcome)
                continue
            self._judge(outcome)
            if not outcome.disturbances:
                self.cache.add(outcome.number, outcome.timed, outcome.board)
            self._known_ms[outcome.number] = self._ms(outcome.timed)

    def _ms(self, timed: Timed) -> float:
        return float(self.statistic.of(timed.ms))

    def _judge(self, outcome: Outcome) -> None:
        if outcome.timed is not None and not outcome.timed.is_stable:
            name = self.networks.name_of(outcome.number)
            self.tell(f"flagged: {outcome.board}: {name} did not settle while it was warmed up")
        if not outcome.disturbances:
            return
        said = (
            f"{outcome.board} was not quiet while {self.networks.name_of(outcome.number)} was "
            f"timed, twice: {'; '.join(outcome.disturbances)}"
        )
        if self.on_disturbance is OnDisturbance.stop:
            raise BoardError(f"{said}; keep the board quiet and its clocks fixed")
        self.tell(f"flagged: {said}; its time is used, and not kept for later runs")

    def _refuse(self, outcome: Outcome) -> None:
        said = (
            f"{outcome.board} cannot run {self.networks.name_of(outcome.number)}: {outcome.refused}"
        )
        if self.unrunnable_ms is None:
            raise UnmeasuredError(
                f"{said}; latency.unrunnable_ms=<milliseconds beyond T> counts such networks as "
                f"that slow and goes on, and what was measured is kept for that run"
            )
        self._known_ms[outcome.number] = self.unrunnable_ms
        self._unrunnable.add(outcome.number)
        self.tell(f"{said}; it counts as {self.unrunnable_ms:g} ms")
