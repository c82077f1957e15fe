"""The next training and its length: a function of the candidates, the results and the clock.

Nothing is remembered beside the results, so an interrupted search goes on by its journal alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol, final, runtime_checkable

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from nas.accuracy.slow import Fidelity
from nas.fit.ranking.candidates import Candidates
from nas.fit.ranking.predictor import Predictor, log_rank
from nas.fit.ranking.stage_result import StageResult
from nas.spaces.base import SearchSpace

SHORT_EPOCHS = 12
"""Most epochs of a short training."""

LEAST_SHORT = 6
"""Short trainings that must fit into their time, or they are shorter."""

BY_PROXIES = 10
"""Short trainings that the proxies alone choose; fewer would mislead the predictor."""

LONGER = 8
"""Most candidates that are trained longer."""

WEIGHT = 3.0
"""Weight of the log rank of the (predicted) accuracy beside the log rank of each proxy."""


_TIMED = 2
"""Trainings of the shortest fidelity that show how long an epoch takes."""


class StageJob(NamedTuple):
    """A training: position among the candidates, and among the fidelities."""

    candidate: int
    fidelity: int


class Result(NamedTuple):
    """Accuracy and duration of a training."""

    accuracy: float  # NaN where it failed
    seconds: float


@runtime_checkable
class Jobs(Protocol):
    """Decides which candidates are trained, and who is best by the results."""

    @property
    def candidates(self) -> Candidates:
        """Networks to choose from."""

    @property
    def fidelities(self) -> tuple[Fidelity, ...]:
        """Lengths of the trainings, the shortest first."""

    def ends_s(self, results: Mapping[StageJob, Result]) -> float:
        """End of the trainings, in seconds from the beginning of the fit."""

    def next(
        self, results: Mapping[StageJob, Result], running: Collection[StageJob], elapsed_s: float
    ) -> StageJob | None:
        """The next training to begin; None where there is none now, or none any more."""

    def order(self, results: Mapping[StageJob, Result]) -> Int64[ndarray, "k"]:
        """Candidates by their claim to win, without those of which a training failed."""


@final
@dataclass(frozen=True)
class Stages:
    """Successive halving over epochs, in the order of a predictor."""

    candidates: Candidates
    fidelities: tuple[Fidelity, ...]  # from the shortest
    until_s: Mapping[str, float]  # end of each stage, on the clock of the search
    parallel: int = 1
    always: tuple[int, ...] = ()  # candidates that are trained after the first, before others
    early: tuple[int, ...] = ()  # candidates that are trained short after them

    def next(
        self, results: Mapping[StageJob, Result], running: Collection[StageJob], elapsed_s: float
    ) -> StageJob | None:
        """The next training to begin; None where there is none now, or none any more."""
        asked = {*results, *running}
        if elapsed_s < self.until_s["short"]:
            return self._short(results, asked, self.until_s["longer"] - elapsed_s)
        if elapsed_s < self.until_s["longer"]:
            return self._longer(results, asked, self.until_s["longer"] - elapsed_s)
        return None

    def ends_s(self, results: Mapping[StageJob, Result]) -> float:  # noqa: ARG002 - whatever they are
        """End of the longer trainings, in seconds from the beginning of the fit."""
        return self.until_s["longer"]

    def order(self, results: Mapping[StageJob, Result]) -> Int64[ndarray, "n"]:
        """Candidates by their claim to win: those trained longer by their accuracy, then `ranked`."""
        ranked = self.ranked(results)
        at, accuracy = self.longer(results)
        if len(at) < 2:  # nothing to compare it with
            return ranked
        first = at[np.argsort(-accuracy, kind="stable")]
        order: Int64[ndarray, "n"] = np.concatenate([first, ranked[~np.isin(ranked, first)]])
        return order

    def longer(
        self, results: Mapping[StageJob, Result]
    ) -> tuple[Int64[ndarray, "k"], Float64[ndarray, "k"]]:
        """Candidates that were trained longer, and their accuracies."""
        return trained(results, (self.short_fidelity(results) or 0) + 1)

    def ranked(self, results: Mapping[StageJob, Result]) -> Int64[ndarray, "n"]:
        """Short-trained candidates, or all where there are none, the most promising first.

        Candidates of which a training failed are left out.
        """
        at, accuracy = trained(results, self.short_fidelity(results) or 0)
        if not len(at):
            at, promise = np.arange(len(self.prior)), self.prior
        else:
            promise = WEIGHT * log_rank(accuracy) + log_rank(self.candidates.prior[at])
        order = at[np.argsort(-promise, kind="stable")]
        ranked: Int64[ndarray, "n"] = order[~np.isin(order, failed(results))]
        return ranked

    def promise(self, results: Mapping[StageJob, Result]) -> Float64[ndarray, "n"]:
        """Score of every candidate, by proxies and, once there is enough, by predicted accuracy."""
        at, accuracy = trained(results, self.short_fidelity(results) or 0)
        if len(at) < BY_PROXIES:
            unlearned: Float64[ndarray, "n"] = self.prior.copy()
            return unlearned
        predicted = Predictor(self.candidates.architectures, self.prior).after(at, accuracy)
        promise: Float64[ndarray, "n"] = WEIGHT * log_rank(predicted) + self.prior
        return promise

    @cached_property
    def prior(self) -> Float64[ndarray, "n"]:
        """Log rank of every candidate by the proxies."""
        return log_rank(self.candidates.prior)

    def short_fidelity(self, results: Mapping[StageJob, Result]) -> int | None:
        """The longest of at most `SHORT_EPOCHS` epochs at which enough trainings fit.

        None until the first trainings, of the shortest fidelity, have shown how long an epoch takes.
        """
        epochs = [fidelity.epochs for fidelity in self.fidelities]
        allowed = [i for i, length in enumerate(epochs) if length <= SHORT_EPOCHS]
        if len(allowed) < 2:
            return 0
        first = [job for job in results if job.fidelity == 0][:_TIMED]
        timed = [self._rate(job, results[job]) for job in first if not np.isnan(results[job][0])]
        if len(timed) < _TIMED:
            return None
        room_s = (self.until_s["short"] - self.until_s["scores"]) * self.parallel
        typical_s = min(timed) * float(np.median(self.candidates.flops))
        fits = [i for i in allowed if room_s >= LEAST_SHORT * typical_s * epochs[i]]
        return max(fits, default=0)

    def _short(
        self, results: Mapping[StageJob, Result], asked: set[StageJob], left_s: float
    ) -> StageJob | None:
        fidelity = self.short_fidelity(results)
        barred = {*failed(results)}
        if fidelity is None:
            begun = [job for job in asked if job.candidate not in barred]
            if len(begun) >= _TIMED:
                return None
        at = fidelity or 0
        barred |= {job.candidate for job in asked if job.fidelity == at}
        promise = self.promise(results)
        promise[list(barred)] = -np.inf
        first = (*self.always, *self.early) if asked else ()
        for best in (*first, int(np.argmax(promise))):
            job = StageJob(best, at)
            if best not in barred and self._seconds(job, results) <= left_s:
                return job
        return None

    def _longer(
        self, results: Mapping[StageJob, Result], asked: set[StageJob], left_s: float
    ) -> StageJob | None:
        fidelity = (self.short_fidelity(results) or 0) + 1
        if fidelity == len(self.fidelities):
            return None
        if not len(trained(results, fidelity - 1)[0]):
            return None
        for candidate in dict.fromkeys([*self.always, *self.ranked(results)[:LONGER].tolist()]):
            job = StageJob(candidate, fidelity)
            if job not in asked and self._seconds(job, results) <= left_s:
                return job
        return None

    def _seconds(self, job: StageJob, results: Mapping[StageJob, Result]) -> float:
        """Expected duration of a training by those that have ended; 0 before one has."""
        rates = [
            self._rate(ended, result)
            for ended, result in results.items()
            if not np.isnan(result.accuracy)
        ]
        if not rates:
            return 0.0
        epochs = self.fidelities[job.fidelity].epochs
        return float(np.median(rates)) * epochs * float(self.candidates.flops[job.candidate])

    def _rate(self, job: StageJob, result: Result) -> float:
        """Seconds of an epoch for each FLOP of the network."""
        epochs = self.fidelities[job.fidelity].epochs
        return result.seconds / (epochs * float(self.candidates.flops[job.candidate]))


def trained(
    results: Mapping[StageJob, Result], fidelity: int
) -> tuple[Int64[ndarray, "k"], Float64[ndarray, "k"]]:
    """Candidates that were trained to a fidelity, and their accuracies."""
    accuracies = {
        job.candidate: result.accuracy
        for job, result in results.items()
        if job.fidelity == fidelity and not np.isnan(result.accuracy)
    }
    return np.array([*accuracies], np.int64), np.array([*accuracies.values()])


def failed(results: Mapping[StageJob, Result]) -> list[int]:
    """Candidates of which a training failed."""
    return [job.candidate for job, result in results.items() if np.isnan(result.accuracy)]


def stage_results(
    stages: Stages,
    results: Mapping[StageJob, Result],
    space: SearchSpace,
    *,
    scores_are_accuracies: bool = False,
) -> tuple[StageResult, ...]:
    """The stages before the winner's own training; scores are of proxies, or accuracies of a supernet."""
    candidates = stages.candidates
    by_flops = np.argsort(-candidates.flops, kind="stable")
    by_prior = np.argsort(-candidates.prior, kind="stable")
    stage_list = [StageResult("draw", candidates.drawn, candidates.within, candidates.draw_s)]
    if candidates.score_s:
        stage_list.append(
            StageResult(
                "supernet" if scores_are_accuracies else "proxies",
                len(candidates),
                len(candidates),
                candidates.score_s,
                "",
                space.text(candidates.architectures[by_prior[0]]),
                _place(int(by_prior[0]), by_flops),
                float(candidates.prior[by_prior[0]]) if scores_are_accuracies else None,
            )
        )
    short = stages.short_fidelity(results) or 0
    before = by_prior
    for name, fidelity, order in (
        ("short", short, stages.ranked(results)),
        ("longer", short + 1, stages.order(results)),
    ):
        jobs = [job for job in results if (job.fidelity > short) is (name == "longer")]
        if not jobs or not len(order):
            continue
        accuracies = dict(
            zip(*(column.tolist() for column in trained(results, fidelity)), strict=True)
        )
        stage_list.append(
            StageResult(
                name,
                len(jobs),
                len(order),
                sum(results[job].seconds for job in jobs),
                stages.fidelities[fidelity].name,
                space.text(candidates.architectures[order[0]]),
                _place(int(order[0]), before),
                accuracies.get(int(order[0])),
                int(sum(np.isnan(results[job].accuracy) for job in jobs)),
            )
        )
        before = order
    return tuple(stage_list)


def _place(candidate: int, order: Int64[ndarray, "n"]) -> int | None:
    """Place of a candidate in an order, from 1; None if it is not in it."""
    at = np.flatnonzero(order == candidate)
    return 1 + int(at[0]) if len(at) else None
