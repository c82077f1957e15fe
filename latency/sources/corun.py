"""`latency=corun scenario=hog`: latency while other work runs beside, in one of two fidelities.

A table measured in the scenario, its holes filled from the latency alone and a fitted slowdown; and at
the end the best networks timed here, in the scenario. docs/how-to/when-the-board-is-busy.md is for the
user.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import final

from jaxtyping import Int64
from numpy import ndarray

from common.types.errors import UserError
from common.types.task import Task
from latency.base import Latencies, LatencyConfig, LatencyOracle, Space
from latency.devices.measured import device_named
from latency.devices.registry import SCENARIO_MARK
from latency.sources.lookup import LookUp, TableLatency
from latency.sources.table import AutoLatencyConfig
from runtime.contention.scenario import Scenario, scenario_named
from runtime.machine.timing import Statistic
from runtime.network.backend import Device

_TAILS = tuple(f"@{tail.value}" for tail in Statistic if tail is not Statistic.median)


@final
@dataclass(frozen=True, kw_only=True)
class CorunLatency(LookUp):
    """A `LiveOracle`: a table answers during the search, the device times the best at its end."""

    table: TableLatency
    confirm_top: int
    measure_again: Callable[[Int64[ndarray, "n D"]], Latencies]

    def look_up(self, architectures: Int64[ndarray, "*n D"]) -> Latencies:
        """Latencies of the table."""
        return self.table.look_up(architectures)

    def remember(self, architectures: Int64[ndarray, "n D"], latencies: Latencies) -> None:
        """Do nothing: a table gives the same answers again."""


@final
@dataclass
class CorunLatencyConfig(LatencyConfig):
    """The scenario, and how many of the best networks are timed in it on this machine."""

    scenario: str | None = "${scenario}"  # a name, or the path of a file
    statistic: Statistic = Statistic.median
    confirm_top: int = 0
    here: Device = Device.cpu  # where the networks run that are timed at the end

    def build(self, device: str, space: Space, task: Task) -> LatencyOracle:
        """The oracle of a device, named by its id without a scenario.

        Raises:
          UserError: if there is no such scenario, or the device has no latencies in it.
        """
        scenario = self._scenario()
        if SCENARIO_MARK in device:
            raise UserError(
                f"device={device} has a scenario in its name already; with latency=corun name the "
                f"device alone, or take latency=auto"
            )
        if device.endswith(_TAILS):
            raise UserError(
                f"device={device} has a statistic in its name; with latency=corun name the device "
                f"alone, and latency.statistic="
            )
        if self.confirm_top < 0:
            raise UserError(f"latency.confirm_top={self.confirm_top} must not be negative")
        alone_id = device_named(space, device, self.statistic).id.partition("@")[0]
        auto = AutoLatencyConfig(self.statistic).build(f"{alone_id}{scenario.suffix}", space, task)
        table = replace(auto, source="corun")
        if not self.confirm_top:
            return table
        from latency.measuring.here import timed_here  # noqa: PLC0415 - a look-up times nothing

        here = timed_here(device, str(self.scenario), space, task, self.here)
        return CorunLatency(
            space=space,
            device=table.device,
            source=table.source,
            description=f"{table.description}; the best {self.confirm_top} are timed here at the end",
            warnings=table.warnings,
            uncertainty=table.uncertainty,
            table=table,
            confirm_top=self.confirm_top,
            measure_again=partial(here, self.statistic),
        )

    def _scenario(self) -> Scenario:
        if self.scenario is None:
            raise UserError("latency=corun needs a scenario, as in scenario=hog")
        try:
            return scenario_named(self.scenario)
        except ValueError as error:
            raise UserError(str(error)) from error
