"""Latency measured on a live board during the search: cached times first, then the board."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int8, Int64
from numpy import ndarray

from latency.base import Latencies, Space, UnmeasuredError
from latency.probe.board import BoardError, Timed
from latency.probe.cache import Cache
from latency.probe.pool import BoardPool, Outcome
from runtime.machine.stability import StabilityConfig, drifted
from runtime.machine.timing import Statistic
from runtime.shell.provenance import Kind


class OnDisturbance(Enum):
    """Reaction to a board that is disturbed in both timings of a network."""

    flag = "flag"  # a line for the user
    stop = "stop"


@final
@dataclass(frozen=True)
class ProbeLatency:
    """Times each new network once on the boards; a `LiveOracle`.

    Networks are named by the text of their canonical architecture.
    """

    device: str
    description: str
    space: Space
    pool: BoardPool
    cache: Cache
    export: Callable[[str, str], bytes]  # (text of an architecture, format) -> file
    tell: Callable[[str], None]  # prints a line for the user
    statistic: Statistic = Statistic.median
    quiet: StabilityConfig = field(default_factory=StabilityConfig)
    on_disturbance: OnDisturbance = OnDisturbance.flag
    unrunnable_ms: float | None = None  # latency of a network that the board cannot run
    confirm_top: int = 5
    source: str = "probe"
    instant: bool = False
    _known_ms: dict[str, float] = field(default_factory=dict, repr=False)
    _unrunnable: set[str] = field(default_factory=set, repr=False)

    def answer(self, architectures: Int64[ndarray, "*n D"]) -> Latencies:
        """Milliseconds per inference of the device's batch; new networks are timed.

        Raises:
          IndexError: if an architecture lies outside the space.
          UnmeasuredError: if the board cannot run an architecture's network.
          LostConnectionError, BoardError: if the boards are lost, or disturbed where that is to stop.
        """
        names = self._names(architectures)
        self._learn([name for name in dict.fromkeys(names) if name not in self._known_ms])
        ms = np.array([self._known_ms[name] for name in names], np.float64)
        shape = architectures.shape[:-1]
        return Latencies(ms.reshape(shape), self._kinds(names).reshape(shape))

    def known(self, architectures: Int64[ndarray, "*n D"]) -> Bool[ndarray, "*n"]:
        """Return True everywhere: the board can be asked.

        Raises:
          IndexError: if an architecture lies outside the space.
        """
        self.space.canonical(architectures)
        return np.ones(architectures.shape[:-1], bool)

    def remember(
        self, architectures: Int64[ndarray, "n D"], latency_ms: Float64[ndarray, " n"]
    ) -> None:
        """Take over the answers of an earlier part of the same search."""
        for name, ms in zip(self._names(architectures), latency_ms.tolist(), strict=True):
            self._known_ms[name] = ms
            if ms == self.unrunnable_ms:
                self._unrunnable.add(name)

    def measure_again(self, architectures: Int64[ndarray, "n D"]) -> Float64[ndarray, " n"]:
        """Time networks anew, even known ones; NaN where the board cannot run one.

        Each architecture is timed as it is, and not as its canonical one. Nothing is cached.

        Raises:
          IndexError: if an architecture lies outside the space.
          LostConnectionError, BoardError: if the boards are lost, or disturbed where that is to stop.
        """
        self.space.canonical(architectures)  # refuses what lies outside
        names = [self.space.text(one) for one in self.space.normal(architectures)]
        again_ms = dict.fromkeys(names, np.nan)
        for outcome in self.pool.measure(list(again_ms), self.export):
            if outcome.timed is not None:
                self._judge(outcome)
                again_ms[outcome.network] = self._ms(outcome.timed)
        return np.array([again_ms[name] for name in names], np.float64)

    def _names(self, architectures: Int64[ndarray, "*n D"]) -> list[str]:
        rows = self.space.canonical(architectures).reshape(-1, architectures.shape[-1])
        return [self.space.text(row) for row in rows]

    def _kinds(self, names: Sequence[str]) -> Int8[ndarray, " n"]:
        kinds = [Kind.penalty if name in self._unrunnable else Kind.measured for name in names]
        return np.array(kinds, np.int8)

    def still_holds(self, cached: Timed) -> bool:
        """Whether the control network takes the same time now as when a time was cached."""
        now_ms = np.median([board.control_ms for board in self.pool.boards])
        limit = self.quiet.control_drift
        return not drifted(cached.control_median_ms, float(now_ms), limit)

    def _learn(self, names: Sequence[str]) -> None:
        unknown = []
        for name in names:
            cached = self.cache.get(name)
            if cached is None or not self.still_holds(cached):
                unknown.append(name)
            else:
                self._known_ms[name] = self._ms(cached)
        for outcome in self.pool.measure(unknown, self.export):
            if outcome.timed is None:
                self._refuse(outcome)
                continue
            self._judge(outcome)
            if not outcome.disturbances:
                self.cache.add(outcome.network, outcome.timed, outcome.board)
            self._known_ms[outcome.network] = self._ms(outcome.timed)

    def _ms(self, timed: Timed) -> float:
        return float(self.statistic.of(timed.ms))

    def _judge(self, outcome: Outcome) -> None:
        if outcome.timed is not None and not outcome.timed.is_stable:
            self.tell(
                f"flagged: {outcome.board}: {outcome.network} did not settle while it was warmed up"
            )
        if not outcome.disturbances:
            return
        said = (
            f"{outcome.board} was not quiet while {outcome.network} was "
            f"timed, twice: {'; '.join(outcome.disturbances)}"
        )
        if self.on_disturbance is OnDisturbance.stop:
            raise BoardError(f"{said}; keep the board quiet and its clocks fixed")
        self.tell(f"flagged: {said}; its time is used, and not kept for later runs")

    def _refuse(self, outcome: Outcome) -> None:
        said = f"{outcome.board} cannot run {outcome.network}: {outcome.refused}"
        if self.unrunnable_ms is None:
            raise UnmeasuredError(
                f"{said}; latency.unrunnable_ms=<milliseconds beyond T> counts such networks as "
                f"that slow and goes on, and what was measured is kept for that run"
            )
        self._known_ms[outcome.network] = self.unrunnable_ms
        self._unrunnable.add(outcome.network)
        self.tell(f"{said}; it counts as {self.unrunnable_ms:g} ms")
