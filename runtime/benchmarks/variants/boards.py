"""Boards: devices of which any may run the network, each with a time limit of its own.

A board is written as `h200/b1@0.6ms,0.8ms or xeon/b1@2ms`: here two boards, one for each combination
of the limits of its devices. A study searches the devices of a board one at a time and all together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import final

from edgenas_core.machine.timing import Statistic
from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task
from edgenas_core.types.units import milliseconds
from edgenas_runtime.mapping.latency import DeviceSlack, best_of, device_of
from latency.base import LatencyConfig, LatencyOracle, Space
from latency.devices.measured import device_named
from latency.sources.table import AutoLatencyConfig

_FORM = (
    "write for example latency.boards=['h200/torch-graph/fp32/b1@0.6ms,0.8ms or eyeriss/b1@5ms']"
)
_OR = " or "


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


@final
@dataclass
class BoardLatencyConfig(LatencyConfig):
    """Latencies of devices, and of whole boards by names such as `h200/b1@0.6ms or xeon/b1@2ms`."""

    boards: list[str] = field(default_factory=list)
    statistic: Statistic = Statistic.median

    def build(self, device: str, space: Space, task: Task) -> LatencyOracle:
        """The oracle of a device, or of a board whose units have one limit each."""
        auto = AutoLatencyConfig(self.statistic)
        if _OR not in device:
            return auto.build(device, space, task)
        units = [_unit(text) for text in device.split(_OR)]
        ids = [device_named(space, name, self.statistic).id for name, _ in units]
        twice = next((name for name in ids if ids.count(name) > 1), None)
        if twice is not None:
            raise UserError(f"latency.boards: {twice} is twice on one board; name each device once")
        return best_of(
            [DeviceSlack(auto.build(name, space, task), milliseconds(left)) for name, left in units]
        )

    def boards_of(self, space: Space) -> list[Board]:
        """All boards of the settings, without repetitions."""
        boards = []
        for units in combinations(self.boards):
            named = [
                (device_named(space, name, self.statistic).id, milliseconds(left))
                for name, left in units
            ]
            boards.append(Board(device_of(named), tuple(Unit(*pair) for pair in named)))
        return [*dict.fromkeys(boards)]


def combinations(boards: Sequence[str]) -> list[tuple[tuple[str, str], ...]]:
    """Boards with one limit for each unit, each as pairs of a device's name and its limit.

    Raises:
      UserError: if a board is not of the form, or has one device only.
    """
    found: list[tuple[tuple[str, str], ...]] = []
    for text in boards:
        units = []
        for unit in text.split(_OR):
            name, limits = _unit(unit)
            units.append([(name, limit.strip()) for limit in limits.split(",")])
        if len(units) < 2:
            raise UserError(f"latency.boards={text} has one device, not several; {_FORM}")
        found += product(*units)
    return found


def problems_of(boards: Sequence[str]) -> list[str]:
    """Problems of a study: each unit of each board alone, then all units together."""
    problems = []
    for units in combinations(boards):
        alone = [f"{name}@{left}" for name, left in units]
        problems += [*alone, f"{_OR.join(alone)}@{units[0][1]}"]
    return [*dict.fromkeys(problems)]


def _unit(text: str) -> tuple[str, str]:
    """Name of a device and its limits as text."""
    device, at, limits = text.strip().rpartition("@")
    if not at or not device:
        raise UserError(f"latency.boards: {text.strip() or 'nothing'} is not device@time; {_FORM}")
    return device, limits
