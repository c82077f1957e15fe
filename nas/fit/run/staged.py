"""Searches on own images from new weights: draws, proxies or a supernet, short and longer trainings."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache, cached_property, partial
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float64, Int64
from numpy import ndarray

from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task
from edgenas_core.types.units import epochs_text
from nas.accuracy.base import HasSupernet
from nas.accuracy.slow import Fidelity, SlowAccuracySource
from nas.fit.data.image_set import ImageSet
from nas.fit.ranking.candidates import LEAST_SCORED, Candidates, draw, scored
from nas.fit.ranking.stage_result import StageResult
from nas.fit.ranking.stages import LONGER, Jobs, Result, StageJob, Stages, stage_results
from nas.fit.run.scoring import ProxyScores, Scores, image_counts, supernet_scores
from nas.fit.run.staged_search import StagedSearch
from nas.fit.run.winner import BEYOND_CHANCE, Winner, epochs_of_new, epochs_within
from nas.fit.starts.supernet.stored import Inheriting
from nas.fit.training.checkpoint import epochs_done
from nas.fit.training.device import take_share
from nas.fit.training.evaluation import device_named
from nas.fit.training.network import untrained
from nas.fit.training.recipe import recipe_named
from nas.fit.training.trial import NetworkOf, SideBySide, TrialTraining, checkpoint_of
from nas.spaces.base import SearchSpace
from nas.train.job import Start
from nas.trials.executor import Evaluated, Workers
from nas.trials.trial import Trials

EPOCHS = (1, 3, 12, 36)
"""Lengths of the trainings that rank."""

TRAINABLE_EPOCHS, TRAINABLE_IMAGES = 20.0, 400_000
"""What the time of the winner must suffice for, of networks that are considered on a CPU: both.

In the same time, 9 blocks that saw 240,000 images were 6 points below 3 blocks that saw 600,000
(`benchmarks.from_scratch`); winners that saw 120,000 and 140,000 were 5 and 7 points below a plain CNN.
"""

FEW_JUDGES, RANKED_LESS = 500, 0.25
"""Validation images below which rankings on a CPU have so much of their share of the time.

On 150, accuracies of 20 networks after 12 epochs had deviations of 2 and 4 points; chance alone has 4.
"""

_DEFAULT_IMAGES = 20_000
"""What a default network must see in the time of the winner.

A plain CNN that saw 23,000 photos had 68.8 %, one of 0.4 times its multiply-accumulates that saw 54,000 had 67.6 %.
"""

_TIMED = 3
"""Networks that are timed, each larger, to find the largest that can be trained."""

CPU_SIDE, CPU_SHRUNK = 32, 7
"""Pixels of the images that rank on a CPU, and how many times smaller larger ones become at most.

