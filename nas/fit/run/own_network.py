"""Fits that make a trained network smaller: its parts inherit its weights."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from typing import Protocol, final, runtime_checkable

import numpy as np
from jaxtyping import Bool, Int64
from numpy import ndarray
from torch import nn

from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from edgenas_core.types.units import epochs_text
from latency.base import Latencies, UnmeasuredError
from nas.accuracy.base import Inherits, at_chance
from nas.accuracy.slow import Fidelity, SlowAccuracySource
from nas.fit.data.image_set import ImageSet
from nas.fit.learners.data import has_classes
from nas.fit.ranking.candidates import Candidates
from nas.fit.ranking.stage_result import StageResult
from nas.fit.ranking.stages import Stages, stage_results
from nas.fit.run.context import FitContext, Ranking
from nas.fit.run.entries import Entry
from nas.fit.run.kind import FitKind
from nas.fit.run.report import baseline_stage
from nas.fit.run.scoring import Scores, image_counts, inherited_scores
from nas.fit.run.scratch import EPOCHS
from nas.fit.run.staged import (
    checkpoint,
    draw_scored,
    in_time,
    ranked_epochs,
    remove_unpromising,
    stage_ends,
    staged_trainings,
)
from nas.fit.run.winner import Winner
from nas.fit.starts.supernet.stored import Inheriting
from nas.fit.training.checkpoint import weights_of
from nas.fit.training.evaluation import accuracy_of
from nas.fit.training.network import own_side, untrained
from nas.fit.training.recipe import recipe_named
from nas.fit.training.teaching import Teaching, answers_to
from nas.fit.training.trained_folder import Training
from nas.fit.training.trial import NetworkOf
from nas.spaces.base import SearchSpace
from nas.train.job import Start
from nas.trials.problem import SearchProblem

_LEAST_SCORED = 4
"""Candidates that are scored however long it takes: they inherit enough to end with an answer."""


@runtime_checkable
class InheritingSpace(SearchSpace, Inherits, Protocol):
    """A search space whose networks inherit weights."""


@final
class OwnNetwork(FitKind[Stages]):
    """Parts of one trained network.

    Baselines, networks whose widths are all scaled by one factor, are candidates: at each side the largest
    within the limits. Two of them are trained in any case: that of most multiply-accumulates, and that which
    inherits most. At each side, the part that inherits most is trained early: over different sides, inherited
    accuracies rank badly.
    """

    def __init__(self, context: FitContext, space: InheritingSpace) -> None:
        normalisation, images = space.pretrained_normalisation, context.images
        if normalisation is not None and isinstance(images, ImageSet):
            mean, sd = normalisation
            context = replace(context, images=replace(images, mean=mean, sd=sd))
        super().__init__(context)
        self._space, self._original = space, Original(context, space)
        self._supernet = context.folder / "supernet.safetensors"
        most, _ = image_counts()
        self._inheriting = Inheriting(space, self._supernet, context.images, most)

    @property
    def fidelities(self) -> tuple[Fidelity, ...]:
        """Lengths of the trainings that rank."""
        return tuple(Fidelity(epochs_text(n), n) for n in EPOCHS)

    def draw(self, check: Callable[[], None]) -> Candidates:
        """Draws within every limit, the baselines among them, with the accuracies that they inherit."""
        smallest = self._space.smallest()
        require_within(self.context.problem, smallest)
        self._original.tell()
        problem = self.context.problem
        sets = [problem]
        sets += [
            replace(problem, limit_ms=each.limit_ms, limits=each.limits)
            for each in self.context.begun.experiment.smaller
        ]
        baselines = np.unique(
            np.concatenate([baselines_within(each, self._space) for each in sets]), axis=0
        )
        return draw_scored(
            self.context,
            check,
            share=self.context.rule.shares["scores"],
            first=np.concatenate([baselines, smallest[None]]),
            least=_LEAST_SCORED,
            must_score_in_time=False,
            reduce=lambda candidates: candidates,  # a few epochs tune what is trained
            scores=self._scores,
        )

    def jobs(self, candidates: Candidates, *, is_decided: bool) -> Stages:  # noqa: ARG002 - nothing is timed
        """Short trainings, then longer ones; two baselines, and early ones of each side, are among them."""
        context, task = self.context, self.context.problem.task
        # Of the baselines that were timed: the largest, and that which inherits most.
        baselines = {row.tobytes() for row in self._space.baselines()}
        timed = [
            at
            for at, row in enumerate(candidates.architectures)
            if row.tobytes() in baselines and candidates.latency_kind[at] != Kind.regression
        ]
        worths = (candidates.prior, candidates.flops) if timed else ()
        always = tuple(dict.fromkeys(max(timed, key=worth.__getitem__) for worth in worths))
        # At each side, the part that inherits most.
        by_prior = np.argsort(-candidates.prior, kind="stable").tolist()
        sides = [own_side(self._space, candidates.architectures[at], task) for at in by_prior]
        early = tuple(by_prior[sides.index(side)] for side in dict.fromkeys(sides))
        ends_s = stage_ends(context, candidates, context.rule.shares)
        return Stages(candidates, self.fidelities, ends_s, context.parallel, always, early)

    def trainings(self, jobs: Stages) -> SlowAccuracySource:
        """Trainings that begin with inherited weights."""
        return staged_trainings(self.context, self._inheriting, jobs.fidelities, keeps_best=True)

    def after_training(self, ranking: Ranking[Stages]) -> None:
        """Remove checkpoints that are of no use any more."""
        remove_unpromising(self.context, ranking)

    def entries(
        self,
        ranking: Ranking[Stages],
        beside: Training | None,  # noqa: ARG002 - there is none
        ends_s: float,
    ) -> list[Entry]:
        """Candidates by their trainings; the whole network first, where it is better than the best begins."""
        order = ranking.jobs.order(ranking.results).tolist()
        reached = ranking.accuracies
        entries = [
            Entry(at, reached.get(at, 0.0), partial(self._plan, ranking, at, ends_s))
            for at in order
        ]
        is_whole = (ranking.candidates.architectures == self._original.whole).all(-1)
        accuracy, most = self._original.accuracy, self.context.config.epochs
        if not order or accuracy is None or not is_whole.any():
            return entries
        if self._begins_with(self._as_ranked(ranking, order[0], most)) >= accuracy:
            return entries
        whole = int(is_whole.argmax())
        return [Entry(whole, accuracy, partial(self._plan, ranking, whole, ends_s)), *entries]

    def alternatives(self, ranking: Ranking[Stages], arch: str | None) -> list[Entry]:
        """Baselines as they were ranked, but for the winner itself."""
        entries = []
        for at in ranking.jobs.always:
            winner = self._as_ranked(ranking, at)
            if winner.arch == arch:
                continue
            winner = replace(winner, epochs=max(1, winner.ranked_epochs))
            accuracy = self._begins_with(winner)
            words = f"the baseline, {winner.arch}, had {accuracy:.2%} when it was ranked"
            entries.append(Entry(at, accuracy, partial(replace, winner), words))
        return entries

    def stage_results(
        self,
        ranking: Ranking[Stages],
        beside: Training | None,  # noqa: ARG002 - there is none
    ) -> tuple[StageResult, ...]:
        """The network as it was, draws, inherited accuracies, trainings and the baseline."""
        jobs, results = ranking.jobs, ranking.results
        stages = stage_results(jobs, results, self._space, scores_are_accuracies=True)
        if (accuracy := self._original.accuracy) is not None:
            timed = latency_of(self.context.problem, self._original.whole)
            ms = "" if timed is None else f"{timed.ms[0]:.3g} ms"
            text = self._space.text(self._original.whole)
            stages = (StageResult("original", 1, 1, 0.0, ms, text, None, accuracy), *stages)
        if not jobs.always:
            return stages
        at = jobs.always[0]
        trained = [job for job in results if job.candidate in jobs.always]
        inherited = float(ranking.candidates.prior[at])
        return (*stages, baseline_stage(self.context, ranking, at, trained, inherited))

    def baseline_within(
        self, ranking: Ranking[Stages], within: Bool[ndarray, "n"]
    ) -> StageResult | None:
        """The baseline of most multiply-accumulates among some candidates."""
        candidates = ranking.candidates
        baselines = {row.tobytes() for row in self._space.baselines()}
        at = [
            i
            for i in np.flatnonzero(within).tolist()
            if candidates.architectures[i].tobytes() in baselines
        ]
        if not at:
            return None
        largest = max(at, key=candidates.flops.__getitem__)
        trained = [job for job in ranking.results if job.candidate == largest]
        inherited = float(candidates.prior[largest])
        return baseline_stage(self.context, ranking, largest, trained, inherited)

    def start(self, winner: Winner) -> Start:
        """Inherited weights, or the winner's longest ranking training; the whole network teaches."""
        original = self._original
        network: NetworkOf = self._inheriting
        words, continues = [f"begun with the weights of {original.origin}"], None
        if winner.ranked_epochs:
            row = self._space.parse(winner.arch)
            continues = checkpoint(self.context, row, winner.ranked_epochs)
            words.append(f"continues its ranking training of {epochs_text(winner.ranked_epochs)}")
        if original.network is not None and winner.arch == self._space.text(original.whole):
            network = partial(untrained, self._space)
            words.insert(0, "your network, with no part left out")
        teaching = original.teaching
        return Start(network, continues, "; ".join(words), keeps_best=True, teaching=teaching)

    def most_epochs(self, recipe: str) -> int:  # noqa: ARG002 - the same for all
        """Epochs as set."""
        return self.context.config.epochs

    def _scores(self, seconds: float, check: Callable[[], None]) -> Scores:
        """Inherited accuracies, after the network was adapted to the data for most of these seconds."""
        return inherited_scores(
            self._space,
            self.context.images,
            self._supernet,
            self.context.begun.console,
            seed=self.context.config.seed,
            seconds=seconds,
            check=check,
        )

    def _as_ranked(self, ranking: Ranking[Stages], at: int, most: int | None = None) -> Winner:
        """A candidate's longest ranking training, of so many epochs at most, as a decision."""
        ranked = ranked_epochs(self.context, ranking, at, most)
        text = self._space.text(ranking.candidates.architectures[at])
        return Winner(text, self.context.rule.recipe, ranked, ranked, 0.0, 0)

    def _plan(self, ranking: Ranking[Stages], at: int, ends_s: float) -> Winner:
        """A training in full that goes on from the candidate's ranking."""
        winner = self._as_ranked(ranking, at, self.context.config.epochs)
        return in_time(
            winner,
            self.context.images,
            ranking.candidates.architectures[at],
            self.start(winner),
            least=int(not winner.ranked_epochs),
            most=self.context.config.epochs,
            ends_s=ends_s,
        )

    def _begins_with(self, winner: Winner) -> float:
        """Accuracy of the weights that a training begins with: the inherited or the ranked ones, whichever are better."""
        start, images = self.start(winner), self.context.images
        network = start.network(self._space.parse(winner.arch), images.task)
        accuracy = accuracy_of(network, images.valid, images)
        if start.continues is None:
            return accuracy
        network.load_state_dict(weights_of(start.continues))
        return max(accuracy, accuracy_of(network, images.valid, images))


