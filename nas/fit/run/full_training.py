"""Trainings in full: of the winner, of a network of another start, and of what replaces the winner."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Generic, final

import numpy as np

from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from edgenas_core.types.units import epochs_text
from latency.base import Latencies
from latency.probe.settings import BoardPrecision
from nas.fit.run.advice import ADVICE_SHARE
from nas.fit.run.context import AnyJobs, FitContext, Ranking, within_smaller
from nas.fit.run.entries import Entry, better, choose
from nas.fit.run.kind import FitKind
from nas.fit.run.record import Record
from nas.fit.run.winner import (
    Winner,
    forget_checkpoint,
    read_if_trained,
    train_winner,
    valid_accuracy,
)
from nas.fit.training.trained_folder import Training
from nas.runs.journal import Journal
from nas.trials.limits import LimitSet

_INT8_SHARE = 0.03
"""Share of the time for the winner's int8 file and its accuracy."""

_EXPORT_S, _EXPORT_PASSES, _MOST_EXPORT = 20.0, 8, 0.1
"""Time of an export: a fixed part, passes over validation, test and 256 calibration images one by one, and its largest
share of the whole time. Six exports of 1.3 to 3.3 ms beside other work took 14 to 41 s."""

_NOTABLY_LESS = 1 / 3
"""Share of the promised time below which the user hears why the winner has so few epochs."""

_EARLY = 0.05
"""Share of the whole time that may be left at the end before the user hears why."""


def is_for_int8(context: FitContext) -> bool:
    """Whether the board runs int8 files."""
    return context.config.precision is BoardPrecision.int8


def after_s(context: FitContext, latency_ms: float) -> float:
    """Seconds that are kept for the int8 file, the advice, and the export of a network of this latency."""
    share = (_INT8_SHARE if is_for_int8(context) else 0.0) + ADVICE_SHARE
    return share * context.seconds + export_s(context, latency_ms)


def export_s(context: FitContext, latency_ms: float) -> float:
    """Seconds that are kept for the export of a network of this latency; 0 where none is asked for."""
    if not context.config.export:
        return 0.0
    images, smaller = context.images, context.begun.experiment.smaller
    every_ms = latency_ms + sum(limits.limit_ms for limits in smaller)
    passes_s = _EXPORT_PASSES * (len(images.valid) + len(images.test) + 256) * every_ms / 1000
    exports_s = _EXPORT_S * (1 + len(smaller)) + passes_s
    return min(exports_s, _MOST_EXPORT * context.seconds)


