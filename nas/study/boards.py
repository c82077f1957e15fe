"""Boards: devices of which any may run the network, each with time left of its own.

A board is written as `h200/b1@0.6ms,0.8ms or xeon/b1@2ms`: here two boards, one for each combination
of what its devices leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import final

from latency.base import LatencyOracle
from latency.sources.mapped import Left, MappedLatency
from latency.sources.table import TableLatency
from runtime.shell.errors import UserError


@final
@dataclass(frozen=True)
class Unit:
    """One device of a board."""

    device: str
    left_ms: float  # what it leaves for the network


@final
@dataclass(frozen=True)
class Board:
    """All of its devices, which the study searches one at a time and together."""

    device: str  # the id of all together; a latency of it is in milliseconds of the first
    units: tuple[Unit, ...]

    @property
    def limit_ms(self) -> float:
        """The limit of the search for all together: what the first leaves."""
        return self.units[0].left_ms


def combinations(text: str) -> list[tuple[tuple[str, str], ...]]:
    """The boards of one line, each as the names of its devices with what they leave.

    Raises:
      UserError: if it is not of the form, or has one device only.
    """
    form = "write for example boards=['h200/torch-graph/fp32/b1@0.6ms,0.8ms or eyeriss/b1@5ms']"
    units = []
    for unit in text.split(" or "):
        device, at, times = unit.strip().rpartition("@")
        if not at or not device:
            raise UserError(
                f"boards={text}: {unit.strip() or 'nothing'} is not device@time; {form}"
            )
        units.append([(device, one.strip()) for one in times.split(",")])
    if len(units) < 2:
        raise UserError(f"boards={text} has one device, for which problems= is enough; {form}")
    return [*product(*units)]


def together(units: Sequence[tuple[LatencyOracle, float]]) -> tuple[Board, MappedLatency]:
    """A board, and the latency of the best of its devices.

    Raises:
      UserError: if a device is there twice, or its latencies are no table.
    """
    left = []
    for oracle, left_ms in units:
        if not isinstance(oracle, TableLatency):
            raise UserError(
                f"boards: latencies of {oracle.device} from {oracle.source} are no table; "
                f"take latency=auto"
            )
        left.append(Left(oracle, left_ms))
    names = [oracle.device for oracle, _ in units]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"boards: {twice} is twice on one board; name each device once")
    mapped = MappedLatency(tuple(left))
    own = tuple(Unit(name, ms) for name, (_, ms) in zip(names, units, strict=True))
    return Board(mapped.device, own), mapped
