"""The next fine-tuning: a function of the candidates, the results and the clock, as in `stages`.

Candidates are networks with weights at a side, each tuned to several depths. Frozen features order them
first; the most promising are fine-tuned for a few epochs; where not even three epochs of two networks
fit, what the frozen features say decides.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from nas.accuracy.slow import Fidelity
from nas.trials.staged.candidates import Candidates
from nas.trials.staged.stages import Result, StageJob

MOST_TUNED, FEWEST_TUNED = 6, 2
"""Networks that are fine-tuned before one of them wins."""

_SHARED_BY = 2
"""Networks whose features fit into the time that is left before another one's are taken."""

_COSTS = (1.2, 2.0, 3.5)
"""Time of an epoch beside that of one pass over the images, by depth of tuning."""

_GAINS = (0.0, 0.03, 0.06)
"""Accuracy that fine-tuning is expected to add to frozen features, by its depth."""

LEAST_EPOCHS = 3
"""Epochs of the winner, or fewer of its layers are tuned."""


@final
@dataclass(frozen=True)
class FineTunings:
    """Frozen features, then fine-tunings of the best; candidate `rule_of_thumb` is among them."""

    candidates: Candidates
    depth: Int64[ndarray, "n"]  # of tuning, from 0, the classifier alone
    network: Int64[ndarray, "n"]  # number of network and side, the same for all depths
    fidelities: tuple[Fidelity, ...]  # frozen features first
    until_s: Mapping[str, float]  # end of each stage, on the clock of the search
    parallel: int = 1

    @cached_property
    def rule_of_thumb(self) -> int:
        """The network of the best published accuracy."""
        return int(self._heads[np.argmax(self.candidates.prior[self._heads])])

    @cached_property
    def _heads(self) -> Int64[ndarray, "k"]:
        return np.flatnonzero(self.depth == 0)

    def next(
        self, results: Mapping[StageJob, Result], running: Collection[StageJob], elapsed_s: float
    ) -> StageJob | None:
        """The next training to begin; None where there is none now, or none any more."""
        asked = {*results, *running}
        frozen = self._next_frozen(results, asked, elapsed_s)
        if frozen is not None or any(job.fidelity == 0 for job in running):
            return frozen
        for job in self.planned(results):
            if job not in asked and elapsed_s < self.until_s["short"]:
                return job
        return None

    def _next_frozen(
        self, results: Mapping[StageJob, Result], asked: set[StageJob], elapsed_s: float
    ) -> StageJob | None:
        """The untried network of the best prior that leaves time for others; a cheap one first.

        The first one tells how fast this machine is.
        """
        heads = self._heads[np.argsort(-self.candidates.prior[self._heads], kind="stable")]
        rates = [
            result.seconds / float(self.candidates.flops[job.candidate])
            for job, result in results.items()
            if job.fidelity == 0
        ]
        rate, left_s = min(rates, default=0.0), self.until_s["frozen"] - elapsed_s
        tried = sum(job.fidelity == 0 for job in asked)
        for candidate in heads.tolist():
            job = StageJob(candidate, 0)
            is_short = rate * float(self.candidates.flops[candidate]) <= left_s / _SHARED_BY
            if job not in asked and tried and is_short and left_s > 0:
                return job
        if tried:
            return None
        return StageJob(int(self._heads[np.argmin(self.candidates.flops[self._heads])]), 0)

    def planned(self, results: Mapping[StageJob, Result]) -> list[StageJob]:
        """Fine-tunings that are worth their time, by the frozen features; empty where none fits."""
        order = self.by_frozen(results).tolist()
        if self.rule_of_thumb in order:
            order.remove(self.rule_of_thumb)
        frozen = {job.candidate: each for job, each in results.items() if job.fidelity == 0}
        if self.rule_of_thumb in frozen and not np.isnan(frozen[self.rule_of_thumb].accuracy):
            order.insert(min(1, len(order)), self.rule_of_thumb)
        room_s = (self.until_s["short"] - self.until_s["frozen"]) * self.parallel
        for fidelity in range(len(self.fidelities) - 1, 0, -1):
            epochs = self.fidelities[fidelity].epochs
            seconds = np.cumsum([_COSTS[-1] * epochs * frozen[each].seconds for each in order])
            fits = int((seconds <= room_s).sum())
            wanted = MOST_TUNED if fidelity > 1 else FEWEST_TUNED
            if fits >= min(wanted, len(order)) and order:
                chosen = order[: min(fits, MOST_TUNED)]
                return [StageJob(self.deepest(each), fidelity) for each in chosen]
        return []

    def deepest(self, candidate: int, depth: int | None = None) -> int:
        """The same network at the same side, tuned to a depth, everything by default."""
        alike = np.flatnonzero(self.network == self.network[candidate])
        chosen = alike[np.argmax(self.depth[alike])]
        if depth is not None:
            chosen = alike[self.depth[alike] == depth][0]
        return int(chosen)

    def affordable_depth(
        self, candidate: int, results: Mapping[StageJob, Result], seconds: float
    ) -> int:
        """The deepest tuning of which some epochs fit into these seconds."""
        frozen = results.get(StageJob(self.deepest(candidate, 0), 0))
        if frozen is None:
            return 0
        fits = [LEAST_EPOCHS * cost * frozen.seconds <= seconds for cost in _COSTS]
        return max((depth for depth, is_short in enumerate(fits) if is_short), default=0)

    def by_promise(
        self, order: Sequence[int], results: Mapping[StageJob, Result], seconds: float
    ) -> list[int]:
        """Candidates in an order, those first that time is left to tune deeply.

        Where some were fine-tuned, the order stays.
        """
        if any(job.fidelity for job in results):
            return list(order)

        def promise(candidate: int) -> float:
            frozen = results[StageJob(self.deepest(candidate, 0), 0)].accuracy
            return frozen + _GAINS[self.affordable_depth(candidate, results, seconds)]

        return sorted(order, key=promise, reverse=True)

    def by_frozen(self, results: Mapping[StageJob, Result]) -> Int64[ndarray, "k"]:
        """Networks by their frozen features, the best first."""
        at, accuracy = self.trained(results, 0)
        return at[np.argsort(-accuracy, kind="stable")]

    def order(self, results: Mapping[StageJob, Result]) -> Int64[ndarray, "k"]:
        """Candidates by their claim to win: those fine-tuned longest, then by frozen features.

        Validation images are few: the mean of both accuracies decides among those fine-tuned.
        """
        frozen = [self.deepest(int(each)) for each in self.by_frozen(results)]
        worth = dict(zip(*(part.tolist() for part in self.trained(results, 0)), strict=True))
        claims: list[tuple[float, int]] = []
        longest = max((job.fidelity for job in results if job.fidelity), default=0)
        if longest:
            at, accuracy = self.trained(results, longest)
            for candidate, fraction in zip(at.tolist(), accuracy.tolist(), strict=True):
                head = self.deepest(candidate, 0)
                claims.append(((fraction + worth.get(head, fraction)) / 2, candidate))
        first = [candidate for _, candidate in sorted(claims, key=lambda claim: -claim[0])]
        failed = {job.candidate for job, result in results.items() if np.isnan(result.accuracy)}
        every = [*first, *(each for each in frozen if each not in first)]
        return np.array([each for each in every if each not in failed], np.int64)

    def trained(
        self, results: Mapping[StageJob, Result], fidelity: int
    ) -> tuple[Int64[ndarray, "k"], Float64[ndarray, "k"]]:
        """Candidates that were tried at a fidelity, and their accuracies."""
        done = {
            job.candidate: result.accuracy
            for job, result in results.items()
            if job.fidelity == fidelity and not np.isnan(result.accuracy)
        }
        return np.array([*done], np.int64), np.array([*done.values()])
