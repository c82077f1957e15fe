"""The ways to run a network that can be chosen; torch is not imported to choose one."""

from __future__ import annotations

from enum import Enum


class Device(Enum):
    """Where it runs."""

    cpu = "cpu"
    cuda = "cuda"


class Backend(Enum):
    """How it runs."""

    torch = "torch"  # eager
    graph = "graph"  # one CUDA graph, captured once: what a deployed network costs
    onnxruntime = (
        "onnxruntime"  # batch normalisation folded; what is multiplied by zero is computed
    )


class Precision(Enum):
    """What weights, input and everything between them are stored in."""

    fp32 = "fp32"  # on CUDA torch may still convolve in TF32, its default
    bf16 = "bf16"
    fp16 = "fp16"
