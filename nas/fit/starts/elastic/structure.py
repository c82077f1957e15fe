"""Parts of a network that can be removed, each tested on the network itself."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby
from typing import final

import numpy as np
import torch
from jaxtyping import Float64, Int64
from numpy import ndarray
from torch import Tensor, nn

from edgenas_core.inference.outputs import first_line, tensors_of
from edgenas_core.types.errors import UserError
from nas.fit.starts.elastic.blocks import outputs_of, residual_blocks
from nas.fit.starts.elastic.groups import ChannelCut, ChannelGroup, channel_groups, is_depthwise
from nas.fit.starts.elastic.sub_network import Remaining, sub_network, with_tensors
from nas.fit.training.network import HasHeads

FRACTIONS = (0.25, 0.375, 0.5, 0.625, 0.75, 0.875)
"""Shares of the channels of a group that may be kept, besides all."""

SIDE_FRACTIONS = (0.5, 0.625, 0.75, 0.875)
"""Shares of the side of the images that may be taken, besides all."""

_REMEMBERED = 10_000
"""Parts of tensors that are worked out once: a supernet's training takes them in thousands of steps."""

_ALIKE = 1e-3
"""Largest difference of a cut network's outputs from those with zeros in its place, as a share of all."""


@final
@dataclass(frozen=True)
class LayerSize:
    """A layer with weights, for its costs."""

    name: str
    kind: str  # pointwise, depthwise, convolution or linear
    uses: tuple[float, ...]  # of each weight for one image, at each side


@final
@dataclass(frozen=True)
class Structure:
    """The parts of a network that may be left out."""

    classes: int | None  # None: its output is not (images, classes)
    shapes: Mapping[str, tuple[int, ...]]  # of its tensors
    groups: tuple[ChannelGroup, ...]
    widths: tuple[tuple[int, ...], ...]  # channels of each group to choose from
    orders: tuple[Int64[ndarray, "_"], ...]  # of each group, the most important first
    stages: Mapping[str, tuple[str, ...]]  # blocks that may be skipped, by the module around them
    kernels: Mapping[str, tuple[int, ...]]  # of depthwise convolutions, by their names
    sides: tuple[int, ...]
    layers: tuple[LayerSize, ...]
    whole: Mapping[str, str]  # why a part is left whole, by the name of its first layer

    def remaining(
        self, widths: Sequence[int], skipped: Sequence[str], kernels: Mapping[str, int]
    ) -> Remaining:
        """Part of the network that remains with these numbers of channels."""
        places_of: dict[str, dict[int, Int64[ndarray, "_"]]] = {}
        for (tensor, dim), cuts in self._cuts.items():
            kept = tuple(widths[group] for group, _ in cuts)
            if kept == tuple(self.groups[group].channels for group, _ in cuts):
                continue
            places = self._places.get((tensor, dim, kept))
            if places is None:
                gone = [
                    cut.places[self.orders[group][width:]].reshape(-1)
                    for width, (group, cut) in zip(kept, cuts, strict=True)
                ]
                places = np.delete(np.arange(self.shapes[tensor][dim]), np.concatenate(gone))
                if len(self._places) > _REMEMBERED:
                    self._places.clear()
                self._places[tensor, dim, kept] = places
            places_of.setdefault(tensor, {})[dim] = places
        return Remaining(places_of, dict(kernels), tuple(skipped))

    @cached_property
    def _cuts(self) -> dict[tuple[str, int], list[tuple[int, ChannelCut]]]:
        """Numbers of the groups that cut a dimension of a tensor, and how."""
        cuts: dict[tuple[str, int], list[tuple[int, ChannelCut]]] = {}
        for number, group in enumerate(self.groups):
            for cut in group.cuts:
                cuts.setdefault((cut.tensor, cut.dim), []).append((number, cut))
        return cuts

    @cached_property
    def _places(self) -> dict[tuple[str, int, tuple[int, ...]], Int64[ndarray, "_"]]:
        """Remaining slices of a tensor dimension, by the widths of the groups that cut it."""
        return {}


