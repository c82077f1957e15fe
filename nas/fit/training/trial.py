"""The training of a trial: in any thread, process or machine, or several side by side on a GPU."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Int64
from numpy import ndarray
from torch import Tensor, nn

from edgenas_core.types.kind import Kind
from edgenas_core.types.task import Task
from nas.accuracy.slow import Evaluation, Fidelity
from nas.fit.learners.data import LearnerData, TrainingData
from nas.fit.training.recipe import Recipe
from nas.fit.training.together import TrainingPool
from nas.fit.training.trainer import Trained, TrainingOptions, train

NetworkOf = Callable[[Int64[ndarray, "D"], Task], nn.Module]
"""Builds the untrained network of an architecture."""


@final
@dataclass(frozen=True)
class TrialTraining:
    """Trains the network of an architecture from a random initialisation, for the epochs of a fidelity.

    It can be sent to another process or machine, which reads the images from the same path. With
    `checkpoints`, a training whose worker died goes on from its last whole epoch, and one that has
    ended leaves its checkpoint, which a longer training of the network can go on from.
    """

    images: TrainingData
    network: NetworkOf
    recipe: Recipe  # with any number of epochs
    checkpoints: Path | None = None  # a folder that every worker sees
    keeps_best: bool = False  # the accuracy is that of the beginning, where no epoch improves it

    def __call__(
        self, architecture: Int64[ndarray, "D"], fidelity: Fidelity, seed: int
    ) -> Evaluation:
        """Accuracy on the validation images; the seed decides weights, order and augmentation.

        Raises:
          Exception: whatever `train` raises.
        """
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            network = self.network(architecture, self.images.task)
        checkpoint = None
        if self.checkpoints is not None:
            checkpoint = checkpoint_of(self.checkpoints, architecture, fidelity.epochs, seed)
        trained = train(
            network,
            self.images,
            replace(self.recipe, epochs=fidelity.epochs),
            TrainingOptions(
                seed=seed,
                checkpoint=checkpoint,
                evaluate_every=fidelity.epochs,
                keeps_best=self.keeps_best,
            ),
        )
        return Evaluation(trained.accuracy, Kind.trained, trained.seconds, trained.losses)


def checkpoint_of(folder: Path, architecture: Int64[ndarray, "D"], epochs: int, seed: int) -> Path:
    """File of a training's checkpoint in a folder of many."""
    key = sha256(architecture.tobytes()).hexdigest()[:16]
    return folder / f"{key}-{epochs}-{seed}.safetensors"


@final
class SideBySide:
    """A `SlowAccuracySource` that trains networks on one GPU.

    Each fidelity is a training of its own, from random initialisation, with the recipe's whole schedule.
    """

    def __init__(
        self,
        images: TrainingData,
        network: NetworkOf,
        recipe: Recipe,
        fidelities: tuple[Fidelity, ...],
        *,
        at_once: int,
        source: str,
        description: str,
        checkpoints: Path | None = None,
        keeps_best: bool = False,
    ) -> None:
        """Uploads the images.

        Args:
          images: the data, for training on the training split and evaluation on the validation split.
          network: builds networks.
          recipe: with any number of epochs.
          fidelities: from the shortest training.
          at_once: trainings side by side.
          source: name stored beside every result.
          description: where the numbers come from, one line.
          checkpoints: folder that each training leaves its checkpoint in.
          keeps_best: accuracies are those of the beginnings, where no epoch improves them.
        """
        self.fidelities, self.source, self.description = fidelities, source, description
        self._images, self._network, self._recipe = images, network, recipe
        self._checkpoints, self._keeps_best = checkpoints, keeps_best
        self._pool = TrainingPool(images, side_by_side=at_once)
        self._pool.__enter__()
        self._closed = False
        self._ended: queue.SimpleQueue[Future[Evaluation]] = queue.SimpleQueue()

    def submit(
        self,
        trial: int,  # noqa: ARG002 - a training needs no name
        architecture: Int64[ndarray, "D"],
        fidelity: int,
        seed: int,
    ) -> Future[Evaluation]:
        """Begin to train a network; its weights and the order of the images depend on the seed."""
        answer: Future[Evaluation] = Future()

        def build() -> nn.Module:
            with torch.random.fork_rng(devices=[]):
                torch.default_generator.manual_seed(seed)
                return self._network(architecture, self._images.task)

        def finished(training: Future[Trained]) -> None:
            error = None if training.cancelled() else training.exception()
            if training.cancelled():
                answer.cancel()
            elif error is not None:
                answer.set_exception(error)
            else:
                trained = training.result()
                answer.set_result(
                    Evaluation(trained.accuracy, Kind.trained, trained.seconds, trained.losses)
                )
            self._ended.put(answer)

        epochs = self.fidelities[fidelity].epochs
        checkpoint = None
        if self._checkpoints is not None:
            checkpoint = checkpoint_of(self._checkpoints, architecture, epochs, seed)
        training = self._pool.submit(
            build,
            replace(self._recipe, epochs=epochs),
            TrainingOptions(
                seed=seed,
                stop=lambda: self._closed,
                evaluate_every=epochs,
                checkpoint=checkpoint,
                checkpoint_every=epochs,
                keeps_best=self._keeps_best,
            ),
        )
        training.add_done_callback(finished)
        return answer

    def wait(self, timeout_s: float = float("inf")) -> Future[Evaluation] | None:
        """Wait for the next training to end; None if none does in time."""
        try:
            return self._ended.get(timeout=None if timeout_s == float("inf") else timeout_s)
        except queue.Empty:
            return None

    def now_s(self) -> float:
        """Seconds of the monotonic clock."""
        return time.monotonic()

    def close(self) -> None:
        """Stop running trainings at their next epoch, and wait for them."""
        if not self._closed:
            self._closed = True
            self._pool.__exit__(None, None, None)


def proxy_batch(images: TrainingData, count: int) -> Float[Tensor, "n c h w"]:
    """First training images, normalised; they are in random order."""
    if isinstance(images, LearnerData):
        return images.inputs(count)
    pixels = np.asarray(images.train.pixels[:count], np.float32) / 255
    mean, sd = (np.array(values, np.float32) for values in (images.mean, images.sd))
    return torch.from_numpy((pixels - mean) / sd).permute(0, 3, 1, 2).contiguous()
