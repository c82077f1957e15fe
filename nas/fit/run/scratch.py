"""Fits from random initialisation: draws, proxies, short and longer trainings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache, partial
from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from edgenas_core.types.task import Task
from edgenas_core.types.units import epochs_text
from nas.accuracy.slow import Fidelity, SlowAccuracySource
from nas.fit.data.image_set import ImageSet
from nas.fit.learners.data import TrainingData
from nas.fit.own_images import OwnImagesConfig
from nas.fit.ranking.candidates import LEAST_SCORED, Candidates
from nas.fit.ranking.stage_result import StageResult
from nas.fit.ranking.stages import Stages, stage_results
from nas.fit.run.context import FitContext, Ranking
from nas.fit.run.entries import Entry, default_first
from nas.fit.run.kind import FitKind
from nas.fit.run.scoring import ProxyScores, Scores
from nas.fit.run.staged import (
    checkpoint,
    draw_scored,
    in_time,
    ranked_epochs,
    remove_unpromising,
    stage_ends,
    staged_trainings,
)
from nas.fit.run.winner import Winner, epochs_of_new, epochs_within
from nas.fit.training.evaluation import device_named
from nas.fit.training.network import untrained
from nas.fit.training.trained_folder import Training
from nas.spaces.base import SearchSpace
from nas.train.job import Start

EPOCHS = (1, 3, 12, 36)
"""Lengths of the trainings that rank."""

TRAINABLE_EPOCHS, TRAINABLE_IMAGES = 20.0, 400_000
"""Epochs and images that the winner's time must suffice for, where networks are considered on a CPU.

In the same time, 9 blocks that saw 240,000 images were 6 points below 3 blocks that saw 600,000
(`benchmarks.from_scratch`); winners that saw 120,000 and 140,000 were 5 and 7 points below a plain CNN.
"""

FEW_JUDGES, RANKED_LESS = 500, 0.25
"""Number of validation images below which rankings on a CPU get only this part of their share of the time.

On 150, accuracies of 20 networks after 12 epochs had deviations of 2 and 4 points; chance alone has 4.
"""

_DEFAULT_IMAGES = 20_000
"""Images that a default network must see in the time of the winner.

A plain CNN that saw 23,000 photos had 68.8 %, one of 0.4 times its multiply-accumulates that saw 54,000 had 67.6 %.
"""

_TIMED = 3
"""Networks that are timed, each larger, to find the largest that can be trained."""

CPU_SIDE, CPU_SHRUNK = 32, 7
"""Pixels of the images that rank on a CPU, and how many times smaller larger ones become at most.

