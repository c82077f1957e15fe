"""Networks that are measured beside hogs, or run as a load. Weights are random: times do not depend on them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from edgenas_core.inference.models.nas_bench_201 import CellNetwork
from edgenas_core.inference.models.resnet import ResNet

BUILDERS: dict[str, Callable[[], tuple[nn.Module, tuple[int, ...]]]] = {
    "nb201": lambda: (CellNetwork(("nor_conv_3x3",) * 6), (1, 3, 32, 32)),
    "resnet50": lambda: (ResNet(50), (8, 3, 224, 224)),
}
"""Module and input shape by name: nb201 is the slowest cell of NAS-Bench-201. More may be added."""

HALF = frozenset({"resnet50"})
"""Networks that run in fp16 on a GPU."""


def network(name: str) -> tuple[nn.Module, torch.Tensor]:
    """Build a network by name; return it with an input."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module, shape = BUILDERS[name]()
        return module.eval(), torch.randn(shape)


def on_cpu(name: str) -> Callable[[], object]:
    """Return an eager inference in the calling thread."""
    module, x = network(name)

    def infer() -> torch.Tensor:
        with torch.inference_mode():
            output: torch.Tensor = module(x)
        return output

    return infer


def on_gpu(name: str, stream: torch.cuda.Stream, *, captured: bool = True) -> Callable[[], object]:
    """Return an inference on a stream, captured as one graph or eager; it waits for the stream."""
    from edgenas_core.inference.cuda.on_stream import on_stream  # noqa: PLC0415 - needs a GPU

    dtype = torch.float16 if name in HALF else torch.float32
    module, x = network(name)
    module, x = module.to(stream.device, dtype), x.to(stream.device, dtype)

    def eager() -> torch.Tensor:
        output: torch.Tensor = module(x)
        return output

    return on_stream(eager, stream, captured=captured)


def load_on_cpu(name: str) -> tuple[Callable[[], object], int]:
    """Return an inference on one thread, and the bytes of weights that it reads."""
    torch.set_num_threads(1)
    infer = on_cpu(name)
    infer()
    return infer, _weight_bytes(name)


def load_on_gpu(name: str, stream: torch.cuda.Stream) -> tuple[Callable[[], object], int]:
    """Return a launch of the captured network on a stream, and the bytes of weights that it reads."""
    infer = on_gpu(name, stream)
    return infer, _weight_bytes(name)


def _weight_bytes(name: str) -> int:
    module, _ = network(name)
    return sum(weight.nbytes for weight in module.parameters())