def structure_of(network: nn.Module, shape: tuple[int, ...], multiple: int) -> Structure:
    """Find what may be left out of a network that takes inputs of this shape.

    Args:
      network: computes as `eval` does.
      shape: of one input, channels first.
      multiple: of which widths are, where they are not whole.

    Raises:
      UserError: if it does not run, cannot be analysed, or nothing may be left out.
    """
    example = example_inputs(shape)
    outputs = outputs_of(network, example)
    _require_batch(network, example, outputs)
    shapes = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    traced = copy.deepcopy(
        network
    )  # a module may keep tensors of a run, which cannot be copied then
    groups, whole = channel_groups(traced, example)
    cut: list[tuple[ChannelGroup, tuple[int, ...], Int64[ndarray, "_"]]] = []
    for group in groups:
        widths = _widths(group.channels, math.lcm(multiple, group.unit))
        order = _channel_order(network, group)
        if group.name.startswith(head_prefixes(network)):
            reason = "it is the head"
        elif len(widths) == 1:
            reason = f"it has {group.channels} channels"
        else:
            reason = _why_not(network, example, outputs, group, order[widths[0] :])
        if reason:
            whole[group.name] = reason
        else:
            cut.append((group, widths, order))
    sides = tuple(_sides(network, example, outputs))
    structure = Structure(
        classes=outputs[0].shape[1] if len(outputs) == 1 and outputs[0].ndim == 2 else None,
        shapes=shapes,
        groups=tuple(group for group, _, _ in cut),
        widths=tuple(widths for _, widths, _ in cut),
        orders=tuple(order for _, _, order in cut),
        stages=_stages(
            network, _skippable(network, example, outputs, residual_blocks(traced, example))
        ),
        kernels=_kernels(network),
        sides=sides,
        layers=_layer_sizes(network, shape, sides),
        whole=whole,
    )
    if not (cut or structure.stages or structure.kernels):
        reasons = "; ".join(f"{name}: {reason}" for name, reason in whole.items())
        reasons = reasons or "no layer has channels that are known"
        raise UserError(f"network={type(network).__name__} has no part that may be cut: {reasons}")
    return structure


def example_inputs(shape: tuple[int, ...]) -> Tensor:
    """One input of noise, always the same."""
    return torch.randn(1, *shape, generator=torch.Generator().manual_seed(0))


def input_channels(network: nn.Module) -> int:
    """Channels that the first convolution reads; 3 for a network without one."""
    convolutions = (each for each in network.modules() if isinstance(each, nn.Conv2d))
    first = next(convolutions, None)
    return 3 if first is None or isinstance(first, nn.LazyConv2d) else first.in_channels


def _require_batch(network: nn.Module, example: Tensor, outputs: list[Tensor]) -> None:
    """Refuse a network that drops the dimension of the batch for one image.

    Raises:
      UserError: if outputs of one image and of two differ in more than their first dimension.
    """
    twice = outputs_of(network, example.repeat_interleave(2, 0))
    for one, two in zip(outputs, twice, strict=False):
        if two.ndim and two.shape[0] == 2 and one.shape != (1, *two.shape[1:]):
            raise UserError(
                f"network={type(network).__name__}: for one image its output has shape "
                f"{tuple(one.shape)}, not {(1, *two.shape[1:])}; name the dimensions in squeeze(), view() "
                f"or reshape(), as in squeeze((2, 3))"
            )


def head_prefixes(network: nn.Module) -> tuple[str, ...]:
    """What the names of the tensors of its heads begin with; empty where it names none."""
    return tuple(f"{head}." for head in network.heads) if isinstance(network, HasHeads) else ()


def _widths(channels: int, multiple: int) -> tuple[int, ...]:
    """Channels to choose from, all of them last."""
    some = {multiple * round(channels * fraction / multiple) for fraction in FRACTIONS}
    return (*sorted(width for width in some if 0 < width < channels), channels)


def _channel_order(network: nn.Module, group: ChannelGroup) -> Int64[ndarray, "channels"]:
    """Channels by the magnitude of their weights, each tensor beside its mean, the largest first."""
    weights = dict(network.named_parameters())
    importance: Float64[ndarray, "channels"] = np.zeros(group.channels)
    for cut in group.cuts:
        if cut.tensor in weights and not cut.tensor.endswith("bias"):
            tensor = weights[cut.tensor].detach().double().movedim(cut.dim, 0)
            squares = (tensor**2).reshape(len(tensor), -1).sum(1).numpy()
            norms = squares[cut.places].sum(1) ** 0.5
            importance += norms / (norms.mean() or 1)
    # neighbours that stay together are sorted by their sum
    blocks = np.argsort(-importance.reshape(-1, group.unit).sum(1), kind="stable")
    return (group.unit * blocks[:, None] + np.arange(group.unit)).reshape(-1)


def _why_not(
    network: nn.Module,
    example: Tensor,
    outputs: list[Tensor],
    group: ChannelGroup,
    unimportant: Int64[ndarray, "k"],
) -> str:
    """Why a group cannot be cut, by cutting it; empty if it can.

    The result must be that of zeros where the channels were read, unless a layer mixes channels.
    """
    remaining: dict[str, dict[int, Int64[ndarray, "_"]]] = {}
    tensors = network.state_dict()
    zeros: dict[str, Tensor] = {}
    for cut in group.cuts:
        places = cut.places[unimportant].reshape(-1)
        every = np.arange(tensors[cut.tensor].shape[cut.dim])
        remaining.setdefault(cut.tensor, {})[cut.dim] = np.delete(every, places)
        if cut.reads:
            zeroed = zeros.get(cut.tensor, tensors[cut.tensor]).clone()
            zeros[cut.tensor] = zeroed.index_fill(cut.dim, torch.from_numpy(places), 0)
    try:
        with torch.no_grad():
            small = tensors_of(sub_network(network, Remaining(remaining, {}, ()))(example.clone()))
            zeroed_outputs = tensors_of(with_tensors(network, zeros)(example.clone()))
    except Exception as error:  # noqa: BLE001 - whatever the author's code raises where sizes do not fit
        return f"without a part of it, {first_line(error)}"
    if [tensor.shape for tensor in small] != [tensor.shape for tensor in outputs]:
        return "it is the output"
    for output, other in zip(small, zeroed_outputs, strict=True):
        if not group.mixes and (output - other).abs().max() > _ALIKE * (1e-6 + other.abs().max()):
            return "its channels are read in an order that is not known"
    return ""


