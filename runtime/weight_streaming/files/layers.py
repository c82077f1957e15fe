"""A program as layers that are read whole: where each weight lies in its layer's bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, final

import torch
from torch import Tensor, nn

from runtime.network.program import Program
from runtime.weight_streaming.planning.ring import aligned

TENSOR_BYTES = 256
"""Weights begin at multiples of this in their layer, as in memory that torch allots: kernels are
chosen by alignment, and another kernel rounds otherwise."""

MERGED_BYTES = 256 * 1024
"""Neighbours are read as one layer up to this size; a disk gives less no sooner."""

MERGED_COPIES_BYTES = 8 * 2**20
"""The same of what is only copied to a GPU, which waits some 8 us a layer, the time of 440 kB."""


@final
@dataclass(frozen=True)
class Weight:
    """A parameter or buffer among the bytes of its layer."""

    name: str
    """As the module calls it."""
    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    """Of memory without gaps: a permutation of a contiguous tensor's."""
    offset: int
    """From the layer's first byte."""
    nbytes: int

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """The shape in the order in which it lies in memory."""
        return tuple(self.shape[i] for i in _memory_order(self.shape, self.stride))

    def bytes_of(self, value: Tensor) -> Tensor:
        """A tensor like this one as its bytes in the CPU's memory, in the order they are stored."""
        stored = value.detach().permute(_memory_order(self.shape, self.stride)).cpu().contiguous()
        return stored.reshape(-1).view(torch.uint8)

    def view(self, layer: Tensor) -> Tensor:
        """The tensor that lies in a layer's bytes, not a copy."""
        flat = layer[self.offset : self.offset + self.nbytes].view(self.dtype)
        return flat.as_strided(self.shape, self.stride)


@final
@dataclass(frozen=True)
class Layer:
    """Consecutive segments whose weights are read at once."""

    name: str
    segments: range
    weights: tuple[Weight, ...]
    """In the order in which the segments' modules name them."""
    nbytes: int
    """With the gaps between weights; a multiple of a page."""


@final
@dataclass(frozen=True)
class LayeredNetwork:
    """A program without its weights, and what must be where for it to run."""

    program: Program
    """On the meta device."""
    layers: tuple[Layer, ...]

    @property
    def weight_bytes(self) -> int:
        """Of all layers; a weight that two of them use is in both."""
        return sum(layer.nbytes for layer in self.layers)

    @property
    def network_bytes(self) -> int:
        """The same with each weight counted once, as in the network that was cut."""
        uses = [weight for layer in self.layers for weight in layer.weights]
        each = {weight.name: weight.nbytes for weight in uses}
        return self.weight_bytes - sum(weight.nbytes for weight in uses) + sum(each.values())

    @property
    def largest_bytes(self) -> int:
        """Of one layer."""
        return max(layer.nbytes for layer in self.layers)

    def bind(self, places: Sequence[Tensor]) -> Program:
        """The program with the weights of layer i in `places[i]`, bytes of its length."""
        segments = list(self.program.segments)
        for layer, place in zip(self.layers, places, strict=True):
            views = [weight.view(place) for weight in layer.weights]
            bodies = [segments[i].body for i in layer.segments]
            own = {id(old): new for old, new in _paired(bodies, views)}
            for i, body in zip(layer.segments, bodies, strict=True):
                copied = _with_tensors(body, own)
                segments[i] = replace(
                    segments[i], body=_OwnMemory(copied) if segments[i].weight_bytes else copied
                )
        return Program(tuple(segments), self.program.output)


