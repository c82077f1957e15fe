"""Scores that order candidates before one is trained: by their FLOPs, or by inherited weights.

A supernet that was trained before gets a new classifier, on frozen features of the user's images.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, final, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float64, Int64
from numpy import ndarray
from rich.console import Console

from edgenas_core.types.units import epochs_text
from nas.accuracy.base import Inherits, SharedNetwork
from nas.fit.data.image_set import ImageSet
from nas.fit.learners.data import TrainingData, has_classes
from nas.fit.starts.fine_tuning.frozen import frozen_features, frozen_result
from nas.fit.starts.fine_tuning.tuning import STATISTICS_ON, absorb_statistics, set_classifier
from nas.fit.starts.live_flops import live_flops
from nas.fit.starts.supernet.stored import load_supernet, save_supernet
from nas.fit.starts.supernet.training import (
    JUDGED_ON,
    RECALIBRATED_ON,
    initialised,
    module_of,
    path_accuracy,
    seconds_of_epoch,
    train_supernet,
)
from nas.fit.training.checkpoint import epochs_done, epochs_of
from nas.fit.training.device import take_share
from nas.fit.training.evaluation import device_named
from nas.fit.training.network import untrained
from nas.fit.training.step import copy_state
from nas.fit.training.trainer import DivergedTrainingError, Epoch
from nas.fit.training.trial import proxy_batch
from nas.spaces.base import SearchSpace
from nas.train.progress import TrainingProgress

_TRAINED = 0.7
"""Share of the time for the adaptation; the rest is for the scores."""

_MANY, _FEW = (RECALIBRATED_ON, JUDGED_ON), (128, 256)
"""Images that give a network its statistics, and that evaluate it; few on a CPU."""

_EPOCHS = 250
"""Most epochs of the adaptation."""


@runtime_checkable
class Scores(Protocol):
    """Scores networks, a row of numbers each, and makes one number of each row."""

    def each(self, architectures: Int64[ndarray, "n D"]) -> Iterator[list[float]]:
        """The scores of each network, one after another."""

    def aggregate(self, scores_of_each: Float64[ndarray, "n c"]) -> Float64[ndarray, "n"]:
        """The number that orders candidates; higher is better."""


@final
class ProxyScores:
    """Counts the FLOPs of the live convolutions of untrained networks."""

    def __init__(self, space: SearchSpace, images: TrainingData, seed: int) -> None:
        self._space, self._task, self._seed = space, images.task, seed
        take_share(0, 1)
        self._batch = proxy_batch(images, 1)

    def each(self, architectures: Int64[ndarray, "n D"]) -> Iterator[list[float]]:
        """One number for each network."""
        for row in architectures:
            with torch.random.fork_rng(devices=[]):
                torch.default_generator.manual_seed(self._seed)
                network = untrained(self._space, row, self._task)
            device = device_named("auto")
            yield [live_flops(network.to(device), self._batch.to(device))]

    def aggregate(self, scores_of_each: Float64[ndarray, "n 1"]) -> Float64[ndarray, "n"]:
        """The number."""
        return scores_of_each[:, 0]


@final
@dataclass(frozen=True)
class InheritedScores:
    """Accuracy of each network with the weights that it inherits from a trained network."""

    space: Inherits
    shared: SharedNetwork
    images: TrainingData

    def each(self, architectures: Int64[ndarray, "n D"]) -> Iterator[list[float]]:
        """One accuracy for each network."""
        for row in architectures:
            yield [path_accuracy(self.space, self.shared, row, self.images, counts=image_counts())]

    def aggregate(self, scores_of_each: Float64[ndarray, "n 1"]) -> Float64[ndarray, "n"]:
        """The accuracy."""
        return scores_of_each[:, 0]


def inherited_scores(
    space: Inherits,
    images: TrainingData,
    path: Path,
    console: Console,
    *,
    seed: int,
    seconds: float,
    check: Callable[[], None],
) -> InheritedScores:
    """Adapt the trained network to the images, into a file, or go on with that; read the file if it is there.

    The network stays as it was where an epoch would take too long, or its loss is not finite.

    Args:
      space: parts of the network.
      images: data to adapt it to.
      path: file of the adapted weights.
      console: prints the progress.
      seed: decides order and new layers.
      seconds: for the adaptation; scores take longer.
      check: called after each epoch; it raises to leave the fit.

    Raises:
      OSError: if a file cannot be written.
    """
    take_share(0, 1)
    if not path.is_file():
        _adapt(space, images, path, console, seed=seed, seconds=seconds, check=check)
    return InheritedScores(space, load_supernet(space, images.task, path), images)


def _adapt(
    space: Inherits,
    images: TrainingData,
    path: Path,
    console: Console,
    *,
    seed: int,
    seconds: float,
    check: Callable[[], None],
) -> None:
    """Write the weights of the adapted network."""
    began_s, checkpoint = time.monotonic(), path.with_suffix(".checkpoint")
    # As many epochs as fit; an interrupted adaptation keeps its number.
    epochs, done = epochs_of(checkpoint), epochs_done(checkpoint)
    if epochs is None:
        epoch_s = seconds_of_epoch(space, images)
        epochs = max(0, min(_EPOCHS, int(_TRAINED * seconds / epoch_s)))
    # Take the statistics of the new images, and fit a classifier for other classes.
    shared = initialised(space, images, seed)
    absorb_statistics(module_of(shared), proxy_batch(images, STATISTICS_ON))
    if has_classes(images) and getattr(shared, "new_classifier", False):
        fit_classifier(shared, images)
    console.print(f"supernet: {epochs_text(epochs)}", soft_wrap=True)
    # Train; weights of a training that diverges are forgotten.
    before = copy_state(module_of(shared).state_dict())
    folder = path.parent / "tensorboard" / "supernet"
    try:
        with TrainingProgress(console, folder, max(1, epochs), done, images) as progress:

            def on_epoch(epoch: Epoch) -> None:
                progress(epoch)
                check()

            if epochs:
                shared = train_supernet(
                    space,
                    images,
                    epochs=epochs,
                    seed=seed,
                    on_epoch=on_epoch,
                    checkpoint=checkpoint,
                    stop=lambda: time.monotonic() + progress.epoch_s > began_s + seconds,
                    shared=shared,
                )
    except DivergedTrainingError as error:
        console.print(f"supernet: {error}; taken as it was trained before", soft_wrap=True)
        module_of(shared).load_state_dict(before)
    save_supernet(path, shared)
    checkpoint.unlink(missing_ok=True)


def image_counts() -> tuple[int, int]:
    """Images that give a part of a network its statistics, and that evaluate it, at most."""
    return _MANY if torch.cuda.is_available() else _FEW


_ON_GPU, _ON_CPU = 4000, 600
"""Images of each split, at most."""


def fit_classifier(shared: SharedNetwork, images: ImageSet) -> None:
    """Fit the last linear layer on what the chosen network computes before it."""
    device = device_named("auto")
    most = _ON_CPU if device.type == "cpu" else _ON_GPU
    splits = [split.first(most) for split in (images.train, images.valid)]
    network = module_of(shared)
    features = frozen_features(network, splits, images, device)
    labels = [np.asarray(split.labels) for split in splits]
    result = frozen_result((features[0], labels[0]), (features[1], labels[1]), len(images.classes))
    set_classifier(network.cpu(), result.weight, result.bias)
