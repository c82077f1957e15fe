"""The whole network as a supernet: any of its sub-networks computes with its weights."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int64
from numpy import ndarray
from torch import Tensor, nn

from nas.fit.starts.elastic.groups import is_depthwise
from nas.fit.starts.elastic.sub_network import Remaining, fit_settings, remaining_tensors
from nas.fit.training.network import resized
from nas.fit.training.recipe import Recipe


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
        part = copy.deepcopy(network)  # before a run, after which some cannot be copied
        self._part = cache(lambda: _Part(part))  # a copy of this module shares it
        self.choose(largest)

    def of_step(self, rng: np.random.Generator) -> Int64[ndarray, "4 D"]:
        """Largest network (the teacher), smallest network, and two random ones."""
        largest = self._largest
        return np.stack([largest, np.zeros_like(largest), *self._sample(rng, 2)])

    def choose(self, architecture: Int64[ndarray, "D"]) -> None:
        """Compute this architecture from now on."""
        self._chosen = np.asarray(architecture)

    def weights(self, architecture: Int64[ndarray, "D"]) -> Mapping[str, Tensor]:
        """All of the network's weights."""
        tensors = {**dict(self.network.named_parameters()), **dict(self.network.named_buffers())}
        return remaining_tensors(tensors, self._remaining(architecture))

    def forward(self, images: Float[Tensor, "n ..."]) -> Any:
        """Outputs of the chosen architecture, of images of the task's side, or other inputs."""
        side = self._side(self._chosen)
        if images.shape[-1] != side:
            images = resized(images, side)
        network = self.network
        if (self._chosen != self._largest).any():
            part = self._part()
            part.take(self.weights(self._chosen), self._remaining(self._chosen).skipped)
            network = part.network.train(self.training)
        return network(images)


@final
class _Part:
    """A copy of the network that takes the tensors of one part after another."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self._modules = dict(network.named_modules(remove_duplicate=False))
        self._depthwise = {module for module in network.modules() if is_depthwise(module)}
        first: dict[Tensor, str] = {}
        self._holders: dict[str, list[tuple[nn.Module, str]]] = {}
        tensors = network.named_parameters(remove_duplicate=False), network.named_buffers()
        for name, tensor in itertools.chain(*tensors):  # a parameter may have several names
            layer, _, last = name.rpartition(".")
            holders = self._holders.setdefault(first.setdefault(tensor, name), [])
            holders.append((self._modules[layer], last))
        self._skipped: tuple[str, ...] = ()

    def take(self, tensors: Mapping[str, Tensor], skipped: tuple[str, ...]) -> None:
        """Compute with these tensors, through which gradients go, and pass on the inputs of skipped blocks."""
        for block in self._skipped:
            self._place(block, self._modules[block])
        for block in skipped:
            self._place(block, nn.Identity())
        self._skipped = skipped
        changed = set()
        for name, tensor in tensors.items():
            for module, last in self._holders[name]:
                is_parameter = last in module._parameters  # noqa: SLF001 - which `setattr` wants a leaf for
                values: dict[str, Any] = module._parameters if is_parameter else module._buffers  # noqa: SLF001 - torch has no public name for it
                values[last] = tensor
                changed.add(module)
        for module in changed:
            fit_settings(module, is_depth_wise=module in self._depthwise)

    def _place(self, block: str, module: nn.Module) -> None:
        above, _, name = block.rpartition(".")
        setattr(self._modules[above], name, module)
