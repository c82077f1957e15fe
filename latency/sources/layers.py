"""`latency=layers`: a network takes as long as its layers, which a model of measured layers predicts.

The times are those of the device, the layers are listed on this machine. For ONNX Runtime the network is exported and optimised,
which fuses layers alike wherever the processor's vectors are as wide; for graphs of a GPU they are the operations that torch dispatches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from edgenas_core.command.console import PlainConsole, say
from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from edgenas_core.types.task import Task
from latency.base import Latencies, LatencyConfig, LatencyOracle, LiveOracle, Space
from latency.models.confidence import ResidualUncertainty
from latency.models.layer_table import (
    LayerTable,
    find_layer_table,
    open_layer_table,
    ways_to_layers,
)
from latency.probe.agent import OnnxRuntime
from latency.probe.config import exported
from latency.probe.layer_times import layer_times
from latency.probe.settings import BoardPrecision

_GRAPH = "/torch-graph/"
_DEVICE = re.compile(
    rf".+(/onnxruntime/(?P<precision>fp32|int8)|{_GRAPH}fp32)/b(?P<batch>[1-9]\d*)"
)

_OF_OTHERS = 1.5
"""Spread of held-out families, as a multiple of that of networks of seen families: of the embedded tables."""

_SHARE_UNLIKE = 0.05
"""Share of a network's predicted time in layers unlike all measured ones, from which on it is printed."""

_SD_UNLIKE = 0.6
"""Standard deviation of the logarithm of a layer's time that is unlike all measured ones: visformer missed by 1.8 times."""


@final
@dataclass(frozen=True)
class LayersLatency:
    """Predictions by the sum of layers; each network is exported once, which takes a second or more."""

    space: Space
    task: Task
    table: LayerTable
    tell: Callable[[str], None] = lambda _line: None  # prints a line for the user
    factor: float = 1.0  # that timed networks take longer than predicted
    correction: str = ""  # the factor in words
    source: str = "layers"
    instant: bool = False
    _predicted_ms: dict[str, float] = field(default_factory=dict)
    _unlike: dict[str, float] = field(default_factory=dict)  # share of each network's time
    _told: set[str] = field(default_factory=set)  # layers that the user was told of

    @property
    def device(self) -> str:
        """Board / runtime / precision / batch."""
        return self.table.device

    @property
    def description(self) -> str:
        """Where the times of the layers come from, and how well they predict networks."""
        card = f"; {self.table.card}" if self.table.card else ""
        within = f" within space={self.table.space}" if self.table.space else ""
        return (
            f"layers: predicted by the sum of a network's layers, from {len(self.table.layers):,} measured "
            f"inside {self.table.networks:,} networks on {self.device} ({self.table.quality}{within}){self.correction}{card}"
        )

    @property
    def uncertainty(self) -> ResidualUncertainty:
        """Spread of the measured times of held-out networks around the predicted ones."""
        is_alike = self.table.space in {"", self.space.name}
        return self.table.uncertainty.scaled(1.0 if is_alike else _OF_OTHERS)

    def uncertainty_of(self, architecture: Int64[ndarray, "D"]) -> ResidualUncertainty:
        """Wider for a network with layers unlike the measured ones, in proportion to their share of its time."""
        self.network_ms(architecture)
        plain = self.uncertainty
        doubt = _SD_UNLIKE * self._unlike[self.space.text(architecture)]
        return plain.scaled(float(np.hypot(plain.sd, doubt)) / plain.sd) if plain.sd else plain

    def answer(self, architectures: Int64[ndarray, "*n D"]) -> Latencies:
        """Milliseconds per inference."""
        rows = architectures.reshape(-1, architectures.shape[-1])
        ms = np.array([self.factor * self.network_ms(row) for row in rows])
        shape = architectures.shape[:-1]
        return Latencies(ms.reshape(shape), np.full(shape, Kind.layers, np.int8))

    def corrected(
        self, architectures: Int64[ndarray, "n D"], latency_ms: Float64[ndarray, "n"]
    ) -> LayersLatency:
        """The same times the median ratio of timed networks, with the error of each by the others."""
        ratios = latency_ms / self.answer(architectures).ms
        by_others = [np.median(np.delete(ratios, at)) for at in range(len(ratios))]
        error, factor = np.median(np.abs(by_others / ratios - 1)), float(np.median(ratios))
        words = (
            f", times {factor:.2f}, the median ratio of {len(ratios)} timed networks; by the others each of them is "
            f"predicted with a median error of {error:.1%}"
        )
        return replace(self, factor=factor, correction=words)

    def known(self, architectures: Int64[ndarray, "*n D"]) -> Bool[ndarray, "*n"]:
        """True: every network can be predicted."""
        return np.ones(architectures.shape[:-1], bool)

    def network_ms(self, architecture: Int64[ndarray, "D"]) -> float:
        """Milliseconds of one network."""
        text = self.space.text(architecture)
        if not self._predicted_ms:  # which fits the model, for a minute on a busy machine
            self.tell(f"fitting a model to {len(self.table.layers):,} layers of {self.device}")
        if text not in self._predicted_ms:
            layers = layers_in_space(self.device, self.space, self.task, architecture)
            self._predicted_ms[text] = self.table.predict_ms(layers)
            self._tell_unlike(text, layers)
        return self._predicted_ms[text]

    def _tell_unlike(self, text: str, layers: Sequence[str]) -> None:
        """Say which layers are unlike the measured ones, each once."""
        unlike = self.table.unlike(layers)
        share = self._unlike[text] = sum(unlike.values())
        new = [name for name in unlike if name not in self._told]
        if new and share > _SHARE_UNLIKE:
            self._told.update(new)
            self.tell(
                f"warning: {self.device} has no measured layers {', '.join(sorted(new))}: they are predicted from "
                f"others, {share:.0%} of the time of {text}, which may be far off; its interval is wider"
            )


