"""Operations of a torch network for `microcontroller.py`, recorded while it runs on torch's device `meta`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from nas.spaces.microcontroller import IMAGE, MicroGraph

_KINDS = {
    "_native_batch_norm_legit_no_training": "BATCH_NORM",
    "_prelu_kernel": "PRELU",
    "_adaptive_avg_pool2d": "MEAN",
    "_softmax": "SOFTMAX",
    "add": "ADD",
    "addmm": "FULLY_CONNECTED",
    "avg_pool2d": "AVERAGE_POOL_2D",
    "cat": "CONCATENATION",
    "clamp": "RELU",
    "constant_pad_nd": "PAD",
    "div": "MUL",
    "hardsigmoid": "HARD_SIGMOID",
    "hardswish": "HARD_SWISH",
    "hardtanh": "RELU",
    "leaky_relu": "LEAKY_RELU",
    "max_pool2d_with_indices": "MAX_POOL_2D",
    "mean": "MEAN",
    "mm": "FULLY_CONNECTED",
    "mul": "MUL",
    "native_batch_norm": "BATCH_NORM",
    "permute": "TRANSPOSE",
    "relu": "RELU",
    "reshape": "RESHAPE",
    "select": "SLICE",
    "sigmoid": "LOGISTIC",
    "silu": "SILU",
    "slice": "SLICE",
    "split": "SLICE",
    "split_with_sizes": "SLICE",
    "sub": "SUB",
    "tanh": "TANH",
    "transpose": "TRANSPOSE",
    "_unsafe_view": "RESHAPE",
    "view": "RESHAPE",
}
"""TFLite's operation for torch's; any other counts as one operation under torch's name."""

_POOLING = ((), (0, 0))
"""Stride and padding of a pooling that names none."""

_OF_TWO = {"ADD", "SUB", "MUL", "BATCH_NORM", "PRELU"}
"""Operations whose other operand may be a constant."""

_VIEWS = {"alias", "clone", "detach", "dropout", "expand", "squeeze", "t", "unsqueeze"}


def operations_of(build: Callable[[], nn.Module], images: Tensor) -> MicroGraph:
    """Operations of the network for one image, in torch's order; no weight is computed.

    Networks that cannot be built without values (on torch's device `meta`) are built with them.
    """
    try:
        with torch.device("meta"):
            network = build()
        return _record(network.to("meta"), images[:1].to("meta"))
    except (NotImplementedError, RuntimeError):
        with torch.random.fork_rng(devices=[]):
            return _record(build(), images[:1])


def _record(network: nn.Module, image: Tensor) -> MicroGraph:
    recorder = _Recorder(image)
    with torch.no_grad(), recorder:
        network.eval()(image)
    return recorder.graph


