"""Execution time of a layer, predicted from its shape: one linear regression per kind of layer.

`E_i = w_1 x_i1 + ... + b`, eq. 6 of the CPU-GPU co-scheduling source. The features are the operations
and bytes of a layer. Weights are never negative, so that a larger layer is never predicted faster
through a feature, and errors are relative, because a scheduler adds up layers of a microsecond and
of ten milliseconds. A convolution's time depends on its kernel by more than its operations, so
convolutions of different kernels are kinds of their own, and so are poolings of different classes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, final

import numpy as np
from torch import nn

from benchmarks.papers.relative_fit import relative_fit
from runtime.network.program import NETWORK_INPUT, Program, Segment
from runtime.network.segment_kind import SegmentKind
from runtime.scheduling.chain import Chain

FEATURES = (
    *("one", "flops", "input_bytes", "output_bytes", "weight_bytes", "patch_bytes"),
    *("bytes_beyond_1_mb", "bytes_beyond_16_mb"),
)
"""`patch_bytes` is the matrix that im2col would write for a convolution: every input value as often
as a kernel reads it. What a layer touches beyond about the size of a cache costs more a byte: the
last two are hinges, max(0, bytes - size), in which a linear regression can say so."""

_CACHES = (1e6, 16e6)

_LEAST_OF_A_KERNEL = 2 * len(FEATURES)
"""Fewest layers for a regression of one kernel; with fewer, that of all convolutions is used."""


@final
@dataclass(frozen=True)
class LayerFeatures:
    """Kind and features of a segment, for a prediction."""

    kind: str
    """Name of the kind; for a convolution with kernel and stride, `conv 3x3/1`, and `dw` if it is
    depthwise; for a pooling with its class, `pool MaxPool2d`."""
    features: tuple[float, ...]
    """Values in the order of FEATURES."""

    @property
    def group(self) -> str:
        """The kind without kernel, stride and class."""
        return self.kind.split()[0]

    @property
    def kernel(self) -> tuple[int, int]:
        """Height of a convolution's kernel, and stride; (1, 1) for other kinds."""
        if self.group != SegmentKind.CONV.value or "/" not in self.kind:
            return 1, 1
        size, stride = self.kind.split()[-1].split("/")
        return int(size.split("x")[0]), int(stride)


class PredictsLayers(Protocol):
    """Predicts the execution time of layers on one device."""

    def ms(self, layer: LayerFeatures) -> float:
        """Predicted execution time in milliseconds.

        Raises:
          KeyError: if no layer of the kind was timed.
        """


def layers(program: Program, input_bytes: int) -> tuple[LayerFeatures, ...]:
    """Describe every segment of a program, given the size of the network's input."""
    sizes = {NETWORK_INPUT: input_bytes}
    sizes.update({i: segment.output_bytes for i, segment in enumerate(program.segments)})
    return tuple(
        layer_of(segment, sum(sizes[i] for i in segment.inputs)) for segment in program.segments
    )


def layer_of(segment: Segment, input_bytes: int) -> LayerFeatures:
    """Describe a segment that reads `input_bytes`."""
    convolution = next((m for m in segment.body.modules() if isinstance(m, nn.Conv2d)), None)
    moved = (input_bytes, segment.output_bytes, segment.weight_bytes)
    sizes = (1.0, float(segment.flops), *map(float, moved))
    beyond = tuple(max(0.0, sum(moved) - size) for size in _CACHES)
    if segment.kind is SegmentKind.POOL:
        return LayerFeatures(f"pool {type(segment.body).__name__}", (*sizes, 0.0, *beyond))
    if segment.kind is not SegmentKind.CONV or convolution is None:
        return LayerFeatures(segment.kind.value, (*sizes, 0.0, *beyond))
    height, width = convolution.kernel_size
    depthwise = "dw " if convolution.groups == convolution.in_channels > 1 else ""
    kind = f"{segment.kind.value} {depthwise}{height}x{width}/{convolution.stride[0]}"
    positions = segment.output_bytes / convolution.out_channels  # 4 bytes each, or 2
    patches = positions * convolution.in_channels * height * width if height * width > 1 else 0.0
    return LayerFeatures(kind, (*sizes, patches, *beyond))


@final
@dataclass(frozen=True)
class LayerPredictor:
    """The regressions of one device and one backend."""

    device: str
    weights_ms: Mapping[str, tuple[float, ...]]
    """Weights of the features by kind. `conv` and `pool` are used for kernels and classes that were
    not timed."""

    def ms(self, layer: LayerFeatures) -> float:
        """Predicted execution time in milliseconds.

        Raises:
          KeyError: if no layer of its kind was timed.
        """
        weights = self.weights_ms.get(layer.kind) or self.weights_ms.get(layer.group)
        if weights is None:
            known = ", ".join(sorted(self.weights_ms))
            raise KeyError(f"no {layer.kind} was timed on {self.device}; it has {known}")
        return math.fsum(w * x for w, x in zip(weights, layer.features, strict=True))


def fit(device: str, timed: Sequence[tuple[LayerFeatures, float]]) -> LayerPredictor:
    """Fit a predictor to layers and their milliseconds.

    Raises:
      ValueError: if a time is not positive.
    """
    by_kind: dict[str, list[tuple[LayerFeatures, float]]] = {}
    for layer, ms in timed:
        if not (ms > 0 and math.isfinite(ms)):
            raise ValueError(f"a layer, {layer.kind}, took {ms} ms")
        for kind in {layer.kind, layer.group}:
            by_kind.setdefault(kind, []).append((layer, ms))
    weights = {}
    for kind, rows in sorted(by_kind.items()):
        if len(rows) < _LEAST_OF_A_KERNEL and kind != rows[0][0].group:
            continue
        features = np.array([layer.features for layer, _ in rows])
        weights[kind] = tuple(relative_fit(features, np.array([ms for _, ms in rows])))
    return LayerPredictor(device, weights)


def fit_plain(device: str, timed: Sequence[tuple[LayerFeatures, float]]) -> LayerPredictor:
    """Eq. 6 as printed: least squares of the milliseconds, one regression per group of layers.

    Operations and bytes only, weights of any sign; the baseline of `fit`, for layers alone. A
    prediction may be negative.
    """
    by_group: dict[str, list[tuple[LayerFeatures, float]]] = {}
    for layer, ms in timed:
        by_group.setdefault(layer.group, []).append((layer, ms))
    weights = {}
    for group, rows in sorted(by_group.items()):
        features = np.array([layer.features for layer, _ in rows])
        features[:, FEATURES.index("patch_bytes") :] = 0.0
        scale = np.abs(features).max(axis=0)
        scale[scale == 0] = 1.0
        taken_ms = np.array([ms for _, ms in rows])
        weights[group] = tuple((np.linalg.lstsq(features / scale, taken_ms)[0] / scale).tolist())
    return LayerPredictor(device, weights)


def predicted_chain(
    name: str,
    program: Program,
    input_bytes: int,
    predictors: Sequence[PredictsLayers | None],
) -> Chain:
    """The chain of a program with predicted times, given a predictor for each lane.

    None means that the lane cannot run the program.

    Raises:
      KeyError: if no layer of a kind was timed.
    """
    every = layers(program, input_bytes)
    times = tuple(
        tuple(math.inf if predictor is None else predictor.ms(layer) for predictor in predictors)
        for layer in every
    )
    return Chain(name, tuple(segment.kind for segment in program.segments), times)
