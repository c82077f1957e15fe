"""TensorFlow's SAME padding, written out for images of one side, so that a trace of the network has it."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional


@final
class PaddedConvolution(nn.Module):
    """A convolution after a padding that is larger on the right and below."""

    def __init__(self, convolution: nn.Conv2d, height: int, width: int) -> None:
        """Takes over the weights; `height` and `width` are those of the input, pixels."""
        super().__init__()
        self.weight = convolution.weight
        self.bias = convolution.bias
        self.stride, self.dilation = convolution.stride, convolution.dilation
        self.groups = convolution.groups
        self.padding = (*self._padding(1, width), *self._padding(0, height))

    def _padding(self, axis: int, size: int) -> tuple[int, int]:
        stride, reach = self.stride[axis], self.dilation[axis] * (self.weight.shape[2 + axis] - 1)
        whole = max((-(-size // stride) - 1) * stride + reach + 1 - size, 0)
        return whole // 2, whole - whole // 2

    def forward(self, images: Tensor) -> Tensor:
        """Pad and convolve."""
        padded = functional.pad(images, self.padding)
        return functional.conv2d(
            padded, self.weight, self.bias, self.stride, (0, 0), self.dilation, self.groups
        )


def with_static_padding(network: nn.Module, side: int) -> nn.Module:
    """Write out the paddings that depend on the size of the input, for images of this side."""
    dynamic = {
        name: module
        for name, module in network.named_modules()
        if type(module).__name__ == "Conv2dSame"
    }
    if not dynamic:
        return network
    sizes: dict[str, tuple[int, int]] = {}

    def note(name: str, images: Tensor) -> None:
        sizes[name] = int(images.shape[-2]), int(images.shape[-1])

    hooks = [
        module.register_forward_pre_hook(lambda _module, inputs, name=name: note(name, inputs[0]))
        for name, module in dynamic.items()
    ]
    was_training = network.training
    with torch.no_grad():
        network.eval()(torch.zeros(1, 3, side, side))
    network.train(was_training)
    for hook in hooks:
        hook.remove()
    for name, module in dynamic.items():
        above, _, last = name.rpartition(".")
        setattr(network.get_submodule(above), last, PaddedConvolution(module, *sizes[name]))
    return network
