"""Several trainings side by side on one GPU, because a small network leaves it mostly idle."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import final

import torch
from torch import nn

from nas.fit.learners.data import TrainingData
from nas.fit.training.captured import GpuSlot
from nas.fit.training.device import Kernels
from nas.fit.training.evaluation import device_named
from nas.fit.training.recipe import Recipe
from nas.fit.training.sources import Sources, sources_of
from nas.fit.training.train_on import TrainOn
from nas.fit.training.trainer import (
    Trained,
    TrainingOptions,
    Waits,
    kernels_of,
    run_to_end,
    training,
)

SIDE_BY_SIDE = 8
"""Trainings at once on a GPU."""

_POLL_S = 1e-4

Begin = Callable[["GpuSlot | None"], Waits[Trained]]


@final
@dataclass(eq=False)
class _Running:
    """A training on a GPU."""

    future: Future[Trained]
    steps: Waits[Trained]
    slot: GpuSlot
    waits_for: torch.cuda.Event | None = None


@final
class TrainingPool:
    """Trains what is submitted, a few networks at a time; the images are uploaded once.

    One thread drives all of them, and is the only one to use the GPU meanwhile: CUDA does not
    capture graphs while another thread works. Each training has a stream of its own, and some
    steps are always launched ahead, so that the GPU does not wait for the interpreter. On a CPU,
    trainings follow one another, each on all cores.
    """

    def __init__(
        self,
        data: TrainingData,
        *,
        device: torch.device | str = "auto",
        on: TrainOn = TrainOn.train,
        side_by_side: int | None = None,
    ) -> None:
        """Uploads the images.

        Args:
          data: of all trainings.
          device: `auto` is the GPU if there is one.
          on: the training split, evaluated on validation; or both of these, evaluated on test.
          side_by_side: trainings at once on a GPU, 8 by default.
        """
        self._device = device_named(device)
        self._sources = sources_of(data, on, self._device)
        self._at_once = side_by_side or SIDE_BY_SIDE
        self._waiting: deque[tuple[Future[Trained], Begin]] = deque()
        self._changed = threading.Condition()
        self._closes = False
        self._driver = threading.Thread(target=self._drive, name="trainings")

    def __enter__(self) -> TrainingPool:
        self._driver.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Cancel what has not begun, and wait for the others."""
        with self._changed:
            self._closes = True
            for future, _ in self._waiting:
                future.cancel()
            self._changed.notify()
        self._driver.join()

    def submit(
        self,
        network: Callable[[], nn.Module],
        recipe: Recipe,
        options: TrainingOptions,
        sources: Sources | None = None,
    ) -> Future[Trained]:
        """Train a network when one of the others has finished.

        Args:
          network: returns the network, when its turn comes; it is trained in place.
          recipe: with the number of epochs.
          options: as `train` takes them; callbacks are called in the pool's thread.
          sources: other images than the pool's.

        Returns:
          The result, or what `train` raises.
        """
        future: Future[Trained] = Future()

        def begin(slot: GpuSlot | None) -> Waits[Trained]:
            built = network()  # here, where its errors belong to this training
            data = sources or self._sources
            if slot is not None:
                slot.kernels = kernels_of(built, data, recipe, options)
                yield slot.mark()  # is resumed with these kernels
            return (yield from training(data, built, recipe, options, slot))

        with self._changed:
            self._waiting.append((future, begin))
            self._changed.notify()
        return future

    def _drive(self) -> None:
        if self._device.type == "cuda":
            self._side_by_side()
        else:
            self._one_by_one()

    def _one_by_one(self) -> None:
        while (entry := self._next(wait=True)) is not None:
            future, begin = entry
            try:
                result = run_to_end(begin(None))
            except BaseException as error:  # noqa: BLE001 - the future raises it
                future.set_exception(error)
            else:
                future.set_result(result)

    def _side_by_side(self) -> None:
        with ExitStack() as closing:
            slots = []
            for _ in range(self._at_once):
                slot = GpuSlot(self._device, Kernels.guessed)
                closing.callback(slot.close)
                slots.append(slot)
            running: list[_Running] = []
            while True:
                if slots and (entry := self._next(wait=not running)) is not None:
                    future, begin = entry
                    slot = slots.pop()
                    running.append(_Running(future, begin(slot), slot))
                if not running:
                    return
                ready = [job for job in running if job.waits_for is None or job.waits_for.query()]
                if not ready:
                    time.sleep(_POLL_S)
                for job in ready:
                    if _advance(job):
                        running.remove(job)
                        slots.append(job.slot)

    def _next(self, *, wait: bool) -> tuple[Future[Trained], Begin] | None:
        """The next training that is not cancelled; None if there is none, and with `wait`, never will be."""
        with self._changed:
            while True:
                while self._waiting:
                    future, begin = self._waiting.popleft()
                    if future.set_running_or_notify_cancel():
                        return future, begin
                if not wait or self._closes:
                    return None
                self._changed.wait()


def _advance(job: _Running) -> bool:
    """Advance a training to where it waits; True if it has ended."""
    try:
        with job.slot.current():
            job.waits_for = next(job.steps)
    except StopIteration as ended:
        job.future.set_result(ended.value)
        return True
    except BaseException as error:  # noqa: BLE001 - the future raises it
        job.future.set_exception(error)
        return True
    return False
