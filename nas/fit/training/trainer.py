"""Training of one network."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, final

import torch
from torch import nn

from edgenas_core.types.errors import gpu_memory_line
from nas.fit.learners.data import TrainingData
from nas.fit.training.batches import Batches, hash_of
from nas.fit.training.captured import GpuSlot, opened_slot
from nas.fit.training.checkpoint import (
    Progress,
    carry_over,
    load_checkpoint,
    save_checkpoint,
)
from nas.fit.training.device import Kernels, has_many_shapes, kernels_for
from nas.fit.training.evaluation import device_named
from nas.fit.training.network import has_no_statistics
from nas.fit.training.recipe import Recipe
from nas.fit.training.replicas import average_statistics, place
from nas.fit.training.sources import (
    ImageSources,
    LearnerBatches,
    LearnerSources,
    Sources,
    sources_of,
)
from nas.fit.training.step import ImageStep, LearnerStep, copy_state, restore
from nas.fit.training.teaching import Teaching
from nas.fit.training.train_on import TrainOn

Result = TypeVar("Result")

Waits: TypeAlias = Generator["torch.cuda.Event", None, Result]
"""Work that yields the event it waits for, and is resumed when that has passed."""

Subnetworks: TypeAlias = Callable[[nn.Module, int], Sequence[Callable[[], object]]]
"""Calls, by supernet and number of a step, that each make it compute one of its architectures.

The first is trained on the labels, the others on its outputs (in-place distillation).
"""

_AHEAD = 16
"""Steps that are launched before those before them have ended."""

_TIMED_STEPS = 20

_FEW_STEPS = 50
"""Steps before which the running statistics of batch normalisation lag behind the weights.

After 24 steps of a regression, R2 is 0.04 by them and 0.43 by statistics of the training images; after 96 they are
equal.
"""

_LATE = 0.75
"""Share of the schedule before which no epoch is kept: on few validation images an early one wins by chance.

Nine trainings of ten epochs on photos, judged by 150: 0.7 points more on photos from outside than the best of the
last six epochs.
"""


class DivergedTrainingError(Exception):
    """The loss is not finite; the message names the epoch."""


@final
@dataclass(frozen=True)
class Epoch:
    """A finished epoch."""

    number: int  # from 1
    epochs: int
    loss: float  # mean over the training images as they went by
    accuracy: float | None  # a fraction; None if it was not evaluated
    seconds: float  # with its evaluation
    images_per_second: float  # without
    images: int  # that it trained on


@final
@dataclass(frozen=True)
class Trained:
    """Results of a training; the network holds the final weights."""

    accuracy: float  # a fraction, on the split that is judged on, balanced if classes are uneven
    losses: tuple[float, ...]  # mean of each epoch
    accuracies: tuple[float | None, ...]  # after each epoch; None where it was not evaluated
    seconds: float  # in all its parts, if it was resumed
    epochs: int  # done; fewer than the recipe's if it was stopped or shortened
    is_complete: bool  # its schedule came to the end
    notes: tuple[str, ...]  # departures from the recipe, for the user
    is_beginning: bool = False  # no late epoch was better than the weights that it began with


@final
@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """Settings of one training beside its network, images and recipe."""

    seed: int = 0  # of order and augmentation
    evaluate_every: int = 1  # epochs; the last epoch is always evaluated
    checkpoint: Path | None = None  # written after epochs, and resumed from if it is there
    checkpoint_every: int = 1  # epochs; the last epoch always has one
    continues: Path | None = None
    """Checkpoint of a shorter training of the network, whose weights and momenta are taken over.

    Its epochs count among the recipe's, so that the learning rate is that of the next one.
    """
    on_epoch: Callable[[Epoch], None] = lambda _: None
    stop: Callable[[], bool] = lambda: (
        False
    )  # asked after each epoch; a checkpoint can go on with it
    epochs_left: Callable[[Epoch], int] | None = None
    """Epochs that fit into the time after this one; the schedule ends with them, or the recipe's."""
    planned: int | None = None  # epochs that are expected to fit at first; None: the recipe's
    keeps_best: bool = False
    """End with the weights of the most accurate late epoch, or those of the network or of `continues`."""
    subnetworks: Subnetworks | None = (
        None  # that each step of a supernet trains; it is not captured
    )
    captures: bool = True  # a GPU launches each step as a whole, where it can
    teaching: Teaching | None = None  # answers that are learnt beside the labels
    shapes_vary: bool = False  # layers of the subnetworks have thousands of shapes; see `Kernels`


DEFAULTS = TrainingOptions()

_SHORT = 12
"""Epochs up to which kernels of many shapes take longer to find than they save."""


