"""What the winner of a search from pretrained weights is compared with: the rule of thumb, and new weights."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int64
from numpy import ndarray
from torch import nn

from common.types.errors import UserError
from nas.accuracy.base import HasWeights
from nas.accuracy.fine_tuning.frozen import pixel_accuracy
from nas.accuracy.fine_tuning.trial import (
    PretrainedImages,
    PretrainedNetwork,
    tuned_checkpoint,
)
from nas.accuracy.images.image_set import ImageSet
from nas.accuracy.learners.data import has_classes
from nas.accuracy.slow import Fidelity
from nas.accuracy.training.checkpoint import weights_of
from nas.accuracy.training.recipe import recipe_named
from nas.accuracy.training.trained_folder import RECORD, Training, read_training, trained_folder
from nas.search.journal import Journal
from nas.search.own_images.staged_search import StagedSearch
from nas.search.own_images.winner import (
    Winner,
    epochs_of_new,
    epochs_within,
    forget_checkpoint,
    train_winner,
)
from nas.search.strategy import Outcome
from nas.spaces.base import SearchSpace
from nas.train.job import Start, pretrained_start
from nas.trials.staged.fine_tunings import FineTunings
from nas.trials.trial import Trials

_FROM_SCRATCH_EPOCHS = 20
"""Fewest epochs of a network from scratch that tell whether new weights are better for these images."""


@runtime_checkable
class SpaceWithWeights(SearchSpace, HasWeights, Protocol):
    """A search space of networks that begin with weights."""


class ComparedSearch(StagedSearch):
    """A staged search from pretrained weights; it hands over an alternative that its winner does not surpass."""

    @property
    def _space(self) -> SpaceWithWeights:
        space = self._problem.space
        if not isinstance(space, SpaceWithWeights):
            raise TypeError(f"{space.name} has no weights")
        return space

    @property
    def _tunings(self) -> FineTunings:
        stages = self._proposer.stages
        if not isinstance(stages, FineTunings):
            raise TypeError(f"{type(stages).__name__} does not tune")
        return stages

    @cached_property
    def _pretrained(self) -> PretrainedNetwork:
        images = PretrainedImages(self._space, str(self._config.data))
        return PretrainedNetwork(self._space, images, self._checkpoints)

    def _images_of(self, architecture: Int64[ndarray, "D"]) -> ImageSet:
        return self._pretrained.images(architecture)

    def _needs_new_weights(self, claimed: float) -> bool:
        """Whether the network from scratch is better than that, or regression on small pixels than all."""
        scratch, images = self._from_scratch, self._images
        if not has_classes(images):
            raise TypeError(f"{images.title} has no classes")
        best = np.nanmax([result.accuracy for result in self._proposer.results.values()])
        if scratch is not None and valid_accuracy(scratch[1]) > claimed:
            self._say(
                f"from scratch {valid_accuracy(scratch[1]):.1%}, pretrained {claimed:.1%} expected"
            )
        elif (pixels := pixel_accuracy(images.train)) > best:
            self._say(f"regression on mere pixels {pixels:.1%}, pretrained networks {best:.1%}")
        else:
            return False
        return True

    def _planned_from_scratch(self, seconds: float) -> Winner | None:
        """The largest network with new weights that so many seconds train long enough."""
        candidates, recipe = self._drawn_candidates, self._scratch_recipe
        ends_s, start = time.monotonic() + seconds, Start(self._pretrained)
        for at in np.flatnonzero(self._space.is_new(candidates.architectures))[::-1].tolist():
            row = candidates.architectures[at]
            ms, kind = float(candidates.latency_ms[at]), int(candidates.latency_kind[at])
            left_s = ends_s - time.monotonic()
            epochs = int(epochs_within(self._images_of(row), row, start, recipe, left_s))
            if epochs >= _FROM_SCRATCH_EPOCHS:
                planned = Winner(self._space.text(row), recipe, epochs, 0, ms, kind)
                return replace(planned, epochs=min(epochs, self._epochs_of(recipe)))
        return None

    @property
    def _scratch_recipe(self) -> str:
        """Name of the recipe for new weights, with the augmentation of the fine-tunings."""
        return f"from_scratch:{self._rule.recipe.partition(':')[2]}"

    def outcome(self, parts: Sequence[Trials]) -> Outcome:
        """As in every search; a network from scratch is trained first."""
        if self._winner is None:
            self._train_from_scratch()
        return super().outcome(parts)

    def _train_from_scratch(self) -> None:
        """Train a network with new weights in its share of the time, if that is long enough."""
        seconds = self._rule.shares["scratch"] * self._seconds
        ends_s = time.monotonic() + seconds
        planned = self._planned_from_scratch(seconds)
        if planned is None:
            return
        train_winner(
            self._begun.experiment,
            self._images_of(self._space.parse(planned.arch)),
            self._folder,
            planned,
            self._begun.console,
            start=self._start(planned),
            most=planned.epochs,
            ends_s=ends_s,
        )
        forget_checkpoint(self._folder, planned.arch)

    @property
    def _from_scratch(self) -> tuple[int, Training] | None:
        """Candidate and training of the network with new weights; None where none was trained."""
        rows = self._drawn_candidates.architectures
        for at in np.flatnonzero(self._space.is_new(rows)).tolist():
            folder = trained_folder(self._folder, self._space.text(rows[at]))
            if (folder / RECORD).is_file():
                return at, read_training(folder)
        return None

    @property
    def _most_epochs(self) -> int:
        """As set; of new weights, their recipe's where they are not."""
        recipe = self._rule.recipe if self._winner is None else self._winner.recipe
        return self._epochs_of(recipe)

    def _epochs_of(self, recipe: str) -> int:
        epochs = self._config.epochs
        is_default = epochs == self._space.tasks[self._space.default_task].epochs
        is_new = recipe == self._scratch_recipe
        if not (is_new and is_default):
            return epochs
        return epochs_of_new(self._images, recipe_named(recipe).epochs)

    def _trained_winner(self, order: list[int], left_s: float) -> tuple[int, Training]:
        """As in every search; the rule of thumb instead, as it was ranked, if it is better."""
        at, training = super()._trained_winner(order, left_s)
        better = self._better_rule_of_thumb(self._judged(training))
        if better is not None:
            forget_checkpoint(self._folder, training.arch)
            self._winner = better
            with Journal(self._begun.folder.journal, self._space) as journal:
                journal.note("winner", asdict(better))
            at, training = super()._trained_winner(order, 0.0)
        return self._better_from_scratch(self._judged(training)) or (at, training)

    def _judged(self, training: Training) -> float:
        """Accuracy on the validation images, of the int8 file in a search for int8."""
        int8 = self._int8_of_winner(training)
        return valid_accuracy(training) if int8 is None else int8.valid.fraction

    def _better_from_scratch(self, accuracy: float) -> tuple[int, Training] | None:
        """The network from scratch, if it is better than that and confirmed."""
        scratch = self._from_scratch
        if scratch is None or self._judged(scratch[1]) <= accuracy:
            return None
        at, training = scratch
        self._say(
            f"{training.arch}, from scratch, has {self._judged(training):.2%}, the winner {accuracy:.2%}: what "
            f"pretrained weights know does not help on these images; it is handed over"
        )
        try:
            self._hand_over(*scratch, *self._confirmed([at])[1:])
        except UserError as error:
            self._say(f"{error}; so it is not handed over")
            return None
        return scratch

    def _better_rule_of_thumb(self, accuracy: float) -> Winner | None:
        """The best training of the rule of thumb, if it is better than that and confirmed."""
        results, text = self._proposer.results, self._space.text
        jobs = [job for job in self._tunings.of_rule_of_thumb(results) if job.fidelity]
        best = max(jobs, key=lambda job: results[job].accuracy, default=None)
        if best is None:
            return None
        row, tuned = (
            self._drawn_candidates.architectures[best.candidate],
            self._fidelities[best.fidelity],
        )
        arch, ranked = text(row), results[best].accuracy
        if self._int8 is not None:
            from nas.export.int8 import int8_accuracy  # noqa: PLC0415 - imports onnxruntime

            file = tuned_checkpoint(self._checkpoints, row, tuned, self._config.seed)
            ranked = int8_accuracy(*self._tuned(row, file), is_winner=False).valid.fraction
        if ranked <= accuracy:
            return None
        self._say(
            f"the rule of thumb, {arch}, had {ranked:.2%} after {tuned.epochs} epochs of "
            f"ranking, the winner has {accuracy:.2%}: the rule of thumb is handed over as it was ranked"
        )
        try:
            _, ms, kind = self._confirmed([best.candidate])
        except UserError as error:
            self._say(f"{error}; so it is not handed over")
            return None
        return Winner(arch, self._rule.recipe, tuned.epochs, tuned.epochs, ms, kind, tuned.rate)

    def _tuned(
        self, row: Int64[ndarray, "D"], file: Path | None
    ) -> tuple[nn.Module, ImageSet, int]:
        """The network, tuned where there is a checkpoint, its images and their side."""
        images = self._images_of(row)
        network = self._pretrained(row, images.task)
        if file is not None:
            network.load_state_dict(weights_of(file))
        return network, images, self._space.side(row)

    def _start(self, winner: Winner) -> Start:
        row, epochs = self._space.parse(winner.arch), winner.ranked_epochs
        start = pretrained_start(self._pretrained, row, winner.rate, keeps_best=True)
        if not epochs:
            return start
        tuned = Fidelity("", epochs, winner.rate)
        path = tuned_checkpoint(self._checkpoints, row, tuned, self._config.seed)
        return replace(start, continues=path, words=f"{start.words}; as it was ranked")


def valid_accuracy(training: Training) -> float:
    """Accuracy on the validation images, by which winners are compared."""
    if training.valid is None:
        raise TypeError("a winner is judged on validation images")
    return training.valid.fraction
