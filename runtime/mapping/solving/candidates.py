"""What there is to run of a frame: the mapper's timetables by margin, and the alternatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

from jaxtyping import Float64
from numpy import ndarray

from runtime.mapping.model.choices import choices
from runtime.mapping.model.platform_description import Platform
from runtime.mapping.model.timing_table import Bound, TimingTable
from runtime.mapping.solving.baselines import (
    Method,
    at_once,
    greedy,
    mapped,
    quickest,
    serial,
    shortest,
)
from runtime.mapping.solving.program import Answer
from runtime.mapping.solving.slack import check_networks
from runtime.mapping.solving.timetable import Timetable, is_same, without_margin

_WITHOUT_MARGIN = {
    Method.shortest: shortest,
    Method.greedy: greedy,
    Method.quickest: quickest,
    Method.serial: serial,
    Method.at_once: at_once,
}


@final
@dataclass(frozen=True)
class Board:
    """The networks of a frame, and what they run on."""

    table: TimingTable
    platform: Platform
    bound: Bound
    frame_ms: float


@final
@dataclass
class Candidate:
    """A timetable, and who comes to it."""

    timetable: Timetable
    ways: list[Method] = field(default_factory=list)
    margins: list[float] = field(default_factory=list)
    """With which the mapper does."""
    ms: list[Float64[ndarray, "networks 2"]] = field(default_factory=list)
    """Of each frame that ran: when each network began and ended."""
    differences: Float64[ndarray, " networks"] | None = None
    """Of each network's outputs from fp32, the largest, as part of the largest output."""
    error: str = ""
    """Why it runs no longer."""

    @property
    def name(self) -> str:
        """The ways, and of a mapping the margins."""
        names = [way.value for way in self.ways]
        if self.margins:
            names[0] += f" +{', '.join(f'{100 * margin:g}' for margin in self.margins)} %"
        return " = ".join(names)


def candidates(
    board: Board, ways: Sequence[Method], margins: Sequence[float]
) -> tuple[list[Candidate], Mapping[float, Answer]]:
    """Timetables that differ, and what the mapper says for each margin.

    Raises:
      ValueError: if a network has no configuration of this platform.
    """
    times_ms = board.table.of(board.bound)
    columns = board.table.configurations
    among = choices(times_ms, columns, board.platform)
    check_networks(board.table.networks, among)
    found: list[Candidate] = []
    answers: dict[float, Answer] = {}

    def candidate(timetable: Timetable, way: Method) -> Candidate:
        one = next((old for old in found if is_same(old.timetable, timetable)), None)
        if one is None:
            one = Candidate(timetable)
            found.append(one)
        if way not in one.ways:
            one.ways.append(way)
        return one

    for margin in sorted(margins) if Method.mapped in ways else ():
        longer = choices((1 + margin) * times_ms, columns, board.platform)
        answers[margin], own = mapped(longer, columns, frame_ms=board.frame_ms)
        if own:
            candidate(without_margin(own, margin), Method.mapped).margins.append(margin)
    for way, make in _WITHOUT_MARGIN.items():
        if way in ways:
            candidate(make(among, columns), way)
    return found, answers
