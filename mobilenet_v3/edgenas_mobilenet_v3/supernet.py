"""The supernet of the space: the largest network, whose parts are all others.

A network has the first channels of each layer, the middle of each kernel and the first blocks of each
stage, as in BigNAS (Yu et al., ECCV 2020); in Once-for-All, the middle of a kernel times a matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Int64
from numpy import ndarray
from torch import Tensor, nn
from torch.func import functional_call

from edgenas_core.types.task import Task
from edgenas_mobilenet_v3.layers import BlockShape, image_side
from edgenas_mobilenet_v3.network import Block as BlockModule
from edgenas_mobilenet_v3.space import MOST_BLOCKS, STAGES, MobileNetV3, side_of, stages_of
from nas.fit.training.network import resized
from nas.fit.training.recipe import Recipe

LARGEST: Int64[ndarray, "D"] = np.array(MobileNetV3.num_choices) - 1
SMALLEST: Int64[ndarray, "D"] = np.zeros_like(LARGEST)

_CLASSIFIER = "network.classifier.1."

_DROPPED = 0.2
"""Dropout, and share of images that skip the last block, while the largest network is trained."""


@final
class SharedMobileNet(nn.Module):
    """The largest network; `choose` makes it compute one of its parts.

    A step trains the largest, the smallest and two random networks; the largest teaches (the sandwich
    rule). Learning rate, weight decay, clipping and dropout are those of AlphaNet (Wang et al., ICML
    2021).
    """

    recipe = Recipe("supernet", lr=0.1, weight_decay=1e-5, warm_up=0.05, ema=0.02, clip=1.0)
    shapes_vary = True

    def __init__(
        self,
        network: Callable[[Int64[ndarray, "D"], Task], nn.Module],
        layers: Callable[[Int64[ndarray, "D"], Task], Sequence[BlockShape]],
        sample: Callable[[np.random.Generator, int], Int64[ndarray, "n D"]],
        task: Task,
        weights: Mapping[str, Tensor] | None = None,
    ) -> None:
        """Builds it from what the space says of an architecture; untrained without Once-for-All's `weights`.

        Raises:
          RuntimeError: if the weights are of another network.
        """
        super().__init__()
        self.network = network(LARGEST, task)
        self.matrices = nn.ParameterDict()
        self.new_classifier = False
        if weights is not None:
            self.recipe = replace(self.recipe, batch_size=64, lr=0.01)
            self._take(weights)
        self._own, self._layers, self._sample, self._task = network, layers, sample, task
        self._modules_of: dict[BlockShape, BlockModule] = {}  # without weights
        self.choose(LARGEST)

    def _take(self, weights: Mapping[str, Tensor]) -> None:
        """Copy all but a classifier of other classes."""
        for block in range(1, 1 + STAGES * MOST_BLOCKS):
            for name, size in (("7to5", 25), ("5to3", 9)):
                self.matrices[f"{block} {name}"] = nn.Parameter(torch.eye(size))
        wanted = self.state_dict()
        self.new_classifier = weights["network.classifier.1.bias"].shape != (self._classes,)
        classifier = {
            name: tensor for name, tensor in wanted.items() if name.startswith(_CLASSIFIER)
        }
        self.load_state_dict({**weights, **(classifier if self.new_classifier else {})})

    @property
    def _classes(self) -> int:
        return len(self.network.get_parameter("classifier.1.bias"))

    def of_step(self, rng: np.random.Generator) -> Int64[ndarray, "4 D"]:
        """The largest, which teaches, the smallest, and two random networks."""
        return np.concatenate([LARGEST[None], SMALLEST[None], self._sample(rng, 2)])

    def choose(self, architecture: Int64[ndarray, "D"]) -> None:
        """Compute this architecture from now on."""
        self._side = image_side(side_of(architecture), self._task)
        self._path = list(
            zip(_places(architecture), self._layers(architecture, self._task), strict=True)
        )
        self._dropped = _DROPPED if (architecture == LARGEST).all() else 0.0

    def weights(self, architecture: Int64[ndarray, "D"]) -> Mapping[str, Tensor]:
        """All of the network's weights, as views."""
        with torch.device("meta"):
            shapes = self._own(architecture, self._task).state_dict()
        places, whole = list(_places(architecture)), self.network.state_dict()
        parts = {}
        for name, shape in shapes.items():
            first, _, inside = name.partition(".")
            shared, place = name, 0
            if first == "blocks":
                number, _, inside = inside.partition(".")
                place = places[int(number)]
                shared = f"blocks.{place}.{inside}"
            parts[name] = self._part(place, whole[shared], shape.shape)
        return parts

    def forward(self, images: Float[Tensor, "n c h w"]) -> Float[Tensor, "n classes"]:
        """Logits of the chosen architecture, of images of the task's side."""
        whole = self.network
        x = whole.get_submodule("stem")(resized(images, self._side))
        for number, (place, block) in enumerate(self._path):
            y = self._through(place, block, x)
            if self.training and self._dropped and block.skips:
                share = self._dropped * number / len(self._path)
                kept = torch.rand(len(x), 1, 1, 1, device=x.device) >= share
                y = x + (y - x) * kept / (1 - share)
            x = y
        x = whole.get_submodule("mean")(whole.get_submodule("final")(x))
        x = torch.flatten(whole.get_submodule("features")(x), 1)
        x = nn.functional.dropout(x, self._dropped, self.training)
        logits: Tensor = whole.get_submodule("classifier.1")(x)
        return logits

    def _through(self, place: int, block: BlockShape, x: Tensor) -> Tensor:
        """A part of a shared block."""
        shared = self.network.get_submodule(f"blocks.{place}")
        if block not in self._modules_of:
            with torch.device("meta"):
                self._modules_of[block] = BlockModule(block.setting)
        module = self._modules_of[block].train(self.training)
        weights = {**dict(shared.named_parameters()), **dict(shared.named_buffers())}
        shapes = module.state_dict()
        parts = {
            name: self._part(place, tensor, shapes[name].shape) for name, tensor in weights.items()
        }
        y: Tensor = functional_call(module, parts, (x,))
        return y

    def _part(self, place: int, tensor: Tensor, shape: Sequence[int]) -> Tensor:
        """First channels of a block's tensor, and the middle of a kernel, times its matrices if it has some."""
        for larger, smaller in ((7, 5), (5, 3)):
            name = f"{place} {larger}to{smaller}"
            if name in self.matrices and tensor.shape[2:] == (larger, larger) != tuple(shape[2:]):
                middle = _part(tensor, (*tensor.shape[:2], smaller, smaller))
                tensor = (middle.flatten(2) @ self.matrices[name].T).view_as(middle)
        return _part(tensor, shape)


def _places(architecture: Int64[ndarray, "D"]) -> Iterator[int]:
    """Place of each of a network's blocks among those of the largest network."""
    yield 0
    for stage, blocks in enumerate(stages_of(architecture)):
        yield from range(1 + stage * MOST_BLOCKS, 1 + stage * MOST_BLOCKS + len(blocks))


def _part(tensor: Tensor, shape: Sequence[int]) -> Tensor:
    """View of the first channels and of the middle of a kernel."""
    first = [slice(0, size) for size in shape[:2]]
    middle = [
        slice((whole - size) // 2, (whole + size) // 2)
        for whole, size in zip(tensor.shape[2:], shape[2:], strict=True)
    ]
    return tensor[tuple(first + middle)]