@final
class FullTrainings(Generic[AnyJobs]):
    """Decides which networks are trained in full, and trains them; each decision is in the journal."""

    def __init__(
        self,
        context: FitContext,
        kind: FitKind[AnyJobs],
        ranking: Ranking[AnyJobs],
        record: Record,
    ) -> None:
        self._context, self._kind, self._ranking, self._record = context, kind, ranking, record
        self._led: dict[int, str] = {}  # architecture that was chosen, by the candidate

    def train_beside(self) -> Training | None:
        """Train a network of another start in its share of the time, if that is long enough."""
        context, clock, record = self._context, self._context.clock, self._record
        if record.winners:
            return read_if_trained(context.folder, record.beside)
        share_s = context.rule.shares.get("scratch", 0.0) * context.seconds
        begun_s = clock.elapsed_s if record.beside is None else record.beside.after_s
        ranked_s = self._ranking.jobs.ends_s(self._ranking.results)
        ends_s = share_s + min(begun_s, ranked_s)  # later is the winner's time
        if record.beside is None:
            plan = self._kind.plan_beside(self._ranking.candidates, ends_s - clock.elapsed_s)
            if plan is None:
                return None
            record.beside = self._noted("scratch", plan)
        planned = record.beside
        if read_if_trained(context.folder, planned) is None:
            try:
                self._train(planned, time.monotonic() + ends_s - clock.elapsed_s)
            except UserError as error:
                context.say(f"{planned.arch}, from scratch: {error}; the fit goes on without it")
            forget_checkpoint(context.folder, planned.arch)
        return read_if_trained(context.folder, planned)

    def train_within(
        self, beside: Training | None, done: Sequence[tuple[Winner, Training]]
    ) -> list[tuple[LimitSet, Winner, Training]]:
        """A network for each smaller limit: the most accurate trained one that is within it.

        The ranking chooses one to train for the limit; those trained before serve it, too, if they are as fast. Where a
        limit has none, the user hears why.
        """
        context, candidates = self._context, self._ranking.candidates
        kept_s = after_s(context, context.problem.limit_ms)
        ends_s = time.monotonic() + context.seconds - context.clock.elapsed_s - kept_s
        by_arch = {winner.arch: (winner, training) for winner, training in done}
        handed: list[tuple[LimitSet, Winner, Training]] = []
        for at, limits in enumerate(context.begun.experiment.smaller, 1):
            entries = self._kind.entries(self._ranking, beside, ends_s)
            now_s = time.monotonic()
            until_s = now_s + max(0.0, ends_s - now_s) * self._share(entries, at)
            within = within_smaller(context, candidates)[at - 1]
            entries = [
                entry
                for entry in self._kind.entries(self._ranking, beside, until_s)
                if within[entry.candidate]
            ]
            serving = {
                arch: pair for arch, pair in by_arch.items() if self._is_within(pair[0], limits)
            }
            is_trained = bool(entries) and self._led.get(entries[0].candidate) in serving
            try:
                winner = self._record.within.get(str(limits))
                if winner is None and not is_trained:
                    entry, winner = choose(context, candidates, entries, limits.limit_ms)
                    self._led[entry.candidate] = winner.arch
                    winner = self._noted("within", winner, limits)
                if winner is not None:
                    if winner.arch not in by_arch:
                        by_arch[winner.arch] = winner, self._train(winner, until_s)
                    serving[winner.arch] = by_arch[winner.arch]
            except (UserError, ConnectionError) as error:
                which = "a network that was trained for a larger limit" if serving else "no network"
                context.say(f"{limits}: {which}: {error}")
            if serving:
                best = max(serving.values(), key=lambda pair: valid_accuracy(pair[1]))
                handed.append((limits, *best))
        return handed

    def _share(self, entries: Sequence[Entry], first: int) -> float:
        """Part of the time left in which the network of a limit is trained; `first` is its place, 0 for the largest.

        The first entry within each limit has a part in proportion to T, so that all are trained for about as many epochs;
        one that leads within several limits is trained once.
        """
        context, candidates = self._context, self._ranking.candidates
        smaller = context.begun.experiment.smaller
        limits_ms = [context.problem.limit_ms, *(limits.limit_ms for limits in smaller)]
        every = np.ones(len(candidates), bool)
        leading, weights = {*self._led}, list[float]()
        for within in (every, *within_smaller(context, candidates))[first:]:
            leader = next((each.candidate for each in entries if within[each.candidate]), None)
            is_new = leader is not None and leader not in leading
            weights.append(limits_ms[first + len(weights)] if is_new else 0.0)
            leading |= set() if leader is None else {leader}
        return weights[0] / sum(weights) if any(weights) else 1.0

    def _is_within(self, winner: Winner, limits: LimitSet) -> bool:
        """Whether a trained network is within limits, a prediction with its margin."""
        problem, kind = self._context.problem, np.array([winner.latency_kind], np.int8)
        compared_ms = problem.compared_ms(Latencies(np.array([winner.latency_ms]), kind))
        row = problem.space.parse(winner.arch)
        return kind[0] != Kind.implausible and bool(limits.met(compared_ms, row[None])[0])

    def train_decided(self, beside: Training | None) -> list[tuple[Winner, Training]]:
        """The winner, and an alternative that is better, each with its training."""
        context, ranking = self._context, self._ranking
        ends_s = time.monotonic() + context.seconds - context.clock.elapsed_s
        ends_s -= self._kind.comparing_s(ranking)
        trained: list[tuple[Winner, Training]] = []
        accuracy, failure = -math.inf, None
        try:
            trained = self._train_best(beside, ends_s)
            accuracy = valid_accuracy(trained[-1][1])
        except UserError as error:
            failure = error
            context.say(f"the winner: {error}")
        try:
            arch = trained[-1][0].arch if trained else None
            alternatives = self._kind.alternatives(ranking, arch)
        except UserError as error:
            alternatives = []
            context.say(f"networks as they were ranked: {error}; so none is returned")
        if beside is not None and self._record.beside is not None:
            alternatives.append(self._beside_entry(self._record.beside, beside))
        # Return the best alternative that the device confirms instead of a winner that is worse.
        for entry in better(alternatives, accuracy):
            compared = f"; the winner has {accuracy:.2%}" if trained else ""
            try:
                _, winner = choose(context, ranking.candidates, [entry])
                context.say(f"{entry.words}{compared}: it is returned")
                return [*trained, self._taken_over(winner, entry)]
            except (UserError, ConnectionError) as error:
                context.say(f"{entry.words}{compared}, but {error}")
        if failure is not None:
            raise failure
        return trained

    def _train_best(self, beside: Training | None, ends_s: float) -> list[tuple[Winner, Training]]:
        """Decide on a network, unless an earlier part has, and train it."""
        context, record = self._context, self._record
        if context.begun.experiment.smaller:
            # Leave time for the networks of smaller limits.
            kept_s = after_s(context, context.problem.limit_ms)
            planned = self._kind.entries(self._ranking, beside, ends_s - kept_s)
            left_s = max(0.0, ends_s - kept_s - time.monotonic())
            ends_s -= left_s * (1 - self._share(planned, 0))
        if not record.winners:
            trained_s = ends_s - after_s(context, context.problem.limit_ms)
            entries = self._kind.entries(self._ranking, beside, trained_s)
            entry, winner = choose(context, self._ranking.candidates, entries)
            self._led[entry.candidate] = winner.arch
            record.winners.append(self._noted("winner", winner))
            left_s = max(0.0, trained_s - time.monotonic())
            if left_s < _NOTABLY_LESS * context.clock.promised_s:
                context.say(
                    f"{left_s:.0f} s are left for the winner, not {context.clock.promised_s:.0f} s: what "
                    f"came before took longer than planned; allow more hours="
                )
        *replaced, winner = record.winners
        others = [each for each in replaced if each.arch != winner.arch]
        before = [(each, read_if_trained(context.folder, each)) for each in others]
        trained = [(each, training) for each, training in before if training is not None]
        kept_s = after_s(context, min(winner.latency_ms, context.problem.limit_ms))
        return [*trained, (winner, self._train(winner, ends_s - kept_s))]

    def _beside_entry(self, planned: Winner, training: Training) -> Entry:
        """The network of another start as it was trained."""
        accuracy = valid_accuracy(training)
        words = (
            f"{training.arch}, from scratch, has {accuracy:.2%}: what pretrained weights know does not help "
            f"on these images"
        )
        at = self._ranking.position(self._context.problem.space.parse(planned.arch))
        return Entry(at, accuracy, lambda: planned, words, training)

    def _taken_over(self, winner: Winner, entry: Entry) -> tuple[Winner, Training]:
        """A confirmed alternative and its training."""
        if entry.training is not None:
            return winner, entry.training
        forget_checkpoint(self._context.folder, winner.arch)  # of a winner of the same architecture
        winner = self._noted("winner", winner)
        self._record.winners.append(winner)
        return winner, self._train(winner, time.monotonic())

    def _noted(self, name: str, winner: Winner, limits: LimitSet | None = None) -> Winner:
        """The decision as the journal keeps it."""
        context = self._context
        winner = replace(winner, after_s=context.clock.elapsed_s)
        note = asdict(winner)
        if limits is not None:
            note = {"limits": str(limits), "winner": note}
        with Journal(context.begun.folder.journal, context.problem.space) as journal:
            journal.note(name, note)
        return winner

    def _train(self, winner: Winner, ends_s: float) -> Training:
        """Train in full, or go on with it."""
        context, row = self._context, self._context.problem.space.parse(winner.arch)
        ranked = self._ranking.accuracies.get(self._ranking.position(row), 0.0)
        return train_winner(
            context.begun.experiment,
            self._kind.images(row),
            context.folder,
            winner,
            context.begun.console,
            start=replace(self._kind.start(winner), ranked=ranked),
            most=self._kind.most_epochs(winner.recipe),
            ends_s=ends_s,
        )

    def tell_time_left(self, winner: Winner, training: Training) -> None:
        """Say why much time is left, if it is."""
        context = self._context
        kept_s = after_s(context, min(winner.latency_ms, context.problem.limit_ms))
        left_s = context.seconds - context.clock.elapsed_s - kept_s
        if left_s > _EARLY * context.seconds:
            is_whole = training.epochs >= self._kind.most_epochs(winner.recipe)
            why = "epochs= allows more" if is_whole else "another one takes longer"
            if training.seconds / training.epochs < left_s and not is_whole:
                why = "the number of epochs was fixed when they took longer"
            context.say(
                f"{left_s:.0f} s are left after {epochs_text(training.epochs)} of the winner: {why}"
            )
