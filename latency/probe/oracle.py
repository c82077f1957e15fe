"""Latency measured on a live board during the search: cached times first, then the board."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from edgenas_core.machine.stability import OnDisturbance, StabilityConfig, drifted
from edgenas_core.machine.timing import Statistic
from edgenas_core.types.kind import Kind
from latency.base import Latencies, Space, UnmeasuredError
from latency.probe.address import spoken
from latency.probe.board import BoardError, Timed
from latency.probe.cache import Cache
from latency.probe.pool import BoardPool, ProbeOutcome


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
    export_fp32: Callable[[str, str], bytes]
    tell: Callable[[str], None]  # prints a line for the user
    statistic: Statistic = Statistic.median
    quiet: StabilityConfig = field(default_factory=StabilityConfig)
    on_disturbance: OnDisturbance = OnDisturbance.stop
    unrunnable_ms: float | None = None  # latency of a network that the board cannot run
    confirm_top: int = 5
    too_fast: Callable[[Int64[ndarray, "n D"], Float64[ndarray, "n"]], Bool[ndarray, "n"]] = (
        lambda _, ms: np.zeros(len(ms), bool)
    )  # True where a time is contradicted by the others
    source: str = "probe"
    instant: bool = False
    _known_ms: dict[str, float] = field(default_factory=dict, repr=False)
    _kind: dict[str, Kind] = field(default_factory=dict, repr=False)
    _doubted: set[str] = field(default_factory=set, repr=False)  # timed again
    _flagged: Counter[str] = field(default_factory=Counter, repr=False)

    @property
    def at_once(self) -> int:
        """Number of boards."""
        return len(self.pool.boards)

    def answer(self, architectures: Int64[ndarray, "*n D"]) -> Latencies:
        """Milliseconds per inference of the device's batch; new networks are timed.

        Raises:
          IndexError: if an architecture lies outside the space.
          UnmeasuredError: if the board cannot run an architecture's network.
          LostConnectionError, BoardError: if the boards are lost, or under load where that is to stop.
        """
        names = self._names(architectures)
        self._learn([name for name in dict.fromkeys(names) if name not in self._known_ms])
        ms = np.array([self._known_ms[name] for name in names], np.float64)
        kinds = np.array([self._kind[name] for name in names], np.int8)
        shape = architectures.shape[:-1]
        return Latencies(ms.reshape(shape), kinds.reshape(shape))

    def known(self, architectures: Int64[ndarray, "*n D"]) -> Bool[ndarray, "*n"]:
        """Return True everywhere: the board can be asked.

        Raises:
          IndexError: if an architecture lies outside the space.
        """
        self.space.canonical(architectures)
        return np.ones(architectures.shape[:-1], bool)

    def remember(self, architectures: Int64[ndarray, "n D"], latencies: Latencies) -> None:
        """Take over the answers of an earlier part of the same search."""
        answers = zip(latencies.ms.tolist(), latencies.kind.tolist(), strict=True)
        for name, (ms, kind) in zip(self._names(architectures), answers, strict=True):
            self._known_ms[name], self._kind[name] = ms, Kind(kind)

    def measure_again(
        self, architectures: Int64[ndarray, "n D"], *, in_fp32: bool = False
    ) -> Latencies:
        """Time networks anew, even known ones, or their fp32 files; NaN where the board cannot run one.

        Each architecture is timed as it is, and not as its canonical one. Nothing is cached.

        Raises:
          IndexError: if an architecture lies outside the space.
          LostConnectionError, BoardError: if the boards are lost, or under load where that is to stop.
        """
        self.space.canonical(architectures)  # refuses what lies outside
        names = [self.space.text(architecture) for architecture in self.space.normal(architectures)]
        again = dict.fromkeys(names, (np.nan, Kind.missing))
        for outcome in self.pool.measure(list(again), self.export_fp32 if in_fp32 else self.export):
            if outcome.timed is not None:
                again[outcome.network] = self._ms(outcome.timed), self._judge(outcome)
        for name in self._too_fast(
            {name: ms for name, (ms, kind) in again.items() if kind is Kind.measured}
        ):
            again[name] = again[name][0], Kind.implausible
        ms, kinds = zip(*(again[name] for name in names), strict=True)
        return Latencies(np.array(ms, np.float64), np.array(kinds, np.int8))

    def _names(self, architectures: Int64[ndarray, "*n D"]) -> list[str]:
        rows = self.space.canonical(architectures).reshape(-1, architectures.shape[-1])
        return [self.space.text(row) for row in rows]

    def still_holds(self, cached: Timed) -> bool:
        """Whether the reference network takes the same time now as when a time was cached."""
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
                self._known_ms[name], self._kind[name] = self._ms(cached), Kind.measured
        self._take(unknown)
        if names:
            self._doubt()

    def _doubt(self) -> None:
        """Time implausibly fast networks again, each once; one that stays so is marked.

        The first networks are too few to contradict each other, and are judged when there are more.
        """
        first_ms = self._measured_ms(name for name in self._kind if name not in self._doubted)
        doubted = self._too_fast(first_ms)
        self._doubted.update(doubted)
        self._take(doubted)
        for name in self._too_fast(self._measured_ms(doubted)):
            self._kind[name] = Kind.implausible
        for name in doubted:
            kind = self._kind[name]
            end = "which counts" if kind is Kind.measured else f"and is marked {kind.name}"
            self._flag(
                "implausibly fast times",
                f"{name} took {first_ms[name]:.3g} ms, implausibly fast by the times of the others; "
                f"timed again, it took {self._known_ms[name]:.3g} ms, {end}",
            )

    def _take(self, names: Sequence[str]) -> None:
        """Time networks on the boards; the last time of each counts."""
        for outcome in self.pool.measure(names, self.export):
            if outcome.timed is None:
                self._refuse(outcome)
                continue
            kind = self._judge(outcome)
            if kind is Kind.measured:
                self.cache.add(outcome.network, outcome.timed, outcome.board)
            self._known_ms[outcome.network] = self._ms(outcome.timed)
            self._kind[outcome.network] = kind

    def _measured_ms(self, names: Iterable[str]) -> dict[str, float]:
        return {name: self._known_ms[name] for name in names if self._kind[name] is Kind.measured}

    def _too_fast(self, asked_ms: Mapping[str, float]) -> list[str]:
        """Names of implausibly fast networks among `asked_ms`, latencies in ms by name.

        They are compared with each other and with all that were measured here.
        """
        if not asked_ms:
            return []
        ms = {**self._measured_ms(self._kind), **asked_ms}
        rows = np.stack([self.space.parse(name) for name in ms])
        fast = self.too_fast(rows, np.array([*ms.values()]))
        return [
            name for name, is_fast in zip(ms, fast, strict=True) if is_fast and name in asked_ms
        ]

    def _ms(self, timed: Timed) -> float:
        return float(self.statistic.of(timed.ms))

    def _judge(self, outcome: ProbeOutcome) -> Kind:
        """Kind of a time: measured, or under load where the settings let that pass."""
        if outcome.timed is not None and not outcome.timed.is_stable:
            self._flag(
                "networks that did not settle",
                f"{spoken(outcome.board)}: {outcome.network} did not settle while it was warmed up",
            )
        if not outcome.disturbances:
            return Kind.measured
        sentence = (
            f"{spoken(outcome.board)} was not quiet while {outcome.network} was "
            f"timed, twice: {'; '.join(outcome.disturbances)}"
        )
        if self.on_disturbance is OnDisturbance.stop:
            raise BoardError(
                f"{sentence}; keep the board quiet and its clocks fixed, or take "
                f"latency.on_disturbance=flag, which marks such times"
            )
        self._flag(
            "measurements under load",
            f"{sentence}; measurements under load are marked unreliable and are not cached",
        )
        return Kind.disturbed

    def _flag(self, what: str, sentence: str) -> None:
        """Print the first flag of a kind in full, then their count at each power of ten."""
        self._flagged[what] += 1
        count = self._flagged[what]
        if count == 1:
            self.tell(f"flagged: {sentence}")
        elif count in {10**power for power in range(1, 7)}:
            self.tell(f"flagged: {count:,} {what} so far")

    def _refuse(self, outcome: ProbeOutcome) -> None:
        sentence = f"{outcome.board} cannot run {outcome.network}: {outcome.refused}"
        if self.unrunnable_ms is None:
            raise UnmeasuredError(
                f"{sentence}; latency.unrunnable_ms=<milliseconds beyond T> counts such networks as "
                f"that slow and goes on, and what was measured is kept for that run"
            )
        self._known_ms[outcome.network] = self.unrunnable_ms
        self._kind[outcome.network] = Kind.penalty
        self._flag(
            "networks that cannot run", f"{sentence}; it counts as {self.unrunnable_ms:g} ms"
        )
