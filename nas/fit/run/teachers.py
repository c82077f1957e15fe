"""Teachers of the winner: networks that the fit has fine-tuned, and one that `teacher=` names.

Their answers are averaged, and stored once for each photo. On photos of their own training they are as sure as
the labels, and teach nothing: `benchmarks/results/teachers.md`. Photos without a label are what they are for.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Float32, Int64
from numpy import ndarray
from safetensors import safe_open
from safetensors.numpy import save
from torch import nn

from edgenas_core.files.atomic_file import replacing
from edgenas_core.types.units import epochs_text
from nas.accuracy.slow import Fidelity
from nas.fit.data.image_set import Images, ImageSet
from nas.fit.data.unlabelled import UnlabelledPhotos, unlabelled_images
from nas.fit.ranking.fine_tunings import FineTunings
from nas.fit.ranking.stages import Result, StageJob
from nas.fit.run.context import FitContext, Ranking
from nas.fit.starts.fine_tuning.trial import (
    FROZEN,
    FineTuningTrial,
    PretrainedImages,
    PretrainedNetwork,
    frozen_pass,
    tuned_checkpoint,
)
from nas.fit.starts.pretrained.space import teacher_space
from nas.fit.training.batches import images_of_epoch
from nas.fit.training.checkpoint import weights_of
from nas.fit.training.recipe import recipe_named
from nas.fit.training.teaching import Teaching, answers_to
from nas.fit.training.trainer import TrainingOptions, seconds_an_epoch, train

MOST_TEACHERS, FEWEST_TEACHERS = 4, 2
"""Networks whose answers are averaged: on four sets, the mean of four was 1.4 points better than the best of them."""

SHARE = 0.15
"""Share of the time left that a named teacher takes, that all answers take, and that the comparison without them takes."""

MOST_EPOCHS = 12
"""Epochs of a named teacher."""

LEAST_PHOTOS = 0.25
"""Photos without a label, as a share of the labelled ones, below which none are used."""

_TIMED = 32
"""Photos that are timed."""


@final
@dataclass(frozen=True)
class Teacher:
    """A network that was fine-tuned."""

    network: PretrainedNetwork
    architecture: Int64[ndarray, "D"]
    checkpoint: Path | None  # None: its classifier alone was fitted
    image_s: float  # seconds of an answer

    def side(self) -> int:
        """Of its images, in pixels."""
        return self.network.space.side(self.architecture)

    def tuned(self) -> nn.Module:
        """The network as it was fine-tuned."""
        images = self.network.images(self.architecture)
        network = self.network(self.architecture, images.task)
        if self.checkpoint is not None:
            network.load_state_dict(weights_of(self.checkpoint))
        return network


@final
class Teachers:
    """Teachers of one fit, and their answers in its folder."""

    def __init__(self, context: FitContext, network: PretrainedNetwork) -> None:
        self._context, self._network = context, network
        self._file = context.checkpoints / "answers.safetensors"
        self._opened: dict[int, Images] = {}  # photos by side, of one side

    @cached_property
    def _photos(self) -> UnlabelledPhotos | None:
        folder = self._context.config.unlabelled
        return None if folder is None else UnlabelledPhotos(Path(folder).expanduser())

    def prepare(self, ranking: Ranking[FineTunings], ends_s: float) -> None:
        """Store answers to photos without a label, where there is time and they help on validation images."""
        photos, say = self._photos, self._context.say
        if photos is None or self._file.is_file():
            return
        jobs = best_of_networks(ranking)
        if not jobs:
            say("unlabelled=: no network was fine-tuned in time to teach; allow more hours=")
            return
        named = self._named(ends_s)
        share_s = SHARE * (ends_s - time.monotonic())
        best = self._network.images(ranking.candidates.architectures[jobs[0].candidate])
        # Time some photos, and choose as many teachers as can answer all, two at least.
        began_s = time.monotonic()
        photos.usable(_TIMED, best)
        decode_s = (time.monotonic() - began_s) / min(_TIMED, len(photos))
        ranked = self._ranked(ranking, jobs)
        counts = range(len(ranked), 0, -1)
        seconds = [photo_s([*named, *ranked[:count]], decode_s) for count in counts]
        fitting = (at for at, each_s in enumerate(seconds) if each_s * len(photos) <= share_s)
        at = next(fitting, max(0, len(ranked) - FEWEST_TEACHERS))
        teachers = [*named, *ranked[: counts[at]]]
        fit, labelled = min(len(photos), int(share_s / seconds[at])), len(best.train)
        if fit < min(len(photos), LEAST_PHOTOS * labelled):
            say(
                f"unlabelled=: there is time for {fit:,} photos, too few to help; allow more hours="
            )
            return
        files, left_out = photos.usable(fit, best)
        if left_out:
            say(f"unlabelled=: {left_out}")
        if not files:
            return
        # Average the answers of all teachers, those of one side after another.
        teachers.sort(key=Teacher.side)
        answers = []
        for each in teachers:
            images = each.network.images(each.architecture)
            pixels = self._pixels(files, images)
            answers.append(answers_to(each.tuned(), [pixels], images, mirrors=False))
        names = ", ".join(each.network.space.text(each.architecture) for each in teachers)
        say(f"unlabelled=: {names} answered {len(files):,} of {len(photos):,} photos")
        mean = np.mean(answers, axis=0)
        # Keep them if a training that ranked ends no worse with them in the same time.
        job = shortest(ranking.results, ranking.jobs, jobs[0])
        row = ranking.candidates.architectures[job.candidate]
        if ranking.jobs.forecast(ranking.results).seconds(job) > share_s:
            say("unlabelled=: no time to see whether they help; allow more hours=")
            files, mean = [], mean[:0]
        elif not self._helps(ranking, job, self._teaching(row, names, files, mean)):
            files, mean = [], mean[:0]
        self._store(names, files, mean)

    def _helps(self, ranking: Ranking[FineTunings], job: StageJob, teaching: Teaching) -> bool:
        """Whether a training that ranked ends no worse on validation images when it is taught."""
        context, tuned = self._context, ranking.jobs.fidelities[job.fidelity]
        row = ranking.candidates.architectures[job.candidate]
        images = self._network.images(row)
        # Epochs have more images with the photos: as many fewer take the same time.
        labelled = len(images.train)
        longer = images_of_epoch(labelled, len(teaching.answers) - labelled) / labelled
        epochs = max(1, round(tuned.epochs / longer))
        recipe = recipe_named(context.rule.recipe)
        recipe = replace(recipe, epochs=epochs, lr=recipe.lr * tuned.rate)
        options = TrainingOptions(
            seed=context.config.seed, evaluate_every=epochs, teaching=teaching
        )
        accuracy = train(self._network(row, images.task), images, recipe, options).accuracy
        before = ranking.results[job].accuracy
        context.say(
            f"unlabelled=: {context.problem.space.text(row)} has {accuracy:.2%} on validation images "
            f"with them, and {before:.2%} without them in the same time: "
            f"they are {'used' if accuracy >= before else 'left out'}"
        )
        return accuracy >= before

    def of(self, architecture: Int64[ndarray, "D"]) -> Teaching | None:
        """What a network is taught; None where nothing is."""
        if not self._file.is_file():
            return None
        with safe_open(self._file, "np") as opened:
            answers, about = opened.get_tensor("answers"), opened.metadata()
        files = [Path(each) for each in json.loads(about["files"])]
        return self._teaching(architecture, about["teachers"], files, answers) if files else None

    def _teaching(
        self,
        architecture: Int64[ndarray, "D"],
        names: str,
        files: list[Path],
        answers: Float32[ndarray, "n o"],
    ) -> Teaching:
        """The photos at a network's side; answers to labelled ones count nothing."""
        images = self._network.images(architecture)
        untaught = np.zeros((len(images.train), answers.shape[1]), np.float32)
        every = np.concatenate([untaught, answers])
        return Teaching(names, every, self._pixels(files, images), share=0.0)

    def _pixels(self, files: list[Path], images: ImageSet) -> Images:
        """Photos at the side of a data set."""
        if images.side not in self._opened:
            self._opened = {images.side: unlabelled_images(files, images)}
        return self._opened[images.side]

    def _ranked(self, ranking: Ranking[FineTunings], jobs: list[StageJob]) -> list[Teacher]:
        """Networks as they were fine-tuned to rank."""
        seed = self._context.config.seed
        image_s = ranking.jobs.forecast(ranking.results).pass_s / ranking.jobs.images[0]
        teachers = []
        for job in jobs:
            row = ranking.candidates.architectures[job.candidate]
            tuned = ranking.jobs.fidelities[job.fidelity]
            file = tuned_checkpoint(self._context.checkpoints, row, tuned, seed)
            teachers.append(Teacher(self._network, row, file, float(image_s[job.candidate])))
        return teachers

    def _named(self, ends_s: float) -> list[Teacher]:
        """The network of `teacher=`, fine-tuned for its share of the time; its classifier alone where that is short."""
        context = self._context
        config, recipe = context.config, recipe_named(context.rule.recipe)
        if config.teacher in {"auto", "none"}:
            return []
        space = teacher_space(config.teacher, config.weights)
        share_s = SHARE * (ends_s - time.monotonic())
        network = PretrainedNetwork(
            space, PretrainedImages(space, str(config.data)), context.checkpoints / "teacher"
        )
        row = space.tuned_to(space.every_network(), len(space.depths) - 1)
        row = row[np.argmax([space.side(each) == space.pooled(each).side for each in row])]
        images = network.images(row)
        trial = FineTuningTrial(network, recipe, len(images.classes), share_s)
        trial(row, Fidelity("frozen features", FROZEN), config.seed)
        measured = frozen_pass(context.checkpoints / "teacher", space, row)
        count = len(images.train) + len(images.valid)
        image_s = 0.0 if measured is None else measured.seconds / count
        epochs = int(share_s / seconds_an_epoch(network(row, images.task), images, recipe))
        if epochs < 1:
            return [Teacher(network, row, None, image_s)]
        tuned = Fidelity("", min(epochs, MOST_EPOCHS))
        accuracy = trial(row, tuned, config.seed).accuracy
        context.say(f"teacher={config.teacher}: {accuracy:.2%} after {epochs_text(tuned.epochs)}")
        file = tuned_checkpoint(context.checkpoints / "teacher", row, tuned, config.seed)
        return [Teacher(network, row, file, image_s)]

    def _store(self, names: str, files: list[Path], answers: Float32[ndarray, "n o"]) -> None:
        """Write answers, with the names of the teachers and the files."""
        about = {"teachers": names, "files": json.dumps([str(file.absolute()) for file in files])}
        with replacing(self._file) as file:
            file.write(save({"answers": answers}, about))


