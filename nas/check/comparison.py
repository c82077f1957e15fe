"""Answers of two networks to the same photos: difference, agreement, layers, and what explains them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64
from numpy import ndarray

from edgenas_core.types.errors import UserError
from nas.check.network_file import Layer, NetworkFile
from nas.check.preparation import Preparation
from nas.trials.survey import wilson_interval

_FLOOR = 1 / 512
"""Probability below which 8 bits say nothing."""

SAME_DB, SAME_INT8_DB = 35.0, 9.0
"""Signal to noise of the outputs from which two files are the same network, without and with 8 bits."""

AGREED, AGREED_INT8 = 0.98, 0.9
"""Share of the photos that get one class from both, at least."""

_LAYER_DB, _LAYER_INT8_DB = 30.0, 8.0
"""Signal to noise below which a layer differs."""

_EXPLAINED_DB = 5.0
"""Signal to noise of the outputs that a correction reaches at least."""

_SATURATED = 0.004
"""Share of a layer's outputs at the end of its 8 bits, from which its range is too small."""

_CLIPPED = 0.2
"""Share of the photos whose outputs stand at their end, from which outputs are clipped."""

_LAYERS_ON = 16
"""Photos on which layers are compared."""


def outputs_of(
    network: NetworkFile, photos: Sequence[Any], preparation: Preparation
) -> Float32[ndarray, "n classes"]:
    """Outputs of a network for each photo.

    Raises:
      UserError: if they are no classes.
    """
    rows = [network(network.form.numbers(preparation(photo, network.form))) for photo in photos]
    outputs = np.stack(rows).reshape(len(rows), -1) if rows[0].size == rows[0].shape[-1] else None
    if outputs is None or outputs.shape[1] < 2:
        raise UserError(
            f"{network.path} gives outputs of shape {rows[0].shape}; check compares networks that put a photo into "
            f"one of two or more classes"
        )
    return outputs


@final
@dataclass(frozen=True)
class Agreement:
    """How far two networks give the same answers."""

    photos: int
    same: float  # share of the photos that both put into one class
    decibels: float  # power of the first one's outputs over that of the difference

    @property
    def text(self) -> str:
        """The share with its interval, and the decibels."""
        low, high = wilson_interval(self.same, self.photos)
        return f"{self.same:.1%} [{low:.1%}, {high:.1%}]; outputs alike to {self.decibels:.0f} dB"

    def is_same(self, *, is_int8: bool) -> bool:
        """Whether both files can be the same network."""
        decibels, agreed = (SAME_INT8_DB, AGREED_INT8) if is_int8 else (SAME_DB, AGREED)
        return self.decibels >= decibels and self.same >= agreed

    @classmethod
    def of(cls, a: Float32[ndarray, "n c"], b: Float32[ndarray, "n c"]) -> Agreement:
        """Compare outputs; of probabilities their logarithms, and the mean of each photo's is no difference.

        Outputs that are not finite agree with nothing.
        """
        if _are_probabilities(a) or _are_probabilities(b):
            a, b = (np.log(np.maximum(_probabilities(each), _FLOOR)) for each in (a, b))
        same = (a.argmax(1) == b.argmax(1)) & are_finite(a) & are_finite(b)
        with np.errstate(invalid="ignore"):
            left, right = (each - each.mean(1, keepdims=True) for each in (a, b))
            return cls(len(a), float(same.mean()), _decibels(left, right))


def are_finite(outputs: Float32[ndarray, "n c"]) -> Bool[ndarray, "n"]:
    """Whether all outputs for a photo are numbers."""
    return np.asarray(np.isfinite(outputs).all(1))


def _are_probabilities(outputs: Float32[ndarray, "n c"]) -> bool:
    sums = outputs.sum(1)  # of 8 bits small ones are lost
    return bool(outputs.min() >= 0 and outputs.max() <= 1.01 and 0.5 < np.median(sums) < 1.1)


def _probabilities(outputs: Float32[ndarray, "n c"]) -> Float32[ndarray, "n c"]:
    if _are_probabilities(outputs):
        return outputs
    powers = np.exp(outputs - outputs.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True), np.float32)


def _decibels(signal: ndarray, other: ndarray) -> float:
    with np.errstate(invalid="ignore"):
        noise = float(np.square(signal - other, dtype=np.float64).sum())
    power = float(np.square(signal, dtype=np.float64).sum())
    return _ratio_db(power, noise)