def train(
    network: nn.Module,
    data: TrainingData,
    recipe: Recipe,
    options: TrainingOptions = DEFAULTS,
    *,
    device: torch.device | str = "auto",
    on: TrainOn = TrainOn.train,
) -> Trained:
    """Train a network, in place; it lies on the device afterwards.

    The result depends on the network's weights and the seed alone; on a CPU bit by bit, also if
    the training was interrupted and resumed.

    Args:
      network: for inputs of the data's side, with as many outputs.
      data: the data; `on` says which of its splits are used.
      recipe: with the number of epochs.
      options: seed, checkpoints, callbacks.
      device: `auto` is the GPU if there is one.
      on: the training split, evaluated on validation; or both of these, evaluated on test.

    Raises:
      DivergedTrainingError: if the loss is not finite.
      UserError: if the checkpoint is of another training.
      torch.OutOfMemoryError: if even one image at a time takes too much memory.
    """
    device = device_named(device)
    sources = sources_of(data, on, device)
    with opened_slot(device, kernels_of(network, sources, recipe, options)) as slot:
        return run_to_end(training(sources, network, recipe, options, slot))


def kernels_of(
    network: nn.Module, sources: Sources, recipe: Recipe, options: TrainingOptions
) -> Kernels:
    """Choice of kernels for a training; in a short one of a learner, whose batches differ in size, as of a supernet."""
    is_short = isinstance(sources, LearnerSources) and recipe.epochs <= _SHORT
    varies = options.shapes_vary or (is_short and has_many_shapes(network))
    return kernels_for(network, recipe.epochs, shapes_vary=varies)


def run_to_end(steps: Waits[Result]) -> Result:
    """Run to the end, and wait at every event."""
    while True:
        try:
            next(steps).synchronize()
        except StopIteration as ended:  # noqa: PERF203 - so ends a generator with a result
            result: Result = ended.value
            return result


def training(
    sources: Sources,
    network: nn.Module,
    recipe: Recipe,
    options: TrainingOptions,
    slot: GpuSlot | None,
) -> Waits[Trained]:
    """`train` for one thread that drives several: yields where it would wait for the GPU.

    Runs within `slot.current()`; without a slot, on a CPU, it never yields.
    """
    run = _Training(sources, network, recipe, options, slot)
    # begin with the network, its own checkpoint, or that of a shorter training
    best = _Best(network, (yield from run.accuracy()) if options.keeps_best else math.inf)
    past, is_resumed = _restore_progress(run, options)
    begun, end = len(past.losses), min(recipe.epochs, options.planned or recipe.epochs)
    run.reschedule(0, end)
    if options.keeps_best and past.losses and (not is_resumed or len(past.losses) > _LATE * end):
        continued = yield from run.accuracy()
        with run.step.with_average():
            best.consider(continued, is_beginning=not is_resumed)
    while len(past.losses) < end:
        # train for an epoch, and evaluate it if that is due
        epoch = len(past.losses)
        is_last = epoch + 1 == end
        began_s = time.perf_counter()
        loss = yield from run.epoch(epoch)
        seconds = time.perf_counter() - began_s
        evaluates = is_last or (epoch + 1) % options.evaluate_every == 0
        accuracy = (yield from run.accuracy()) if evaluates else None
        whole_s = time.perf_counter() - began_s
        # keep the best weights, and write a checkpoint
        with run.step.with_average():
            best.consider(accuracy if epoch + 1 > _LATE * end else None)
        past = Progress((*past.losses, loss), (*past.accuracies, accuracy), past.seconds + whole_s)
        is_due = is_last or (epoch + 1) % options.checkpoint_every == 0
        if options.checkpoint is not None and is_due and place()[0] == 0:
            save_checkpoint(options.checkpoint, run.step.state(), past, run.identity())
        # report the epoch, and plan the others
        speed = run.images_an_epoch / seconds
        ended = Epoch(epoch + 1, end, loss, accuracy, whole_s, speed, run.images_an_epoch)
        options.on_epoch(ended)
        if options.epochs_left is not None and not is_last:
            end = min(recipe.epochs, ended.number + max(1, options.epochs_left(ended)))
            run.reschedule(ended.number, end)
        if options.stop():
            break
    final = past.accuracies[-1]
    if final is None:  # stopped at an epoch that is not evaluated
        final = yield from run.accuracy()
    run.step.finish()
    if options.keeps_best:
        best.consider(final)  # a training that was stopped may have no late epoch
        final = best.load()
    yield from run.synchronise()
    network.eval()
    is_beginning = options.keeps_best and best.is_beginning and len(past.losses) > begun
    is_complete = len(past.losses) >= end
    return _result(past, final, run.notes(), is_complete=is_complete, is_beginning=is_beginning)