@final
class Original:
    """The trained network that the candidates are parts of."""

    def __init__(self, context: FitContext, space: InheritingSpace) -> None:
        self._context, self._space = context, space

    @cached_property
    def whole(self) -> Int64[ndarray, "D"]:
        """The architecture of the most multiply-accumulates, which the others are parts of."""
        rows = self._space.baselines()
        flops = self._space.costs(rows, self._context.problem.task)["flops"]
        return np.asarray(rows[flops.argmax()])

    @cached_property
    def network(self) -> nn.Module | None:
        """The network; None if its classes are others."""
        return self._space.original(self._context.problem.task)

    @cached_property
    def accuracy(self) -> float | None:
        """Its accuracy on the validation images; None if its classes are others."""
        images = self._context.images
        return None if self.network is None else accuracy_of(self.network, images.valid, images)

    @property
    def teaches(self) -> bool:
        """Whether it knows the classes, so that parts learn its outputs."""
        accuracy, images = self.accuracy, self._context.images
        if accuracy is None or not isinstance(images, ImageSet):
            return False
        if not has_classes(images):
            return True
        sd = math.sqrt(accuracy * (1 - accuracy) / len(images.valid))
        return not at_chance(accuracy, sd, len(images.classes))

    @cached_property
    def teaching(self) -> Teaching | None:
        """Its answers to the training images; None where it does not teach."""
        images, mirrors = self._context.images, recipe_named(self._context.rule.recipe).flip
        is_off = self._context.config.teacher == "none"
        if is_off or not self.teaches or self.network is None or not isinstance(images, ImageSet):
            return None
        answers = answers_to(self.network, [images.train], images, mirrors=mirrors)
        return Teaching(self._space.origin, answers)

    @property
    def origin(self) -> str:
        """Where inherited weights come from."""
        return f"{self._space.origin}, which taught it" if self.teaches else self._space.origin

    def tell(self) -> None:
        """Say how fast and how accurate it is."""
        problem, images, say = self._context.problem, self._context.images, self._context.say
        timed = latency_of(problem, self.whole)
        ms = f"{self._space.origin}: does not run on {problem.oracle.device}"
        if timed is not None:
            ms = f"{self._space.origin}: {timed.ms[0]:.3g} ms, {Kind(int(timed.kind[0])).words}"
        if is_within(problem, self.whole, timed):
            ms += f", within {problem.limits.label} as it is"
        if self.accuracy is None:
            say(ms)
            return
        say(f"{ms}; {images.metric} {self.accuracy:.2%} on validation images")
        if not has_classes(images):
            return
        if not self.teaches:
            say(
                f"warning: that is no better than chance; are its classes in the order "
                f"{', '.join(images.classes)}, and is side= that of its images?"
            )
        elif images.has_drawn_splits:
            say(
                "if it was trained on these images, validation and test accuracies are too high; add folders "
                "valid/ and test/ of images that it has not seen"
            )