@final
class _Recorder(TorchDispatchMode):
    """Adds each operation that reads the image, or what was computed from it, to a graph."""

    def __init__(self, image: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.graph = MicroGraph(image.numel())
        self._numbers: dict[int, int | None] = {id(image): IMAGE}  # None: all zeros
        self._pads: dict[int, tuple[int, tuple[int, int], tuple[int, int]]] = {}
        """Activation that a padded one was made of, and what was added before and after it."""
        self._alive: list[Tensor] = [image]  # lest another tensor gets its id

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run the operation and record it; a normalisation, which is slow on torch's device `meta`, only by its shape."""
        if _KINDS.get(func.overloadpacket.__name__) == "BATCH_NORM":
            results = (torch.empty_like(args[0]), args[0].new_empty(0), args[0].new_empty(0))
        else:
            results = func(*args, **(kwargs or {}))
        outputs = [*_tensors(results if isinstance(results, tuple | list) else [results])]
        tensors = [*_tensors(args)]
        if outputs and any(id(tensor) in self._numbers for tensor in tensors):
            self._alive += outputs
            name = func.overloadpacket.__name__
            name = name if name.startswith("_") else name.removesuffix("_")  # in place
            numbers = [self._number(name, args, tensors, output) for output in outputs]
            self._numbers |= zip(map(id, outputs), numbers, strict=True)
        return results

    def _number(
        self, name: str, args: tuple[Any, ...], tensors: list[Tensor], output: Tensor
    ) -> int | None:
        """Number of the activation that an operation writes; None if that is all zeros."""
        read = [self._numbers[id(each)] for each in tensors if id(each) in self._numbers]
        inputs = [number for number in read if number is not None]
        weights = [each.numel() for each in tensors if id(each) not in self._numbers]
        size, kind = output.numel(), _KINDS.get(name, name)
        is_zero = kind == "MUL" and len(tensors) == 1 and args[1] == 0
        if kind == "AVERAGE_POOL_2D" and not inputs:
            return self.graph.pool_zeros(size)
        if is_zero or (name != "convolution" and not inputs):
            return None
        is_view = name in _VIEWS or (kind == "RESHAPE" and size == max(tensors[0].shape))
        if is_view or (name == "add" and len(inputs) < len(read)):  # to zeros
            return inputs[0]
        if name == "convolution":
            return self._convolution(args, inputs, output)
        if kind == "MAX_POOL_2D":
            span, stride, padding = [*args[1:4], *_POOLING[len(args) - 2 :]][:3]
            windows = [*zip(span, stride or span, padding, strict=True)]
            inputs = [self._pad(inputs[0], args[0], output, windows)]
        elif kind == "PAD" and len(args[1]) == 4:
            left, right, top, bottom = args[1]
            self._pads[id(output)] = (inputs[0], (top, left), (bottom, right))
        is_product = kind == "FULLY_CONNECTED" and bool(weights)
        if not is_product and (kind not in _OF_TWO or len(inputs) == 2):
            weights = []
        elif kind in _OF_TWO:
            weights = weights[:1] or [1]  # a number
        channels = output.shape[-1] if is_product else 0
        constants = max(weights, default=0)
        return self.graph.add(kind, *inputs, elements=size, weights=constants, channels=channels)

    def _convolution(self, args: tuple[Any, ...], inputs: list[int], output: Tensor) -> int:
        """Number of the output of a convolution; one of zeros is computed, from a constant."""
        image, kernel, _, stride, padding, dilation, transposed, _, groups = args
        kind = "CONV_2D"
        if transposed:
            kind = "TRANSPOSE_CONV"
        elif groups == image.shape[1] > 1:
            kind = "DEPTHWISE_CONV_2D"
        if inputs and not transposed:
            span = [d * (k - 1) + 1 for d, k in zip(dilation, kernel.shape[2:], strict=True)]
            windows = [*zip(span, stride, padding, strict=True)]
            inputs = [self._pad(inputs[0], image, output, windows)]
        return self.graph.add(
            kind,
            *inputs,
            elements=output.numel(),
            weights=kernel.numel(),
            channels=output.shape[1],
            kernel=kernel.shape[2:].numel(),
            zeros=0 if inputs else image.numel(),
        )

    def _pad(
        self,
        source: int,
        image: Tensor,
        output: Tensor,
        windows: Sequence[tuple[int, int, int]],
    ) -> int:
        """The activation with its padding, an operation unless TFLite's `SAME` is the same.

        `windows` are width, step and padding in both directions.
        """
        original, before, after = self._pads.get(id(image), (source, (0, 0), (0, 0)))
        is_same, elements = True, image.shape[1]
        for side, made, (width, step, each), low, high in zip(
            image.shape[2:], output.shape[2:], windows, before, after, strict=True
        ):
            needed = max((made - 1) * step + width - side + low + high, 0)
            is_same &= (low + each, high + each) == (needed // 2, needed - needed // 2)
            elements *= side + 2 * each
        if is_same:
            return original
        return (
            self.graph.add("PAD", source, elements=elements)
            if elements > image[0].numel()
            else source
        )


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    """Tensors among arguments, and in lists among them."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)
