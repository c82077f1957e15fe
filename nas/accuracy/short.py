"""Short trainings on the user's images, as a slow accuracy source."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, final

import numpy as np
from jaxtyping import Float, Int64
from numpy import ndarray

from nas.accuracy.images.image_set import ImageSet
from nas.accuracy.slow import Evaluation, Fidelity
from nas.accuracy.training.recipe import Recipe
from runtime.network.task import Task
from runtime.shell.provenance import Kind

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from nas.accuracy.training.trainer import Trained

NetworkOf = Callable[[Int64[ndarray, "D"], Task], "nn.Module"]
"""Builds the untrained network of an architecture."""


@final
class ShortTrainings:
    """A `SlowAccuracySource` that trains networks on images, several at once on a GPU.

    Each fidelity is a training of its own, from new weights, with the recipe's whole schedule.
    """

    source = "trained"

    def __init__(
        self,
        images: ImageSet,
        network: NetworkOf,
        recipe: Recipe,
        epochs: Sequence[int],
        *,
        at_once: int | None = None,
        device: torch.device | str = "auto",
    ) -> None:
        """Uploads the images.

        Args:
          images: whose training split is trained on, and validation split judged on.
          network: builds networks.
          recipe: with any number of epochs.
          epochs: lengths of training, ascending.
          at_once: trainings side by side; the training pool's own number by default.
          device: `auto` is the GPU if there is one.
        """
        from nas.accuracy.training.together import TrainingPool  # noqa: PLC0415 - imports torch

        self.fidelities = tuple(Fidelity(_epochs(one), one) for one in epochs)
        self.description = (
            f"trained on {len(images.train):,} images of {images.title}, {images.side} pixels, by "
            f"the recipe {recipe.name}; validated on {len(images.valid):,}"
        )
        self._images, self._network, self._recipe = images, network, recipe
        self._pool = TrainingPool(images, device=device, side_by_side=at_once)
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
        import torch  # noqa: PLC0415 - slow to import

        answer: Future[Evaluation] = Future()

        def build() -> nn.Module:
            with torch.random.fork_rng(devices=[]):
                torch.default_generator.manual_seed(seed)
                return self._network(architecture, self._images.task)

        def finished(training: Future[Trained]) -> None:
            error = training.exception()
            if error is not None:
                answer.set_exception(error)
            else:
                one = training.result()
                answer.set_result(Evaluation(one.accuracy, Kind.trained, one.seconds))
            self._ended.put(answer)

        epochs = self.fidelities[fidelity].epochs
        training = self._pool.submit(
            build,
            replace(self._recipe, epochs=epochs),
            seed=seed,
            stop=lambda: self._closed,
            evaluate_every=epochs,
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
        """End the trainings that still run at their next epoch, and wait for that."""
        if not self._closed:
            self._closed = True
            self._pool.__exit__(None, None, None)


def tse_ema(losses: Sequence[float]) -> float:
    """Training speed as the moving average of an epoch's mean training loss: e <- 0.1 e + 0.9 loss.

    Lower is better (Ru et al., "Speedy performance estimation for NAS", NeurIPS 2021, TSE-EMA).
    """
    average = losses[0]
    for loss in losses[1:]:
        average = 0.1 * average + 0.9 * loss
    return average


def proxy_batch(images: ImageSet, count: int) -> Float[Tensor, "n c h w"]:
    """The first training images, which are in random order, normalised."""
    import torch  # noqa: PLC0415 - slow to import

    pixels = np.asarray(images.train.pixels[:count], np.float32) / 255
    normalised = (pixels - np.array(images.mean, np.float32)) / np.array(images.sd, np.float32)
    return torch.from_numpy(normalised).permute(0, 3, 1, 2).contiguous()


def _epochs(number: int) -> str:
    return "1 epoch" if number == 1 else f"{number} epochs"