def split_layers(
    program: Program, module: nn.Module, merged_bytes: int = MERGED_BYTES
) -> tuple[LayeredNetwork, dict[str, Tensor]]:
    """The layers of a program that shares its weights with the module it was cut from, and these.

    A layer begins at a segment with weights; those without belong to the layer before them.

    Args:
      program: the network.
      module: whose weights it has.
      merged_bytes: up to which neighbours are one layer; what is above 256 kB only up to the
        largest segment, so that no larger ring is needed. The first layers are merged to less, each
        to twice the one before, for kernels have nothing to do until the first is there.

    Raises:
      ValueError: if there is no weight at all.
    """
    names = {id(tensor): name for name, tensor in named_weights(module)}
    layers: list[Layer] = []
    values: dict[str, Tensor] = {}
    for segments in _bundles(program, merged_bytes):
        weights, end = [], 0
        for name, tensor in _tensors([program.segments[i].body for i in segments]):
            known = names.get(id(tensor), f"{program.segments[segments[0]].name}.{name}")
            values[known] = tensor
            weights.append(
                Weight(
                    name=known,
                    dtype=tensor.dtype,
                    shape=tuple(tensor.shape),
                    stride=_dense_stride(tensor),
                    offset=end,
                    nbytes=tensor.nbytes,
                )
            )
            end = aligned(end + tensor.nbytes, TENSOR_BYTES)
        main = max(segments, key=lambda i: program.segments[i].weight_bytes)
        layers.append(
            Layer(program.segments[main].name, segments, tuple(weights), aligned(max(end, 1)))
        )
    blanks = _blanks([segment.body for segment in program.segments])
    empty = [
        replace(segment, body=_with_tensors(segment.body, blanks)) for segment in program.segments
    ]
    return LayeredNetwork(Program(tuple(empty), program.output), tuple(layers)), values


def named_weights(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Parameters and buffers; what has two names comes twice."""
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


def _bundles(program: Program, merged_bytes: int) -> Iterator[range]:
    if not any(segment.weight_bytes for segment in program.segments):
        raise ValueError("the network has no weights: there is nothing to stream")
    largest = max(segment.weight_bytes for segment in program.segments)
    merged_bytes = min(merged_bytes, max(MERGED_BYTES, largest))
    most_bytes = min(merged_bytes, MERGED_BYTES)
    begin, held = 0, 0
    for i, segment in enumerate(program.segments):
        if held and segment.weight_bytes and held + segment.weight_bytes > most_bytes:
            yield range(begin, i)
            begin, held = i, 0
            most_bytes = min(merged_bytes, 2 * most_bytes)
        held += segment.weight_bytes
    yield range(begin, len(program))


def _tensors(bodies: Sequence[nn.Module]) -> list[tuple[str, Tensor]]:
    """Of all bodies in order, each tensor once."""
    found: dict[int, tuple[str, Tensor]] = {}
    for body in bodies:
        for name, tensor in named_weights(body):
            found.setdefault(id(tensor), (name, tensor))
    return list(found.values())


def _paired(
    bodies: Sequence[nn.Module], views: Sequence[Tensor]
) -> Iterator[tuple[Tensor, Tensor]]:
    for (_, old), new in zip(_tensors(bodies), views, strict=True):
        is_parameter = isinstance(old, nn.Parameter)
        yield old, nn.Parameter(new, requires_grad=False) if is_parameter else new


def _blanks(bodies: Sequence[nn.Module]) -> dict[int, Any]:
    """One on the meta device for each tensor, by its identity."""
    empty: dict[int, Any] = {}
    for _, tensor in _tensors(bodies):
        blank = torch.empty_strided(
            tuple(tensor.shape), _dense_stride(tensor), dtype=tensor.dtype, device="meta"
        )
        is_parameter = isinstance(tensor, nn.Parameter)
        empty[id(tensor)] = nn.Parameter(blank, requires_grad=False) if is_parameter else blank
    return empty


def _with_tensors(body: nn.Module, tensors: Mapping[int, Any]) -> nn.Module:
    """A copy of the module with other tensors in place of its own, which are not copied."""
    return deepcopy(body, dict(tensors))


def _dense_stride(tensor: Tensor) -> tuple[int, ...]:
    """The tensor's strides; those of a contiguous one if its memory has gaps or overlaps."""
    shape, strides = tuple(tensor.shape), tuple(tensor.stride())
    expected = 1
    for i in reversed(_memory_order(shape, strides)):
        if shape[i] != 1 and strides[i] != expected:
            return tuple(torch.empty(shape, device="meta").stride())
        expected *= shape[i]
    return strides


def _memory_order(shape: Sequence[int], strides: Sequence[int]) -> list[int]:
    """The dimensions, from the one of the longest strides."""
    return sorted(range(len(shape)), key=lambda i: (-strides[i], -shape[i]))


@final
class _OwnMemory(nn.Module):
    """Gives no view of its weights: another layer's may be there before the value is read."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body
        self._places = {weight.untyped_storage().data_ptr() for _, weight in named_weights(body)}
        self.eval()

    def forward(self, *inputs: Tensor) -> Tensor:
        output: Tensor = self.body(*inputs)
        return output.clone() if output.untyped_storage().data_ptr() in self._places else output
