"""One run: a search in its folder, from the start or from where it was cut off, to its results."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TypeAlias, final

from edgenas_core.command.console import at_stage
from edgenas_core.command.exit_status import plain_interrupts, reason
from edgenas_core.command.interruption import Interruption, unheard
from edgenas_core.files.atomic_file import remove_unfinished, write_whole
from edgenas_core.files.file_lock import held
from edgenas_core.files.typed_json import write_json
from edgenas_core.types.errors import UserError, gpu_memory_line
from nas.config.run_config import Experiment
from nas.report.answer import Answer
from nas.report.run_folder import environment
from nas.report.samples import write_record
from nas.report.summary import Summary, summarise
from nas.report.terminal import print_front, print_next, print_summary
from nas.runs.journal import Event, Journal, cut_journal, read_journal
from nas.runs.strategy import Begun, Outcome, Strategy
from nas.trials.trial import Trials

OnTrials: TypeAlias = Callable[[Trials], None]
"""Called with each batch of finished trials of a search, after it was journalled."""


def nothing(_trials: Trials) -> None:
    """The default of `OnTrials`."""


@final
@dataclass(frozen=True)
class Run:
    """One search in its folder, by a strategy."""

    begun: Begun[Experiment]
    strategy: Strategy
    on_trials: OnTrials = nothing

    def complete(self) -> Summary:
        """Search to the end, going on from what the folder holds.

        Returns the summary that was written.

        Raises:
          UserError: if a source lacks an architecture, or a file is corrupt or cannot be written.
          UnmeasuredError: if the latency oracle lacks an architecture.
        """
        begun, strategy = self.begun, self.strategy
        problem, folder = begun.experiment.problem, begun.folder
        with self._held():
            recorded = self._events()
            begun.console.print(f"writing to {folder.path}", soft_wrap=True)
            write_json(folder.environment, environment())
            events = strategy.restore(recorded)
            parts = [event for event in events if isinstance(event, Trials)]
            began_s, before = time.perf_counter(), sum(map(len, parts))
            with strategy:
                with (
                    Interruption() as interruption,
                    Journal(folder.journal, problem.space) as journal,
                    closing(strategy.loop(journal, interruption.check)) as batches,
                ):
                    for batch in batches:
                        trials = batch.replica(0)
                        journal(trials)
                        strategy.consume(trials)
                        self.on_trials(trials)
                        parts.append(trials)
                        interruption.check()
                outcome = strategy.outcome(parts)
                seconds = time.perf_counter() - began_s
                with Interruption():
                    summary = self._finish(outcome, seconds, before)
        if begun.experiment.config.export:
            self._export(Answer(summary))
        return summary

    def _export(self, answer: Answer) -> None:
        """Write the network of the answer as files for the board."""
        begun = self.begun
        if answer.network is None:
            begun.console.print(f"nothing to export: {answer.status.value}")
            return
        from nas.export.command import export_run  # noqa: PLC0415 - few searches export

        begun.console.print()
        at_stage(begun.console, "exporting")
        in_tflite = begun.experiment.problem.is_for_tflite
        export_run(begun.folder.path, answer.which, begun.console, in_tflite=in_tflite)
        for handed in answer.summary.handed[1:]:
            begun.console.print()
            try:
                export_run(
                    begun.folder.path,
                    answer.which,
                    begun.console,
                    in_tflite=in_tflite,
                    handed=handed,
                )
            except UserError as error:  # the others are there
                begun.console.print(f"{handed.export_name}: not exported: {error}")

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Keep other processes out of the folder; where it is left early, tell how to go on."""
        folder, again = self.begun.folder, self.begun.again
        try:
            with plain_interrupts(), held(folder.config):
                folder.require_unfinished()
                remove_unfinished(folder.path)
                yield
        except KeyboardInterrupt:
            text = f"go on with: python -m {self.begun.module} {again}"
            with unheard():
                self.begun.console.print(text, soft_wrap=True, markup=False)
            raise
        except (OSError, RuntimeError) as error:
            what = reason(error) if isinstance(error, OSError) else gpu_memory_line(error)
            if what is None:
                raise
            raise UserError(f"{what}; finished samples are saved, go on with {again}") from error

    def _events(self) -> Sequence[Event]:
        """The journal of an earlier part of the run, without a line that was cut off."""
        path = self.begun.folder.journal
        if not path.is_file():
            return []
        events = read_journal(path, self.begun.experiment.problem)
        cut_journal(path, len(events))
        return events

    def _finish(self, outcome: Outcome, seconds: float, before: int) -> Summary:
        """Write the results, the summary last: where there is one, the run has finished."""
        folder, console, trials = self.begun.folder, self.begun.console, outcome.trials
        experiment = self.begun.experiment
        problem = experiment.problem
        summary = summarise(
            trials,
            outcome.mode,
            problem,
            outcome.settings,
            seconds=seconds,
            resumed_at=before,
            confirmed=outcome.confirmed,
            estimated=problem.estimated_share,
            stages=outcome.stages,
            training=outcome.training,
            first_ms=outcome.first_ms,
            int8=outcome.int8,
            handed=outcome.handed,
        )
        write_record(folder.samples, trials, problem)
        write_whole(folder.report, self.strategy.page(summary, trials))
        write_json(folder.summary, summary)
        folder.journal.unlink(missing_ok=True)
        self.strategy.clean(summary)
        print_summary(console, summary)
        if experiment.shows_front and summary.front:
            print_front(console, summary)
        print_next(
            console,
            summary,
            folder.path,
            folder.report,
            data=experiment.data,
            is_exported=experiment.config.export,
        )
        return summary
