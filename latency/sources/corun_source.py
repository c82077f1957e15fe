"""`latency=corun scenario=hog`: latency while other things go on, in one of three fidelities.

A table measured in the situation (its holes filled from the latency alone and a fitted slowdown),
else tables of the same hogs held to other limits, between which a curve is drawn; and at the end the
best networks timed here, in the situation. docs/how-to/search-in-a-scenario.md is for the user.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import final

from latency.base import LatencyOracle
from latency.devices.measured import device_named, measured_on
from latency.devices.registry import SITUATED
from latency.measuring.here import timed_here
from latency.sources.between_limits import simulated
from latency.sources.corun import CorunLatency
from latency.sources.table import TableLatency
from latency.sources.table_source import AutoLatencyConfig, LatencyConfig
from runtime.contention.scenario import Scenario, scenario_named
from runtime.machine.timing import Statistic
from runtime.network.backend import Device
from runtime.network.task import Task
from runtime.shell.errors import UserError

_TAILS = tuple(f"@{one.value}" for one in Statistic if one is not Statistic.median)


@final
@dataclass
class CorunLatencyConfig(LatencyConfig):
    """The situation, and whether the best are timed in it on this machine, which is the device then."""

    scenario: str | None = "${scenario}"  # a name, or the path of a file
    statistic: Statistic = Statistic.median
    confirm_top: int = 0
    here: Device = Device.cpu  # where the networks run that are timed at the end

    def build(self, device: str, task: Task) -> LatencyOracle:
        """The oracle of a device that is named as it is alone.

        Raises:
          UserError: if there is no such scenario, or nothing is known of the device in it.
        """
        scenario = self._scenario()
        if SITUATED in device:
            raise UserError(
                f"device={device} has a situation in its name already; with latency=corun name the "
                f"device alone, or take latency=auto"
            )
        if device.endswith(_TAILS):
            raise UserError(
                f"device={device} has a statistic in its name; with latency=corun name the device "
                f"alone, and latency.statistic="
            )
        if self.confirm_top < 0:
            raise UserError(f"latency.confirm_top={self.confirm_top} must not be negative")
        table = self._table(device, scenario, task)
        if not self.confirm_top:
            return table
        here = timed_here(device, str(self.scenario), task, self.here)
        return CorunLatency(table, self.confirm_top, partial(here, self.statistic))

    def _scenario(self) -> Scenario:
        if self.scenario is None:
            raise UserError("latency=corun needs a scenario, as in scenario=hog")
        try:
            return scenario_named(self.scenario)
        except ValueError as error:
            raise UserError(str(error)) from error

    def _table(self, device: str, scenario: Scenario, task: Task) -> TableLatency:
        alone_id = device_named(device, self.statistic).id.partition("@")[0]
        name = f"{alone_id}{scenario.suffix}"
        solo = AutoLatencyConfig(self.statistic)
        if not scenario.suffix or self._is_measured(name):
            table = solo.build(name, task)
            return replace(table, source="corun")
        alone = solo.build(device, task)
        return simulated(name, scenario, alone, self.statistic, task)

    def _is_measured(self, name: str) -> bool:
        try:
            device = device_named(name, self.statistic)
        except UserError:
            return False  # no table, here or in the package, has a column of this name
        return measured_on(device) is not None
