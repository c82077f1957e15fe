"""Which CUDA kernels compute convolutions.

For each new shape of a convolution, cuDNN guesses a kernel and builds it, or tries all it has first:
about 0.1 and 0.5 seconds on an H200. That is nothing in a long training of a network, and most of
what a supernet of thousands of shapes would do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Any, final

import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

_FEW = 20
"""Different convolutions that are tried in seconds."""


class Kernels(Enum):
    """How the kernel of a shape is found."""

    tried = "tried"  # the fastest: those that are guessed are slow for few channels
    guessed = "guessed"
    built_before = "built_before"  # 1x1 convolutions as matrix products, others without cuDNN


def kernels_for(network: nn.Module, epochs: int) -> Kernels:
    """Try kernels of a network of few different convolutions, or in a training that is long enough.

    Trying them takes half a second for each, and saves a hundredth of that in an epoch: with two
    networks of MobileNetV3 side by side, at 96 pixels, the first epoch took 33 and 18 s by kernels
    that were guessed, 83 and 38 s by tried ones; the second 7 and 6 s (H200).
    """
    different = {
        (one.in_channels, one.out_channels, one.kernel_size, one.stride, one.groups)
        for one in network.modules()
        if isinstance(one, nn.Conv2d)
    }
    return Kernels.tried if len(different) <= max(_FEW, epochs) else Kernels.guessed


@contextmanager
def computed_by(kernels: Kernels, device: torch.device) -> Iterator[None]:
    """Compute convolutions on a GPU by such kernels while the block runs."""
    if device.type != "cuda":
        yield
        return
    usual = torch.backends.cudnn.benchmark, torch.backends.cudnn.enabled
    torch.backends.cudnn.benchmark = kernels is Kernels.tried
    torch.backends.cudnn.enabled = kernels is not Kernels.built_before and usual[1]
    try:
        if kernels is Kernels.built_before:
            with Products():
                yield
        else:
            yield
    finally:
        torch.backends.cudnn.benchmark, torch.backends.cudnn.enabled = usual


@final
class Products(TorchFunctionMode):
    """Computes 1x1 convolutions as matrix products while the block runs."""

    def __torch_function__(
        self,
        function: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call the function, or its equal."""
        if function is functional.conv2d and not kwargs and len(args) == 7:
            images, weights, bias, stride, padding, _, groups = args
            is_pointwise = tuple(weights.shape[2:]) == (1, 1) and groups == 1
            if is_pointwise and stride == (1, 1) and padding == (0, 0):
                pixels = images.permute(0, 2, 3, 1)
                return functional.linear(pixels, weights.flatten(1), bias).permute(0, 3, 1, 2)
        return function(*args, **(kwargs or {}))
