"""Layers of a program that are read as one block, and the offset of each weight in its block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, final

import torch
from torch import Tensor, nn

from edgenas_runtime.network.program import Program
from edgenas_runtime.weight_streaming.planning.ring import aligned

TENSOR_BYTES = 256
"""Alignment of weights in their layer, as in torch's allocations: kernels are chosen by alignment, and
another kernel rounds differently."""

MERGED_BYTES = 256 * 1024
"""Size up to which neighbouring segments are merged; a disk reads less no faster."""


@final
@dataclass(frozen=True)
class Weight:
    """A parameter or buffer and its place in the layer's bytes."""

    name: str
    """Name in the module."""
    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    """Dense strides: a permutation of those of a contiguous tensor."""
    offset: int
    """Bytes from the start of the layer."""
    nbytes: int

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """Shape with the dimensions in memory order."""
        return tuple(self.shape[i] for i in _memory_order(self.shape, self.stride))

    def bytes_of(self, value: Tensor) -> Tensor:
        """Return the bytes of a value of this weight in storage order, on the CPU."""
        stored = value.detach().permute(_memory_order(self.shape, self.stride)).cpu().contiguous()
        return stored.reshape(-1).view(torch.uint8)

    def view(self, layer: Tensor) -> Tensor:
        """Return this weight as a view of the layer's bytes."""
        flat = layer[self.offset : self.offset + self.nbytes].view(self.dtype)
        return flat.as_strided(self.shape, self.stride)


@final
@dataclass(frozen=True)
class WeightLayer:
    """Consecutive segments whose weights are read as one block."""

    name: str
    segments: range
    weights: tuple[Weight, ...]
    """Weights in the order of the segments' modules."""
    nbytes: int
    """Size including padding; a multiple of the page size."""
    extents: tuple[tuple[int, int], ...]
    """Offset and size, in whole pages, of its bytes among the weights of all layers in a file."""


@final
@dataclass(frozen=True)
class LayeredNetwork:
    """A program without weights, and the layers that hold them."""

    program: Program
    """The program, on the meta device."""
    layers: tuple[WeightLayer, ...]

    @property
    def weight_bytes(self) -> int:
        """Bytes of all layers; a weight that two layers use counts twice."""
        return sum(layer.nbytes for layer in self.layers)

    @property
    def network_bytes(self) -> int:
        """Bytes of all layers with each weight counted once."""
        uses = [weight for layer in self.layers for weight in layer.weights]
        each = {weight.name: weight.nbytes for weight in uses}
        return self.weight_bytes - sum(weight.nbytes for weight in uses) + sum(each.values())

    @property
    def largest_bytes(self) -> int:
        """Bytes of the largest layer."""
        return max(layer.nbytes for layer in self.layers)

    def merged(self, runs: Sequence[range]) -> LayeredNetwork:
        """Return the network with each run of layers as one."""
        return replace(self, layers=tuple(self._merged(run) for run in runs))

    def _merged(self, run: range) -> WeightLayer:
        layers = self.layers[run.start : run.stop]
        if len(layers) == 1:
            return layers[0]
        weights: dict[int, Weight] = {}  # a tensor of several layers is used from the first
        extents: list[tuple[int, int]] = []
        at = 0
        for layer in layers:
            for tensor, weight in paired_weights(self.program, layer):
                weights.setdefault(id(tensor), replace(weight, offset=at + weight.offset))
            at += layer.nbytes
            for begin, nbytes in layer.extents:
                follows = extents and begin == sum(extents[-1])
                first, before = extents.pop() if follows else (begin, 0)
                extents.append((first, before + nbytes))
        segments = range(layers[0].segments.start, layers[-1].segments.stop)
        return WeightLayer(layers[0].name, segments, tuple(weights.values()), at, tuple(extents))

    def bind(self, places: Sequence[Tensor]) -> Program:
        """Return the program with the weights of layer i as views of the bytes `places[i]`."""
        segments = list(self.program.segments)
        for layer, place in zip(self.layers, places, strict=True):
            views = [weight.view(place) for weight in layer.weights]
            bodies = [segments[i].body for i in layer.segments]
            replaced = {id(old): new for old, new in _paired(bodies, views)}
            for i, body in zip(layer.segments, bodies, strict=True):
                copied = _with_tensors(body, replaced)
                segments[i] = replace(
                    segments[i], body=_WithoutViews(copied) if segments[i].weight_bytes else copied
                )
        return Program(tuple(segments), self.program.output)


