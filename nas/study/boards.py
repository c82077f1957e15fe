"""Boards: devices of which any may run the network, each with a time limit of its own.

A board is written as `h200/b1@0.6ms,0.8ms or xeon/b1@2ms`: here two boards, one for each combination
of the limits of its devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import final

from edgenas_core.types.architectures import Enumerable
from edgenas_core.types.errors import UserError
from latency.base import LatencyOracle
from latency.sources.lookup import TableLatency
from latency.sources.mapped import Left, MappedLatency, best_of


@final
@dataclass(frozen=True)
class Unit:
    """One device of a board."""

    device: str
    left_ms: float  # its time limit


@final
@dataclass(frozen=True)
class Board:
    """Devices that a study searches one at a time and all together."""

    device: str  # id of all together; their latency is in milliseconds of the first unit
    units: tuple[Unit, ...]

    @property
    def limit_ms(self) -> float:
        """Limit of the search for all together: that of the first unit."""
        return self.units[0].left_ms


def combinations(text: str) -> list[tuple[tuple[str, str], ...]]:
    """Boards of one line, each as pairs of a device's name and its limit.

    Raises:
      UserError: if the line is not of the form, or has one device only.
    """
    form = "write for example boards=['h200/torch-graph/fp32/b1@0.6ms,0.8ms or eyeriss/b1@5ms']"
    units = []
    for unit in text.split(" or "):
        device, at, times = unit.strip().rpartition("@")
        if not at or not device:
            raise UserError(
                f"boards={text}: {unit.strip() or 'nothing'} is not device@time; {form}"
            )
        units.append([(device, limit.strip()) for limit in times.split(",")])
    if len(units) < 2:
        raise UserError(f"boards={text} has one device, for which problems= is enough; {form}")
    return [*product(*units)]


def together(units: Sequence[tuple[LatencyOracle, float]]) -> tuple[Board, MappedLatency]:
    """A board, and the latency of the best of its devices.

    Raises:
      UserError: if a device occurs twice, or its latencies are no table.
    """
    left = []
    for oracle, left_ms in units:
        if not isinstance(oracle, TableLatency) or not isinstance(oracle.space, Enumerable):
            raise UserError(
                f"boards: latencies of {oracle.device} from {oracle.source} are no table; "
                f"use latency=auto"
            )
        left.append(Left(oracle, left_ms))
    names = [oracle.device for oracle, _ in units]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"boards: {twice} is twice on one board; name each device once")
    mapped = best_of(left)
    board_units = tuple(Unit(name, ms) for name, (_, ms) in zip(names, units, strict=True))
    return Board(mapped.device, board_units), mapped
