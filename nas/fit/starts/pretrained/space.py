"""`space=pretrained`: which pretrained network, at which side, and how deep it is tuned."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task
from nas.fit.starts.pretrained.libraries import timm
from nas.fit.starts.pretrained.pool import (
    NEW,
    RANDOM_INITIALISATION,
    PooledNetwork,
    cut_networks,
    pool_of,
    pool_text,
)
from nas.spaces.base import ChoiceSpace

if TYPE_CHECKING:
    from torch import Tensor, nn

SIDES = (96, 128, 160, 192, 224)
"""Sides of images to choose from, pixels; each network may keep the one it was trained with."""

SMALL_SIDES = (48, 64, 80, 112)
"""Further sides, of fits within the RAM or flash of a microcontroller."""

TUNING = ("head", "stage", "all")
"""How deep a network is tuned: the classifier alone, the last stage as well, or everything."""

_TUNED_GROUPS = 3
"""Groups of layers of the last stage: it, what follows it, and the classifier."""

_PLAIN_STAGES = 3
"""Stages that the parameters of a network that is not of timm are divided into."""

_BELOW, _ABOVE = 0.08, 0.02
"""Accuracy that a network loses by halving, and by doubling, the side that it was trained with."""

_UNKNOWN = 0.6
"""Accuracy that a network without a published one is expected to have."""

_IMAGES = Task("images", 1000, SIDES[0], epochs=60)


@final
class PretrainedSpace(ChoiceSpace):
    """Networks of timm with weights, at several sides."""

    default_device = "here"
    depths: Sequence[str] = TUNING
    tasks: Mapping[str, Task] = MappingProxyType({_IMAGES.name: _IMAGES})

    def __init__(
        self, name: str, pool: Sequence[PooledNetwork], sides: Sequence[int] = SIDES
    ) -> None:
        self.name = name
        self._whole = len(pool)
        self.pool = (*pool, *cut_networks(pool))
        self._networks = (*self.pool, *NEW)
        self._common_sides = tuple(sorted({*sides, *SMALL_SIDES}))
        self._usual_sides = tuple(sides)
        self.choices = {
            "network": tuple(network.label for network in self._networks),
            "side": tuple(sorted({*self._common_sides, *(each.side for each in self._networks)})),
            "tuning": TUNING,
        }

    @property
    def candidates(self) -> str:
        """Number of networks at hand, their sides and licences."""
        at_hand = [each for each in self.pool if each.is_at_hand]
        licences = Counter(each.licence for each in at_hand if each.stages_cut is None)
        names = ", ".join(f"{name} {count}" for name, count in licences.most_common())
        sides = self.choices["side"]
        cut = len(at_hand) - licences.total()
        return (
            f"{licences.total()} pretrained networks (licences: {names}) at {min(self._usual_sides)} to {sides[-1]} pixels; "
            f"for RAM= or flash= {cut} cut ones of them, too, without their last convolution and up to two stages, from "
            f"{SMALL_SIDES[0]} pixels"
        )

    def valid(self, architectures: Int64[ndarray, "*n D"]) -> Bool[ndarray, "*n"]:
        """True where each choice is an option and the network takes this side."""
        inside = super().valid(architectures)
        rows = np.where(inside[..., None], architectures, 0)
        sides = np.array(self.choices["side"])[rows[..., 1]]
        trained_at = np.array([each.side for each in self._networks])[rows[..., 0]]
        is_free = ~np.array([each.fixed_side for each in self._networks])[rows[..., 0]]
        is_free &= np.isin(sides, self._common_sides)
        return np.asarray(inside & (is_free | (sides == trained_at)))

    def canonical(self, architectures: Int64[ndarray, "*n D"]) -> Int64[ndarray, "*n D"]:
        """The first row of the same layers: weights and the depth of tuning change none."""
        rows: Int64[ndarray, "*n D"] = np.array(architectures, np.int64)
        rows[..., 0] = self._first_alike[rows[..., 0]]
        rows[..., 2] = 0
        return rows

    def layers(self, architectures: Int64[ndarray, "n 3"]) -> Int64[ndarray, "n"]:
        """The same number for networks of the same layers, whatever their weights and side."""
        return np.asarray(self._first_alike[architectures[:, 0]])

    @cached_property
    def _first_alike(self) -> Int64[ndarray, "networks"]:
        layers = [
            (each.architecture, sorted(each.arguments.items()), each.stages_cut)
            for each in self._networks
        ]
        return np.array([layers.index(each) for each in layers])

    def every_network(self, *, is_small: bool = False) -> Int64[ndarray, "n 3"]:
        """Every available network at each of its sides, with only the classifier tuned.

        With `is_small`, for the memories of microcontrollers: cut networks and smaller sides, too.
        """
        pool = self.pool if is_small else self.pool[: self._whole]
        rows = self._at_all_sides([n for n, each in enumerate(pool) if each.is_at_hand])
        if is_small:
            return rows
        own = [each.side for each in pool]
        usual = [self.side(row) in {*self._usual_sides, own[row[0]]} for row in rows]
        return np.asarray(rows[np.array(usual, bool)])

    def require_weights(self, architectures: Int64[ndarray, "n 3"]) -> None:
        """Check the files of these networks: digests, and shapes of the weights; fetch a first one from the hub.

        Raises:
          UserError: if one cannot be fetched, is another file, or of another network.
        """
        from nas.fit.starts.pretrained.weights import require_weights  # noqa: PLC0415 - imports torch

        networks = [self._networks[number] for number in np.unique(architectures[:, 0]).tolist()]
        files = [pooled for pooled in networks if pooled.file is not None]
        on_hub = [pooled for pooled in networks if not (pooled.file or pooled.function)]
        for pooled in (*files, *on_hub[:1]):
            require_weights(pooled)

    def new_networks(self) -> Int64[ndarray, "n 3"]:
        """Networks with random initialisation, the smallest first."""
        rows = self._at_all_sides(range(len(self.pool), len(self._networks)))
        return self.tuned_to(rows, len(TUNING) - 1)

    def is_new(self, architectures: Int64[ndarray, "*n 3"]) -> Bool[ndarray, "*n"]:
        """True for networks with random initialisation."""
        return np.asarray(architectures[..., 0] >= len(self.pool))

    def _at_all_sides(self, networks: Sequence[int]) -> Int64[ndarray, "n 3"]:
        sides = range(len(self.choices["side"]))
        rows = np.array([(n, s, 0) for n in networks for s in sides], np.int64).reshape(-1, 3)
        return np.asarray(rows[self.valid(rows)])

    def tuned_to(self, architectures: Int64[ndarray, "*n 3"], depth: int) -> Int64[ndarray, "*n 3"]:
        """The same networks at the same sides, tuned to a depth."""
        rows: Int64[ndarray, "*n 3"] = np.array(architectures, np.int64)
        rows[..., 2] = depth
        return rows

    def depth(self, architectures: Int64[ndarray, "*n 3"]) -> Int64[ndarray, "*n"]:
        """How deep each is tuned."""
        return np.asarray(architectures[..., 2])

    def origin(self, architecture: Int64[ndarray, "D"]) -> str:
        """Where the weights come from, their licence and their SHA-256."""
        pooled = self.pooled(architecture)
        if pooled.origin == RANDOM_INITIALISATION:
            return RANDOM_INITIALISATION
        lacks = pooled.label.removeprefix(pooled.name).replace("-", " ")
        return f"{pooled.origin}{lacks}, licence {pooled.licence}, SHA-256 {pooled.digest()}"

    def pooled(self, architecture: Int64[ndarray, "D"]) -> PooledNetwork:
        """The network that a row chooses."""
        return self._networks[int(architecture[0])]

    def side(self, architecture: Int64[ndarray, "D"]) -> int:
        """Side of its images, pixels."""
        return int(self.choices["side"][int(architecture[1])])

    def tuned(self, network: nn.Module, architecture: Int64[ndarray, "D"]) -> Collection[str]:
        """Names of the parameters that are tuned: of the classifier, the last stage too, or all."""
        from nas.fit.training.network import classifiers  # noqa: PLC0415 - imports torch

        names = [name for name, _ in network.named_parameters()]
        tuning = TUNING[int(architecture[2])]
        if tuning == "head":
            new = tuple(f"{name}." for name in classifiers(network))
            return [name for name in names if name.startswith(new)]
        if tuning == "all":
            return names
        if not hasattr(network, "group_matcher"):  # none of timm's
            return names[-max(1, len(names) // _PLAIN_STAGES) :]
        matcher = network.group_matcher(coarse=True)  # type: ignore[operator]
        groups = timm().models.group_parameters(network, matcher, reverse=True)
        last = sorted(set(groups.values()))[-_TUNED_GROUPS:]
        return [name for name in names if groups[name] in last]

    def normalisation(
        self, architecture: Int64[ndarray, "D"]
    ) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and standard deviation of the images that the weights were trained on."""
        return self.pooled(architecture).normalisation

    def prior(self, architectures: Int64[ndarray, "n D"]) -> Float64[ndarray, "n"]:
        """Published accuracy, less what is expected to be lost at another side."""
        expected = []
        for row in architectures:
            pooled = self.pooled(row)
            octaves = math.log2(self.side(row) / pooled.side)
            lost = _ABOVE * octaves if octaves > 0 else -_BELOW * octaves
            expected.append((_UNKNOWN if pooled.top1 is None else pooled.top1) - lost)
        return np.array(expected)

    def network(self, architecture: Int64[ndarray, "D"], task: Task) -> nn.Module:
        """Build the network with a random initialisation, for images of its side."""
        from nas.fit.starts.pretrained.weights import with_static_padding  # noqa: PLC0415 - imports torch

        network = self.pooled(architecture).built(task.num_classes)
        return with_static_padding(network, self.side(architecture))

    def start(self, architecture: Int64[ndarray, "D"], task: Task) -> nn.Module:
        """The network with its pretrained weights, and a new classifier.

        Raises:
          UserError: if the weights cannot be had, or are of another network.
        """
        from nas.fit.starts.pretrained.weights import load_weights  # noqa: PLC0415 - imports torch

        network = self.network(architecture, task)
        pooled = self.pooled(architecture)
        if not pooled.function and not self.is_new(architecture):
            load_weights(network, pooled)
        return network

    def example_input(
        self, architecture: Int64[ndarray, "D"], task: Task, batch_size: int
    ) -> Tensor:
        """Noise in the shape of the network's images."""
        task = replace(task, image_side=self.side(architecture))
        return super().example_input(architecture, task, batch_size)

    def control(self) -> Int64[ndarray, "D"]:
        """The smallest network at its own side."""
        return self._smallest

    @cached_property
    def _smallest(self) -> Int64[ndarray, "D"]:
        rows = self.every_network()
        if not len(rows):
            rows = self._at_all_sides(range(len(self.pool)))
        return np.asarray(rows[self.prior(rows).argmin()])

    @property
    def _counts_soon(self) -> bool:
        """Building all networks to count them takes minutes."""
        return False


def teacher_space(name: str, weights: str | None) -> PretrainedSpace:
    """The space of one network, which `teacher=` names by its name or file.

    Raises:
      UserError: if it is no network with weights, or several.
    """
    pool = pool_of(pool_text([name], weights))
    if len(pool) != 1:
        raise UserError(f"teacher={name} is {len(pool)} networks; name one, or its file")
    return PretrainedSpace("teacher", pool)


def pretrained_space(items: str = "") -> PretrainedSpace:
    """The space of timm's hub, or of the items of a pool, with commas between them.

    Raises:
      UserError: if an item is no network with weights.
    """
    return PretrainedSpace(f"pretrained:{items}" if items else "pretrained", pool_of(items))