The winner sees whole images: sides of 64 pixels become 32, those of 224, too. Winners that were ranked at 16
pixels did not recover at 32 in the time that was left.
"""


@final
class Scratch(FitKind[Stages]):
    """Networks with random initialisation: drawn, ordered by proxies, trained for short and longer."""

    def __init__(self, context: FitContext) -> None:
        super().__init__(context)
        self._space = context.problem.space
        self._default: Int64[ndarray, "D"] | None = getattr(self._space, "default_network", None)
        self._ranking_side = ranking_side(context.images)
        self._shares = shares_of(context.rule, context.images)

    @property
    def fidelities(self) -> tuple[Fidelity, ...]:
        """Lengths of the trainings that rank."""
        pixels = self._pixels(" at {} pixels")
        return tuple(Fidelity(f"{epochs_text(n)}{pixels}", n) for n in EPOCHS)

    def draw(self, check: Callable[[], None]) -> Candidates:
        """Draws within every limit, with the scores of proxies."""
        first = None
        if self._default is not None:
            first = smaller_neighbours(self._space, self._default, self.context.problem.task)
        return draw_scored(
            self.context,
            check,
            share=self._shares["scores"],
            first=first,
            least=LEAST_SCORED,
            must_score_in_time=True,
            reduce=self._trainable,
            scores=self._scores,
        )

    def jobs(self, candidates: Candidates, *, is_decided: bool) -> Stages:  # noqa: ARG002 - nothing is timed
        """Short trainings, then longer ones; the default network is among them."""
        ends_s = stage_ends(self.context, candidates, self._shares)
        always = tuple(near_default(candidates, self._default)[:1])
        return Stages(candidates, self.fidelities, ends_s, self.context.parallel, always=always)

    def trainings(self, jobs: Stages) -> SlowAccuracySource:
        """Trainings on images of the side that ranks."""
        network = partial(untrained, self._space, side=self._ranking_side)
        return staged_trainings(self.context, network, jobs.fidelities, keeps_best=False)

    def after_training(self, ranking: Ranking[Stages]) -> None:
        """Remove checkpoints that are of no use any more."""
        remove_unpromising(self.context, ranking)

    def entries(
        self,
        ranking: Ranking[Stages],
        beside: Training | None,  # noqa: ARG002 - there is none
        ends_s: float,
    ) -> list[Entry]:
        """Candidates by their trainings; the default network first where few images judge."""
        order = ranking.jobs.order(ranking.results).tolist()
        images, judges = self.context.images, len(self.context.images.valid)
        near = near_default(ranking.candidates, self._default)
        # Where few images judge, only what is better beyond chance replaces the default network.
        if order and near and images.metric == "accuracy" and has_few_judges(images):
            preferred, before = near[0], order[0]
            order = default_first(order, preferred, ranking.results, judges)
            if before != order[0]:
                text = self._space.text(ranking.candidates.architectures[preferred])
                self.context.say(
                    f"on {judges} validation images none is better than {text} beyond chance: it is trained"
                )
        reached = ranking.accuracies
        return [
            Entry(at, reached.get(at, 0.0), partial(self._plan, ranking, at, ends_s))
            for at in order
        ]

    def stage_results(
        self,
        ranking: Ranking[Stages],
        beside: Training | None,  # noqa: ARG002 - there is none
    ) -> tuple[StageResult, ...]:
        """Draws, proxies, short and longer trainings."""
        return stage_results(ranking.jobs, ranking.results, self._space)

    def start(self, winner: Winner) -> Start:
        """Random initialisation, or the winner's longest ranking training."""
        network = partial(untrained, self._space)
        if not winner.ranked_epochs:
            return Start(network)
        row = self._space.parse(winner.arch)
        words = f"continues its ranking training of {epochs_text(winner.ranked_epochs)}"
        words += self._pixels(" on images of {} pixels")
        # The last epoch counts: of hundreds, few images would find the best by chance.
        return Start(network, checkpoint(self.context, row, winner.ranked_epochs), words)

    def most_epochs(self, recipe: str) -> int:  # noqa: ARG002 - the same for all
        """Epochs as set; more on few images where they are not set."""
        space, epochs = self._space, self.context.config.epochs
        is_default = epochs == space.tasks[space.default_task].epochs
        return epochs_of_new(self.context.images, epochs) if is_default else epochs

    def _plan(self, ranking: Ranking[Stages], at: int, ends_s: float) -> Winner:
        """A training in full that goes on from the candidate's ranking."""
        row, recipe = ranking.candidates.architectures[at], self.context.rule.recipe
        most, is_shrunk = self.most_epochs(recipe), self._ranking_side is not None
        # The last epoch at least is on whole images.
        ranked = ranked_epochs(self.context, ranking, at, most - is_shrunk)
        winner = Winner(self._space.text(row), recipe, ranked, ranked, 0.0, 0)
        return in_time(
            winner,
            self.context.images,
            row,
            self.start(winner),
            least=int(not ranked or is_shrunk),
            most=most,
            ends_s=ends_s,
        )

    def _trainable(self, candidates: Candidates) -> Candidates:
        """Candidates that a CPU can train for enough epochs in the winner's time; a quarter of all at least."""
        if device_named("auto").type != "cpu":
            return candidates
        context, rows = self.context, candidates.architectures
        began_s, images, shares = time.monotonic(), context.images, self._shares
        spent_s = max(shares["scores"] * context.seconds, began_s - context.clock.began_s)
        left_s = max(context.seconds - spent_s, context.seconds / 10)
        winner_s = left_s * (1 - sum(shares.values())) / (1 - shares["scores"])
        context.clock.promised_s = winner_s
        start = Start(partial(untrained, self._space))

        @cache
        def epochs_of(at: int) -> float:
            return epochs_within(images, rows[at], start, context.rule.recipe, winner_s)

        enough = max(TRAINABLE_EPOCHS, TRAINABLE_IMAGES / len(images.train))
        kept, epochs = trainable(candidates.flops, epochs_of, enough)
        # Networks near the default one need less.
        near, flops = near_default(candidates, self._default), candidates.flops
        smaller = [at for at in near if flops[at] <= flops[near[0]]][: 2 * _TIMED]
        kept = with_first(
            kept, smaller, lambda at: epochs_of(at) * len(images.train) >= _DEFAULT_IMAGES
        )
        context.say(
            f"{len(kept):,} of them are considered: in {winner_s:.0f} s the largest is trained for "
            f"{epochs_text(epochs)} here{self._pixels('; they are ranked on images of {} pixels')}"
        )
        seconds = time.monotonic() - began_s
        return replace(candidates.rows(kept), draw_s=candidates.draw_s + seconds)

    def _scores(self, seconds: float, check: Callable[[], None]) -> Scores:  # noqa: ARG002 - no time is planned
        return ProxyScores(self._space, self.context.images, self.context.config.seed)

    def _pixels(self, text: str) -> str:
        """The text with the side that images are resized to for ranking; empty if they are not."""
        return "" if self._ranking_side is None else text.format(self._ranking_side)


