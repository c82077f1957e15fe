"""What every source of latencies promises to the configuration."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from latency.base import LatencyOracle
from nas.accuracy.base import Dataset


@dataclass
class LatencyConfig(ABC):
    """One source of latencies."""

    @abstractmethod
    def build(self, device: str, dataset: Dataset) -> LatencyOracle:
        """Make the oracle of a device, named by its id or its column.

        Raises:
          UserError: if this source knows no such device, or its files cannot be used.
        """
