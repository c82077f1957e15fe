"""`latency=regression`: the device's linear model, even for what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from common.types.task import Task
from latency.base import LatencyConfig, Space
from latency.devices.measured import device_named
from latency.models.regression import embedded_models
from latency.sources.lookup import Table
from latency.sources.table import find_measured, predicted_table
from runtime.machine.timing import Statistic


@final
@dataclass
class RegressionLatencyConfig(LatencyConfig):
    """The device's linear model for every architecture, even for those that were measured."""

    statistic: Statistic = Statistic.median

    def build(self, device: str, space: Space, task: Task) -> Table:
        """The embedded model; a device that has none is fitted on its measured architectures."""
        found = device_named(space, device, self.statistic)
        if found.id in embedded_models(space):
            return predicted_table(space, found, None, task)
        return predicted_table(space, *find_measured(space, device, self.statistic), task)
