"""Adaptation of a trained network to the user's data, and the accuracy of its parts with inherited weights.

The space says what a step trains: the largest, the smallest and two random networks (the sandwich rule
with in-place distillation: Yu et al., "BigNAS", ECCV 2020).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64
from numpy import ndarray
from torch import nn

from edgenas_core.types.task import Task
from latency.base import Space
from nas.accuracy.base import Inherits, SharedNetwork
from nas.fit.learners.data import LearnerData, TrainingData
from nas.fit.training.batches import DeviceImages
from nas.fit.training.device import Kernels, computed_by, freed_memory_kept, kernels_for
from nas.fit.training.evaluation import accuracy_of, device_named
from nas.fit.training.network import renew_statistics, untrained
from nas.fit.training.step import Normalised, normalised_for
from nas.fit.training.trainer import Epoch, TrainingOptions, seconds_an_epoch, train

RECALIBRATED_ON = 4096
"""Training images that give an architecture its own statistics of batch normalisation."""

JUDGED_ON = 2048
"""Validation images that an architecture is scored on, at most."""

_BATCH = 256


def train_supernet(
    space: Inherits,
    images: TrainingData,
    *,
    epochs: int,
    seed: int,
    device: torch.device | str = "auto",
    on_epoch: Callable[[Epoch], None] = lambda _: None,
    checkpoint: Path | None = None,
    stop: Callable[[], bool] = lambda: False,
    shared: SharedNetwork | None = None,
) -> SharedNetwork:
    """Train on the training images; what is drawn depends on the seed alone.

    It goes on from `shared`, by default from the supernet as it was trained before.
    """
    shared = shared or initialised(space, images, seed)
    train(
        module_of(shared),
        images,
        replace(shared.recipe, epochs=epochs),
        TrainingOptions(
            seed=seed,
            on_epoch=on_epoch,
            checkpoint=checkpoint,
            stop=stop,
            evaluate_every=epochs,
            subnetworks=partial(_chosen, seed),
            shapes_vary=shared.shapes_vary,
        ),
        device=device,
    )
    return shared


def initialised(space: Inherits, images: TrainingData, seed: int) -> SharedNetwork:
    """The supernet as it was trained before; the seed decides what is new in it."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return space.supernet(images.task)


def seconds_of_epoch(
    space: Inherits,
    images: TrainingData,
    *,
    device: torch.device | str = "auto",
) -> float:
    """Estimate what an epoch of `train_supernet` takes."""
    shared = initialised(space, images, 0)
    return seconds_an_epoch(
        module_of(shared),
        images,
        shared.recipe,
        TrainingOptions(subnetworks=partial(_chosen, 0), shapes_vary=shared.shapes_vary),
        device=device,
    )


def inherited(
    space: Space,
    shared: SharedNetwork,
    architecture: Int64[ndarray, "D"],
    task: Task,
) -> nn.Module:
    """An architecture's own network, as `untrained` makes it, with the weights of the supernet."""
    network = untrained(space, architecture, task)
    network.load_state_dict(dict(shared.weights(architecture)), strict=False)
    return network


@freed_memory_kept()
def path_accuracy(
    space: Space,
    shared: SharedNetwork,
    architecture: Int64[ndarray, "D"],
    images: TrainingData,
    *,
    device: torch.device | str = "auto",
    counts: tuple[int, int] = (RECALIBRATED_ON, JUDGED_ON),
) -> float:
    """Accuracy with inherited weights on the first validation images: a score, of no trained network.

    `counts` are the training images of its statistics and the validation images, at most.
    """
    network = inherited(space, shared, architecture, images.task)
    first = images.valid.first(counts[1])
    kernels = Kernels.guessed
    if shared.shapes_vary:
        kernels = kernels_for(network, 1, shapes_vary=True)
    with computed_by(kernels, device_named(device)):
        recalibrate(network, images, device=device, most=counts[0])
        return accuracy_of(network, first, images, device=device)


def recalibrate(
    network: nn.Module,
    images: TrainingData,
    *,
    device: torch.device | str = "auto",
    most: int = RECALIBRATED_ON,
) -> None:
    """Replace the statistics of batch normalisation by those of the first training images."""
    device = device_named(device)
    if isinstance(images, LearnerData):
        data, plain = images, Normalised(network, None, None, device)
        renew_statistics(
            network,
            data.train.first(most).batches(device),
            lambda batch: data.learner.loss(plain, batch),
        )
        return
    model = normalised_for(images, network, device)
    source = DeviceImages([images.train.first(most)], device)  # a GPU copies all of them
    batches = torch.arange(len(source)).split(_BATCH)
    renew_statistics(model, (source.gather(which)[0] for which in batches if len(which) > 1))


def _chosen(seed: int, network: nn.Module, step: int) -> Sequence[Callable[[], object]]:
    """The choices of a step."""
    if not isinstance(network, SharedNetwork):
        raise TypeError(f"{type(network).__name__} is no SharedNetwork")
    rows: Iterable[Int64[ndarray, "D"]] = network.of_step(np.random.default_rng([seed, step]))
    return [partial(network.choose, row) for row in rows]


def module_of(network: SharedNetwork) -> nn.Module:
    """The supernet as a module.

    Raises:
      TypeError: if a space's is none.
    """
    if not isinstance(network, nn.Module):
        raise TypeError(f"{type(network).__name__} is no torch.nn.Module")
    return network
