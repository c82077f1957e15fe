"""Searches among the parts of a network that was trained before: they inherit its weights."""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from dataclasses import replace
from functools import cached_property, partial
from typing import Protocol, final, runtime_checkable

import numpy as np
from jaxtyping import Int64
from numpy import ndarray
from torch import nn

from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from latency.base import Latencies, UnmeasuredError
from nas.accuracy.base import Inherits, at_chance
from nas.fit.config import Begun
from nas.fit.data.image_set import ImageSet
from nas.fit.learners.data import has_classes
from nas.fit.ranking.candidates import Candidates
from nas.fit.ranking.stage_result import StageResult
from nas.fit.ranking.stages import Jobs, Stages
from nas.fit.run.staged import Staged
from nas.fit.run.winner import Winner, valid_accuracy
from nas.fit.training.checkpoint import weights_of
from nas.fit.training.evaluation import accuracy_of
from nas.fit.training.network import own_side, untrained
from nas.fit.training.trained_folder import Training
from nas.spaces.base import SearchSpace
from nas.train.job import Start


@runtime_checkable
class InheritingSpace(SearchSpace, Inherits, Protocol):
    """A search space whose networks inherit weights."""


@final
class Inherited(Staged):
    """A strategy of a run on a space whose supernet was trained before.

    Rules of thumb, networks of widths that are scaled alike, are candidates: of each side the largest within
    the limits. That of most multiply-accumulates and that which inherits most are trained in any case. Of each side,
    the part that inherits most is trained early: over different sides, inherited accuracies rank badly.
    """

    least_scored = 4
    must_score_in_time = False  # so few take seconds, and inherit enough to end with an answer

    def __init__(self, begun: Begun) -> None:
        super().__init__(begun)
        normalisation = self._space.pretrained_normalisation
        if normalisation is not None and isinstance(self._images, ImageSet):
            mean, sd = normalisation
            self._images = replace(self._images, mean=mean, sd=sd)
        images = self._images
        original = self._space.original(self._problem.task)
        if isinstance(images, ImageSet) and original is not None:  # it answers in the user's unit
            self._images = replace(images, unit=(0.0, 1.0))

    @property
    def _space(self) -> InheritingSpace:
        space = self._problem.space
        if not isinstance(space, InheritingSpace):
            raise TypeError(f"{space.name} inherits nothing")
        return space

    @cached_property
    def _ranking_side(self) -> int | None:
        """None: weights are for whole images."""
        return None

    def _first_candidates(self) -> Int64[ndarray, "k D"]:
        """Rules of thumb, and the smallest network, of which every limit is checked."""
        space, problem = self._space, self._problem
        smallest = space.smallest()
        timed = self._latency(smallest)
        if not self._is_within(smallest, timed):
            ms = "does not run" if timed is None else f"takes {timed.ms[0]:.3g} ms"
            least = problem.limits.least(problem.limits.costs(smallest[None]))
            raise UserError(
                f"the smallest sub-network, {space.text(smallest)}, {ms} on {problem.oracle.device}{least}; "
                f"raise {problem.limits.label}"
            )
        self._tell_of_original()
        return np.concatenate([self._rules_of_thumb(), smallest[None]])

    def _latency(self, architecture: Int64[ndarray, "D"]) -> Latencies | None:
        """Latency of a network; None where the device cannot run it."""
        try:
            return self._problem.oracle.answer(architecture[None])
        except UnmeasuredError:
            return None

    def _is_within(self, architecture: Int64[ndarray, "D"], timed: Latencies | None) -> bool:
        """Whether a network runs on the device within every limit."""
        limits, problem = self._problem.limits, self._problem
        if timed is None or problem.compared_ms(timed)[0] > problem.limit_ms:
            return False
        return bool(limits.met(limits.costs(architecture[None]))[0])

    @cached_property
    def _whole(self) -> Int64[ndarray, "D"]:
        """The network of the most multiply-accumulates, which the others are parts of."""
        rows = self._space.rules_of_thumb()
        return np.asarray(rows[self._space.costs(rows, self._problem.task)["flops"].argmax()])

    @cached_property
    def _original(self) -> tuple[nn.Module, float] | None:
        """The trained network and its accuracy on the validation images; None if its classes are others."""
        network = self._space.original(self._problem.task)
        if network is None:
            return None
        return network, accuracy_of(network, self._images.valid, self._images)

    def _tell_of_original(self) -> None:
        """Say how fast and how accurate the trained network is."""
        space, images = self._space, self._images
        timed = self._latency(self._whole)
        ms = f"{space.origin}: does not run on {self._problem.oracle.device}"
        if timed is not None:
            ms = f"{space.origin}: {timed.ms[0]:.3g} ms, {Kind(int(timed.kind[0])).words}"
        if self._is_within(self._whole, timed):
            ms += f", within {self._problem.limits.label} as it is"
        if self._original is None:
            self._say(ms)
            return
        self._say(f"{ms}; {images.metric} {self._original[1]:.2%} on validation images")
        if not has_classes(images):
            return
        if not self._teaches:
            self._say(
                f"warning: that is no better than chance; are its classes in the order "
                f"{', '.join(images.classes)}, and is side= that of its images?"
            )
        elif images.has_drawn_splits:
            self._say(
                "if it was trained on these images, validation and test accuracies are too high; add folders "
                "valid/ and test/ of images that it has not seen"
            )

    @property
    def _teaches(self) -> bool:
        """Whether the trained network knows the classes."""
        accuracy, images = 0.0 if self._original is None else self._original[1], self._images
        if self._original is None or not isinstance(images, ImageSet):
            return False
        if not has_classes(images):
            return True
        sd = math.sqrt(accuracy * (1 - accuracy) / len(images.valid))
        return not at_chance(accuracy, sd, len(images.classes))

    def _rules_of_thumb(self) -> Int64[ndarray, "sides D"]:
        """Of each side, that of most multiply-accumulates within the limits, found by bisection."""
        space, problem = self._space, self._problem
        rows = space.rules_of_thumb()
        rows = rows[problem.limits.met(problem.limits.costs(rows))]
        flops = space.costs(rows, problem.task)["flops"]
        sides = np.array([own_side(space, row, problem.task) for row in rows])

        def is_beyond(at: int) -> bool:
            return not self._is_within(rows[at], self._latency(rows[at]))

        best: list[int] = []
        for side in np.unique(sides):
            by_flops = [at for at in np.argsort(flops, kind="stable").tolist() if sides[at] == side]
            best += by_flops[: bisect_left(by_flops, 1, key=is_beyond)][-1:]
        return np.asarray(rows[best])

    def _trainable(self, candidates: Candidates) -> Candidates:
        """All: a few epochs tune what is trained."""
        return candidates

    def _stages(self, candidates: Candidates) -> Jobs:
        rules = {row.tobytes() for row in self._space.rules_of_thumb()}
        timed = [
            at
            for at, row in enumerate(candidates.architectures)
            if row.tobytes() in rules and candidates.latency_kind[at] != Kind.regression
        ]
        worths = (candidates.prior, candidates.flops) if timed else ()
        always = tuple(dict.fromkeys(max(timed, key=worth.__getitem__) for worth in worths))
        by_prior = np.argsort(-candidates.prior, kind="stable").tolist()
        rows, task = candidates.architectures[by_prior], self._problem.task
        sides = [own_side(self._space, row, task) for row in rows]
        early = tuple(by_prior[sides.index(side)] for side in dict.fromkeys(sides))
        times = self._fidelities, self._ends_s, self._parallel
        return Stages(candidates, *times, always=always, early=early)

    def _stage_results(self) -> tuple[StageResult, ...]:
        stages, results = self._proposer.stages, self._proposer.results
        if not isinstance(stages, Stages):
            raise TypeError(f"{type(stages).__name__} is not of a staged search")
        before = super()._stage_results()
        if self._original is not None:
            text, accuracy = self._space.text(self._whole), self._original[1]
            timed = self._latency(self._whole)
            ms = "" if timed is None else f"{timed.ms[0]:.3g} ms"
            before = (StageResult("original", 1, 1, 0.0, ms, text, None, accuracy), *before)
        if not stages.always:
            return before
        at = stages.always[0]
        jobs = [job for job in results if job.candidate in stages.always]
        return (*before, self._rule_stage(at, jobs, float(stages.candidates.prior[at])))

    def _decided(self, order: list[int], ends_s: float) -> Winner:
        """As of every search; the trained network instead, if that is better and within the limits."""
        winner = self._winner_of(order, ends_s)
        is_whole = (self._drawn_candidates.architectures == self._whole).all(-1)
        if self._original is None or not is_whole.any():
            return winner
        if self._begins_with(winner) >= self._original[1]:
            return winner
        return self._winner_of([int(is_whole.argmax()), *order], ends_s)

    def _trained_in_full(self, order: list[int], left_s: float) -> list[tuple[Winner, Training]]:
        """As in every search; then a rule of thumb as it was ranked, if that is better."""
        trained = super()._trained_in_full(order, left_s)
        training = trained[-1][1]
        try:
            rule = self._better_rule(training.arch, valid_accuracy(training))
        except UserError as error:  # slower when timed again
            self._say(f"the rule of thumb: {error}; so it is not handed over")
            return trained
        if rule is None:
            return trained
        rule = self._decide(rule)
        return [*trained, (rule, self._train(rule, time.monotonic()))]

    def _better_rule(self, arch: str, accuracy: float) -> Winner | None:
        """The best rule of thumb as it was ranked, confirmed, if it is above an architecture's accuracy."""
        stages = self._proposer.stages
        better: list[tuple[float, int, Winner]] = []
        for at in stages.always if isinstance(stages, Stages) else ():
            ranked, text = (
                self._ranked_epochs(at),
                self._space.text(self._drawn_candidates.architectures[at]),
            )
            rule = Winner(text, self._rule.recipe, max(1, ranked), ranked, 0.0, 0)
            if text != arch and (worth := self._begins_with(rule)) > accuracy:
                better.append((worth, at, rule))
        if not better:
            return None
        worth, at, rule = max(better, key=lambda each: each[0])
        _, ms, kind = self._confirmed([at])
        self._say(
            f"the rule of thumb, {rule.arch}, had {worth:.2%} when it was ranked; the winner has "
            f"{accuracy:.2%}: it is handed over"
        )
        return replace(rule, latency_ms=ms, latency_kind=kind)

    def _begins_with(self, winner: Winner) -> float:
        """Worth of the better weights that a winner's training begins with."""
        start, row = self._start(winner), self._space.parse(winner.arch)
        network = start.network(row, self._images.task)
        worth = accuracy_of(network, self._images.valid, self._images)
        if start.continues is None:
            return worth
        network.load_state_dict(weights_of(start.continues))
        return max(worth, accuracy_of(network, self._images.valid, self._images))

    def _start(self, winner: Winner) -> Start:
        start = super()._start(winner)
        if self._original is not None and winner.arch == self._space.text(self._whole):
            words = f"your network, with no part left out; {start.words}"
            start = replace(start, network=partial(untrained, self._space), words=words)
        return replace(
            start, teacher=self._original[0] if self._original and self._teaches else None
        )

    @property
    def _origin(self) -> str:
        return f"{self._space.origin}, which taught it" if self._teaches else self._space.origin
