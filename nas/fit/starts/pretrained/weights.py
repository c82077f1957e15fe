"""Pretrained weights, read from a file into a network with other classes, and its paddings written out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional

from edgenas_core.types.errors import UserError
from nas.fit.starts.pretrained.pool import PooledNetwork
from nas.fit.starts.weights_file import read_tensors
from nas.fit.training.network import classifiers


def load_weights(network: nn.Module, pooled: PooledNetwork) -> None:
    """Copy all weights but those of the classifier.

    Raises:
      UserError: if the file cannot be had or read, or holds the weights of another network.
    """
    file = pooled.weights_file()
    copied = _check_and_copy(network, read_tensors(file), pooled)
    for name, values in copied.items():
        if not bool(torch.isfinite(values).all()):
            raise UserError(f"weights: {name} in {file} holds numbers that are not finite")
    network.load_state_dict(copied, strict=False)


def require_weights(pooled: PooledNetwork) -> None:
    """Check the digest of the file and the shapes of its weights, without computing with them.

    Raises:
      UserError: as `load_weights`.
    """
    weights = read_tensors(pooled.weights_file())
    with torch.device("meta"):
        _check_and_copy(pooled.built(2), weights, pooled)


def _check_and_copy(
    network: nn.Module, weights: Mapping[str, Tensor], pooled: PooledNetwork
) -> dict[str, Tensor]:
    """Weights of all layers but the classifier, after checking that the file is of this network.

    A cut network leaves those of the layers that it lacks.
    """
    wanted, copied = network.state_dict(), {}
    new = tuple(f"{name}." for name in classifiers(network))
    if pooled.stages_cut is not None:
        weights = {name: each for name, each in weights.items() if name in wanted}
    for name in sorted(wanted.keys() | weights.keys()):
        if name.startswith(new) or name.endswith("num_batches_tracked"):
            continue
        shapes = [tuple(part[name].shape) if name in part else None for part in (weights, wanted)]
        if shapes[0] != shapes[1]:
            raise UserError(
                f"weights: {name} is of shape {shapes[0]} in {pooled.file or pooled.name}, and {pooled.architecture} has "
                f"{shapes[1]}: it is another network"
            )
        copied[name] = weights[name]
    return copied


@final
class PaddedConvolution(nn.Module):
    """A convolution after a padding that is larger on the right and below."""

    def __init__(self, convolution: nn.Conv2d, height: int, width: int) -> None:
        """Shares the weights; `height` and `width` are the size of the input in pixels."""
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


def with_static_padding(
    network: nn.Module, side: int, shape: tuple[int, ...] | None = None
) -> nn.Module:
    """Write out the paddings that depend on the size of the input, for RGB images of this side, or this shape."""
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
    # Normalisations change no shape, and are slow on torch's device `meta`.
    norms = [each for each in network.modules() if isinstance(each, nn.BatchNorm2d)]
    for norm in norms:
        norm.forward = nn.Identity().forward  # type: ignore[method-assign]
    was_training = network.training
    with torch.no_grad():
        network.eval()(torch.zeros(1, *(shape or (3, side, side))))
    network.train(was_training)
    for norm in norms:
        del norm.forward
    for hook in hooks:
        hook.remove()
    for name, module in dynamic.items():
        above, _, last = name.rpartition(".")
        setattr(network.get_submodule(above), last, PaddedConvolution(module, *sizes[name]))
    return network
