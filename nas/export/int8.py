"""The accuracy of a network's int8 ONNX file: calibrated on training images, judged beside fp32."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from copy import deepcopy
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float32
from numpy import ndarray
from torch import Tensor, nn
from torch.func import functional_call

from common.types.errors import UserError
from nas.accuracy.images.image_set import Images
from nas.accuracy.learners.data import LearnerData, TrainingData, has_classes
from nas.accuracy.training.trained_folder import Judged
from nas.export.accuracy import classes_of, prepared
from nas.report.summary import Int8Accuracy
from runtime.network.formats.onnx_export import onnx_bytes
from runtime.network.formats.onnx_quantisation import LEAST_RANGE, quantised
from runtime.network.formats.onnx_session import OnnxSession

CALIBRATED_ON = 256
"""Training images that the scales of int8 are taken from."""

_BATCH = 32


def calibration(
    images: TrainingData, side: int, batch_size: int
) -> Iterator[Float32[ndarray, "b c side side"]]:
    """Batches of training images."""
    if isinstance(images, LearnerData):
        for inputs in images.inputs(CALIBRATED_ON).split(batch_size):
            yield np.resize(inputs.numpy(), (batch_size, *inputs.shape[1:]))
        return
    for start in range(0, min(CALIBRATED_ON, len(images.train)), batch_size):
        batch = prepared(images.train, images, side, slice(start, start + batch_size))
        yield np.resize(batch, (batch_size, *batch.shape[1:]))


@final
class _Rounding:
    """Runs a network with weights and inputs of layers rounded to 8 bits of their ranges on training images.

    torch rounds: weights by channel, inputs by tensor, as int8 files do.
    """

    def __init__(self, network: nn.Module, images: TrainingData, side: int) -> None:
        """Runs it exactly, to find the ranges."""
        self._network = network.cpu().eval()
        self._layers = {
            name: layer
            for name, layer in network.named_modules()
            if isinstance(layer, (nn.Conv2d, nn.Linear))
        }
        self._highest: dict[Any, Tensor] = dict.fromkeys(self._layers.values(), torch.zeros(()))
        self._lowest = dict(self._highest)
        self._batches = [torch.from_numpy(each) for each in calibration(images, side, _BATCH)]
        self.exact = self._run(self._note, {})
        """Outputs, not rounded."""

    def rounded(self) -> Tensor:
        """Outputs of the same images in 8 bits."""
        weights = {f"{name}.weight": _rounded(layer.weight) for name, layer in self._layers.items()}
        return self._run(self._round, weights)

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
    ) -> Tensor:
        with ExitStack() as hooks, torch.no_grad():
            for layer in self._layers.values():
                hooks.enter_context(layer.register_forward_pre_hook(hook))
            outputs = [functional_call(self._network, weights, (batch,)) for batch in self._batches]
        return torch.cat(outputs)


def predicted_loss(network: nn.Module, images: TrainingData, side: int) -> float:
    """Accuracy that int8 is expected to cost, from ranges of weights and activations: no file, no labels.

    It is the confidence in the class of fp32 that rounding takes, in the mean over training images.
    """
    rounding = _Rounding(network, images, side)
    exact, rounded = rounding.exact.softmax(1), rounding.rounded().softmax(1)
    answers = exact.argmax(1, keepdim=True)
    return float((exact - rounded).gather(1, answers).mean())


def bias_corrected(network: nn.Module, images: TrainingData, side: int) -> nn.Module:
    """A copy whose batch normalisations undo what rounding shifts their channels by (Nagel et al., ICCV 2019)."""
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
        rounding = _Rounding(corrected, images, side)
    with ExitStack() as hooks:
        for norm in norms:
            hooks.enter_context(norm.register_forward_pre_hook(correct))
        rounding.rounded()
    for norm in norms:
        if shifts[norm] and norm.running_mean is not None:
            norm.running_mean += torch.stack(shifts[norm]).mean(0)
    return corrected


def _rounded(weight: Tensor) -> Tensor:
    """Weights rounded to 8 bits, of a scale for each channel."""
    scales = weight.detach().flatten(1).abs().amax(1).clamp(min=LEAST_RANGE) / 127
    zeros = torch.zeros(len(scales), dtype=torch.int32)
    return torch.fake_quantize_per_channel_affine(weight, scales, zeros, 0, -127, 127)


def int8_accuracy(
    network: nn.Module, images: TrainingData, side: int, *, is_winner: bool
) -> Int8Accuracy:
    """Accuracy of a network's int8 file beside its fp32 file; on the test images only of a winner.

    Raises:
      UserError: if ONNX Runtime cannot quantise the network.
    """
    if not has_classes(images):
        raise TypeError(f"{images.title} has no classes")

    def judged(content: bytes, split: Images) -> Judged:
        classes = classes_of(OnnxSession(content), split, images, side, 1)
        return Judged(float((classes == split.labels).mean()), len(split))

    example = torch.from_numpy(prepared(images.train, images, side, slice(1)))
    fp32 = onnx_bytes(network.cpu().eval(), [example])
    corrected = onnx_bytes(bias_corrected(network, images, side), [example])
    try:
        int8 = quantised(corrected, calibration(images, side, 1))
    except ValueError as refused:
        raise UserError(str(refused)) from refused
    return Int8Accuracy(
        judged(fp32, images.valid),
        judged(int8, images.valid),
        judged(fp32, images.test) if is_winner else None,
        judged(int8, images.test) if is_winner else None,
    )
