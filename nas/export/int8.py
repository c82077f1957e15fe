"""Int8 files of trained networks: calibrated on training images, evaluated beside fp32."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float32, Int64
from numpy import ndarray
from torch import Tensor, nn

from edgenas_core.inference.formats.onnx_export import onnx_bytes
from edgenas_core.inference.formats.onnx_quantisation import LEAST_RANGE, quantised
from edgenas_core.inference.formats.onnx_session import OnnxSession
from edgenas_core.inference.formats.tflite_export import tflite_bytes, tflite_quantised
from edgenas_core.types.errors import UserError
from nas.export.accuracy import classes_of, prepare
from nas.export.latency import tflite_session
from nas.export.network import Session
from nas.fit.data.image_set import weighted_accuracy
from nas.fit.learners.data import LearnerData, TrainingData, has_classes
from nas.fit.training.trained_folder import Judged
from nas.report.summary import Int8Accuracy

CALIBRATED_ON = 256
"""Training images that the scales of int8 are taken from."""

FEWEST_CALIBRATED = 32
"""Training images of which fewer are warned about: extremes of the activations would be missing."""

MOST_LOST = 0.003
"""Accuracy that int8 may lose against fp32: beyond it, and one image, layers stay in fp32, and the user is warned."""

_IN_FP32 = (4, 12)
"""Layers that stay in fp32, the fewest first, where int8 loses more."""

_BATCH = 16
_RANKED_ON = _BATCH
"""Images by which layers are put in an order: each layer is rounded alone, a pass a layer."""


def calibration(
    images: TrainingData, side: int, batch_size: int
) -> Iterator[Float32[ndarray, "b c side side"]]:
    """Batches of training images."""
    if isinstance(images, LearnerData):
        for inputs in images.inputs(CALIBRATED_ON).split(batch_size):
            yield np.resize(inputs.numpy(), (batch_size, *inputs.shape[1:]))
        return
    for start in range(0, min(CALIBRATED_ON, len(images.train)), batch_size):
        batch = prepare(images.train, images, side, slice(start, start + batch_size))
        yield np.resize(batch, (batch_size, *batch.shape[1:]))


@final
class _Rounding:
    """Runs a network with weights and inputs of layers rounded to 8 bits of their ranges on training images.

    torch rounds: weights by channel, inputs by tensor, as int8 files do.
    """

    def __init__(
        self,
        network: nn.Module,
        images: TrainingData,
        side: int,
        *,
        in_fp32: Collection[str] = (),
        count: int = CALIBRATED_ON,
    ) -> None:
        """Runs it exactly, to find the ranges."""
        self._network = network.cpu().eval()
        self._layers = {
            name: layer
            for name, layer in network.named_modules()
            if name not in in_fp32
            and hasattr(layer, "bias")
            and getattr(layer.weight, "ndim", 0) > 1
        }
        self._highest: dict[Any, Tensor] = dict.fromkeys(self._layers.values(), torch.zeros(()))
        self._lowest = dict(self._highest)
        batches = islice(calibration(images, side, _BATCH), count // _BATCH)
        self._batches = [torch.from_numpy(batch) for batch in batches]
        self.exact = self._run(self._note, {})
        """Outputs, not rounded."""

    def rounded(self) -> Tensor:
        """Outputs of the same images in 8 bits."""
        return self._rounded_in(self._layers)

    def by_error(self) -> list[tuple[str, float]]:
        """Layers by what rounding one alone changes, most first, with the outputs' signal to noise in decibels."""
        signal = self.exact.var()
        errors = {
            name: (self._rounded_in([name]) - self.exact).square().mean() for name in self._layers
        }
        decibels = {name: float(10 * (signal / each).log10()) for name, each in errors.items()}
        return sorted(decibels.items(), key=lambda pair: pair[1])

    def _rounded_in(self, names: Collection[str]) -> Tensor:
        weights = {name: _round_weight(self._layers[name].weight) for name in names}
        return self._run(self._round, weights, names)

    def _note(self, layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        self._lowest[layer] = torch.minimum(self._lowest[layer], inputs[0].min())
        self._highest[layer] = torch.maximum(self._highest[layer], inputs[0].max())

    def _round(self, layer: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:
        scale = (self._highest[layer] - self._lowest[layer]).clamp(min=LEAST_RANGE) / 255
        zero = (-self._lowest[layer] / scale).round().int()
        return torch.fake_quantize_per_tensor_affine(inputs[0], scale, zero, 0, 255)

    def _run(
        self,
        hook: Callable[[nn.Module, tuple[Tensor, ...]], Tensor | None],
        weights: dict[str, Tensor],
        names: Collection[str] | None = None,
    ) -> Tensor:
        exact = {name: self._layers[name].weight.data for name in weights}
        with ExitStack() as hooks, torch.no_grad():
            for name in self._layers if names is None else names:
                hooks.enter_context(self._layers[name].register_forward_pre_hook(hook))
            for name, weight in weights.items():
                self._layers[name].weight.data = weight
            try:
                outputs = [self._network(batch) for batch in self._batches]
            finally:  # torch's functional_call leaves a layer of two names without parameters
                for name, weight in exact.items():
                    self._layers[name].weight.data = weight
        return torch.cat(outputs)


def correct_biases(
    network: nn.Module, images: TrainingData, side: int, in_fp32: Collection[str] = ()
) -> nn.Module:
    """A copy whose batch normalisations undo what rounding shifts their channels by (Nagel et al., ICCV 2019).

    Layers in `in_fp32` are not rounded.
    """
    corrected = deepcopy(network)
    norms = [norm for norm in corrected.modules() if isinstance(norm, nn.BatchNorm2d)]
    means: dict[nn.Module, list[Tensor]] = {norm: [] for norm in norms}
    shifts: dict[nn.Module, list[Tensor]] = {norm: [] for norm in norms}

    def note(norm: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        means[norm].append(inputs[0].mean((0, 2, 3)))

    def correct(norm: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:
        shift = inputs[0].mean((0, 2, 3)) - means[norm][len(shifts[norm])]
        shifts[norm].append(shift)
        return inputs[0] - shift[:, None, None]

    with ExitStack() as hooks:
        for norm in norms:
            hooks.enter_context(norm.register_forward_pre_hook(note))
        rounding = _Rounding(corrected, images, side, in_fp32=in_fp32)
    with ExitStack() as hooks:
        for norm in norms:
            hooks.enter_context(norm.register_forward_pre_hook(correct))
        rounding.rounded()
    for norm in norms:
        if shifts[norm] and norm.running_mean is not None:
            norm.running_mean += torch.stack(shifts[norm]).mean(0)
    return corrected


def _round_weight(weight: Tensor) -> Tensor:
    """Weights rounded to 8 bits, of a scale for each channel."""
    scales = weight.detach().flatten(1).abs().amax(1).clamp(min=LEAST_RANGE) / 127
    zeros = torch.zeros(len(scales), dtype=torch.int32)
    return torch.fake_quantize_per_channel_affine(weight, scales, zeros, 0, -127, 127)


@final
@dataclass(frozen=True)
class Int8Onnx:
    """An int8 ONNX file, and what its layers in fp32 and weights of 7 bits saved."""

    content: bytes
    in_7_bits: bool = False  # weights: 8-bit products may saturate on x86 without VNNI
    in_fp32: tuple[str, ...] = ()  # that lose most; none if int8 loses little, or they do not help
    lost: tuple[float, float] = (
        0.0,
        0.0,
    )  # accuracy on the validation images, without and with both


@final
@dataclass(frozen=True, eq=False)
class Int8Source:
    """A trained network that int8 files are made of: calibrated on its training images."""

    network: nn.Module
    images: TrainingData
    side: int  # of the images, in pixels

    @cached_property
    def least_exact(self) -> list[tuple[str, float]]:
        """Layers by what rounding one alone changes, most first, with the outputs' signal to noise in decibels."""
        return _Rounding(self.network, self.images, self.side, count=_RANKED_ON).by_error()

    @cached_property
    def corrected(self) -> nn.Module:
        """The network that becomes an int8 file."""
        return correct_biases(self.network, self.images, self.side)

    def calibration(self, batch_size: int) -> list[Float32[ndarray, "b c side side"]]:
        """Batches of training images."""
        return [*calibration(self.images, self.side, batch_size)]

    def onnx(self, write: Callable[[nn.Module], bytes], batch_size: int = 1) -> Int8Onnx:
        """The int8 file; with weights of 7 bits or layers in fp32 that help, if it loses more than `MOST_LOST`.

        Args:
          write: makes a network's ONNX file.
          batch_size: of that file.

        Raises:
          ValueError: if ONNX Runtime cannot quantise the network.
        """
        batches, images = self.calibration(batch_size), self.images
        if not has_classes(images):
            raise TypeError(f"{images.title} has no classes")

        def answers(onnx: bytes) -> Int64[ndarray, "n"]:
            return classes_of(OnnxSession(onnx), images.valid, images, self.side, batch_size)

        def lost(classes: Int64[ndarray, "n"]) -> float:
            labels = images.valid.labels
            return weighted_accuracy(exact, labels) - weighted_accuracy(classes, labels)

        content = quantised(write(self.corrected), batches)
        in_fp32: tuple[str, ...] = ()
        exact, best = answers(write(self.network)), answers(content)
        before, in_7_bits = lost(best), False
        allowed = max(MOST_LOST, 1.5 / len(images.valid))  # one image says nothing
        if before > allowed:
            narrow = quantised(write(self.corrected), batches, in_7_bits=True)
            classes = answers(narrow)
            in_7_bits = bool((classes == exact).sum() > (best == exact).sum())
            content, best = (narrow, classes) if in_7_bits else (content, best)
        for count in _IN_FP32:
            if lost(best) <= allowed:
                break
            layers = tuple(name for name, _ in self.least_exact[:count])
            corrected = correct_biases(self.network, self.images, self.side, layers)
            mixed = quantised(write(corrected), batches, layers, in_7_bits=in_7_bits)
            classes = answers(mixed)
            if (classes == exact).mean() <= (best == exact).mean():
                break  # of few images accuracy may rise by chance
            content, in_fp32, best = mixed, layers, classes
        return Int8Onnx(content, in_7_bits, in_fp32, (before, lost(best)))


def calibration_warning(images: TrainingData) -> str | None:
    """A warning if there are too few images to calibrate int8 on."""
    if (count := len(images.train)) >= FEWEST_CALIBRATED:
        return None
    return (
        f"int8 is calibrated on {count} images, too few for its ranges: give {FEWEST_CALIBRATED} training "
        f"images or more"
    )


def int8_accuracy(
    network: nn.Module,
    images: TrainingData,
    side: int,
    *,
    in_tflite: bool = False,
) -> Int8Accuracy:
    """Accuracy of a network's int8 file beside its fp32 file, on validation and test images.

    On validation images it is the mean over the classes where they differ much in size, as in trainings.

    Raises:
      UserError: if the network cannot be converted or quantised.
    """
    if not has_classes(images):
        raise TypeError(f"{images.title} has no classes")

    example = torch.from_numpy(prepare(images.train, images, side, slice(1)))
    fp32 = onnx_bytes(network.cpu().eval(), [example])
    source = Int8Source(network, images, side)
    in_fp32: tuple[str, ...] = ()
    try:
        if in_tflite:
            tflite = tflite_bytes(source.corrected, example)
            session: Session = tflite_session(tflite_quantised(tflite, source.calibration(1)))
        else:
            int8 = source.onnx(partial(onnx_bytes, examples=[example]))
            session, in_fp32 = OnnxSession(int8.content), int8.in_fp32
    except ValueError as refused:
        raise UserError(str(refused)) from refused
    sessions, labels = (OnnxSession(fp32), session), images.valid.labels
    exact, rounded = (classes_of(each, images.valid, images, side, 1) for each in sessions)
    valid_fp32, valid = (
        Judged(weighted_accuracy(classes, labels), len(labels)) for classes in (exact, rounded)
    )

    def tested(session: Session) -> Judged:
        classes = classes_of(session, images.test, images, side, 1)
        return Judged(float((classes == images.test.labels).mean()), len(images.test))

    test_fp32, test = (tested(each) for each in sessions)
    return Int8Accuracy(
        valid_fp32,
        valid,
        test_fp32,
        test,
        in_tflite=in_tflite,
        in_fp32=in_fp32,
    )
