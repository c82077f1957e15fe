"""Searches by a controller: answers are instant, or arrive as asynchronous evaluations end."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import final

from jaxtyping import Int64
from numpy import ndarray
from rich.console import Console

from edgenas_core.command.progress import progress_bar
from edgenas_core.types.kind import is_predicted
from latency.base import Latencies, LiveOracle
from nas.accuracy.base import HasAccuracyTable
from nas.config.build import SearchExperiment
from nas.report.number import PREDICTED
from nas.report.summary import RunSettings, Summary
from nas.report.tensorboard_log import TensorBoardLog
from nas.runs.announcement import sources
from nas.runs.journal import Event, Journal, cut_journal
from nas.runs.strategy import Begun, Outcome
from nas.search.replay import NOTHING, check_answers, complete, replay
from nas.trials.asynchronous import Asynchronous, ControllerProposer
from nas.trials.confirmation import Confirmation, confirm
from nas.trials.loop import OnAsked, search
from nas.trials.statistics import ChoiceHistory, Tracker
from nas.trials.trial import State, Trials


@final
class ByController:
    """A strategy of a run: a controller proposes, and learns from every answer.

    The loop is instant, or asynchronous where the experiment has a slow accuracy source.
    """

    def __init__(self, begun: Begun[SearchExperiment]) -> None:
        self._begun = begun
        self._experiment, self._folder = begun.experiment, begun.folder
        self._problem, self._config = begun.experiment.problem, begun.experiment.config
        self._controller = begun.experiment.controller
        self._history = ChoiceHistory(
            self._controller, self._problem.space.num_choices, self._config.budget
        )
        self._tracker = Tracker(self._problem.limit_ms, self._problem.limits, self._problem.margin)
        self._replayed = NOTHING

    def __enter__(self) -> ByController:
        problem = self._problem
        self._log = TensorBoardLog(
            self._folder.tensorboard,
            self._tracker,
            sources="; ".join(sources(problem)),
            limit_ms=problem.limit_ms,
            budget=self._config.budget,
            survey=problem.survey,
            controller=self._controller,
        ).__enter__()
        self._bar = ProgressBar(
            self._begun.console, self._tracker, problem.limit_ms, self._config.budget
        )
        return self

    def __exit__(self, *raised: object) -> None:
        self._log.__exit__(*raised)

    def restore(self, events: Sequence[Event]) -> Sequence[Event]:
        """Bring the controller to the end of the journal."""
        if not self._folder.journal.is_file():
            return events
        if self._experiment.source is None:  # else each trial is answered on its own, none is lost
            events = complete(events)
            cut_journal(self._folder.journal, len(events))
        problem = self._problem
        self._replayed = replay(self._controller, problem, events, self._history)
        trials = self._replayed.trials
        if trials is not None:
            check_answers(trials, problem)
            if isinstance(problem.oracle, LiveOracle):
                done = trials.rows(trials.state == State.done)
                latencies = Latencies(done.latency_ms, done.latency_kind)
                problem.oracle.remember(done.architectures, latencies)
            self._tracker(trials)
            self._begun.console.print(f"going on from trial {len(trials):,}")
        return events

    def loop(self, journal: Journal, check: Callable[[], None]) -> Generator[Trials, None, None]:
        """Search to the end of the budget."""

        def asked(first: int, architectures: Int64[ndarray, "R B D"]) -> None:
            journal.asked(first, architectures)
            self._history(first, architectures)

        with self._bar:
            yield from self._batches(asked, check)

    def _batches(self, asked: OnAsked, check: Callable[[], None]) -> Iterator[Trials]:
        config, before, source = self._config, self._replayed, self._experiment.source
        at_once: int = getattr(self._problem.oracle, "at_once", 1)
        if source is None:
            return search(
                self._controller,
                self._problem,
                budget=config.budget,
                batch_size=max(config.controller.batch_size, at_once),
                first=before.asked,
                on_asked=asked,
            )
        proposer = ControllerProposer(
            self._controller,
            self._problem,
            config.budget,
            config.seed,
            before.asked,
            dict(before.running),
            asked,
        )
        loop = Asynchronous(self._problem, source, config.workers or 1, check)
        source.go_on(before.now_s, before.begun_s)
        return loop.search(proposer)

    def consume(self, trials: Trials) -> None:
        """Show the figures."""
        for consumer in (self._tracker, self._bar, self._log):
            consumer(trials)

    def outcome(self, parts: Sequence[Trials]) -> Outcome:
        """Time the best again, where the device is live."""
        trials = Trials.joined(parts)
        mode = self._controller.mode() if self._history.has_policy else None
        done = trials.rows(trials.state == State.done)
        return Outcome(
            trials,
            self._settings(),
            None if mode is None else mode[0],
            self._confirmed(done),
        )

    def _confirmed(self, done: Trials) -> Confirmation | None:
        """Time the best again where that can come out otherwise; None where it was not done."""
        problem, oracle = self._problem, self._problem.oracle
        if not isinstance(oracle, LiveOracle) or not oracle.confirm_top:
            return None
        self._begun.console.print("timing the best within T again", soft_wrap=True)
        return confirm(
            done,
            problem.within_limits(done),
            oracle.measure_again,
            top=oracle.confirm_top,
            limit_ms=problem.limit_ms,
        )

    def _settings(self) -> RunSettings:
        space, config, choices = self._problem.space, self._config, self._begun.choices
        tested = (
            space.accuracy_table.full_epochs
            if isinstance(space, HasAccuracyTable)
            else config.epochs
        )
        return RunSettings(
            space=space.name,
            dataset=self._problem.task.name,
            dataset_title=str(self._problem.task),
            reward=choices["reward"],
            controller=choices["controller"],
            epochs=config.epochs,
            test_epochs=tested,
            seed=config.seed,
            budget=config.budget,
        )

    def page(self, summary: Summary, trials: Trials) -> str:
        """Make the page."""
        from nas.report.run_page import run_page  # noqa: PLC0415 - at the end of a run

        problem, folder = self._problem, self._folder
        self._begun.console.print("drawing the report")
        return run_page(
            summary,
            trials,
            problem,
            self._history,
            environment=folder.read_environment(),
            command=self._begun.command,
            config=folder.config.read_text(encoding="utf-8"),
        ).html()

    def clean(self, summary: Summary) -> None:
        """There are none but the journal."""


@final
class ProgressBar:
    """Shows where the search stands; a consumer of the loop."""

    def __init__(self, console: Console, tracker: Tracker, limit_ms: float, budget: int) -> None:
        self._console = console
        self._tracker = tracker
        self._limit_ms = limit_ms
        self._budget = budget
        self._shown = tracker.samples
        self._every = max(1, budget // (200 if console.is_terminal else 10))
        self._bar = progress_bar(console)
        self._task = self._bar.add_task("", total=budget, completed=tracker.samples)

    def __enter__(self) -> ProgressBar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, trials: Trials) -> None:
        """Show the figures, a few hundred times a run, with the mark of predictions."""
        done = self._tracker.samples
        if done - self._shown < self._every and done < self._budget:
            return
        self._shown = done
        if not self._tracker.has_recent:
            return
        accuracy, latency_ms, _ = self._tracker.recent_means()
        accuracy_mark, latency_mark = (
            PREDICTED if is_predicted(kinds).any() else ""
            for kinds in (trials.accuracy_kind, trials.latency_kind)
        )
        best = self._tracker.best_accuracy
        label = self._tracker.limits.label
        best_text = f"none within {label} yet"
        if best >= 0:
            best_text = f"best within {label} {accuracy_mark}{best:.2%}"
        costs = "".join(
            f" {limit.text(mean)} / {limit.text(limit.bound)}"
            for limit, mean in self._tracker.recent_costs()
        )
        failed = f"  {self._tracker.failed:,} failed" if self._tracker.failed else ""
        mean_text = f"{accuracy_mark}{accuracy:.2%} {latency_mark}{latency_ms:5.2f}"
        means = f"mean {mean_text} / {self._limit_ms:g} ms{costs}"
        figures = f"{means}  {best_text}"
        self._bar.update(self._task, completed=done, description=figures)
        if not self._console.is_terminal:
            left_s = self._bar.tasks[0].time_remaining
            left = f"  {in_words(float(left_s))} left" if left_s else ""
            budget = f"{self._budget:,}"
            self._console.print(
                f"{done:>{len(budget)},}/{budget} trials  {figures}{failed}{left}", soft_wrap=True
            )


def in_words(seconds: float) -> str:
    """A duration in its largest whole unit: 40 s, 12 min, 3.5 h."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
