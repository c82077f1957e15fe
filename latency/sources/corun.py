"""`latency=corun scenario=hog`: latency while other work runs beside.

A table measured in the scenario, its holes filled from the latency alone and a fitted slowdown;
docs/how-to/when-the-board-is-busy.md is for the user.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

from edgenas_core.contention.scenario import scenario_named
from edgenas_core.machine.timing import Statistic
from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task
from latency.base import LatencyConfig, Space
from latency.devices.measured import device_named
from latency.devices.registry import SCENARIO_MARK
from latency.sources.lookup import TableLatency
from latency.sources.table import AutoLatencyConfig

_TAILS = tuple(f"@{tail.value}" for tail in Statistic if tail is not Statistic.median)


@final
@dataclass
class CorunLatencyConfig(LatencyConfig):
    """The scenario, and the statistic of the times in it."""

    scenario: str | None = "${scenario}"  # a name, or the path of a file
    statistic: Statistic = Statistic.median

    def build(self, device: str, space: Space, task: Task) -> TableLatency:
        """The oracle of a device, named by its id without a scenario.

        Raises:
          UserError: if there is no such scenario, or the device has no latencies in it.
        """
        if self.scenario is None:
            raise UserError("latency=corun needs a scenario, as in scenario=hog")
        scenario = scenario_named(self.scenario)
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
        alone_id = device_named(space, device, self.statistic).id.partition("@")[0]
        auto = AutoLatencyConfig(self.statistic).build(f"{alone_id}{scenario.suffix}", space, task)
        return replace(auto, source="corun")