def split_layers(program: Program, module: nn.Module) -> tuple[LayeredNetwork, dict[str, Tensor]]:
    """Split a program into layers; return them and the weights by name.

    A layer starts at a segment with weights; segments without weights belong to the layer before.

    The program shares its weights with the module that it was decomposed from. Neighbouring
    segments are merged up to 256 kB.

    Raises:
      ValueError: if the network has no weights.
    """
    names = {id(tensor): name for name, tensor in named_weights(module)}
    layers: list[WeightLayer] = []
    values: dict[str, Tensor] = {}
    at = 0
    for segments in _merge(program):
        weights, end = [], 0
        for name, tensor in tensors_of([program.segments[i].body for i in segments]):
            full_name = names.get(id(tensor), f"{program.segments[segments[0]].name}.{name}")
            values[full_name] = tensor
            weights.append(
                Weight(
                    name=full_name,
                    dtype=tensor.dtype,
                    shape=tuple(tensor.shape),
                    stride=_dense_stride(tensor),
                    offset=end,
                    nbytes=tensor.nbytes,
                )
            )
            end = aligned(end + tensor.nbytes, TENSOR_BYTES)
        main = max(segments, key=lambda i: program.segments[i].weight_bytes)
        nbytes = aligned(max(end, 1))
        layers.append(
            WeightLayer(
                program.segments[main].name, segments, tuple(weights), nbytes, ((at, nbytes),)
            )
        )
        at += nbytes
    blanks = _blanks([segment.body for segment in program.segments])
    empty = [
        replace(segment, body=_with_tensors(segment.body, blanks)) for segment in program.segments
    ]
    return LayeredNetwork(Program(tuple(empty), program.output), tuple(layers)), values


def paired_weights(program: Program, layer: WeightLayer) -> Iterator[tuple[Tensor, Weight]]:
    """Yield the blank tensors of a layer's segments, each with its weight."""
    tensors = tensors_of([program.segments[i].body for i in layer.segments])
    yield from zip((tensor for _, tensor in tensors), layer.weights, strict=True)


def named_weights(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield parameters and buffers by name; a tensor with two names comes twice."""
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


def _merge(program: Program) -> Iterator[range]:
    if not any(segment.weight_bytes for segment in program.segments):
        raise ValueError("the network has no weights: there is nothing to stream")
    begin, held = 0, 0
    for i, segment in enumerate(program.segments):
        if held and segment.weight_bytes and held + segment.weight_bytes > MERGED_BYTES:
            yield range(begin, i)
            begin, held = i, 0
        held += segment.weight_bytes
    yield range(begin, len(program))


def tensors_of(bodies: Sequence[nn.Module]) -> list[tuple[str, Tensor]]:
    """Return the tensors of all bodies in order, each once, with a name."""
    by_id: dict[int, tuple[str, Tensor]] = {}
    for body in bodies:
        for name, tensor in named_weights(body):
            by_id.setdefault(id(tensor), (name, tensor))
    return list(by_id.values())


def _paired(
    bodies: Sequence[nn.Module], views: Sequence[Tensor]
) -> Iterator[tuple[Tensor, Tensor]]:
    for (_, old), new in zip(tensors_of(bodies), views, strict=True):
        is_parameter = isinstance(old, nn.Parameter)
        yield old, nn.Parameter(new, requires_grad=False) if is_parameter else new


def _blanks(bodies: Sequence[nn.Module]) -> dict[int, Any]:
    """Return a tensor on the meta device for each tensor, by the id of the latter."""
    empty: dict[int, Any] = {}
    for _, tensor in tensors_of(bodies):
        blank = torch.empty_strided(
            tuple(tensor.shape), _dense_stride(tensor), dtype=tensor.dtype, device="meta"
        )
        is_parameter = isinstance(tensor, nn.Parameter)
        empty[id(tensor)] = nn.Parameter(blank, requires_grad=False) if is_parameter else blank
    return empty


def _with_tensors(body: nn.Module, tensors: Mapping[int, Any]) -> nn.Module:
    """Copy the module with its tensors replaced, without copying them."""
    return deepcopy(body, dict(tensors))


def _dense_stride(tensor: Tensor) -> tuple[int, ...]:
    """Return the tensor's strides, or contiguous strides if its memory has gaps or overlaps."""
    shape, strides = tuple(tensor.shape), tuple(tensor.stride())
    expected = 1
    for i in reversed(_memory_order(shape, strides)):
        if shape[i] != 1 and strides[i] != expected:
            return tuple(torch.empty(shape, device="meta").stride())
        expected *= shape[i]
    return strides


def _memory_order(shape: Sequence[int], strides: Sequence[int]) -> list[int]:
    """Return the dimensions in memory order, largest stride first."""
    return sorted(range(len(shape)), key=lambda i: (-strides[i], -shape[i]))


@final
class _WithoutViews(nn.Module):
    """Clones outputs that are views of weights, whose memory other layers overwrite."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body
        self._places = {weight.untyped_storage().data_ptr() for _, weight in named_weights(body)}
        self.eval()

    def forward(self, *inputs: Tensor) -> Tensor:
        output: Tensor = self.body(*inputs)
        return output.clone() if output.untyped_storage().data_ptr() in self._places else output
