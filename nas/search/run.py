"""One run: the loop with its consumers, in a folder, from the start or from where it was cut off."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TypeAlias, final

from jaxtyping import Int64
from numpy import ndarray
from rich.console import Console

from common.files.typed_json import write_json
from latency.base import Latencies, LiveOracle
from nas.accuracy.base import HasAccuracyTable
from nas.config.build import Experiment
from nas.report.summary import Settings, Summary, feasible_of, summarise, within_limits
from nas.report.tensorboard_log import TensorBoardLog
from nas.report.terminal import print_front, print_next, print_summary
from nas.search.announcement import sources
from nas.search.checkpoint import Checkpointer, load_checkpoint
from nas.search.environment import write_environment
from nas.search.folder import RunFolder
from nas.search.interruption import Interruption
from nas.search.journal import Event, Journal, cut_journal, read_journal
from nas.search.progress import ProgressBar
from nas.search.record import write_record
from nas.search.replay import NOTHING, Replayed, check_answers, complete, replay
from nas.trials.asynchronous import Asynchronous, Budget
from nas.trials.choice_history import ChoiceHistory
from nas.trials.confirmation import Confirmation, confirm
from nas.trials.loop import OnAsked, search
from nas.trials.problem import SearchProblem
from nas.trials.survey import estimated_share
from nas.trials.tracker import Tracker
from nas.trials.trial import State, Trials

OnTrials: TypeAlias = Callable[[Trials], None]
"""Called with each batch of finished trials of a search, after it was journalled."""


def nothing(_trials: Trials) -> None:
    """The default of `OnTrials`."""


@final
@dataclass(frozen=True)
class Run:
    """An experiment, the names it was asked for by, and the folder it is written to."""

    experiment: Experiment
    choices: Mapping[str, str]  # group -> name, as in reward -> proposed
    folder: RunFolder
    console: Console
    command: str  # that begins the same run
    on_trials: OnTrials = nothing

    @property
    def _problem(self) -> SearchProblem:
        return self.experiment.problem

    def complete(self) -> Summary:
        """Search to the end of the budget, going on from what the folder holds.

        Returns the summary that was written.

        Raises:
          UserError: if a source lacks an architecture, or a file is corrupt.
          UnmeasuredError: if the latency oracle lacks an architecture.
          OSError: if the folder cannot be written.
        """
        self.console.print(f"writing to {self.folder.path}", soft_wrap=True)
        write_environment(self.folder.environment)
        problem, budget = self._problem, self.experiment.config.budget
        history = ChoiceHistory(self.experiment.controller, problem.space.num_choices, budget)
        replayed = self._restore(history)
        tracker = Tracker(problem.limit_ms, problem.limits, problem.margin)
        if replayed.trials is not None:
            tracker(replayed.trials)
        with (
            TensorBoardLog(
                self.folder.tensorboard,
                tracker,
                sources=sources(problem),
                limit_ms=problem.limit_ms,
                budget=budget,
                survey=problem.survey,
                history=history,
                controller=self.experiment.controller,
                space=problem.space,
            ) as log,
            Interruption() as interruption,
        ):
            started_s = time.perf_counter()
            trials = self._sample(tracker, log, history, interruption, replayed)
            seconds = time.perf_counter() - started_s
            resumed_at = 0 if replayed.trials is None else len(replayed.trials)
            return self._finish(log, history, trials, seconds, resumed_at)

    def _restore(self, history: ChoiceHistory) -> Replayed:
        """Bring the controller to the end of the journal; returns what was asked and answered."""
        problem, folder = self._problem, self.folder
        if not folder.journal.is_file():
            return NOTHING
        events: Sequence[Event] = read_journal(folder.journal, problem, folder.settings_digest())
        if self.experiment.source is None:  # else each trial is answered on its own, none is lost
            events = complete(events)
        controller = self.experiment.controller
        learned = load_checkpoint(folder.checkpoint, controller, history, len(events))
        cut_journal(folder.journal, len(events))
        replayed = replay(controller, problem, events, history, learned=learned)
        if replayed.trials is None:
            return replayed
        check_answers(replayed.trials, problem)
        if isinstance(problem.oracle, LiveOracle):
            done = replayed.trials.rows(replayed.trials.state == State.done)
            latencies = Latencies(done.latency_ms, done.latency_kind)
            problem.oracle.remember(done.architectures, latencies)
        self.console.print(f"going on from trial {len(replayed.trials):,}")
        return replayed

    def _sample(
        self,
        tracker: Tracker,
        log: TensorBoardLog,
        history: ChoiceHistory,
        interruption: Interruption,
        replayed: Replayed,
    ) -> Trials:
        """Search on, handing what is asked and answered to the consumers; returns all trials."""
        experiment, folder, problem = self.experiment, self.folder, self._problem
        budget = experiment.config.budget
        found = [] if replayed.trials is None else [replayed.trials]
        bar = ProgressBar(self.console, tracker, problem.limit_ms, budget)
        checkpointer = Checkpointer(
            folder.checkpoint, experiment.controller, history, replayed.events
        )
        with Journal(folder.journal, problem.space, folder.settings_digest()) as journal, bar:

            def asked(first: int, architectures: Int64[ndarray, "R B D"]) -> None:
                journal.asked(first, architectures)
                checkpointer.asked()
                history(first, architectures)

            for batch in self._loop(replayed, asked, interruption):
                trials = batch.replica(0)
                for consume in (journal, checkpointer, tracker, bar, log, self.on_trials):
                    consume(trials)
                found.append(trials)
                interruption.check()
        checkpointer.save()
        return Trials.joined(found)

    def _loop(
        self, replayed: Replayed, asked: OnAsked, interruption: Interruption
    ) -> Iterator[Trials]:
        experiment, config = self.experiment, self.experiment.config
        if experiment.source is None:
            return search(
                experiment.controller,
                self._problem,
                budget=config.budget,
                batch_size=config.controller.batch_size,
                first=replayed.asked,
                on_asked=asked,
            )
        loop = Asynchronous(
            self._problem,
            experiment.source,
            parallel=config.workers or 1,
            budget=Budget(config.budget),
            seed=config.seed,
            on_asked=asked,
            check=interruption.check,
        )
        cost = 0.0 if replayed.trials is None else float(replayed.trials.seconds.sum())
        return loop.search(
            experiment.controller,
            asked=replayed.asked,
            running=replayed.running,
            cost=cost,
            elapsed_s=replayed.elapsed_s,
        )

    def _finish(
        self,
        log: TensorBoardLog,
        history: ChoiceHistory,
        trials: Trials,
        seconds: float,
        resumed_at: int,
    ) -> Summary:
        """Write the results, the summary last: where there is one, the run has finished."""
        problem, folder, config = self._problem, self.folder, self.experiment.config
        mode = self.experiment.controller.mode() if history.has_policy else None
        done = trials.rows(trials.state == State.done)
        summary = summarise(
            trials,
            None if mode is None else mode[0],
            problem,
            self._settings(),
            seconds=seconds,
            resumed_at=resumed_at,
            confirmed=self._confirm(done),
            estimated=None
            if problem.survey is not None
            else estimated_share(
                problem.space, problem.oracle, problem.limit_ms, problem.limits, problem.margin
            ),
        )
        write_record(
            folder.samples, trials, feasible_of(trials, problem), problem.space, problem.limits
        )
        self.console.print("drawing the report")
        log.finish(
            {
                **asdict(summary.settings),
                "T_ms": problem.limit_ms,
                **{limit.symbol: limit.bound for limit in problem.limits.each},
                "device": problem.oracle.device,
                **{f"controller.{k}": v for k, v in asdict(config.controller).items()},
                **{f"reward.{k}": v for k, v in asdict(config.reward).items()},
            },
            _results(summary),
        )
        self._write_report(summary, trials, history)
        write_json(folder.summary, summary)
        folder.journal.unlink()
        print_summary(self.console, summary, verbose=config.verbose)
        if config.objectives is not None and summary.front:
            print_front(self.console, summary)
        print_next(self.console, summary, folder.path, folder.report)
        return summary

    def _settings(self) -> Settings:
        problem, config = self._problem, self.experiment.config
        space = problem.space
        tested = (
            space.accuracy_table.full_epochs
            if isinstance(space, HasAccuracyTable)
            else config.epochs
        )
        return Settings(
            space=space.name,
            dataset=problem.task.name,
            dataset_title=str(problem.task),
            reward=self.choices["reward"],
            controller=self.choices["controller"],
            epochs=config.epochs,
            test_epochs=tested,
            seed=config.seed,
            budget=config.budget,
        )

    def _confirm(self, done: Trials) -> Confirmation | None:
        """Time the best again where that can come out otherwise; None where it was not done."""
        oracle = self._problem.oracle
        if not isinstance(oracle, LiveOracle) or not oracle.confirm_top:
            return None
        self.console.print("timing the best within T again", soft_wrap=True)
        return confirm(
            done,
            within_limits(done, self._problem),
            oracle.measure_again,
            top=oracle.confirm_top,
            limit_ms=self._problem.limit_ms,
        )

    def _write_report(self, summary: Summary, trials: Trials, history: ChoiceHistory) -> None:
        from nas.report.run_page import run_page, write_report  # noqa: PLC0415 - at the end of a run

        folder = self.folder
        page = run_page(
            summary,
            trials,
            self._problem,
            history,
            environment=folder.read_environment(),
            command=self.command,
            config=folder.config.read_text(encoding="utf-8"),
        )
        write_report(folder.report, page)


def _results(summary: Summary) -> dict[str, float]:
    """Results under the same names whatever the limits are, so that runs can be compared."""
    found = {"result/feasible share": summary.feasible_share}
    if summary.best is not None:
        found["result/accuracy"] = summary.best.accuracy_searched
        found["result/latency_ms"] = summary.best.latency_ms
    if summary.gap is not None:
        found["result/gap to the optimum, points"] = summary.gap * 100
    return found