def layers_in_space(
    device: str, space: Space, task: Task, architecture: Int64[ndarray, "D"]
) -> list[str]:
    """Layers of a space's network in words, as the device's runtime has them; [] if it is none of these runtimes.

    Raises:
      UserError: if the network cannot be exported or run on this machine.
    """
    match = _DEVICE.fullmatch(device)
    if match is None:
        return []
    batch_size, text = int(match["batch"]), space.text(architecture)
    try:
        if _GRAPH in device:
            from edgenas_core.inference.operations import operations  # noqa: PLC0415 - imports torch

            images = space.example_input(architecture, task, batch_size)
            return operations(space.network(architecture, task).eval(), images)
        precision = BoardPrecision(match["precision"])
        return fused_layers(exported(space, task, batch_size, text, "onnx", precision=precision))
    except UserError:
        raise
    except Exception as error:  # those of ONNX Runtime and torch have no common base class
        reason = str(error).partition("\n")[0]
        raise UserError(f"{text}: its layers cannot be listed: {reason}") from error


def fused_layers(onnx: bytes) -> list[str]:
    """Layers of a network in words, as ONNX Runtime fuses them on this machine."""
    profiled = OnnxRuntime("CPUExecutionProvider", threads=1).layers(onnx, runs=1)
    return [layer for layer, _ in layer_times(profiled, onnx)]


def layers_of_live(oracle: LatencyOracle, space: Space, task: Task) -> LayersLatency | None:
    """The layer model of the board that an oracle measures; None if it measures none, or has no table.

    Raises:
      UserError: if the table cannot be read.
    """
    is_known = _DEVICE.fullmatch(oracle.device) and find_layer_table(oracle.device)
    if not isinstance(oracle, LiveOracle) or not is_known:
        return None
    return LayersLatencyConfig().build(oracle.device, space, task)


@final
@dataclass
class LayersLatencyConfig(LatencyConfig):
    """The layer model of a device, of any space."""

    any_side: ClassVar[bool] = True

    def build(self, device: str, space: Space, task: Task) -> LayersLatency:
        """Open the device's table of layers.

        Raises:
          UserError: if there is none, or the device is neither ONNX Runtime on a processor nor graphs of a GPU.
        """
        if _DEVICE.fullmatch(device) is None:
            raise UserError(
                f"latency=layers: device={device} is not of the form <board>/onnxruntime/fp32/b1, "
                f"<board>/onnxruntime/int8/b1 or <board>/torch-graph/fp32/b1; {ways_to_layers()}"
            )
        return LayersLatency(space, task, open_layer_table(device), partial(say, PlainConsole()))
