"""The timetables to compare for a frame: the mapper's, by margin, and the baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import final

from jaxtyping import Float64
from numpy import ndarray

from benchmarks.mapped.baselines import (
    Method,
    at_once,
    greedy,
    mapped,
    quickest,
    serial,
    shortest,
)
from edgenas_runtime.mapping.model.choices import mapping_choices
from edgenas_runtime.mapping.model.platform_description import Platform
from edgenas_runtime.mapping.model.timing_table import Bound, TimingTable
from edgenas_runtime.mapping.solving.program import Feasibility
from edgenas_runtime.mapping.solving.slack import Timetable, check_networks

_BASELINES = {
    Method.shortest: shortest,
    Method.greedy: greedy,
    Method.quickest: quickest,
    Method.serial: serial,
    Method.at_once: at_once,
}


@final
@dataclass(frozen=True)
class MappedBoard:
    """The networks of a frame and the platform that they run on."""

    table: TimingTable
    platform: Platform
    bound: Bound
    frame_ms: float


@final
@dataclass
class Candidate:
    """A timetable, the methods that produce it, and its measurements."""

    timetable: Timetable
    methods: list[Method] = field(default_factory=list)
    margins: list[float] = field(default_factory=list)
    """Margins with which the mapper produces it."""
    ms: list[Float64[ndarray, "networks 2"]] = field(default_factory=list)
    """Start and end of each network, for each frame that ran."""
    differences: Float64[ndarray, " networks"] | None = None
    """Largest difference of each network's outputs from fp32, relative to the largest output."""
    error: str = ""
    """Error that ended its measurement; empty if none."""

    @property
    def name(self) -> str:
        """The methods, with the margins of the mapper."""
        names = [method.value for method in self.methods]
        if self.margins:
            names[0] += f" +{', '.join(f'{100 * margin:g}' for margin in self.margins)} %"
        return " = ".join(names)


def candidates(
    board: MappedBoard, methods: Sequence[Method], margins: Sequence[float]
) -> tuple[list[Candidate], Mapping[float, Feasibility]]:
    """Return the distinct timetables, and the mapper's answer for each margin.

    Raises:
      ValueError: if a network has no configuration of this platform.
    """
    times_ms = board.table.of(board.bound)
    columns = board.table.configurations
    choices = mapping_choices(times_ms, columns, board.platform)
    check_networks(board.table.networks, choices)
    contenders: list[Candidate] = []
    answers: dict[float, Feasibility] = {}

    def candidate(timetable: Timetable, method: Method) -> Candidate:
        contender = next((old for old in contenders if is_same(old.timetable, timetable)), None)
        if contender is None:
            contender = Candidate(timetable)
            contenders.append(contender)
        if method not in contender.methods:
            contender.methods.append(method)
        return contender

    for margin in sorted(margins) if Method.mapped in methods else ():
        longer = mapping_choices((1 + margin) * times_ms, columns, board.platform)
        answers[margin], own = mapped(longer, columns, frame_ms=board.frame_ms)
        if own:
            candidate(without_margin(own, margin), Method.mapped).margins.append(margin)
    for method, make in _BASELINES.items():
        if method in methods:
            candidate(make(choices, columns), method)
    return contenders, answers


def planned_ms(timetable: Timetable) -> float:
    """Return the planned length of a timetable."""
    return max(placed.end_ms for placed in timetable)


def without_margin(timetable: Timetable, margin: float) -> Timetable:
    """Return the timetable with the times of the table, which the margin had lengthened."""
    part = 1 / (1 + margin)
    return tuple(
        replace(one, start_ms=part * one.start_ms, end_ms=part * one.end_ms) for one in timetable
    )


def is_same(timetable: Timetable, other: Timetable) -> bool:
    """Return whether two timetables have the same order, configurations and places."""

    def order(table: Timetable) -> list[tuple[object, ...]]:
        return [
            (each.network, each.configuration, each.place, each.after, each.is_exclusive)
            for each in table
        ]

    return order(timetable) == order(other)