def latency_of(problem: SearchProblem, architecture: Int64[ndarray, "D"]) -> Latencies | None:
    """Latency of a network; None where the device cannot run it."""
    try:
        return problem.oracle.answer(architecture[None])
    except UnmeasuredError:
        return None


def is_within(
    problem: SearchProblem, architecture: Int64[ndarray, "D"], timed: Latencies | None
) -> bool:
    """Whether a network runs on the device within every limit."""
    if timed is None or problem.compared_ms(timed)[0] > problem.limit_ms:
        return False
    return bool(problem.limits.met(problem.limits.costs(architecture[None]))[0])


def require_within(problem: SearchProblem, smallest: Int64[ndarray, "D"]) -> None:
    """Check the smallest network against every limit.

    Raises:
      UserError: if it is beyond one, as all others are.
    """
    timed = latency_of(problem, smallest)
    if is_within(problem, smallest, timed):
        return
    ms = "does not run" if timed is None else f"takes {timed.ms[0]:.3g} ms"
    least = problem.limits.least(problem.limits.costs(smallest[None]))
    raise UserError(
        f"the smallest sub-network, {problem.space.text(smallest)}, {ms} on {problem.oracle.device}{least}; "
        f"raise {problem.limits.label}"
    )


def baselines_within(problem: SearchProblem, space: InheritingSpace) -> Int64[ndarray, "sides D"]:
    """At each side, the baseline of most multiply-accumulates within the limits, found by bisection."""
    rows = space.baselines()
    rows = rows[problem.limits.met(problem.limits.costs(rows))]
    flops = space.costs(rows, problem.task)["flops"]
    sides = np.array([own_side(space, row, problem.task) for row in rows])

    def is_beyond(at: int) -> bool:
        return not is_within(problem, rows[at], latency_of(problem, rows[at]))

    best: list[int] = []
    for side in np.unique(sides):
        by_flops = [at for at in np.argsort(flops, kind="stable").tolist() if sides[at] == side]
        best += by_flops[: bisect_left(by_flops, 1, key=is_beyond)][-1:]
    return np.asarray(rows[best])