def _skippable(
    network: nn.Module, example: Tensor, outputs: list[Tensor], blocks: Sequence[str]
) -> list[str]:
    """Residual blocks that the network runs without, each tried on its own.

    A caller may give a block more than its input, or read its attributes.
    """
    skippable = []
    for block in blocks:
        try:
            with torch.no_grad():
                shorter = sub_network(network, Remaining({}, {}, (block,)))
                results = tensors_of(shorter(example.clone()))
        except Exception:  # noqa: BLE001, S112 - whatever the author's code raises
            continue
        if [tensor.shape for tensor in results] == [tensor.shape for tensor in outputs]:
            skippable.append(block)
    return skippable


def _stages(network: nn.Module, blocks: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Blocks that follow each other in the module around them, by its name.

    Where other blocks, such as those that halve the side, are between them, each run is a stage of its own, by the
    name of its first block.
    """
    stages: dict[str, tuple[str, ...]] = {}
    for around in dict.fromkeys(block.rpartition(".")[0] for block in blocks):
        children = network.get_submodule(around).named_children()
        weighted = [name for name, child in children if any(True for _ in child.parameters())]
        names = [f"{around}.{name}".lstrip(".") for name in weighted]
        runs = [tuple(run) for is_bridged, run in groupby(names, blocks.__contains__) if is_bridged]
        stages |= {around if len(runs) == 1 else run[0]: run for run in runs}
    return stages


def _kernels(network: nn.Module) -> dict[str, tuple[int, ...]]:
    """Odd kernels of depthwise convolutions, from 3, where all are padded to keep their side."""
    kernels = {}
    for name, module in network.named_modules():
        if not isinstance(module, nn.Conv2d) or not is_depthwise(module):
            continue
        size = module.kernel_size[0]
        pads_by_input = type(module).__name__ == "Conv2dSame"
        is_padded = pads_by_input or module.padding == (size // 2, size // 2)
        is_plain = module.kernel_size == (size, size) and module.dilation == (1, 1)
        if size > 3 and size % 2 and is_padded and is_plain:
            kernels[name] = tuple(range(3, size + 1, 2))
    return kernels


def _sides(network: nn.Module, example: Tensor, outputs: list[Tensor]) -> Iterator[int]:
    """Sides of images, multiples of 32, 16, 8 or 4, that the network gives outputs of the same shapes for.

    Boxes and masks are in pixels of one side, which is not cut; nor are inputs that are no square images.
    """
    side = example.shape[-1]
    is_image = example.ndim == 4 and example.shape[-2] == side
    if not is_image or any(tensor.ndim > 2 for tensor in outputs):
        yield side
        return
    step = 32 if side > 128 else 16 if side == 128 else 8 if side >= 64 else 4
    smaller = {step * round(side * fraction / step) for fraction in SIDE_FRACTIONS}
    for pixels in sorted(pixels for pixels in smaller if 8 <= pixels < side):
        try:
            with torch.no_grad():
                resized = tensors_of(network(example[..., :pixels, :pixels].clone()))
        except Exception:  # noqa: BLE001, S112 - whatever a network of one side raises
            continue
        if [tensor.shape for tensor in resized] == [tensor.shape for tensor in outputs]:
            yield pixels
    yield side


def _layer_sizes(
    network: nn.Module, shape: tuple[int, ...], sides: Sequence[int]
) -> tuple[LayerSize, ...]:
    """Layers with weights, and how often each weight is used."""
    shapes = [shape] if len(sides) == 1 else [(shape[0], side, side) for side in sides]
    uses = [_uses(network, torch.zeros(1, *each)) for each in shapes]
    return tuple(
        LayerSize(
            name, _kind(network.get_submodule(name)), tuple(of_side[name] for of_side in uses)
        )
        for name in uses[0]
    )


def _uses(network: nn.Module, images: Tensor) -> dict[str, float]:
    used: dict[str, float] = {}

    def note(name: str, layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        size = (inputs[0] if isinstance(layer, nn.ConvTranspose2d) else output).numel()
        used[name] = used.get(name, 0.0) + size / layer.get_parameter("weight").shape[0]

    with ExitStack() as hooks, torch.no_grad():
        for name, module in network.named_modules():
            if isinstance(module, nn.Conv1d | nn.Conv2d | nn.ConvTranspose2d | nn.Linear):
                hooks.enter_context(module.register_forward_hook(partial(note, name)))
        network(images)
    return used


def _kind(layer: nn.Module) -> str:
    if isinstance(layer, nn.Linear):
        return "linear"
    if is_depthwise(layer):
        return "depthwise"
    return "pointwise" if getattr(layer, "kernel_size", None) == (1, 1) else "convolution"
