"""Operations of a torch network in words, and their times inside a captured CUDA graph.

An operation is what torch dispatches, in words: its name, its inputs with biases last, and its output, each a
number format and a shape::

    Conv float32[1,16,64,64] float32[32,16,3,3] > float32[1,32,32,32]

Convolutions and products of matrices have the names of ONNX, others those of torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from edgenas_core.inference.inference import captured

_NAMES = {
    "conv2d": "Conv",
    "convolution": "Conv",
    "linear": "Gemm",
    "addmm": "Gemm",
} | dict.fromkeys(("matmul", "mm", "bmm", "baddbmm"), "MatMul")


@final
class _Operations(TorchDispatchMode):
    """Collects the operations that compute something; calls `ended` after each."""

    def __init__(self, ended: Callable[[], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # of torch
        self.words: list[str] = []
        self._ended = ended

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        result = operation(*args, **(kwargs or {}))
        inputs = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
        outputs = [each for each in tree_leaves(result) if isinstance(each, Tensor)]
        memory = {each.untyped_storage().data_ptr() for each in inputs}
        is_view = all(each.untyped_storage().data_ptr() in memory for each in outputs)
        if inputs and outputs and (operation._schema.is_mutable or not is_view):  # noqa: SLF001 - torch's own way
            self._ended()
            name = operation._schema.name.removeprefix("aten::").strip("_")  # noqa: SLF001 - torch has no public name for it
            inputs.sort(key=lambda each: each.dim() < 2)  # biases last
            read = " ".join(map(_tensor, inputs))
            self.words.append(f"{_NAMES.get(name, name)} {read} > {_tensor(outputs[0])}")
        return result


def _tensor(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}[{','.join(map(str, tensor.shape))}]"


def operations(network: nn.Module, images: Tensor) -> list[str]:
    """Operations of one inference, in their order, without views; runs it where the network is."""
    collected = _Operations(lambda: None)
    with torch.inference_mode(), collected:
        network(images)
    return collected.words


def operation_times(network: nn.Module, images: Tensor, runs: int) -> list[tuple[str, float]]:
    """Operations of a network on a GPU, and microseconds of each inside one captured graph.

    Events lie in the graph after each operation, whose own time is in these. Means of the shortest 60 %
    of the runs; each finds the caches as the run before has left them.
    """
    events: list[torch.cuda.Event] = []
    words: list[str] = []

    def mark() -> None:
        if torch.cuda.is_current_stream_capturing():
            events.append(torch.cuda.Event(enable_timing=True, external=True))
            events[-1].record()

    def marked() -> Tensor:
        mark()
        collected = _Operations(mark)
        with torch.inference_mode(), collected:
            output: Tensor = network(images)
        words[:] = collected.words
        return output

    replay, us = captured(marked), []
    for _ in range(3 + runs):
        replay()
        torch.cuda.synchronize()
        us.append([1e3 * before.elapsed_time(after) for before, after in pairwise(events)])
    shortest = np.sort(us[3:], axis=0)[: max(1, runs * 6 // 10)]
    return list(zip(words, shortest.mean(axis=0).tolist(), strict=True))
