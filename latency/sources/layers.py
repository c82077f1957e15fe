"""`latency=layers`: a network takes as long as its layers, which a model of measured layers predicts.

The network is exported and optimised by ONNX Runtime here, which tells its fused layers; the times are those of the
device. Layers are fused alike wherever the processor's vectors are as wide.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np
from jaxtyping import Bool, Int64
from numpy import ndarray

from common.types.errors import UserError
from common.types.kind import Kind
from common.types.task import Task
from latency.base import Latencies, LatencyConfig, Space
from latency.models.confidence import ResidualUncertainty
from latency.models.layer_table import LayerTable, open_layer_table
from latency.probe.agent import OnnxRuntime
from latency.probe.config import exported
from latency.probe.layer_times import layer_times
from latency.probe.settings import BoardPrecision

_DEVICE = re.compile(r".+/onnxruntime/(?P<precision>fp32|int8)/b(?P<batch>[1-9]\d*)")


@final
@dataclass(frozen=True)
class LayersLatency:
    """Predictions by the sum of layers; each network is exported once, which takes a second or more."""

    space: Space
    task: Task
    table: LayerTable
    precision: BoardPrecision
    batch_size: int
    source: str = "layers"
    instant: bool = False
    _predicted_ms: dict[str, float] = field(default_factory=dict)

    @property
    def device(self) -> str:
        """Board / runtime / precision / batch."""
        return self.table.device

    @property
    def description(self) -> str:
        """Where the times of the layers come from, and how well they predict networks."""
        card = f"; {self.table.card}" if self.table.card else ""
        return (
            f"layers: predicted by the sum of a network's layers, from {len(self.table.layers):,} measured "
            f"inside {self.table.networks:,} networks on {self.device} ({self.table.quality}){card}"
        )

    @property
    def uncertainty(self) -> ResidualUncertainty:
        """Spread of the measured times of held-out networks around the predicted ones."""
        return self.table.uncertainty

    def answer(self, architectures: Int64[ndarray, "*n D"]) -> Latencies:
        """Milliseconds per inference."""
        rows = architectures.reshape(-1, architectures.shape[-1])
        ms = np.array([self._ms(self.space.text(row)) for row in rows])
        shape = architectures.shape[:-1]
        return Latencies(ms.reshape(shape), np.full(shape, Kind.layers, np.int8))

    def known(self, architectures: Int64[ndarray, "*n D"]) -> Bool[ndarray, "*n"]:
        """True: every network can be predicted."""
        return np.ones(architectures.shape[:-1], bool)

    def _ms(self, text: str) -> float:
        if text not in self._predicted_ms:
            onnx = exported(
                self.space, self.task, self.batch_size, text, "onnx", precision=self.precision
            )
            profiled = OnnxRuntime("CPUExecutionProvider", threads=1).layers(onnx, runs=1)
            layers = [layer for layer, _ in layer_times(profiled, onnx)]
            self._predicted_ms[text] = self.table.predict_ms(layers)
        return self._predicted_ms[text]


@final
@dataclass
class LayersLatencyConfig(LatencyConfig):
    """The layer model of a device, of any space."""

    any_side: ClassVar[bool] = True

    def build(self, device: str, space: Space, task: Task) -> LayersLatency:
        """Open the device's table of layers.

        Raises:
          UserError: if there is none, or the device is not one of ONNX Runtime on a processor.
        """
        match = _DEVICE.fullmatch(device)
        if match is None:
            raise UserError(
                f"latency=layers: device={device} is not of the form <board>/onnxruntime/fp32/b1 or int8"
            )
        table = open_layer_table(device)
        return LayersLatency(
            space, task, table, BoardPrecision(match["precision"]), int(match["batch"])
        )