The winner sees whole images: sides of 64 pixels become 32, those of 224, too. Winners that were ranked at 16
pixels did not recover at 32 in the time that was left.
"""


class Staged(StagedSearch):
    """Networks with new weights: drawn, ordered by proxies or a supernet, trained for short and longer."""

    least_scored = LEAST_SCORED
    must_score_in_time = True

    @property
    def _origin(self) -> str:
        """Where inherited weights come from."""
        return "a supernet"

    @property
    def _supernet(self) -> Path:
        return self._folder / "supernet.safetensors"

    @cached_property
    def _ranking_side(self) -> int | None:
        """Side that images are resized to for ranking; None: they keep their own, as on a GPU."""
        side = max(CPU_SIDE, self._images.side // CPU_SHRUNK)
        is_own = not isinstance(self._images, ImageSet)  # whose targets may have a size
        if is_own or device_named("auto").type != "cpu" or self._images.side <= side:
            return None
        return side

    def _pixels(self, text: str) -> str:
        """The text with the side that images are resized to for ranking; empty if they are not."""
        return "" if self._ranking_side is None else text.format(self._ranking_side)

    def _lengths(self) -> tuple[Fidelity, ...]:
        return tuple(
            Fidelity(f"{epochs_text(n)}{self._pixels(' at {} pixels')}", n) for n in EPOCHS
        )

    def _most_epochs(self, recipe: str) -> int:  # noqa: ARG002 - the same for all
        space, epochs = self._problem.space, self._config.epochs
        is_default = epochs == space.tasks[space.default_task].epochs
        is_longer = is_default and not self._inherits
        return epochs_of_new(self._images, epochs) if is_longer else epochs

    def _stages(self, candidates: Candidates) -> Jobs:
        always = tuple(self._near_default(candidates)[:1])
        return Stages(candidates, self._fidelities, self._ends_s, self._parallel, always=always)

    def _near_default(self, candidates: Candidates) -> list[int]:
        """Positions by the number of choices that differ from the default network, then the largest first; none without."""
        if self._default is None:
            return []
        changes = (candidates.architectures != self._default).sum(-1)
        near: list[int] = np.lexsort((-candidates.flops, changes)).tolist()
        return near

    @property
    def _has_few_judges(self) -> bool:
        """Whether short trainings on a CPU rank by little more than chance."""
        is_few = not self._inherits and len(self._images.valid) < FEW_JUDGES
        return is_few and device_named("auto").type == "cpu"

    @property
    def _default(self) -> Int64[ndarray, "D"] | None:
        """The network that is trained where few images judge, unless another is better beyond chance."""
        default: Int64[ndarray, "D"] | None = getattr(self._problem.space, "default_network", None)
        return None if self._inherits else default

    @cached_property
    def _shares(self) -> dict[str, float]:
        """Shares of the time; the winner has what these leave."""
        less = RANKED_LESS if self._has_few_judges else 1.0
        shares = self._rule.shares
        return {each: share if each == "scores" else less * share for each, share in shares.items()}

    @cached_property
    def _ends_s(self) -> dict[str, float]:
        """End of each stage but the winner's, in seconds from the beginning.

        Where the candidates took longer than their share, the stages share what is left, or a tenth
        of the whole time if that is more.
        """
        shares, spent_s = self._shares, self._scored_s
        left_s = max(self._seconds - spent_s, self._seconds / 10)
        ends = {"scores": spent_s}
        for stage in ("short", "longer"):
            spent_s += left_s * shares[stage] / (1 - shares["scores"])
            ends[stage] = spent_s
        return ends

    def _first_candidates(self) -> Int64[ndarray, "k D"] | None:
        """Networks that are considered before all draws: the default one, and smaller ones with one other choice."""
        if self._default is None:
            return None
        return smaller_neighbours(self._problem.space, self._default, self._problem.task)

    def _drawn(self, check: Callable[[], None]) -> Candidates:
        """Draws within every limit with their scores."""
        first = self._first_candidates()
        seed, room_s = self._config.seed, self._seconds * self._shares["scores"]
        draws = draw(
            self._problem,
            seed,
            self._rule.draws,
            room_s / 2,
            self._tell,
            networks=self._config.networks,
            say=self._say,
            first=first,
        )
        self._say(
            f"{draws.drawn:,} draws: {draws.within:,} of {draws.distinct:,} distinct networks are "
            f"within {self._problem.limits.label}"
        )
        draws = self._trainable(draws)
        began_s = time.monotonic()

        def check_time() -> None:
            check()
            late_s = draws.draw_s + time.monotonic() - began_s - self._seconds
            if late_s > 0 and self.must_score_in_time:
                raise UserError(
                    f"hours={self._config.hours:g} is less than to score the fewest networks takes; allow "
                    f"more time"
                )

        score = self._scores(room_s - draws.draw_s, check_time)
        left_s = room_s - draws.draw_s - (time.monotonic() - began_s)
        candidates = scored(
            draws,
            score.each,
            score.aggregate,
            left_s,
            check=check_time,
            tell=self._tell,
            least=self.least_scored,
            first=first,
        )
        return replace(candidates, score_s=time.monotonic() - began_s)

    def _trainable(self, candidates: Candidates) -> Candidates:
        """Those that a CPU can train for enough epochs in the time of the winner, a quarter at least."""
        if device_named("auto").type != "cpu":
            return candidates
        began_s, images, rows = time.monotonic(), self._images, candidates.architectures
        start, shares = Start(partial(untrained, self._problem.space), None, ""), self._shares
        spent_s = max(shares["scores"] * self._seconds, began_s - self._began_s)
        left_s = max(self._seconds - spent_s, self._seconds / 10)
        winner_s = self._promised_s = left_s * (1 - sum(shares.values())) / (1 - shares["scores"])

        @cache
        def epochs_of(at: int) -> float:
            return epochs_within(images, rows[at], start, self._rule.recipe, winner_s)

        enough = max(TRAINABLE_EPOCHS, TRAINABLE_IMAGES / len(images.train))
        kept, epochs = trainable(candidates.flops, epochs_of, enough)
        near, flops = self._near_default(candidates), candidates.flops
        smaller = [at for at in near if flops[at] <= flops[near[0]]][: 2 * _TIMED]
        kept = with_first(
            kept, smaller, lambda at: epochs_of(at) * len(images.train) >= _DEFAULT_IMAGES
        )
        self._say(
            f"{len(kept):,} of them are considered: in {winner_s:.0f} s the largest is trained for "
            f"{epochs_text(epochs)} here{self._pixels('; they are ranked on images of {} pixels')}"
        )
        seconds = time.monotonic() - began_s
        return replace(candidates.rows(kept), draw_s=candidates.draw_s + seconds)

    def _scores(self, seconds: float, check: Callable[[], None]) -> Scores:
        """The signal that orders the candidates; a supernet is trained for most of these seconds first."""
        space, seed = self._problem.space, self._config.seed
        if not self._inherits:
            return ProxyScores(space, self._images, seed)
        if not isinstance(space, HasSupernet):
            raise TypeError(f"{space.name} has no supernet")
        return supernet_scores(
            space,
            self._images,
            self._ranking_side,
            self._supernet,
            self._begun.console,
            seed=seed,
            seconds=seconds,
            check=check,
        )

    def _network(self, side: int | None) -> NetworkOf:
        """Builder of the networks to train, on images resized to `side`."""
        space = self._problem.space
        if self._inherits and isinstance(space, HasSupernet):
            most, _ = image_counts(space)
            return Inheriting(space, self._supernet, side, self._images, most)
        return partial(untrained, space, side=side)

    def _trainings(self) -> SlowAccuracySource:
        """Trainings, so many at once: side by side on one GPU, else wherever `executor=` says."""
        recipe, network = recipe_named(self._rule.recipe), self._network(self._ranking_side)
        named = {"source": self._accuracy.source, "description": self._accuracy.description}
        if torch.cuda.device_count() == 1 and self._config.executor is not Workers.ray:
            return SideBySide(
                self._images,
                network,
                recipe,
                self._fidelities,
                at_once=self._parallel,
                checkpoints=self._checkpoints,
                keeps_best=self._inherits,
                **named,
            )
        return Evaluated(
            TrialTraining(self._images, network, recipe, self._checkpoints, self._inherits),
            self._fidelities,
            workers=self._executor,
            slots=self._parallel,
            prepare=take_share,
            **named,
        )

    def consume(self, trials: Trials) -> None:
        """Say what a training came to, and remove checkpoints that no longer have a claim to win."""
        super().consume(trials)
        results = self._proposer.results
        promising = set(self._proposer.stages.order(results)[:LONGER].tolist())
        for job in results:
            if job.candidate not in promising:
                epochs = self._fidelities[job.fidelity].epochs
                self._checkpoint(job.candidate, epochs).unlink(missing_ok=True)

    def _checkpoint(self, candidate: int, epochs: int) -> Path:
        row = self._drawn_candidates.architectures[candidate]
        return checkpoint_of(self._checkpoints, row, epochs, self._config.seed)

    def _stage_results(self) -> tuple[StageResult, ...]:
        stages = self._proposer.stages
        if not isinstance(stages, Stages):
            raise TypeError(f"{type(stages).__name__} is not of a staged search")
        return stage_results(
            stages,
            self._proposer.results,
            self._problem.space,
            scores_are_accuracies=self._inherits,
        )

    def _decided(self, order: list[int], ends_s: float) -> Winner:
        place, judges = self._preferred, len(self._images.valid)
        if place is None:
            return self._winner_of(order, ends_s)
        chosen = default_first(order, place, self._proposer.results, judges)
        if chosen[:1] == [place] != order[:1]:
            text = self._problem.space.text(self._drawn_candidates.architectures[place])
            self._say(
                f"on {judges} validation images none is better than {text} beyond chance: it is trained"
            )
        return self._winner_of(chosen, ends_s)

    @property
    def _preferred(self) -> int | None:
        """Position of the default network where few images judge: only what is better beyond chance replaces it."""
        if not self._has_few_judges or self._images.metric != "accuracy":
            return None
        return next(iter(self._near_default(self._drawn_candidates)), None)

    def _winner_of(self, order: list[int], ends_s: float) -> Winner:
        """The first candidate that is confirmed, with as many epochs as fit."""
        space, most = self._problem.space, self._most_epochs(self._rule.recipe)
        at, ms, kind = self._confirmed(order)
        row, ranked = (
            self._drawn_candidates.architectures[at],
            self._ranked_epochs(at, self._go_on_from),
        )
        winner = Winner(space.text(row), self._rule.recipe, ranked, ranked, ms, kind)
        left_s = ends_s - time.monotonic()
        images = self._images_of(row)
        more = int(epochs_within(images, row, self._start(winner), winner.recipe, left_s))
        least = int(not ranked or self._ranking_side is not None)
        return replace(winner, epochs=ranked + max(least, min(more, most - ranked)))

    @property
    def _go_on_from(self) -> int:
        """Most epochs of a training that the winner can go on from; the rest is on whole images."""
        return self._most_epochs(self._rule.recipe) - (self._ranking_side is not None)

    def _ranked_epochs(self, candidate: int, most: int | None = None) -> int:
        """Epochs of a candidate's longest ranking training whose weights are kept; 0 if there is none."""
        lengths = [
            self._fidelities[job.fidelity].epochs
            for job in self._proposer.results
            if job.candidate == candidate
        ]
        kept = [n for n in lengths if epochs_done(self._checkpoint(candidate, n)) == n]
        kept = [n for n in kept if most is None or n <= most]
        return max(kept, default=0)

    def _start(self, winner: Winner) -> Start:
        """The winner's network, and its longest ranking training."""
        words = [f"begun with the weights of {self._origin}"] if self._inherits else []
        continues = None
        if winner.ranked_epochs:
            row = self._problem.space.parse(winner.arch)
            continues = checkpoint_of(
                self._checkpoints, row, winner.ranked_epochs, self._config.seed
            )
            pixels = self._pixels(" on images of {} pixels")
            words.append(
                f"continues its ranking training of {epochs_text(winner.ranked_epochs)}{pixels}"
            )
        keeps_best = self._inherits  # of hundreds of epochs, few images find the best by chance
        return Start(self._network(None), continues, "; ".join(words), keeps_best=keeps_best)


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


def default_first(
    order: list[int], default: int, results: Mapping[StageJob, Result], judges: int
) -> list[int]:
    """The default candidate before the others, unless the first is better beyond chance.

    Both are compared after the longest training of the same length; without one the default is first.

    Args:
      order: candidates by their claim to win.
      default: one of them or, where time was short, a candidate that was not trained.
      results: of the trainings.
      judges: validation images.
    """
    lengths = [job.fidelity for job in results if job.candidate == default]
    if any(np.isnan(results[StageJob(default, at)].accuracy) for at in lengths):
        return order
    shared = [at for at in lengths if StageJob(order[0], at) in results]
    if shared:
        best, usual = (results[StageJob(at, max(shared))].accuracy for at in (order[0], default))
        if best - usual > beyond_chance(best, usual, judges):
            return order
    return [default, *(at for at in order if at != default)]


def beyond_chance(best: float, usual: float, judges: int) -> float:
    """Difference of two accuracies on so many images that chance alone hardly has."""
    return BEYOND_CHANCE * math.sqrt((best * (1 - best) + usual * (1 - usual)) / judges)


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
