"""Tiles: large linear and convolution layers in slices of output channels, each loaded on its own."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from math import ceil
from typing import final

import torch
from torch import Tensor, fx, nn

from edgenas_runtime.network.program import NETWORK_INPUT, Program, Segment
from edgenas_runtime.network.segment_kind import SegmentKind
from edgenas_runtime.network.subgraph import extract
from edgenas_runtime.weight_streaming.files.layers import (
    TENSOR_BYTES,
    LayeredNetwork,
    Weight,
    WeightLayer,
    paired_weights,
    tensors_of,
)
from edgenas_runtime.weight_streaming.planning.ring import PAGE_BYTES, aligned

_TILED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
"""Layers whose output channels need one slice of the weight each; not their subclasses."""


def tiled(layered: LayeredNetwork, tile_bytes: int) -> LayeredNetwork:
    """Return the network with larger layers in tiles of about `tile_bytes`; 0 changes nothing.

    A tile has at least as many output channels as keep its weights aligned, 64 in single precision.
    Layers of other kinds stay whole. The file of the weights stays the same.
    """
    if not tile_bytes or layered.largest_bytes <= tile_bytes:
        return layered
    segments: list[Segment] = []
    moved = {NETWORK_INPUT: NETWORK_INPUT}
    layers: list[WeightLayer] = []
    for layer in layered.layers:
        begins = [len(segments)]
        sources = {id(tensor): weight for tensor, weight in paired_weights(layered.program, layer)}
        for i in layer.segments:
            segment = layered.program.segments[i]
            segment = replace(segment, inputs=tuple(moved[index] for index in segment.inputs))
            tiles = None
            if layer.nbytes > tile_bytes:
                tiles = _Tiles.of_segment(segment, tile_bytes, layer.nbytes, sources)
            if tiles is None:
                segments.append(segment)
            else:
                first, parts = tiles.segments(len(segments), sources)
                begins += range(first + 1, first + tiles.count)
                segments += parts
            moved[i] = len(segments) - 1
        if len(begins) == 1:
            layers.append(replace(layer, segments=range(begins[0], len(segments))))
            continue
        for begin, end in zip(begins, [*begins[1:], len(segments)], strict=True):
            bodies = [segment.body for segment in segments[begin:end]]
            layers.append(_piece(layer, range(begin, end), bodies, sources))
    return LayeredNetwork(Program(tuple(segments), moved[layered.program.output]), tuple(layers))


@final
class _Tiles:
    """A segment whose main layer is cut into slices."""

    def __init__(self, segment: Segment, network: fx.GraphModule, main: fx.Node, rows: int) -> None:
        self._segment = segment
        self._network = network
        self._main = main
        self._layer = network.get_submodule(str(main.target))
        self._weight = _weight(self._layer)
        self._rows = rows
        self.count = ceil(len(self._weight) / rows)

    @classmethod
    def of_segment(
        cls, segment: Segment, tile_bytes: int, layer_bytes: int, sources: dict[int, Weight]
    ) -> _Tiles | None:
        """Return the tiles of a segment, or None if it cannot be cut."""
        network = _as_graph(segment.body)
        large = [
            node for node in network.graph.find_nodes(op="call_module") if _is_cut(network, node)
        ]
        if not large:
            return None
        main = max(large, key=lambda node: _weight(network.get_submodule(str(node.target))).nbytes)
        weight = _weight(network.get_submodule(str(main.target)))
        step = TENSOR_BYTES // weight.itemsize
        others = layer_bytes - weight.nbytes + 2 * PAGE_BYTES
        most = (tile_bytes - others) * len(weight) // weight.nbytes // step * step
        count = ceil(len(weight) / max(step, most))
        rows = aligned(ceil(len(weight) / count), step)
        if rows >= len(weight) or id(weight) not in sources:
            return None
        return cls(segment, network, main, rows)

    def segments(self, index: int, sources: dict[int, Weight]) -> tuple[int, list[Segment]]:
        """Return the index of the first tile and all segments, of which the first gets `index`.

        The weights of the tiles are added to `sources`.
        """
        inputs = dict(
            zip(self._network.graph.find_nodes(op="placeholder"), self._segment.inputs, strict=True)
        )
        made: list[Segment] = []
        (x,) = self._main.all_input_nodes
        if x not in inputs:
            body, read = extract(self._network, [x], (), fold=False)
            made.append(self._part(body, [inputs[node] for node in read], flops=0))
            inputs[x] = index
        first = index + len(made)
        made += [
            self._part(self._tile(begin, sources), [inputs[x]], self._segment.flops // self.count)
            for begin in range(0, len(self._weight), self._rows)
        ]
        body, read = _Concatenation(1 - self._weight.dim()), (self._main,)
        (output,) = self._network.graph.find_nodes(op="output")
        if output.args[0] is not self._main:
            after, read = extract(
                self._network, list(output.all_input_nodes), [self._main], fold=False
            )
            body = _Concatenation(1 - self._weight.dim(), after)
        tiles = range(first, index + len(made))
        assert read == (self._main,)  # segments are chains
        made.append(replace(self._part(body, tiles, flops=0), kind=SegmentKind.CAT))
        return first, made

    def _tile(self, begin: int, sources: dict[int, Weight]) -> nn.Module:
        """Return the layer with some of its output channels."""
        end = min(begin + self._rows, len(self._weight))
        tile = copy(self._layer)
        slices: dict[str, nn.Parameter | None] = {}
        for name, tensor in self._layer._parameters.items():  # noqa: SLF001 - to replace them
            slices[name] = None
            if tensor is not None:
                whole = sources[id(tensor)]
                shape = (end - begin, *whole.shape[1:])
                blank = torch.empty_strided(shape, whole.stride, dtype=whole.dtype, device="meta")
                slices[name] = nn.Parameter(blank, requires_grad=False)
                row_bytes = whole.nbytes // whole.shape[0]
                sources[id(slices[name])] = replace(
                    whole,
                    shape=shape,
                    offset=whole.offset + begin * row_bytes,
                    nbytes=(end - begin) * row_bytes,
                )
        tile._parameters = slices  # noqa: SLF001 - those of the whole layer are shared with it
        return tile

    def _part(self, body: nn.Module, inputs: Sequence[int], flops: int) -> Segment:
        weights = [*body.parameters(), *body.buffers()]
        return replace(
            self._segment,
            body=body,
            inputs=tuple(inputs),
            weight_bytes=sum(weight.nbytes for weight in weights),
            flops=flops,
        )


@final
class _Concatenation(nn.Module):
    """Joins the outputs of tiles and applies what follows the layer."""

    def __init__(self, dim: int, after: nn.Module | None = None) -> None:
        super().__init__()
        self._dim = dim
        self.after = after
        self.eval()

    def forward(self, *tiles: Tensor) -> Tensor:
        output = torch.cat(tiles, self._dim)
        return output if self.after is None else self.after(output)


def _as_graph(body: nn.Module) -> fx.GraphModule:
    if isinstance(body, fx.GraphModule):
        return body
    graph = fx.Graph()
    graph.output(graph.call_module("layer", (graph.placeholder("x"),)))
    return fx.GraphModule({"layer": body}, graph)


def _is_cut(network: fx.GraphModule, node: fx.Node) -> bool:
    """Return whether a layer can be cut: each output channel has a contiguous part of the weight."""
    layer = network.get_submodule(str(node.target))
    if type(layer) not in _TILED or getattr(layer, "groups", 1) != 1 or len(node.args) != 1:
        return False
    hooks = [layer._forward_hooks, layer._forward_pre_hooks]  # noqa: SLF001 - they see the whole layer
    weight = _weight(layer)
    return not any(hooks) and weight.stride(0) * len(weight) == weight.numel()


def _weight(layer: nn.Module) -> Tensor:
    weight = layer.weight
    assert isinstance(weight, Tensor)
    return weight


def _piece(
    layer: WeightLayer, segments: range, bodies: Sequence[nn.Module], sources: dict[int, Weight]
) -> WeightLayer:
    """Return the piece of a layer that holds some of its weights, in whole pages of the file."""
    weights = [sources[id(tensor)] for _, tensor in tensors_of(bodies)]
    spans: list[tuple[int, int]] = []
    for begin, end in sorted(
        (weight.offset // PAGE_BYTES * PAGE_BYTES, aligned(weight.offset + weight.nbytes))
        for weight in weights
    ):
        if spans and begin <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(end, spans[-1][1])
        else:
            spans.append((begin, end))

    def place(offset: int) -> int:
        before = sum(end - begin for begin, end in spans if end <= offset)
        return before + next(offset - begin for begin, end in spans if begin <= offset < end)

    (at, _), *_ = layer.extents
    return WeightLayer(
        layer.name,
        segments,
        tuple(replace(weight, offset=place(weight.offset)) for weight in weights),
        sum(end - begin for begin, end in spans),
        tuple((at + begin, end - begin) for begin, end in spans),
    )