def ranking_side(images: TrainingData) -> int | None:
    """Side that images are resized to for ranking; None: they keep their own, as on a GPU."""
    side = max(CPU_SIDE, images.side // CPU_SHRUNK)
    is_own = not isinstance(images, ImageSet)  # whose targets may have a size
    if is_own or device_named("auto").type != "cpu" or images.side <= side:
        return None
    return side


def has_few_judges(images: TrainingData) -> bool:
    """Whether short trainings on a CPU rank by little more than chance."""
    return len(images.valid) < FEW_JUDGES and device_named("auto").type == "cpu"


def shares_of(rule: OwnImagesConfig, images: TrainingData) -> dict[str, float]:
    """Share of the time of each stage; the winner has the rest."""
    less = RANKED_LESS if has_few_judges(images) else 1.0
    return {
        stage: share if stage == "scores" else less * share for stage, share in rule.shares.items()
    }


def near_default(candidates: Candidates, default: Int64[ndarray, "D"] | None) -> list[int]:
    """Positions by the number of choices that differ from the default network, then the largest first."""
    if default is None:
        return []
    changes = (candidates.architectures != default).sum(-1)
    near: list[int] = np.lexsort((-candidates.flops, changes)).tolist()
    return near


def smaller_neighbours(
    space: SearchSpace, network: Int64[ndarray, "D"], task: Task
) -> Int64[ndarray, "k D"]:
    """A network, and those of no more multiply-accumulates with one other choice; the largest first."""
    others = [
        np.where(np.arange(len(network)) == position, option, network)
        for position, options in enumerate(space.num_choices)
        for option in range(options)
    ]
    rows = np.unique(np.stack([row for row in others if space.valid(row)]), axis=0)
    flops = space.costs(rows, task)["flops"]
    smaller = flops <= float(space.costs(network, task)["flops"])
    first: Int64[ndarray, "k D"] = rows[smaller][np.argsort(-flops[smaller], kind="stable")]
    return first


def with_first(
    kept: Int64[ndarray, "k"], near: Iterable[int], is_enough: Callable[[int], bool]
) -> Int64[ndarray, "n"]:
    """Positions that are kept, with the first that is one of them or has time for enough epochs."""
    first = next((at for at in near if at in kept or is_enough(at)), None)
    return kept if first is None else np.union1d(kept, [first])


def trainable(
    flops: Float64[ndarray, "n"], epochs_of: Callable[[int], float], enough: float
) -> tuple[Int64[ndarray, "k"], float]:
    """The networks with up to so many FLOPs that their time has enough epochs, a quarter at least.

    The epochs of a network are known by timing it, of a larger one at least in proportion.

    Returns:
      Their positions, and the epochs of the largest.
    """
    by_flops = np.argsort(flops, kind="stable")
    place = len(flops) // 4
    for _ in range(_TIMED):
        at = int(by_flops[place])
        epochs = epochs_of(at)
        most_flops = flops[at] * max(1.0, epochs / enough)
        place = int(np.searchsorted(flops[by_flops], most_flops, side="right")) - 1
        if flops[by_flops[place]] == flops[at]:
            break
    most_flops = flops[by_flops[place]]
    return np.flatnonzero(flops <= most_flops), epochs * float(flops[at] / most_flops)