def _ratio_db(power: float, noise: float) -> float:
    """Decibels of a ratio, -120 to 120; -120 where one of them is not finite."""
    if not (math.isfinite(power) and math.isfinite(noise)):
        return -120.0
    return max(-120.0, min(120.0, 10 * math.log10(max(power, 1e-30) / max(noise, 1e-30))))


def paired_difference(
    right_a: Bool[ndarray, "n"], right_b: Bool[ndarray, "n"]
) -> tuple[float, float, float]:
    """Accuracy of b less that of a, with its 95 % interval (Agresti and Min, Statistics in Medicine, 2005).

    The interval is Wald's for matched pairs with half a pair added to each of the four counts.
    """
    n = len(right_a) + 2
    gained = float((right_b & ~right_a).sum()) + 0.5
    lost = float((right_a & ~right_b).sum()) + 0.5
    middle = (gained - lost) / n
    half = 1.959964 * math.sqrt(max(0.0, gained + lost - (gained - lost) ** 2 / n)) / n
    return float(right_b.mean() - right_a.mean()), middle - half, middle + half


@final
@dataclass(frozen=True)
class LayerPair:
    """One layer of both files."""

    number: int  # from 1
    a: str
    b: str
    decibels: float
    saturated: float  # share of the outputs of b at the end of their 8 bits
    is_per_tensor: bool  # one scale for all weights of a depthwise layer of b

    def differs(self, *, is_int8: bool) -> bool:
        """Whether outputs differ by more than rounding does."""
        return self.decibels < (_LAYER_INT8_DB if is_int8 else _LAYER_DB)


def compare_layers(
    a: NetworkFile,
    b: NetworkFile,
    photos: Sequence[Any],
    prepared_a: Preparation,
    prepared_b: Preparation,
) -> list[LayerPair] | str:
    """Every layer of both on some of the photos; or why they cannot be paired."""
    sums: list[list[float]] = []
    pairs: list[tuple[Layer, Layer]] = []
    for photo in photos[:_LAYERS_ON]:
        pairs = []
        of_a, of_b = (
            [*network.layers(network.form.numbers(prepared(photo, network.form)))]
            for network, prepared in ((a, prepared_a), (b, prepared_b))
        )
        if len(of_a) != len(of_b):
            return f"{len(of_a)} layers of {a.path.name}, {len(of_b)} of {b.path.name}"
        sums = sums or [[0.0, 0.0, 0.0] for _ in of_a]
        for number, (left, right) in enumerate(zip(of_a, of_b, strict=True)):
            if left.values[0].size != right.values[0].size:
                return (
                    f"layer {number + 1} is of {left.values[0].shape} and {right.values[0].shape}"
                )
            # Another format may have merged an activation into the layer: take the pair that is most alike.
            best = max(
                ((x.ravel(), y.ravel()) for x in left.values for y in right.values),
                key=lambda pair: _decibels(*pair),
            )
            sums[number][0] += float(np.square(best[0], dtype=np.float64).sum())
            with np.errstate(invalid="ignore"):
                sums[number][1] += float(np.square(best[0] - best[1], dtype=np.float64).sum())
            sums[number][2] += _saturated(right)
            pairs.append((left, right))
    return [
        LayerPair(
            number,
            left.name,
            right.name,
            _ratio_db(signal, noise),
            saturated / min(_LAYERS_ON, len(photos)),
            right.is_depthwise and right.weight_scales == 1,
        )
        for number, ((left, right), (signal, noise, saturated)) in enumerate(
            zip(pairs, sums, strict=True), 1
        )
    ]


def _saturated(layer: Layer) -> float:
    """Share of the outputs at the upper end of their 8 bits, unless that is the end of ReLU6."""
    if layer.highest is None or abs(layer.highest - 6) < 0.2:
        return 0.0
    return float((layer.values[-1] >= layer.highest - layer.step / 2).mean())


@final
@dataclass(frozen=True)
class Cause:
    """An explanation of a difference, and what speaks for it."""

    name: str  # mean, BGR, crop, axes, order of classes, clipped outputs, calibration, per-tensor depthwise, not finite
    text: str
    same: float  # agreement with it corrected, or before


