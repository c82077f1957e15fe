"""Scores that order candidates before one is trained: by proxies, or by a supernet."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, final, runtime_checkable

import torch
from jaxtyping import Float64, Int64
from numpy import ndarray
from rich.console import Console

from edgenas_core.types.errors import UserError
from edgenas_core.types.units import epochs_text
from nas.accuracy.base import HasSupernet, Inherits, SharedNetwork
from nas.fit.data.image_set import ImageSet
from nas.fit.learners.data import TrainingData, has_classes
from nas.fit.starts.fine_tuning.tuning import STATISTICS_ON, absorb_statistics
from nas.fit.starts.proxies.scores import AGGREGATED, columns_of, scores, signal
from nas.fit.starts.supernet.classifier import fit_classifier
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

_IMAGES = 64

_ON_CPU = ("live_convolutions",)
"""Proxies where there is no GPU: those that need one image alone."""

_TRAINED = 0.7
"""Share of the time of a supernet for its training; the rest is for the scores."""

_MANY, _FEW = (RECALIBRATED_ON, JUDGED_ON), (128, 256)
"""Images that give a network its statistics, and that judge it; few for large images on a CPU."""

_EPOCHS = 250
"""Most epochs of a supernet (Ning et al., NeurIPS 2021)."""


@runtime_checkable
class Scores(Protocol):
    """Scores networks, a row of numbers each, and makes one number of each row."""

    def each(self, architectures: Int64[ndarray, "n D"]) -> Iterator[list[float]]:
        """The scores of each network, one after another."""

    def aggregate(self, scores_of_each: Float64[ndarray, "n c"]) -> Float64[ndarray, "n"]:
        """The number that orders candidates; higher is better."""


@final
class ProxyScores:
    """Builds networks with the seed's weights, and scores them all on the same images."""

    def __init__(self, space: SearchSpace, images: TrainingData, seed: int) -> None:
        self._space, self._task, self._seed = space, images.task, seed
        on_gpu = torch.cuda.is_available()
        take_share(0, 1)
        on_gpu &= isinstance(images, ImageSet)  # the others need labelled images
        self._proxies = AGGREGATED if on_gpu else _ON_CPU
        self._signal = "aggregate" if on_gpu else "live_flops"
        self._batch = proxy_batch(images, _IMAGES)

    def each(self, architectures: Int64[ndarray, "n D"]) -> Iterator[list[float]]:
        """A number for each column of the proxies, network by network."""
        return map(self._score, architectures)

    def aggregate(self, scores_of_each: Float64[ndarray, "n c"]) -> Float64[ndarray, "n"]:
        """The sum of log ranks that orders candidates; higher is better."""
        columns = dict(zip(columns_of(self._proxies), scores_of_each.T, strict=True))
        return signal(self._signal, columns)

    def _score(self, architecture: Int64[ndarray, "D"]) -> list[float]:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self._seed)
            network = untrained(self._space, architecture, self._task)
        device = device_named("auto")
        return scores(network.to(device), self._batch.to(device), self._proxies, self._seed)


@final
@dataclass(frozen=True)
class SupernetScores:
    """Accuracy of each network with the weights that it inherits from a trained supernet."""

    space: HasSupernet
    shared: SharedNetwork
    images: TrainingData
    side: int | None  # that images are resized to
    counts: tuple[int, int]

    def each(self, architectures: Int64[ndarray, "n D"]) -> Iterator[list[float]]:
        """One accuracy each."""
        for row in architectures:
            accuracy = path_accuracy(
                self.space, self.shared, row, self.images, side=self.side, counts=self.counts
            )
            yield [accuracy]

    def aggregate(self, scores_of_each: Float64[ndarray, "n 1"]) -> Float64[ndarray, "n"]:
        """The accuracy."""
        return scores_of_each[:, 0]


def supernet_scores(
    space: HasSupernet,
    images: TrainingData,
    side: int | None,
    path: Path,
    console: Console,
    *,
    seed: int,
    seconds: float,
    check: Callable[[], None],
) -> SupernetScores:
    """Train a supernet into a file, or go on with its training; read it if it is there.

    One that was trained before stays as it was where an epoch would take too long, or its loss is not
    finite.

    Raises:
      UserError: if the loss of another one is not finite.
      OSError: if a file cannot be written.
    """
    take_share(0, 1)
    if not path.is_file():
        began_s = time.monotonic()
        checkpoint = path.with_suffix(".checkpoint")
        epochs, done = epochs_of(checkpoint), epochs_done(checkpoint)
        if epochs is None:
            epoch_s = seconds_of_epoch(space, images, side=side)
            least = 0 if isinstance(space, Inherits) else 1
            epochs = max(least, min(_EPOCHS, int(_TRAINED * seconds / epoch_s)))
        shared = initialised(space, images, seed, side)
        if isinstance(space, Inherits):
            absorb_statistics(module_of(shared), proxy_batch(images, STATISTICS_ON))
        if has_classes(images) and getattr(shared, "new_classifier", False):
            fit_classifier(shared, images)
        pixels = "" if side is None else f" at {side} pixels"
        console.print(f"supernet: {epochs_text(epochs)}{pixels}", soft_wrap=True)
        before = copy_state(module_of(shared).state_dict())
        try:
            folder = path.parent / "tensorboard" / "supernet"
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
                        side=side,
                        shared=shared,
                    )
        except DivergedTrainingError as error:
            if not isinstance(space, Inherits):
                raise UserError(f"supernet: {error}; choose another seed=") from error
            console.print(f"supernet: {error}; taken as it was trained before", soft_wrap=True)
            module_of(shared).load_state_dict(before)
        save_supernet(path, shared)
        checkpoint.unlink(missing_ok=True)
    shared = load_supernet(space, images.task, path)
    return SupernetScores(space, shared, images, side, image_counts(space))


def image_counts(space: HasSupernet) -> tuple[int, int]:
    """Images that give a network of a supernet its statistics, and that judge it, at most."""
    return _FEW if isinstance(space, Inherits) and not torch.cuda.is_available() else _MANY
