"""What decides a time on a board, beside the board and the network."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any, final

from runtime.machine.timing import TimingConfig


class Runtime(Enum):
    """What runs a network on the board."""

    auto = "auto"  # the first of these that is there
    tensorrt = "tensorrt"
    onnxruntime_cuda = "onnxruntime-cuda"
    onnxruntime = "onnxruntime"
    torch = "torch"
    torch_cuda = "torch-cuda"  # only when asked for: to look for it takes seconds on a board


class Precision(Enum):
    """What weights and all between them are stored in."""

    fp32 = "fp32"
    fp16 = "fp16"  # with tensorrt


@final
@dataclass(frozen=True)
class Settings:
    """Stored beside every time that was taken with them."""

    runtime: Runtime
    precision: Precision
    shape: tuple[int, ...]  # of the input, batch first
    threads: int
    core: int | None  # that the agent is pinned to
    timing: TimingConfig = field(default_factory=TimingConfig)

    def request(self, runtime: str) -> dict[str, Any]:
        """What the agent is told, given the runtime that was chosen."""
        return {
            "runtime": runtime,
            "precision": self.precision.value,
            "shape": list(self.shape),
            "threads": self.threads,
            "core": self.core,
            "timing": asdict(self.timing),
        }
