"""Channels that are cut together, by torch-pruning's dependency graph (Fang et al., CVPR 2023)."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from jaxtyping import Int64
from numpy import ndarray
from torch import Tensor, nn

from edgenas_core.command.plug_ins import how_to_install
from edgenas_core.inference.outputs import first_line, tensors_of
from edgenas_core.types.errors import UserError

NORMALISATIONS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.InstanceNorm1d, nn.InstanceNorm2d)
"""Layers that normalise each channel by itself."""


@final
@dataclass(frozen=True)
class ChannelCut:
    """Slices of a tensor that belong to each channel of a group."""

    tensor: str  # name among parameters and buffers
    dim: int
    places: Int64[ndarray, "channels k"]
    reads: bool  # whether a layer reads the channel there, and does not write it


@final
@dataclass(frozen=True)
class ChannelGroup:
    """Channels of several layers that are kept or pruned together."""

    name: str  # first layer that writes them
    channels: int
    first: str  # first tensor that holds them
    cuts: tuple[ChannelCut, ...]
    mixes: bool  # whether a layer's result for one channel depends on all, as of nn.LayerNorm
    unit: int = 1  # neighbouring channels that are kept or cut together, as those of nn.GroupNorm


def channel_groups(
    network: nn.Module, example: Tensor
) -> tuple[list[ChannelGroup], dict[str, str]]:
    """Groups of a network, and why some of its layers are in none, by their names.

    Raises:
      UserError: if torch-pruning is not installed, or cannot analyse the network.
    """
    try:
        import torch_pruning  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise UserError(
            f"space=elastic needs torch-pruning ({error}): {how_to_install('networks')}"
        ) from error
    names = {module: name for name, module in network.named_modules()}
    groups: list[ChannelGroup] = []
    whole: dict[str, str] = {}
    try:
        graph = torch_pruning.DependencyGraph()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # parameters outside layers; they are checked below
            graph.build_dependency(
                network, example.clone(), output_transform=tensors_of, verbose=False
            )
            reshaped = [module for module in names if _is_reshaped_twice(module, graph)]
            traced = list(graph.get_all_groups(ignored_layers=reshaped))
    except Exception as error:  # an analysis runs the author's code
        raise UserError(
            f"network={type(network).__name__} cannot be analysed by torch-pruning: "
            f"{first_line(error)}; pass a part of it that can be, such as "
            f"its backbone, as a network of its own"
        ) from error
    for module in reshaped:
        whole[names[module]] = "its channels are reshaped more than once, as heads of attention are"
    for items in traced:
        root = names[items[0].dep.target.module]
        try:
            groups.append(_group(items, graph, names, network))
        except ValueError as error:
            whole[root] = str(error)
    order = list(network.state_dict())
    return sorted(groups, key=lambda group: order.index(group.first)), whole


def _is_reshaped_twice(module: nn.Module, graph: Any) -> bool:
    """Whether the output channels of a layer are reshaped twice, where the analysis may not terminate."""
    if not isinstance(module, nn.Conv1d | nn.Conv2d | nn.Linear) or module not in graph.module2node:
        return False
    write = graph.get_pruner_of_module(module).prune_out_channels
    pending, seen = [(graph.module2node[module], write)], set()
    while pending:
        node, handler = step = pending.pop()
        if step not in seen:
            seen.add(step)
            pending += [
                (dependency.target, dependency.handler)
                for dependency in node.dependencies
                if dependency.is_triggered_by(handler)
            ]
    reshapes = {node for node, _ in seen if node.type.name == "RESHAPE"}
    changes = [any(any(link.index_mapping) for link in node.dependencies) for node in reshapes]
    return sum(changes) > 1


def _group(items: Any, graph: Any, names: dict[nn.Module, str], network: nn.Module) -> ChannelGroup:
    """A group of torch-pruning with the parts of tensors that it cuts.

    Raises:
      ValueError: if a layer in it cannot be cut.
    """
    channels, sizes = len(items[0].idxs), network.state_dict()
    parameters = {parameter: name for name, parameter in network.named_parameters()}
    cuts: dict[tuple[str, int, bool], list[tuple[int, int]]] = {}
    mixes, unit = False, 1
    for item in items:
        module, writes = item.dep.target.module, graph.is_out_channel_pruning_fn(item.dep.handler)
        if isinstance(module, nn.Parameter):
            at = [(parameters[module], item.dep.target.pruning_dim)]
        elif module in names:
            prefix = names[module]
            at = [
                (f"{prefix}.{tensor}".lstrip("."), dim)
                for tensor, dim in _dims(prefix, module, writes)
            ]
        else:
            continue  # an operation without tensors
        mixes |= isinstance(module, nn.LayerNorm)
        if isinstance(module, nn.GroupNorm):
            unit = math.lcm(unit, module.num_channels // module.num_groups)
        is_layer = isinstance(module, nn.Linear | nn.Conv1d | nn.Conv2d | nn.ConvTranspose2d)
        for tensor, dim in at:
            pairs = cuts.setdefault((tensor, dim, is_layer and not writes), [])
            pairs.extend(zip(item.root_idxs, item.idxs, strict=True))
    parts = tuple(
        ChannelCut(*key[:2], _places(key[0], pairs, channels), key[2])
        for key, pairs in cuts.items()
    )
    for cut in parts:
        if cut.places.min() < 0 or cut.places.max() >= sizes[cut.tensor].shape[cut.dim]:
            raise ValueError(f"{cut.tensor} is read in a way that is not known")
    first = min((cut.tensor for cut in parts if not cut.reads), key=list(sizes).index)
    layer, _, last = first.rpartition(".")
    name = layer if last in {"weight", "bias"} else first  # a module may have several parameters
    return ChannelGroup(name, channels, first, parts, mixes, unit)


def _places(tensor: str, pairs: list[tuple[int, int]], channels: int) -> Int64[ndarray, "c k"]:
    """The same number of places for each channel."""
    pairs = sorted(set(pairs))
    counts = set(Counter(channel for channel, _ in pairs).values())
    if len(counts) != 1 or len(pairs) != channels * min(counts):
        raise ValueError(f"{tensor} holds some of its channels more often than others")
    return np.array([place for _, place in pairs], np.int64).reshape(channels, -1)


def _dims(name: str, module: nn.Module, writes: bool) -> list[tuple[str, int]]:
    """Tensors of a layer that hold a channel that it writes or reads, and the dimension."""
    both: list[tuple[str, int]] = []
    if isinstance(module, nn.Conv1d | nn.Conv2d | nn.ConvTranspose2d | nn.Linear):
        out = int(isinstance(module, nn.ConvTranspose2d))
        groups = getattr(module, "groups", 1)
        if groups > 1 and not is_depthwise(module):
            raise ValueError(f"{name} is a convolution of {groups} groups")
        is_written = writes or groups > 1
        both = [("weight", out), ("bias", 0)] if is_written else [("weight", 1 - out)]
    elif isinstance(module, NORMALISATIONS):
        both = [(tensor, 0) for tensor in ("weight", "bias", "running_mean", "running_var")]
    elif isinstance(module, nn.GroupNorm) and not module.affine:
        raise ValueError(f"{name} is a GroupNorm without weights")
    elif isinstance(module, nn.GroupNorm) or (
        isinstance(module, nn.LayerNorm) and len(module.normalized_shape) == 1
    ):
        both = [("weight", 0), ("bias", 0)]
    elif isinstance(module, nn.PReLU):
        both = [("weight", 0)] * (module.num_parameters > 1)
    elif list(module.parameters()):
        raise ValueError(f"{name} is a {type(module).__name__}")
    return [(tensor, dim) for tensor, dim in both if getattr(module, tensor) is not None]


def is_depthwise(module: nn.Module) -> bool:
    """Whether each channel has a filter of its own."""
    return (
        isinstance(module, nn.Conv1d | nn.Conv2d)
        and module.groups == module.in_channels == module.out_channels
    )
