"""The whole network as a supernet: any of its sub-networks computes with its weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import final

import numpy as np
from jaxtyping import Float, Int64
from numpy import ndarray
from torch import Tensor, nn
from torch.func import functional_call

from nas.accuracy.training.recipe import Recipe
from nas.accuracy.training.untrained import resized
from nas.spaces.elastic.sub_network import Remaining, remaining_tensors, sub_network

_MODULES = 16
"""Sub-networks whose modules are kept in memory."""


@final
class SharedElastic(nn.Module):
    """The whole network; `choose` makes it compute one of its parts.

    A step trains the largest, the smallest and two random networks; the largest teaches (the sandwich
    rule of Yu et al., "BigNAS", ECCV 2020), at the rates of a fine-tuning.
    """

    recipe = Recipe("elastic", batch_size=64, lr=0.01, weight_decay=1e-4, warm_up=0.05, clip=1.0)
    shapes_vary = True

    def __init__(
        self,
        network: nn.Module,
        remaining: Callable[[Int64[ndarray, "D"]], Remaining],
        side: Callable[[Int64[ndarray, "D"]], int],
        sample: Callable[[np.random.Generator, int], Int64[ndarray, "n D"]],
        largest: Int64[ndarray, "D"],
        *,
        new_classifier: bool = False,
    ) -> None:
        """Takes the network, and what the space says of an architecture."""
        super().__init__()
        self.network, self.new_classifier = network, new_classifier
        self._remaining, self._side, self._sample, self._largest = remaining, side, sample, largest
        self._module = lru_cache(_MODULES)(self._built)
        self.choose(largest)

    def of_step(self, rng: np.random.Generator) -> Int64[ndarray, "4 D"]:
        """The largest, which teaches, the smallest, and two random networks."""
        largest = self._largest
        return np.stack([largest, np.zeros_like(largest), *self._sample(rng, 2)])

    def choose(self, architecture: Int64[ndarray, "D"]) -> None:
        """Compute this architecture from now on."""
        self._chosen = np.asarray(architecture)

    def weights(self, architecture: Int64[ndarray, "D"]) -> Mapping[str, Tensor]:
        """All of the network's weights."""
        tensors = {**dict(self.network.named_parameters()), **dict(self.network.named_buffers())}
        return remaining_tensors(tensors, self._remaining(architecture))

    def _built(self, key: bytes) -> nn.Module:
        row: Int64[ndarray, "D"] = np.frombuffer(key, np.int64)
        return sub_network(self.network, self._remaining(row))

    def forward(self, images: Float[Tensor, "n c h w"]) -> Float[Tensor, "n ..."]:
        """Outputs of the chosen architecture, of images of the task's side."""
        images = resized(images, self._side(self._chosen))
        if (self._chosen == self._largest).all():
            logits: Tensor = self.network(images)
        else:
            module = self._module(self._chosen.tobytes()).train(self.training)
            logits = functional_call(module, dict(self.weights(self._chosen)), (images,))
        return logits
