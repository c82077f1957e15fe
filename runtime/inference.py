"""One inference of a network as something to call: eager or a CUDA graph, in 32 or 16 bits."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import torch
from torch import Tensor, nn

CAPTURE_WARM_UP = 3
"""Eager calls before a capture, as torch asks for: they let cuDNN choose its kernels."""


class Device(Enum):
    """Where it runs."""

    cpu = "cpu"
    cuda = "cuda"


class Backend(Enum):
    """How it runs."""

    torch = "torch"  # eager
    graph = "graph"  # one CUDA graph, captured once: what a deployed network costs


class Precision(Enum):
    """What weights, input and everything between them are stored in."""

    fp32 = "fp32"  # on CUDA torch may still convolve in TF32, its default
    bf16 = "bf16"
    fp16 = "fp16"

    @property
    def dtype(self) -> torch.dtype:
        """Torch's name of it."""
        return {
            Precision.fp32: torch.float32,
            Precision.bf16: torch.bfloat16,
            Precision.fp16: torch.float16,
        }[self]


def prepare(
    network: nn.Module,
    images: Tensor,
    device: Device,
    backend: Backend,
    precision: Precision = Precision.fp32,
) -> Callable[[], Tensor]:
    """Bring a network and its input to the device; each call is one inference.

    The network is put in evaluation mode. The output of a captured network is one tensor that
    every call overwrites.

    Raises:
      ValueError: if the backend does not run on the device, or there is no such device.
    """
    if device is Device.cuda and not torch.cuda.is_available():
        raise ValueError("device=cuda, but torch finds no CUDA device here; device=cpu is there")
    if backend is Backend.graph and device is not Device.cuda:
        raise ValueError(f"backend=graph captures CUDA graphs, but device={device.value}")
    network = network.eval().to(device.value, precision.dtype)
    images = images.to(device.value, precision.dtype)

    def eager() -> Tensor:
        with torch.inference_mode():
            output: Tensor = network(images)
        return output

    return eager if backend is Backend.torch else _captured(eager)


def _captured(eager: Callable[[], Tensor]) -> Callable[[], Tensor]:
    stream: torch.cuda.Stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(CAPTURE_WARM_UP):
            eager()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = eager()

    def replay() -> Tensor:
        graph.replay()
        return output

    return replay
