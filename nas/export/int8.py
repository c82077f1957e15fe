"""The accuracy of a network's int8 ONNX file: calibrated on training images, judged beside fp32."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

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

_BATCH = 16


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


def predicted_loss(network: nn.Module, images: TrainingData, side: int) -> float:
    """Accuracy that int8 is expected to cost, from ranges of weights and activations: no file, no labels.

    torch rounds the weights of each channel, and the inputs of each layer, to 8 bits of their ranges on
    training images. The loss is the confidence in the class of fp32 that is lost, in the mean.
    """
    layers = {
        name: layer
        for name, layer in network.cpu().eval().named_modules()
        if isinstance(layer, (nn.Conv2d, nn.Linear))
    }
    highest = dict.fromkeys(layers.values(), torch.zeros(()))
    lowest = dict(highest)

    def note(layer: Any, inputs: tuple[Tensor, ...]) -> None:
        lowest[layer] = torch.minimum(lowest[layer], inputs[0].min())
        highest[layer] = torch.maximum(highest[layer], inputs[0].max())

    def rounded(layer: Any, inputs: tuple[Tensor, ...]) -> Tensor:
        scale = (highest[layer] - lowest[layer]).clamp(min=LEAST_RANGE) / 255
        zero = (-lowest[layer] / scale).round().int()
        return torch.fake_quantize_per_tensor_affine(inputs[0], scale, zero, 0, 255)

    def confidences(
        hook: Callable[[Any, tuple[Tensor, ...]], Tensor | None], weights: dict[str, Tensor]
    ) -> Tensor:
        hooks = [layer.register_forward_pre_hook(hook) for layer in layers.values()]
        outputs = [functional_call(network, weights, (batch,)) for batch in batches]
        for each in hooks:
            each.remove()
        return torch.cat(outputs).softmax(1)

    batches = [torch.from_numpy(batch) for batch in calibration(images, side, _BATCH)]
    with torch.no_grad():
        weights = {f"{name}.weight": _rounded(layer.weight) for name, layer in layers.items()}
        exact, rough = confidences(note, {}), confidences(rounded, weights)
    answers = exact.argmax(1, keepdim=True)
    return float((exact - rough).gather(1, answers).mean())


def _rounded(weight: Tensor) -> Tensor:
    """Weights rounded to 8 bits, of a scale for each channel."""
    scales = weight.flatten(1).abs().amax(1).clamp(min=LEAST_RANGE) / 127
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
    try:
        int8 = quantised(fp32, calibration(images, side, 1))
    except ValueError as refused:
        raise UserError(str(refused)) from refused
    return Int8Accuracy(
        judged(fp32, images.valid),
        judged(int8, images.valid),
        judged(fp32, images.test) if is_winner else None,
        judged(int8, images.test) if is_winner else None,
    )