def outer_causes(
    b: NetworkFile,
    photos: Sequence[Any],
    prepared: Preparation,
    outputs_a: Float32[ndarray, "n c"],
    before: Agreement,
) -> list[Cause]:
    """Explanations outside the file: preparations with which b is notably more like a, the most alike first."""
    corrected = _corrected(b, photos, prepared, outputs_a, before)
    return sorted(corrected, key=lambda each: -each.same)


def inner_causes(
    outputs_a: Float32[ndarray, "n c"],
    outputs_b: Float32[ndarray, "n c"],
    layers: Sequence[LayerPair],
) -> Iterator[Cause]:
    """Explanations in the file: its ranges of 8 bits, the ends of its outputs, the order of its classes."""
    before = Agreement.of(outputs_a, outputs_b)
    broken = int((~are_finite(outputs_b)).sum())
    if broken:
        text = f"the outputs of the checked file are not finite for {broken:,} of {len(outputs_b):,} photos"
        yield Cause("not finite", text, before.same)
    yield from _of_layers(layers, before)
    yield from _clipped(outputs_a, outputs_b, before)
    yield from _reordered(outputs_a, outputs_b, before)


def _corrected(
    b: NetworkFile,
    photos: Sequence[Any],
    prepared: Preparation,
    outputs_a: Float32[ndarray, "n c"],
    before: Agreement,
) -> Iterator[Cause]:
    for name, words, other in prepared.others():
        after = Agreement.of(outputs_a, outputs_of(b, photos, other))
        closer = after.decibels - before.decibels
        if closer > 3 and after.decibels > _EXPLAINED_DB and after.same >= before.same:
            text = f"{words} for {b.path.name}: agreement {before.same:.1%} becomes {after.same:.1%}, {after.decibels:.0f} dB"
            yield Cause(name, text, after.same + after.decibels / 1000)


def _clipped(
    outputs_a: Float32[ndarray, "n c"],
    outputs_b: Float32[ndarray, "n c"],
    before: Agreement,
) -> Iterator[Cause]:
    """Outputs that end at one value, where clipping those of a there makes them alike."""
    if _are_probabilities(outputs_b):
        return
    least, most = float(outputs_b.min()), float(outputs_b.max())
    share = float(((outputs_b >= most).sum(1) > 0).mean())
    lower = float(((outputs_b <= least).sum(1) > 0).mean())
    if max(share, lower) < _CLIPPED:
        return
    after = Agreement.of(np.clip(outputs_a, least, most), outputs_b)
    if after.decibels > before.decibels + 3:
        text = (
            f"outputs end at {least:.3g} and {most:.3g}, which {max(share, lower):.0%} of the photos "
            f"reach: clipped there, those of the other are alike to {after.decibels:.0f} dB"
        )
        yield Cause("clipped outputs", text, before.same)


def _of_layers(layers: Sequence[LayerPair], before: Agreement) -> Iterator[Cause]:
    """What the 8 bits of the layers show."""
    per_tensor = [each for each in layers if each.is_per_tensor]
    saturated = [each for each in layers[:-1] if each.saturated > _SATURATED]
    if saturated:
        worst = max(saturated, key=lambda each: each.saturated)
        text = (
            f"{len(saturated)} layers reach the end of their 8 bits, {worst.b} in {worst.saturated:.1%} of its outputs: "
            f"calibrate on more photos, such as 200 of all classes"
        )
        yield Cause("calibration", text, before.same)
    if per_tensor:
        text = (
            f"{len(per_tensor)} depthwise layers have one scale for all channels, the first is {per_tensor[0].b}: "
            f"quantise per channel"
        )
        yield Cause("per-tensor depthwise", text, before.same)


def _reordered(
    outputs_a: Float32[ndarray, "n c"], outputs_b: Float32[ndarray, "n c"], before: Agreement
) -> Iterator[Cause]:
    """Another order of the classes, by the assignment that agrees most (Kuhn, 1955)."""
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 - slow to import

    count = outputs_a.shape[1]
    table: Float64[ndarray, "c c"] = np.zeros((count, count))
    np.add.at(table, (outputs_b.argmax(1), outputs_a.argmax(1)), 1)
    rows, columns = linear_sum_assignment(-table)
    order: Int64[ndarray, "c"] = np.empty(count, np.int64)
    order[columns] = rows
    after = Agreement.of(outputs_a, outputs_b[:, order])
    if after.same > 0.9 and after.decibels > before.decibels + 6:
        yield Cause("order of classes", f"classes in another order agree in {after.same:.1%}", 1.0)
