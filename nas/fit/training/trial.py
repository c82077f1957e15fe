"""The training of a trial, in whichever thread, process or machine it is called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import final

import torch
from jaxtyping import Int64
from numpy import ndarray
from torch import nn

from edgenas_core.types.kind import Kind
from edgenas_core.types.task import Task
from nas.accuracy.slow import Evaluation, Fidelity
from nas.fit.learners.data import TrainingData
from nas.fit.training.recipe import Recipe
from nas.fit.training.trainer import TrainingOptions, train

NetworkOf = Callable[[Int64[ndarray, "D"], Task], nn.Module]
"""Builds the untrained network of an architecture."""


@final
@dataclass(frozen=True)
class TrialTraining:
    """Trains the network of an architecture from new weights, to the epochs of a fidelity.

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
