"""Device, backend and precision of an inference, as enums that need no import of torch."""

from __future__ import annotations

from enum import Enum


class Device(Enum):
    """Device that runs the network."""

    cpu = "cpu"
    cuda = "cuda"


class Backend(Enum):
    """Library that runs the network."""

    torch = "torch"  # eager
    graph = "graph"  # one CUDA graph, captured once, as in a deployed network
    onnxruntime = "onnxruntime"  # batch normalisation folded; products with zero are computed


class Precision(Enum):
    """Number format of weights, input and activations."""

    fp32 = "fp32"  # on CUDA, convolutions use TF32 by default
    bf16 = "bf16"
    fp16 = "fp16"
    int8 = "int8"  # weights per channel, activations but for sums; input and output are fp32
