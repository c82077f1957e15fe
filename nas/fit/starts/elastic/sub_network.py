"""A part of a network as a module of its own: fewer channels, smaller kernels, blocks left out."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import torch
from jaxtyping import Int64
from numpy import ndarray
from torch import Tensor, nn

from nas.fit.starts.elastic.groups import NORMALISATIONS, is_depthwise


@final
@dataclass(frozen=True)
class Remaining:
    """Remaining part of a network."""

    places: Mapping[
        str, Mapping[int, Int64[ndarray, "k"]]
    ]  # of each tensor that is cut, by dimension
    kernels: Mapping[str, int]  # of each convolution whose kernel is cropped, by its name
    skipped: tuple[str, ...]  # modules that pass their input on


def remaining_tensors(whole: Mapping[str, Tensor], remaining: Remaining) -> dict[str, Tensor]:
    """Remaining part of each tensor; gradients flow to the whole tensors."""
    tensors = {}
    for name, tensor in whole.items():
        if name.startswith(tuple(f"{block}." for block in remaining.skipped)):
            continue
        part = tensor
        for dim, places in remaining.places.get(name, {}).items():
            if len(places) < part.shape[dim]:
                part = part.index_select(dim, _index(places.tobytes(), part.device))
        kernel = remaining.kernels.get(name.removesuffix(".weight"), 0)
        if kernel and name.endswith(".weight"):
            margin = (part.shape[-1] - kernel) // 2
            part = part[..., margin : margin + kernel, margin : margin + kernel]
        tensors[name] = part
    return tensors


@lru_cache(10_000)
def _index(places: bytes, device: torch.device) -> Int64[Tensor, "k"]:
    """Places on a device, where a supernet's training takes the same ones in thousands of steps."""
    return torch.frombuffer(bytearray(places), dtype=torch.int64).to(device)


def sub_network(network: nn.Module, remaining: Remaining) -> nn.Module:
    """Copy of the remaining part, with weights of its own."""
    tensors = {**dict(network.named_parameters()), **dict(network.named_buffers())}
    depthwise = {name for name, module in network.named_modules() if is_depthwise(module)}
    small = with_tensors(network, remaining_tensors(tensors, remaining), remaining.skipped)
    for name, module in small.named_modules():
        fit_settings(module, is_depth_wise=name in depthwise)
    return small


def with_tensors(
    network: nn.Module, replaced: Mapping[str, Tensor], skipped: Sequence[str] = ()
) -> nn.Module:
    """Copy with other values of these tensors, which may be of other sizes, and without these blocks.

    A layer under several names, or a weight of several layers, is replaced once for all of them.
    """
    tensors = {**dict(network.named_parameters()), **dict(network.named_buffers())}
    copies: dict[int, object] = {id(network.get_submodule(each)): nn.Identity() for each in skipped}
    for name, part in replaced.items():
        whole = tensors[name]
        value = part.detach().clone(memory_format=torch.contiguous_format)  # files hold no other
        is_parameter = isinstance(whole, nn.Parameter)
        copies[id(whole)] = nn.Parameter(value, whole.requires_grad) if is_parameter else value
    return copy.deepcopy(network, copies)


def fit_settings(module: nn.Module, *, is_depth_wise: bool) -> None:
    """Set the sizes that a layer states beside its tensors."""
    if isinstance(module, nn.Conv1d | nn.Conv2d | nn.ConvTranspose2d):
        _fit_convolution(module, is_depth_wise=is_depth_wise)
    elif isinstance(module, nn.Linear):
        module.out_features, module.in_features = module.weight.shape
    elif isinstance(module, NORMALISATIONS):
        per_channel = module.weight if module.affine else module.running_mean
        if per_channel is not None:
            module.num_features = len(per_channel)
    elif isinstance(module, nn.GroupNorm) and module.affine:
        channels = len(module.weight)
        module.num_groups = module.num_groups * channels // module.num_channels
        module.num_channels = channels
    elif isinstance(module, nn.LayerNorm) and len(module.normalized_shape) == 1:
        if module.elementwise_affine:
            module.normalized_shape = tuple(module.weight.shape)
    elif isinstance(module, nn.PReLU):
        module.num_parameters = len(module.weight)


def _fit_convolution(
    module: nn.Conv1d | nn.Conv2d | nn.ConvTranspose2d, *, is_depth_wise: bool
) -> None:
    first, second = module.weight.shape[:2]
    if is_depth_wise:
        module.groups = first
    if isinstance(module, nn.Conv1d | nn.Conv2d):
        module.out_channels, module.in_channels = first, second * module.groups
    else:
        module.out_channels, module.in_channels = second * module.groups, first
    kernel = tuple(module.weight.shape[2:])
    if kernel != module.kernel_size and not isinstance(module.padding, str):
        margin = (module.kernel_size[0] - kernel[0]) // 2
        if any(module.padding):  # else it pads by the size of its input
            module.padding = tuple(size - margin for size in module.padding)
    module.kernel_size = kernel
