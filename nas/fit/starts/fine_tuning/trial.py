"""Trials of pretrained networks: frozen features first, then fine-tunings of several lengths."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, final

import numpy as np
import torch
from jaxtyping import Int64
from numpy import ndarray
from safetensors import safe_open
from safetensors.numpy import load_file, save
from torch import nn

from edgenas_core.files.atomic_file import replacing
from edgenas_core.types.kind import Kind
from edgenas_core.types.task import Task
from nas.accuracy.base import HasWeights
from nas.accuracy.slow import Evaluation, Fidelity
from nas.fit.data.image_set import ImageSet
from nas.fit.data.open import open_images
from nas.fit.starts.fine_tuning.frozen import frozen_features, frozen_result
from nas.fit.starts.fine_tuning.tuning import (
    KEEPS_STATISTICS_TO,
    STATISTICS_ON,
    absorb_statistics,
    freeze,
    set_classifier,
)
from nas.fit.training.evaluation import device_named
from nas.fit.training.recipe import Recipe
from nas.fit.training.trainer import TrainingOptions, train
from nas.fit.training.trial import checkpoint_of, proxy_batch

FROZEN = 0
"""Epochs of the fidelity that trains nothing but a linear layer on frozen features."""

_TIMED, _TIMED_ON_GPU = 16, 256
"""Images whose features are timed first; a GPU takes as long for few as for one."""

FEWEST_JUDGED = 300
"""Images that frozen features are judged on, however long it takes."""


class FrozenPass(NamedTuple):
    """What it took to judge frozen features."""

    seconds: float  # of a pass over all images
    images: int  # that judged them


@final
@dataclass(frozen=True)
class PretrainedImages:
    """The user's images as each network takes them: at its side, with its normalisation."""

    space: HasWeights
    data: str  # as `open_images` takes it

    def __call__(self, architecture: Int64[ndarray, "D"]) -> ImageSet:
        """The images of a network."""
        mean, sd = self.space.normalisation(architecture)
        images = open_images(self.data, side=self.space.side(architecture))
        return replace(images, mean=mean, sd=sd)


@final
@dataclass(frozen=True)
class PretrainedNetwork:
    """Builds a network that is about to be tuned; its classifier is that of its frozen features."""

    space: HasWeights
    images: PretrainedImages
    heads: Path  # folder of the classifiers

    def __call__(self, architecture: Int64[ndarray, "D"], task: Task) -> nn.Module:
        """The network with weights, classifier and statistics, frozen as far as it is not tuned."""
        network = self.space.start(architecture, task)
        if self.space.is_new(architecture):
            return network
        head = head_of(self.heads, self.space, architecture)
        if head.is_file():
            set_classifier(network, **load_file(head))
        images, tuned = self.images(architecture), self.space.tuned(network, architecture)
        absorb_statistics(network, proxy_batch(images, STATISTICS_ON))
        freeze(network, tuned, keeps_statistics=len(images.train) <= KEEPS_STATISTICS_TO)
        return network


@final
@dataclass(frozen=True)
class FineTuningTrial:
    """Evaluates a pretrained network in whichever thread, process or machine it is called."""

    network: PretrainedNetwork
    recipe: Recipe  # with any number of epochs
    num_classes: int
    frozen_s: float = math.inf
    """Time for the features of one network; fewer images are taken where it is too short."""

    def __call__(
        self, architecture: Int64[ndarray, "D"], fidelity: Fidelity, seed: int
    ) -> Evaluation:
        """Accuracy by frozen features on left-out images, or after fine-tuning on validation images."""
        images = self.network.images(architecture)  # of another side, read for all that follow
        began_s = time.perf_counter()
        if fidelity.epochs == FROZEN:
            accuracy = self._frozen(architecture, images)
            return Evaluation(accuracy, Kind.trained, time.perf_counter() - began_s)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            network = self.network(architecture, images.task)
        checkpoint = tuned_checkpoint(self.network.heads, architecture, fidelity, seed)
        checkpoint.parent.mkdir(parents=True, exist_ok=True)
        length = fidelity.epochs
        options = TrainingOptions(
            seed=seed, evaluate_every=length, checkpoint=checkpoint, checkpoint_every=length
        )
        recipe = replace(self.recipe, epochs=length, lr=self.recipe.lr * fidelity.rate)
        trained = train(network, images, recipe, options)
        return Evaluation(trained.accuracy, Kind.trained, trained.seconds, trained.losses)

    def _frozen(self, architecture: Int64[ndarray, "D"], images: ImageSet) -> float:
        """Judge the features, and store the classifier on them."""
        network = self.network.space.start(architecture, images.task)
        every = len(images.train) + len(images.valid)
        share = min(1.0, max(self._share(network, images), FEWEST_JUDGED / every))
        splits = [
            split.first(math.ceil(share * len(split))) for split in (images.train, images.valid)
        ]
        judged, began_s = sum(map(len, splits)), time.perf_counter()
        features = frozen_features(network, splits, images, device_named("auto"))
        pass_s = (time.perf_counter() - began_s) * every / judged
        labels = [np.asarray(split.labels) for split in splits]
        train_part, valid_part = zip(features, labels, strict=True)
        result = frozen_result(train_part, valid_part, self.num_classes)
        head = head_of(self.network.heads, self.network.space, architecture)
        head.parent.mkdir(parents=True, exist_ok=True)
        with replacing(head) as file:
            about = {"seconds": f"{pass_s}", "images": f"{judged}"}
            file.write(save({"weight": result.weight, "bias": result.bias}, about))
        return result.left_out

    def _share(self, network: nn.Module, images: ImageSet) -> float:
        """Share of the images whose features fit into their time, by timing a few."""
        device = device_named("auto")
        few = images.train.first(_TIMED_ON_GPU if device.type == "cuda" else _TIMED)
        frozen_features(network, [few], images, device)  # finds a GPU's kernels
        began_s = time.perf_counter()
        frozen_features(network, [few], images, device)
        all_s = (time.perf_counter() - began_s) / len(few) * (len(images.train) + len(images.valid))
        return self.frozen_s / all_s


def tuned_checkpoint(
    folder: Path, architecture: Int64[ndarray, "D"], fidelity: Fidelity, seed: int
) -> Path:
    """File of a fine-tuning's checkpoint."""
    return checkpoint_of(folder / f"rate-{fidelity.rate:g}", architecture, fidelity.epochs, seed)


def frozen_pass(
    folder: Path, space: HasWeights, architecture: Int64[ndarray, "D"]
) -> FrozenPass | None:
    """What it took to judge a network's frozen features, downloads and fits aside; None if they were not."""
    head = head_of(folder, space, architecture)
    if not head.is_file():
        return None
    with safe_open(head, "np") as opened:
        about = opened.metadata()
    return FrozenPass(float(about["seconds"]), int(about["images"]))


def head_of(folder: Path, space: HasWeights, architecture: Int64[ndarray, "D"]) -> Path:
    """File of the classifier on a network's frozen features at its side."""
    key = space.tuned_to(architecture, 0).tobytes()
    return folder / f"head-{sha256(key).hexdigest()[:16]}.safetensors"
