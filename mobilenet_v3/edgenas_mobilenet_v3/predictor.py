"""`accuracy=ofa`: the accuracy predictor that Once-for-All published (Cai et al., ICLR 2020).

A perceptron predicts the top-1 accuracy on 10,000 held-out images of ImageNet that a network has with
the weights of the supernet of width 1.2, without fine-tuning. It is not ours to ship: `python -m nas.data
space=mobilenet_v3 fetch` downloads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, final

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64
from numpy import ndarray

from edgenas_core.types.architectures import Keys
from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from edgenas_core.types.task import Task
from edgenas_mobilenet_v3.space import (
    EXPANSIONS,
    IMAGENET,
    KERNELS,
    MOST_BLOCKS,
    SIDES,
    STAGES,
    MobileNetV3,
    settings_of,
)
from nas.accuracy.base import Accuracies, AccuracyConfig, Split
from nas.spaces.public_data import load_torch_file, raw_folder

if TYPE_CHECKING:
    from torch import Tensor

FILE = "ofa_acc_predictor.pth"
NAME, WIDTH = "mobilenet_v3", 1.2
"""Space of the networks that the predictor was fitted on, and their width multiplier."""

_AVERAGED = 1000
_PUBLISHED_RMSE = (
    0.0021  # of predicted accuracies of networks that the fit did not see (Cai et al.)
)
_MOST_BYTES = 4 * 2**20  # the published file has 1.5 MB
_HIDDEN, _LAYERS = 400, 4
_BLOCKS = STAGES * MOST_BLOCKS
_FIRST_SIDE, _SIDE_STEP, _NUM_SIDES = 112, 16, 8
FITTED_SIDES = (160, 176, 192, 208, 224)
"""Sides that the published search draws from; the predictor's inputs also have 112, 128 and 144."""

_INPUTS = _BLOCKS * (len(KERNELS) + len(EXPANSIONS)) + _NUM_SIDES
_WIDTHS = (_INPUTS, *[_HIDDEN] * (_LAYERS - 1), 1)


@final
@dataclass(frozen=True)
class Perceptron:
    """The published network: one-hot inputs to a fraction."""

    weights: tuple[Float32[ndarray, "_ _"], ...]  # of each layer, outputs by inputs
    biases: tuple[Float32[ndarray, "_"], ...]

    def __call__(self, inputs: Float32[ndarray, "*n inputs"]) -> Float64[ndarray, "*n"]:
        """Accuracy on held-out images, as a fraction."""
        x = inputs
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = np.maximum(x @ weight.T + bias, 0)
        last = x @ self.weights[-1].T + self.biases[-1]
        return np.asarray(last[..., 0].astype(np.float64))


@final
@dataclass(frozen=True)
class OfaAccuracy:
    """Accuracies predicted by the published perceptron.

    It was fitted on five sides. Its answers for the two smaller ones that it has inputs for are those
    of untrained weights, and better than for larger images, so they are not used: accuracies between the
    five sides are interpolated, and below them they fall as the mean over many networks does.
    """

    perceptron: Perceptron
    drop: Float64[ndarray, "sides"]  # fraction that a smaller side than the fitted ones costs
    source: str = "ofa"
    description: str = (
        "ofa: predicted by Once-for-All's published predictor: ImageNet top-1 with the weights of its "
        f"supernet of width {WIDTH:g}, without fine-tuning; fitted on sides of 160, 176, ... 224 pixels, "
        "interpolated between and extrapolated below"
    )
    split: Split = Split.valid
    instant: bool = True

    def answer(self, architectures: Int64[ndarray, "*n D"]) -> Accuracies:
        """Predicted top-1 accuracy on held-out images."""
        side = architectures[..., 0]
        above = (np.maximum(np.array(SIDES), FITTED_SIDES[0]) - FITTED_SIDES[0]) / _SIDE_STEP
        lower = above.astype(np.int64)
        upper = np.ceil(above).astype(np.int64)
        share = (above - lower)[side]
        at_lower, at_upper = (
            self.perceptron(encoded(architectures, place[side])) for place in (lower, upper)
        )
        fraction = np.asarray((1 - share) * at_lower + share * at_upper - self.drop[side])
        return Accuracies(fraction, np.full(fraction.shape, Kind.surrogate, np.int8))

    def known(self, architectures: Int64[ndarray, "*n D"]) -> Bool[ndarray, "*n"]:
        """Return True everywhere."""
        return np.ones(architectures.shape[:-1], bool)

    def sd(
        self, architectures: Int64[ndarray, "*n D"], fraction: Float64[ndarray, "*n"]
    ) -> Float64[ndarray, "*n"]:
        """The published error on held-out networks; NaN for images smaller than those of the fit."""
        fitted = np.array(SIDES)[architectures[..., 0]] >= FITTED_SIDES[0]
        return np.where(fitted, np.full_like(fraction, _PUBLISHED_RMSE), np.nan)

    def test(self, architectures: Int64[ndarray, "*n D"]) -> Float64[ndarray, "*n"]:
        """Return NaN: the predictor was fitted on held-out images alone."""
        return np.full(architectures.shape[:-1], np.nan)