def _restore_progress(run: _Training, options: TrainingOptions) -> tuple[Progress, bool]:
    """Restore the training's checkpoint or carry over a shorter one; whether it is resumed."""
    past = Progress()
    if options.checkpoint is not None:
        past = load_checkpoint(options.checkpoint, run.step.state(), run.identity())
    is_resumed = bool(past.losses)
    if options.continues is not None and not is_resumed:
        past = carry_over(options.continues, run.step.state())
    return past, is_resumed


def _result(
    past: Progress, final: float, notes: tuple[str, ...], *, is_complete: bool, is_beginning: bool
) -> Trained:
    return Trained(
        accuracy=final,
        losses=past.losses,
        accuracies=past.accuracies,
        seconds=past.seconds,
        epochs=len(past.losses),
        is_complete=is_complete,
        notes=notes,
        is_beginning=is_beginning,
    )


def seconds_an_epoch(
    network: nn.Module,
    data: TrainingData,
    recipe: Recipe,
    options: TrainingOptions = DEFAULTS,
    *,
    device: torch.device | str = "auto",
    on: TrainOn = TrainOn.train,
) -> float:
    """Estimate what an epoch of `train` takes, without its evaluation; the network stays as it is.

    Some steps of a copy are timed, a tenth of an epoch at most, after the kernels of their layers were
    found, which takes longer; a supernet goes on to find others.
    """
    device = device_named(device)
    sources = sources_of(data, on, device)
    with opened_slot(device, kernels_of(network, sources, recipe, options)) as slot:
        return _Training(sources, deepcopy(network), recipe, options, slot).seconds_an_epoch()


@final
class _Best:
    """Weights of the most accurate epoch or of the beginning; empty if no epoch can be better."""

    def __init__(self, network: nn.Module, accuracy: float) -> None:
        self._network, self._accuracy = network, accuracy
        self._state = copy_state(network.state_dict()) if math.isfinite(accuracy) else {}
        self.is_beginning = True

    def consider(self, accuracy: float | None, *, is_beginning: bool = False) -> None:
        """Keep the current weights if they are better, or if the best metric is 0, where it cannot compare."""
        if accuracy is not None and (accuracy > self._accuracy or self._accuracy == 0):
            self._accuracy, self._state = accuracy, copy_state(self._network.state_dict())
            self.is_beginning = is_beginning

    def load(self) -> float:
        """Load the best weights into the network; returns their accuracy."""
        restore(self._network.state_dict(), self._state)
        return self._accuracy