def photo_s(teachers: Sequence[Teacher], decode_s: float) -> float:
    """Seconds that teachers take for a photo, which is decoded once to look at it and once for each side."""
    sides = {each.side() for each in teachers}
    return (1 + len(sides)) * decode_s + sum(each.image_s for each in teachers)


def best_of_networks(ranking: Ranking[FineTunings]) -> list[StageJob]:
    """The best fine-tuning of each of the best networks, the best first."""
    jobs, results = ranking.jobs, ranking.results
    best: dict[int, StageJob] = {}
    for job, result in results.items():
        network = int(jobs.network[job.candidate])
        is_better = network not in best or result.accuracy > results[best[network]].accuracy
        if jobs.fidelities[job.fidelity].epochs and result.accuracy >= 0 and is_better:
            best[network] = job
    return sorted(best.values(), key=lambda job: -results[job].accuracy)[:MOST_TEACHERS]


def shortest(results: Mapping[StageJob, Result], jobs: FineTunings, job: StageJob) -> StageJob:
    """The fine-tuning of the fewest epochs of a job's candidate that did not fail."""
    own = [
        other
        for other, result in results.items()
        if other.candidate == job.candidate
        and jobs.fidelities[other.fidelity].epochs
        and result.accuracy >= 0
    ]
    return min(own, key=lambda other: jobs.fidelities[other.fidelity].epochs)
