"""`latency=transfer`: a new device, predicted from the probes in a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from omegaconf import MISSING

from latency.models.sheet import read_probes
from latency.models.transferred import transfer_from
from latency.sources.table import TableLatency
from latency.sources.table_source import LatencyConfig, by_architecture
from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from runtime.network.task import Task


@final
@dataclass
class TransferLatencyConfig(LatencyConfig):
    """The probes as measured, every other cell as `latency.models.transferred` predicts it."""

    probes: str = MISSING  # CSV with the columns arch and latency_ms

    def build(self, device: str, task: Task) -> TableLatency:
        """Predict the space; the data set is the one that the probes were timed for."""
        found = transfer_from(device, read_probes(Path(self.probes)))
        is_predicted = np.ones(NAS_BENCH_201.size, bool)
        is_predicted[found.probes.index] = False
        said = [
            "transfer: all but the probes are predicted",
            found.summary,
            found.comparison,
            f"the probes are taken to be networks for {task.name}",
        ]
        return TableLatency(
            device=device,
            source="transfer",
            description="; ".join(said),
            table_ms=by_architecture(found.latency_ms),
            is_predicted=by_architecture(is_predicted),
        )
