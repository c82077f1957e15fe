"""What the winner of a search from pretrained weights is compared with: the rule of thumb, and new weights."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, final, runtime_checkable

import numpy as np
from jaxtyping import Int64
from numpy import ndarray

from edgenas_core.types.errors import UserError
from nas.accuracy.base import HasWeights
from nas.accuracy.slow import Fidelity
from nas.fit.data.image_set import ImageSet, weighted_accuracy
from nas.fit.learners.data import has_classes
from nas.fit.ranking.fine_tunings import FineTunings
from nas.fit.ranking.stages import StageJob
from nas.fit.run.staged_search import StagedSearch
from nas.fit.run.winner import (
    Winner,
    epochs_of_new,
    epochs_within,
    forget_checkpoint,
    valid_accuracy,
)
from nas.fit.starts.fine_tuning.frozen import pixel_accuracy
from nas.fit.starts.fine_tuning.trial import (
    FROZEN,
    PretrainedImages,
    PretrainedNetwork,
    tuned_checkpoint,
)
from nas.fit.training.evaluation import classes_of
from nas.fit.training.recipe import recipe_named
from nas.fit.training.trained_folder import RECORD, Training, read_training, trained_folder
from nas.runs.strategy import Outcome
from nas.spaces.base import SearchSpace
from nas.train.job import Start, pretrained_start
from nas.trials.trial import Trials

_FROM_SCRATCH_EPOCHS = 20
"""Fewest epochs of a network from scratch that tell whether new weights are better for these images."""


@runtime_checkable
class SpaceWithWeights(SearchSpace, HasWeights, Protocol):
    """A search space of networks that begin with weights."""


@final
@dataclass(frozen=True)
class Alternative:
    """A network that is handed over instead of a winner that is worse."""

    winner: Winner  # the decision for it
    accuracy: float  # on validation images
    words: str  # for the user
    training: Training | None = None  # None: to be taken over from its ranking


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
        if scratch is not None and valid_accuracy(scratch) > claimed:
            self._say(
                f"from scratch {valid_accuracy(scratch):.1%}, pretrained {claimed:.1%} expected"
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
                return replace(planned, epochs=min(epochs, self._most_epochs(recipe)))
        return None

    @property
    def _scratch_recipe(self) -> str:
        """Name of the recipe for new weights, with the augmentation of the fine-tunings."""
        return f"from_scratch:{self._rule.recipe.partition(':')[2]}"

    def outcome(self, parts: Sequence[Trials]) -> Outcome:
        """As in every search; a network from scratch is trained first."""
        if not self._winners:
            self._train_from_scratch()
        return super().outcome(parts)

    def _train_from_scratch(self) -> None:
        """Train a network with new weights in its share of the time, if that is long enough."""
        begun_s = self._elapsed_s if self._scratch is None else self._scratch.after_s
        share_s = self._rule.shares["scratch"] * self._seconds
        ends_s = share_s + min(begun_s, self._ranking_ends_s)  # later is the winner's time
        if self._scratch is None:
            planned = self._planned_from_scratch(ends_s - self._elapsed_s)
            if planned is None:
                return
            self._scratch = replace(planned, after_s=self._elapsed_s)
            self._note("scratch", self._scratch)
        if self._from_scratch is not None:
            return
        try:
            self._train(self._scratch, time.monotonic() + ends_s - self._elapsed_s)
        except UserError as error:
            self._say(f"{self._scratch.arch}, from scratch: {error}; the search goes on without it")
        forget_checkpoint(self._folder, self._scratch.arch)

    @property
    def _from_scratch(self) -> Training | None:
        """Training of the network with new weights; None where none was trained."""
        if self._scratch is None:
            return None
        folder = trained_folder(self._folder, self._scratch.arch)
        return read_training(folder) if (folder / RECORD).is_file() else None

    def _most_epochs(self, recipe: str) -> int:
        """As set; of new weights, their recipe's where they are not."""
        epochs = self._config.epochs
        is_default = epochs == self._space.tasks[self._space.default_task].epochs
        is_new = recipe == self._scratch_recipe
        if not (is_new and is_default):
            return epochs
        return epochs_of_new(self._images, recipe_named(recipe).epochs)

    def _trained_in_full(self, order: list[int], left_s: float) -> list[tuple[Winner, Training]]:
        """As in every search; then each alternative that is better, or that stands in for one that failed."""
        trained: list[tuple[Winner, Training]] = []
        accuracy, failure = -math.inf, None
        judged = 2 * len(self._images.valid) + len(self._images.test)
        left_s -= self._tunings.judging_s(self._proposer.results, judged)  # to hand it over
        try:
            trained = super()._trained_in_full(order, left_s)
            accuracy = valid_accuracy(trained[-1][1])
        except UserError as error:
            failure = error
            self._say(f"the winner: {error}")
        for challenge in (self._rule_of_thumb_as_ranked, self._scratch_as_trained):
            try:
                alternative = challenge()
                if alternative is None or alternative.accuracy <= accuracy:
                    continue
                compared = f"; the winner has {accuracy:.2%}" if trained else ""
                self._say(f"{alternative.words}{compared}: it is handed over")
                trained.append(self._taken(alternative))
                accuracy = alternative.accuracy
            except (UserError, ConnectionError) as error:
                self._say(f"{error}; so it is not handed over")
        if failure is not None and not trained:
            raise failure
        return trained

    def _taken(self, alternative: Alternative) -> tuple[Winner, Training]:
        """An alternative, once it is confirmed, and its training."""
        arch, training = alternative.winner.arch, alternative.training
        _, ms, kind = self._confirmed([self._candidate(arch)])
        winner = replace(alternative.winner, latency_ms=ms, latency_kind=kind)
        if training is None:
            forget_checkpoint(self._folder, arch)  # of a winner that begins as this does
            winner = self._decide(winner)
            training = self._train(winner, time.monotonic())
        return winner, training

    def _scratch_as_trained(self) -> Alternative | None:
        """The network from scratch."""
        training = self._from_scratch
        if training is None or self._scratch is None:
            return None
        accuracy = valid_accuracy(training)
        words = (
            f"{training.arch}, from scratch, has {accuracy:.2%}: what pretrained weights know does not help "
            f"on these images"
        )
        return Alternative(self._scratch, accuracy, words, training)

    def _rule_of_thumb_as_ranked(self) -> Alternative | None:
        """The rule of thumb by its best fine-tuning, or with nothing but its head where that seems better."""
        results = self._proposer.results
        jobs = self._tunings.of_rule_of_thumb(results)
        best = max(jobs, key=lambda job: (job.fidelity > 0, results[job].accuracy), default=None)
        if best is None:
            return None
        least = results[best].accuracy
        others = (job for job in jobs if job.fidelity == 0 and results[job].accuracy > least)
        return max(map(self._as_it_was, (best, *others)), key=lambda each: each.accuracy)

    def _as_it_was(self, job: StageJob) -> Alternative:
        """A network as it was ranked."""
        candidates, tuned = self._drawn_candidates, self._fidelities[job.fidelity]
        row = candidates.architectures[job.candidate]
        accuracy = self._proposer.results[job].accuracy
        if tuned.epochs == FROZEN:  # its accuracy is of left-out images
            images = self._images_of(row)
            network = self._pretrained(row, images.task)
            answers = classes_of(network, images.valid, images).cpu().numpy()
            accuracy = weighted_accuracy(answers, images.valid.labels)
        arch, ms = self._space.text(row), float(candidates.latency_ms[job.candidate])
        kind = int(candidates.latency_kind[job.candidate])
        epochs = max(1, tuned.epochs)  # an epoch of what was not tuned, if that is better
        winner = Winner(arch, self._rule.recipe, epochs, tuned.epochs, ms, kind, tuned.rate)
        words = f"the rule of thumb, {arch}, had {accuracy:.2%} by {tuned.name} when it was ranked"
        return Alternative(winner, accuracy, words)

    def _start(self, winner: Winner) -> Start:
        row, epochs = self._space.parse(winner.arch), winner.ranked_epochs
        start = pretrained_start(self._pretrained, row, winner.rate, keeps_best=True)
        if not epochs:
            return start
        tuned = Fidelity("", epochs, winner.rate)
        path = tuned_checkpoint(self._checkpoints, row, tuned, self._config.seed)
        how = "as it was ranked" if winner.epochs == epochs else "gone on from its ranking"
        return replace(start, continues=path, words=f"{start.words}; {how}")