@final
@dataclass
class OfaAccuracyConfig(AccuracyConfig):
    """No settings: there is one published predictor."""

    def build(self, space: Keys, task: Task, split: Split, epochs: int) -> OfaAccuracy:  # noqa: ARG002 - nothing is trained
        """Read the predictor from the data folder.

        Raises:
          UserError: if it is of another space or task, is not there, or is not as published.
        """
        if space.name != NAME or not isinstance(space, MobileNetV3):
            raise UserError(f"accuracy=ofa predicts networks of space={NAME}, not of {space.name}")
        if task != IMAGENET:
            raise UserError(f"accuracy=ofa predicts dataset=imagenet, not {task.name}")
        if split is Split.test:
            raise UserError("split=test: accuracy=ofa predicts split=valid only")
        path = raw_folder(space) / FILE
        if not path.is_file():
            raise UserError(
                f"there is no {path}; `python -m nas.data space={space.name} fetch` downloads the "
                f"published accuracy predictor (it may not be shipped with this package), and nas.fit data=<folder "
                f"of images> trains and ranks networks on your own images instead (data=digits needs no download)"
            )
        return read_predictor(path)


def read_predictor(path: Path) -> OfaAccuracy:
    """Read the published weights without executing anything that the file says.

    Raises:
      UserError: if it is not such a file.
      OSError: if it cannot be read.
    """
    state = load_torch_file(path, _MOST_BYTES)
    weights, biases = [], []
    for layer, (inputs, outputs) in enumerate(pairwise(_WIDTHS)):
        weights.append(_tensor(path, state, f"{2 * layer}.weight", (outputs, inputs)))
        biases.append(_tensor(path, state, f"{2 * layer}.bias", (outputs,)))
    perceptron = Perceptron(tuple(weights), tuple(biases))
    return OfaAccuracy(perceptron, _drop(perceptron))


def _drop(perceptron: Perceptron) -> Float64[ndarray, "sides"]:
    """Fraction that each side costs beyond the smallest fitted one: a parabola through the mean accuracies."""
    rows = MobileNetV3().sample(np.random.default_rng(0), _AVERAGED)
    means = [
        perceptron(encoded(rows, np.full(len(rows), n))).mean() for n in range(len(FITTED_SIDES))
    ]
    smallest = FITTED_SIDES[0]
    curve = np.polynomial.Polynomial.fit(FITTED_SIDES, means, 2)
    return np.array([float(curve(smallest) - curve(min(side, smallest))) for side in SIDES])


def encoded(
    architectures: Int64[ndarray, "*n D"], fitted_side: Int64[ndarray, "*n"]
) -> Float32[ndarray, "*n inputs"]:
    """One-hot inputs: kernels and expansions, none where a block is off, and an index of `FITTED_SIDES`."""
    chosen = settings_of(architectures)
    shape = chosen.side.shape
    kernels, expansions = (
        (choice[..., None] == np.arange(options)) & chosen.on[..., None]
        for choice, options in (
            (chosen.kernel, len(KERNELS)),
            (chosen.expansion, len(EXPANSIONS)),
        )
    )
    first = (FITTED_SIDES[0] - _FIRST_SIDE) // _SIDE_STEP
    sides = (first + fitted_side)[..., None] == np.arange(_NUM_SIDES)
    return np.concatenate(
        [kernels.reshape(*shape, -1), expansions.reshape(*shape, -1), sides], axis=-1
    ).astype(np.float32)


def _tensor(
    path: Path, state: object, name: str, shape: tuple[int, ...]
) -> Float32[ndarray, "*shape"]:
    tensor: Tensor | None = state.get(name) if isinstance(state, dict) else None
    if (
        tensor is None
        or tuple(getattr(tensor, "shape", ())) != shape
        or not tensor.isfinite().all()
    ):
        raise UserError(
            f"{path} has no finite tensor {name!r} of shape {shape}, so it is not the published "
            f"accuracy predictor; download it again"
        )
    return tensor.float().numpy()
