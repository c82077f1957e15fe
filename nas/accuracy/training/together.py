"""Several trainings side by side on one GPU, which a small network leaves mostly idle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import final

import torch
from torch import nn

from nas.accuracy.images.image_set import ImageSet
from nas.accuracy.training.captured import chosen_kernels
from nas.accuracy.training.evaluation import device_named
from nas.accuracy.training.recipe import Recipe
from nas.accuracy.training.train_on import TrainOn
from nas.accuracy.training.trainer import Epoch, Sources, Trained, train_on

SIDE_BY_SIDE = 8
"""Trainings at once on a GPU."""


@final
class TrainingPool:
    """Trains what is submitted, a few networks at a time; the images are uploaded once.

    Each training has a thread and a CUDA stream of its own: replaying a captured step takes the
    interpreter a few microseconds, so that threads do not wait for each other. On a CPU, trainings
    follow one another, each on all cores.
    """

    def __init__(
        self,
        images: ImageSet,
        *,
        device: torch.device | str = "auto",
        on: TrainOn = TrainOn.train,
        side_by_side: int | None = None,
    ) -> None:
        """Uploads the images.

        Args:
          images: of all trainings.
          device: `auto` is the GPU if there is one.
          on: training split, judged on validation; or both, judged on test.
          side_by_side: trainings at once; by default 8 on a GPU and 1 on a CPU, where more would
            share torch's random numbers.
        """
        chosen = device_named(device)
        self._sources = Sources.of(images, on, chosen)
        workers = (side_by_side or SIDE_BY_SIDE) if chosen.type == "cuda" else 1
        self._threads = ThreadPoolExecutor(workers, "training")
        self._kernels = chosen_kernels(chosen)

    def __enter__(self) -> TrainingPool:
        self._kernels.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._threads.shutdown(cancel_futures=True)
        self._kernels.__exit__(kind, error, trace)

    def submit(
        self,
        network: Callable[[], nn.Module],
        recipe: Recipe,
        *,
        seed: int,
        on_epoch: Callable[[Epoch], None] = lambda _: None,
        stop: Callable[[], bool] = lambda: False,
        evaluate_every: int = 1,
    ) -> Future[Trained]:
        """Train a network when one of the others has finished.

        Args:
          network: returns the network, when its turn comes; it is trained in place.
          recipe: with the number of epochs.
          seed: of order and augmentation.
          on_epoch: called after each epoch, in the training's thread.
          stop: asked after each epoch, in the training's thread.
          evaluate_every: epochs between two evaluations; the last epoch is always evaluated.

        Returns:
          The result, or what `train` raises.
        """
        return self._threads.submit(
            lambda: train_on(
                self._sources,
                network(),
                recipe,
                seed=seed,
                on_epoch=on_epoch,
                stop=stop,
                evaluate_every=evaluate_every,
            )
        )


def train_together(
    networks: Sequence[nn.Module],
    images: ImageSet,
    recipe: Recipe,
    *,
    seeds: Sequence[int],
    device: torch.device | str = "auto",
    on: TrainOn = TrainOn.train,
    side_by_side: int | None = None,
    on_epoch: Callable[[int, Epoch], None] = lambda _number, _epoch: None,
    evaluate_every: int = 1,
) -> list[Trained | BaseException]:
    """Train networks in place, a few at a time; `on_epoch` is given the network's position first.

    Returns:
      One result each, or what `train` raised for this network.
    """
    with TrainingPool(images, device=device, on=on, side_by_side=side_by_side) as pool:
        futures = [
            pool.submit(
                partial(_itself, network),
                recipe,
                seed=seed,
                on_epoch=partial(on_epoch, number),
                evaluate_every=evaluate_every,
            )
            for number, (network, seed) in enumerate(zip(networks, seeds, strict=True))
        ]
        return [future.exception() or future.result() for future in futures]


def _itself(network: nn.Module) -> nn.Module:
    return network