@final
class _Training:
    """A network, its optimizer and its batches."""

    def __init__(
        self,
        sources: Sources,
        network: nn.Module,
        recipe: Recipe,
        options: TrainingOptions,
        slot: GpuSlot | None,
    ) -> None:
        network.train()
        self._sources = sources
        self._lags = has_no_statistics(network) and not recipe.ema and options.subnetworks is None
        self._slot = slot
        self._earlier: torch.cuda.Event | None = None
        self._subnetworks, self._asked = options.subnetworks, recipe
        self._captures, self._teaching = options.captures, options.teaching
        self._batches: Batches | LearnerBatches
        self.step: ImageStep | LearnerStep
        self._batches, self.step = sources.begin(network, recipe, options.seed, options.teaching)
        self._segment_steps = self._batches.segment_steps(sources.device)
        self._advance: Callable[[], None] | None = None

    @property
    def images_an_epoch(self) -> int:
        """Images that an epoch trains on."""
        return self._batches.images

    def identity(self) -> dict[str, Any]:
        """Settings and images that a checkpoint must agree with, by name."""
        taught = {} if self._teaching is None else {"taught_by": self._teaching.teachers}
        return {
            "data": self._sources.digest,
            "on": self._sources.on.value,
            "seed": self._batches.seed,
            **taught,
            **dataclasses.asdict(self._batches.recipe),
        }

    def reschedule(self, done: int, epochs: int) -> None:
        """Go through the rest of the schedule by the end of so many epochs."""
        steps = self._batches.steps
        self.step.reschedule(done * steps, epochs * steps)

    def notes(self) -> tuple[str, ...]:
        """Departures from the recipe."""
        if isinstance(self._sources, LearnerSources):
            return ()
        asked, used = self._asked, self.step.batch_size
        notes = []
        if used != asked.batch_size:
            lr, amount = self._batches.recipe.lr, "few" if used < asked.batch_size else "many"
            rate = "" if lr == asked.lr else f", learning rate {lr:.3g} instead of {asked.lr:.3g}"
            notes.append(
                f"{amount} training images ({len(self._sources.train):,}): batches of {used} instead of "
                f"{asked.batch_size}{rate}"
            )
        if self._sources.train.is_uneven:
            notes.append(
                "classes differ in size: each was drawn in proportion to the square root of its images, and the "
                "accuracy on validation images is the mean over the classes"
            )
        if self.step.micro_batches > 1:
            size = -(-used // self.step.micro_batches)
            notes.append(f"micro-batches of {size} images: a batch of {used} needs too much memory")
        return tuple(notes)

    def synchronise(self) -> Waits[None]:
        """Wait for all that was launched."""
        if self._slot is not None:
            self._earlier = None
            yield self._slot.mark()

    def _not_far_ahead(self) -> Waits[None]:
        """Wait for what was launched before the last call: the GPU always has work, but not much."""
        if self._slot is not None:
            if self._earlier is not None:
                yield self._earlier
            self._earlier = self._slot.mark()

    def accuracy(self) -> Waits[float]:
        """Accuracy now, of the averaged weights if the recipe has them."""
        with self.step.with_average():
            value = self._sources.evaluate(self.step.model)
        yield from self.synchronise()
        return float(value)

    def epoch(self, epoch: int) -> Waits[float]:
        """Train for an epoch, in smaller parts if memory is short; returns the mean loss."""
        before = copy_state(self.step.state())
        while True:
            try:
                return (yield from self._epoch(epoch))
            except RuntimeError as error:
                if not _is_divisible(self.step, error):
                    raise
            self._divide()  # the error, which holds memory of its step, is gone
            restore(self.step.state(), before)

    def _divide(self) -> None:
        """Halve the parts of a batch, and give back the memory that no part can use."""
        self._advance = None
        if self._slot is not None:
            torch.cuda.empty_cache()
        self.step.micro_batches = min(2 * self.step.micro_batches, self.step.batch_size)

    def seconds_an_epoch(self) -> float:
        """Time some steps, in smaller parts if memory is short; the state is then of a training."""
        while True:
            try:
                return self._timed_epoch_s()
            except RuntimeError as error:
                if not _is_divisible(self.step, error):
                    raise
            self._divide()

    def _timed_epoch_s(self) -> float:
        """Time some steps, each of a supernet's after it was taken once."""
        self.step.go_to(0)
        segments = self._batches.epoch(0, self._segment_steps)
        steps = max(1, min(self._batches.steps // 10, _TIMED_STEPS))
        segment = next(segments)
        self.step.load(*segment)
        advance = self._advancing()
        for timed in (1 if self._subnetworks is None else steps, steps):
            began_s = time.perf_counter()
            for step in range(timed):
                self.step.load(*segment)
                self._choose(step)
                advance()
            self.step.losses[0].item()  # waits for the GPU
        return (time.perf_counter() - began_s) / steps * self._batches.steps

    def _epoch(self, epoch: int) -> Waits[float]:
        steps = self._batches.steps
        first = epoch * steps
        self.step.go_to(first)
        step = first
        # on a CPU trainings take turns, so each has a generator of its own
        seed = None if self._slot else hash_of(self._batches.seed, epoch)
        with _seeded(seed):
            for segment in self._batches.epoch(epoch, self._segment_steps):
                self.step.load(*segment)
                advance = self._advancing()
                for _ in range(self.step.loaded):
                    self._choose(step)
                    advance()
                    step += 1
                    if step % _AHEAD == 0:
                        yield from self._not_far_ahead()
        average_statistics(self.step.state())
        if self._lags and step < _FEW_STEPS and isinstance(self._sources, ImageSources):
            with _seeded(seed):
                self._sources.renew_statistics(self.step.model)
        yield from self.synchronise()
        loss = self.step.losses[first : first + steps].mean().item()
        if not math.isfinite(loss):
            raise DivergedTrainingError(
                f"the training diverged: its loss is {loss} in epoch {epoch + 1} of "
                f"{self._batches.recipe.epochs}"
            )
        return loss

    def _choose(self, step: int) -> None:
        """Choose the sub-networks that a supernet trains in this step."""
        if self._subnetworks is not None:
            self.step.subnetworks = self._subnetworks(self.step.model.network, step)

    def _advancing(self) -> Callable[[], None]:
        """The step, captured at the first call if it can be."""
        if self._advance is None:
            self._advance = self.step
            alone = self._captures and self._subnetworks is None and place()[1] == 1
            if self._slot is not None and self.step.is_captured and alone:
                self._advance = self._slot.capture(self.step)
        return self._advance


def _is_divisible(step: ImageStep | LearnerStep, error: RuntimeError) -> bool:
    """Whether the error is a lack of memory and the parts of a batch can be halved."""
    alone = place()[1] == 1  # others would wait for this one's gradients
    is_least = step.micro_batches >= step.batch_size
    return alone and not is_least and gpu_memory_line(error) is not None


@contextmanager
def _seeded(seed: int | None) -> Iterator[None]:
    """Seed what a network draws itself, as dropout does; None leaves the generator as it is."""
    if seed is None:
        yield
        return
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
