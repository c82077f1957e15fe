"""A fit on one screen: draw candidates, train to rank them, decide, and train the winner in full.

What depends on what the networks begin with is the `FitKind`: of `scratch`, `own_network` or `pretrained`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator, Sequence
from typing import Generic, final

import numpy as np

from edgenas_core.command.console import at_stage
from edgenas_core.types.kind import Kind
from latency.base import LiveOracle
from nas.fit.ranking.proposer import StagedProposer
from nas.fit.run.advice import advice_of
from nas.fit.run.context import AnyJobs, FitContext, Ranking
from nas.fit.run.full_training import FullTrainings, export_s, is_for_int8
from nas.fit.run.int8 import int8_of_winner
from nas.fit.run.kind import FitKind
from nas.fit.run.record import Record
from nas.fit.run.report import (
    curve,
    handed_networks,
    inherited_trials,
    page_of,
    run_settings,
    trained_stage,
    trained_trial,
)
from nas.fit.run.winner import Winner, forget_checkpoint, spent_since, valid_accuracy
from nas.fit.training.trained_folder import Training, trained_folder
from nas.report.answer import int8_on_validation
from nas.report.handed_network import lines
from nas.report.staged_page import print_stage
from nas.report.summary import Int8Accuracy, Summary
from nas.runs.journal import Event, Journal
from nas.runs.strategy import Outcome
from nas.trials.asynchronous import Asynchronous
from nas.trials.trial import Trials


@final
class Fit(Generic[AnyJobs]):
    """A strategy of a run.

    The journal holds the candidates, every training and every decision; trainings go on from
    checkpoints.
    """

    def __init__(self, context: FitContext, kind: FitKind[AnyJobs]) -> None:
        self._context, self._kind = context, kind
        self._record = Record()
        self._trained: list[tuple[Winner, Training]] = []  # in full; the last one is returned

    def __enter__(self) -> Fit[AnyJobs]:
        return self

    def __exit__(self, *_: object) -> None:
        """Hold nothing open."""

    def restore(self, events: Sequence[Event]) -> Sequence[Event]:
        """Take over the candidates, the trainings and the decisions of an earlier part."""
        path = self._context.begun.folder.journal
        self._record = Record.of(events, self._context.problem.space, path)
        return events

    def loop(self, journal: Journal, check: Callable[[], None]) -> Generator[Trials, None, None]:
        """Draw candidates, and train the promising ones until the winner's time begins."""
        context, record, clock = self._context, self._record, self._context.clock
        # Draw candidates, and time and score them.
        console = context.begun.console
        if record.candidates is None:
            at_stage(console, "timing and scoring candidates")
            candidates = record.candidates = self._kind.draw(check)
            journal.note("candidates", candidates.values())
        else:
            candidates = record.candidates
        # Learn what an earlier part of the fit has trained.
        jobs = self._kind.jobs(candidates, is_decided=bool(record.winners))
        proposer = StagedProposer(
            jobs, context.config.seed, asked=record.asked, on_asked=journal.asked
        )
        proposer.learn_all(record.trials, context.begun.folder.journal)
        if record.trials:
            context.say(f"going on after {len(record.trials):,} trainings")
        self._proposer, self._ranking = proposer, Ranking(candidates, jobs, proposer.results)
        trained_s = sum(result.seconds for result in proposer.results.values())
        spent_s = candidates.seconds + trained_s / context.parallel
        decided = [*filter(None, [record.beside]), *record.winners]
        if decided:
            spent_s = max(spent_s, spent_since(context.folder, decided[-1]))
        clock.resume(spent_s)
        if record.winners:
            return
        at_stage(console, "ranking by short trainings")
        # Train one after another, until the jobs say that it is enough.
        source = self._kind.trainings(jobs)
        on_evaluated = curve(context, self._kind.fidelities)
        loop = Asynchronous(context.problem, source, context.parallel, check, on_evaluated)
        yield from loop.search(proposer, elapsed_s=clock.spent_s)

    def consume(self, trials: Trials) -> None:
        """Report the result of a training."""
        context, ranking = self._context, self._ranking
        arch = context.problem.space.text(trials.architectures[0])
        length = self._kind.fidelities[int(trials.fidelity[0])].name
        left_s = ranking.jobs.ends_s(ranking.results) - context.clock.elapsed_s
        seconds = float(trials.seconds[0])
        ended = f"{trials.accuracy[0]:.2%} at {trials.latency_ms[0]:.2f} ms, {seconds:.0f} s"
        if trials.error[0]:
            ended = f"failed after {seconds:.0f} s: {trials.error[0]}"
        context.say(
            f"training {trials.first + 1}, {arch}, {length}: {ended}; "
            f"ranking ends in {max(0.0, left_s):.0f} s"
        )
        self._kind.after_training(ranking)

    def outcome(self, parts: Sequence[Trials]) -> Outcome:
        """Decide, and train the winner in full in the time that is left.

        Raises:
          UserError: if every training failed, or no candidate is within T when timed again.
        """
        context, ranking = self._context, self._ranking
        at_stage(context.begun.console, "training the winner")
        full = FullTrainings(context, self._kind, ranking, self._record)
        beside = full.train_beside()
        stages = self._kind.stage_results(ranking, beside)
        for stage in stages:
            print_stage(context.begun.console, stage)
        as_drawn = ranking.candidates.rows(np.arange(len(ranking.candidates)))
        order = ranking.jobs.order(ranking.results).tolist()
        # The last of these trainings is returned; those before it were replaced.
        self._trained = full.train_decided(beside)
        within = full.train_within(beside, self._trained)
        done = {winner.arch for winner, _ in self._trained}
        further = {
            winner.arch: (winner, training)
            for _, winner, training in within
            if winner.arch not in done
        }
        if further:  # one for a smaller limit may be the best of all
            every = [*further.values(), *self._trained]
            self._trained = sorted(every, key=lambda pair: valid_accuracy(pair[1]))
        trials, results = [*parts], []
        for number, (winner, training) in enumerate(self._trained):
            is_last = number == len(self._trained) - 1
            at = ranking.position(context.problem.space.parse(winner.arch))
            asked = self._proposer.asked + number
            fidelity = len(self._kind.fidelities) + number
            trials.append(trained_trial(context, ranking, asked, at, winner, training, fidelity))
            name = "within" if winner.arch in further else "replaced"
            results.append(trained_stage(training, order, at, "full" if is_last else name))
        full.tell_time_left(winner, training)
        handed = handed_networks(context, self._kind, ranking, winner, training, within)
        for line in lines(handed):
            context.say(line)
        if context.rule.inherits:
            asked = self._proposer.asked + len(results)
            trials.append(inherited_trials(context, ranking.candidates, asked))
        oracle = context.problem.oracle
        is_timed_again = (
            isinstance(oracle, LiveOracle)
            and bool(oracle.confirm_top)
            and not Kind(int(as_drawn.latency_kind[at])).is_predicted
        )
        return Outcome(
            Trials.joined(trials),
            run_settings(context, training.epochs),
            stages=(*stages, *results),
            training=training,
            first_ms=float(as_drawn.latency_ms[at]) if is_timed_again else None,
            int8=self._int8(training),
            handed=handed,
        )

    def page(self, summary: Summary, trials: Trials) -> str:
        """The page with the stages and all trainings."""
        replaced = [training for _, training in self._trained[:-1]]
        context, (winner, training) = self._context, self._trained[-1]
        kept_s = export_s(context, min(winner.latency_ms, context.problem.limit_ms))
        left_s = context.seconds - context.clock.elapsed_s - kept_s
        steps = advice_of(context, self._kind, training, trials, left_s)
        return page_of(
            context,
            self._kind.fidelities,
            replaced,
            self._kind.images,
            summary,
            trials,
            steps,
        )

    def clean(self, summary: Summary) -> None:  # noqa: ARG002 - of the protocol
        """Remove the checkpoints: a longer training of the winner, by nas.train, begins anew."""
        shutil.rmtree(self._context.checkpoints, ignore_errors=True)
        for winner, _ in self._trained:
            forget_checkpoint(self._context.folder, winner.arch)

    def _int8(self, training: Training) -> Int8Accuracy | None:
        """Accuracy of the winner after quantisation, in a fit for int8."""
        context = self._context
        if not is_for_int8(context):
            return None
        images = self._kind.images(context.problem.space.parse(training.arch))
        folder = trained_folder(context.folder, training.arch)
        accuracy = int8_of_winner(context.problem, images, training, folder, context.say)
        context.say(f"int8: {int8_on_validation(accuracy)}")
        return accuracy
