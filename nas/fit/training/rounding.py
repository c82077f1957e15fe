"""Networks whose layers round to 8 bits in training (Jacob et al., CVPR 2018), by torch.ao's observers."""

from __future__ import annotations

import math
import time
from copy import deepcopy
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.ao.quantization import (
    FusedMovingAvgObsFakeQuantize,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
)
from torch.nn.utils import parametrize

from nas.fit.data.image_set import ImageSet
from nas.fit.training.network import resize
from nas.fit.training.recipe import Recipe, recipe_named
from nas.fit.training.trainer import Epoch, Trained, TrainingOptions, train

ROUNDED = replace(
    recipe_named("fine_tuning"),
    epochs=3,  # at most
    batch_size=128,
    most_steps=None,
    warm_up=0.1,
    body_lr=1.0,
)
"""The recipe: a learning rate that leaves a trained network where it is."""

_INPUT = "rounded_input"
_WEIGHT = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver,
    quant_min=-127,
    quant_max=127,
    dtype=torch.qint8,
    qscheme=torch.per_channel_symmetric,
    averaging_constant=1.0,  # the range is that of the weights now
)
_ACTIVATION = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, dtype=torch.quint8
)


def tuned_with_rounding(
    network: nn.Module,
    images: ImageSet,
    inputs: Tensor,  # training images as the network takes them
    recipe: Recipe = ROUNDED,
    *,
    ends_s: float = math.inf,
) -> tuple[nn.Module, Trained]:
    """Tune a copy on the CPU for int8.

    Args:
      network: trained.
      images: that it was trained on.
      inputs: of its side; the ranges of activations begin with theirs.
      recipe: with the augmentation of its training.
      ends_s: on the monotonic clock; none but the first epoch begins that would end later.

    Returns:
      The weights of the last epoch; those before the tuning if they are more accurate, with rounding, on the
      validation images. And the training.

    Raises:
      DivergedTrainingError: if the loss is not finite.
    """
    rounded = with_rounding(network, inputs)
    resize(rounded, inputs.shape[-1], images.side)

    def epochs_left(ended: Epoch) -> int:
        return int(min(recipe.epochs, (ends_s - time.monotonic()) / ended.seconds))

    left: list[int] = []
    options = TrainingOptions(
        keeps_best=True,
        epochs_left=epochs_left,
        on_epoch=lambda ended: left.append(epochs_left(ended)),
        stop=lambda: left[-1] < 1,
        captures=False,  # torch.ao reads numbers from the GPU
        shapes_vary=True,
    )
    trained = train(rounded, images, recipe, options)
    tuned = deepcopy(network).cpu()
    tuned.load_state_dict(tuned_weights(rounded))
    return tuned, trained


def with_rounding(network: nn.Module, inputs: Tensor) -> nn.Module:
    """A copy on the CPU that rounds weights by channel and inputs of its layers by tensor, as int8 files do.

    Args:
      network: trained.
      inputs: images that the ranges begin with.
    """
    rounded = deepcopy(network).cpu().eval()
    kinds = nn.Conv2d | nn.Linear
    for layer in [each for each in rounded.modules() if isinstance(each, kinds)]:
        parametrize.register_parametrization(layer, "weight", _WEIGHT())
        layer.add_module(_INPUT, _ACTIVATION())
        layer.register_forward_pre_hook(_round_input)
    with torch.no_grad():
        rounded(inputs)  # observers have their shapes after the first call
    return rounded


def tuned_weights(rounded: nn.Module) -> dict[str, Tensor]:
    """Weights as they were tuned, not rounded, by their names in the network before."""
    return {
        name.replace("parametrizations.weight.original", "weight"): weight
        for name, weight in rounded.state_dict().items()
        if _INPUT not in name and ".parametrizations.weight.0." not in f".{name}"
    }


def _round_input(layer: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:
    rounded: Tensor = getattr(layer, _INPUT)(inputs[0].float())
    return rounded
