"""Settings of a measurement on a board."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any, final

from edgenas_core.machine.timing import TimingConfig


class Runtime(Enum):
    """Software that runs a network on the board."""

    auto = "auto"  # the first of these that the board has
    tensorrt = "tensorrt"
    onnxruntime_cuda = "onnxruntime-cuda"
    onnxruntime = "onnxruntime"
    torch = "torch"
    litert = "litert"  # .tflite files, which need the converter here
    torch_cuda = "torch-cuda"  # only if set: the check for it takes seconds on a board
    graph = "torch-graph"  # one CUDA graph, of this machine's GPU only


EXPERIMENTAL = frozenset({Runtime.tensorrt, Runtime.onnxruntime_cuda, Runtime.torch_cuda})
"""Runtimes that only stand-ins have been tested with, for lack of a board that has them."""


class BoardPrecision(Enum):
    """Number format of weights and activations."""

    fp32 = "fp32"
    fp16 = "fp16"  # with tensorrt
    int8 = "int8"  # with onnxruntime or litert; scales are calibrated on noise, for the time only


@final
@dataclass(frozen=True)
class ProbeSettings:
    """Settings that a time depends on; stored beside every time."""

    runtime: Runtime
    precision: BoardPrecision
    shape: tuple[int, ...]  # of the input, batch first
    threads: int
    core: int | None  # processor that the agent is pinned to; None: none
    timing: TimingConfig = field(default_factory=TimingConfig)
    layers: bool = False  # time each layer too

    def request(self, runtime: str) -> dict[str, Any]:
        """Message to the agent, given the chosen runtime."""
        return {
            "runtime": runtime,
            "precision": self.precision.value,
            "shape": list(self.shape),
            "threads": self.threads,
            "core": self.core,
            "timing": asdict(self.timing),
            **({"layers": True} if self.layers else {}),
        }
