"""One run: the loop with its consumers, in a folder, from the start or from where it was cut off."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, final

from jaxtyping import Bool, Float64
from numpy import ndarray
from rich.console import Console

from latency.base import Doubtful, LiveOracle
from nas.config.build import Experiment
from nas.report.figures import draw_figures
from nas.report.summary import print_summary, summarise, write_summary
from nas.report.tensorboard_log import TensorBoardLog
from nas.search.checkpoint import Checkpointer, load_checkpoint, save_checkpoint
from nas.search.environment import write_environment
from nas.search.folder import RunFolder
from nas.search.interruption import Interruption
from nas.search.progress import ProgressBar
from nas.search.replay import check_answers, check_rewards, replay
from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from nas.trials.choice_history import OperationHistory
from nas.trials.confirmation import Candidate, confirm
from nas.trials.loop import search
from nas.trials.preflight import describe_limit, describe_reward, require_complete
from nas.trials.tracker import Tracker
from nas.trials.trial import Journal, Samples, cut_journal, read_journal, write_parquet

_LONG = 100
"""Words of a line on which sources are told together."""


def announce(experiment: Experiment, choices: Mapping[str, str], console: Console) -> None:
    """Say what the numbers are, whether the limits can be met, and where the reward leads.

    Raises:
      UserError: if no architecture meets the limit.
    """
    config, landscape = experiment.config, experiment.landscape
    further = "".join(f"{limit}, " for limit in experiment.limits.each)
    lines = [
        *_source_lines(experiment),
        (
            f"searching {experiment.task.name} on {experiment.oracle.device}, "
            f"T = {experiment.limit_ms:g} ms, {further}reward={choices['reward']}, "
            f"controller={choices['controller']}, seed {config.seed}, {config.budget:,} samples"
        ),
    ]
    if landscape is None:
        lines.append("the exact optimum is unknown: asking for the whole space is not free here")
    else:
        require_complete(landscape, experiment.oracle.device)
        lines.append(describe_limit(landscape, experiment.oracle.device))
        lines.append(describe_reward(landscape, experiment.reward))
    if isinstance(experiment.oracle, Doubtful):
        lines += [f"warning: {one}" for one in experiment.oracle.warnings]
    for line in lines:
        console.print(line, soft_wrap=True)


def _sources(experiment: Experiment) -> str:
    return "; ".join(_each_source(experiment))


def _source_lines(experiment: Experiment) -> list[str]:
    """All on one line, or where that would be long each on its own."""
    together = _sources(experiment)
    return [together] if len(together.split()) <= _LONG else _each_source(experiment)


def _each_source(experiment: Experiment) -> list[str]:
    return [
        f"accuracy {experiment.accuracy.description}",
        f"latency {experiment.oracle.description}",
        *(f"{limit.name} {limit.source}" for limit in experiment.limits.each),
    ]


def _short_sources(experiment: Experiment) -> str:
    """Where the numbers come from, short enough for a title, with what is predicted."""
    accuracy, latency = experiment.accuracy.source, experiment.oracle.source
    if accuracy == "surrogate":
        accuracy = "predicted by the surrogate"
    predicted = experiment.oracle.predicted(NAS_BENCH_201.rows)
    if predicted.all():
        latency = f"predicted by {latency}"
    elif predicted.any():
        latency = f"{latency}, {predicted.mean():.1%} of the cells predicted"
    return f"accuracy: {accuracy}; latency: {latency}"


@final
@dataclass(frozen=True)
class Run:
    """An experiment, the names it was asked for by, and the folder it is written to."""

    experiment: Experiment
    choices: Mapping[str, str]  # group -> name, as in reward -> proposed
    folder: RunFolder
    console: Console
    command: str  # that begins the same run

    def complete(self) -> dict[str, Any]:
        """Search to the end of the budget, going on from what the folder holds.

        Returns the summary that was written.

        Raises:
          UserError: if a source lacks an architecture, or a file is corrupt.
          UnmeasuredError: if the latency oracle lacks an architecture.
          OSError: if the folder cannot be written.
        """
        self.console.print(f"writing to {self.folder.path}", soft_wrap=True)
        write_environment(self.folder.environment)
        history = OperationHistory(self.experiment.controller, self.experiment.config.budget)
        done = self._restore(history)
        tracker = Tracker(self.experiment.limit_ms, self.experiment.limits)
        if done:
            tracker.add(read_journal(self.folder.journal))
        with (
            TensorBoardLog(
                self.folder.tensorboard,
                tracker,
                sources=_sources(self.experiment),
                limit_ms=self.experiment.limit_ms,
                budget=self.experiment.config.budget,
                landscape=self.experiment.landscape,
                history=history,
            ) as log,
            Interruption() as interruption,
        ):
            started_s = time.perf_counter()
            self._sample(tracker, log, history, done, interruption)
            return self._finish(log, history, time.perf_counter() - started_s, done)

    def _restore(self, history: OperationHistory) -> int:
        """Bring the controller to the end of the journal; returns the samples it has learned from."""
        experiment, folder = self.experiment, self.folder
        if not folder.journal.is_file():
            return 0
        recorded = read_journal(folder.journal)
        check_answers(recorded, experiment.accuracy, experiment.oracle)
        if experiment.limits:
            check_rewards(recorded, experiment.reward, experiment.limits)
        if isinstance(experiment.oracle, LiveOracle):
            experiment.oracle.remember(recorded.architectures, recorded.latency_ms)
        checkpointed = load_checkpoint(
            folder.checkpoint, experiment.controller, history, len(recorded)
        )
        done = replay(
            experiment.controller,
            experiment.reward,
            recorded,
            history,
            done=checkpointed,
            budget=experiment.config.budget,
            batch_size=experiment.config.controller.batch_size,
            limits=experiment.limits,
        )
        cut_journal(folder.journal, done)
        self.console.print(f"going on from sample {done:,}")
        return done

    def _sample(
        self,
        tracker: Tracker,
        log: TensorBoardLog,
        history: OperationHistory,
        done: int,
        interruption: Interruption,
    ) -> None:
        experiment, folder = self.experiment, self.folder
        config = experiment.config
        bar = ProgressBar(self.console, tracker, experiment.limit_ms, config.budget)
        with Journal(folder.journal) as journal, bar:
            consumers = (
                journal,
                history,
                Checkpointer(folder.checkpoint, experiment.controller, history),
                tracker,
                bar,
                log,
            )
            for step in search(
                experiment.controller,
                experiment.accuracy,
                experiment.oracle,
                experiment.reward,
                budget=config.budget,
                batch_size=config.controller.batch_size,
                limits=experiment.limits,
                done=done,
            ):
                for consume in consumers:
                    consume(step)
                interruption.check()
        save_checkpoint(folder.checkpoint, experiment.controller, history, config.budget)

    def _finish(
        self, log: TensorBoardLog, history: OperationHistory, seconds: float, done: int
    ) -> dict[str, Any]:
        """Write the results, the summary last: where there is one, the run has finished."""
        experiment, folder, config = self.experiment, self.folder, self.experiment.config
        samples = read_journal(folder.journal)
        mode = experiment.controller.mode()
        settings: dict[str, Any] = {
            "reward": self.choices["reward"],
            "controller": self.choices["controller"],
            "space": experiment.space.name,
            "dataset": experiment.task.name,
            "epochs": config.epochs,
            "seed": config.seed,
            "budget": config.budget,
        }
        met = experiment.limits.met(samples.architectures)
        feasible = (samples.latency_ms <= experiment.limit_ms) & met
        confirmed = self._confirm(samples, feasible)
        summary = summarise(
            samples,
            None if mode is None else mode[0],
            experiment.accuracy,
            experiment.oracle,
            experiment.landscape,
            limit_ms=experiment.limit_ms,
            limits=experiment.limits,
            settings=settings,
            seconds=seconds,
            resumed_at=done,
            confirmed=confirmed,
        )
        accuracy_test = experiment.accuracy.test(samples.architectures)
        latency_predicted = experiment.oracle.predicted(samples.architectures)
        write_parquet(
            folder.samples,
            samples,
            accuracy_test=accuracy_test,
            accuracy_predicted=experiment.accuracy.source == "surrogate",
            latency_predicted=latency_predicted,
            feasible=feasible,
            costs={limit.name: limit.of(samples.architectures) for limit in experiment.limits.each},
        )
        figures = draw_figures(
            folder.figures,
            samples,
            experiment.landscape,
            limit_ms=experiment.limit_ms,
            limits=experiment.limits,
            title=f"{settings['reward']} on {experiment.oracle.device}, {settings['dataset']}, "
            f"seed {config.seed}\n{_short_sources(experiment)}",
        )
        best = summary["best"]
        log.finish(
            {
                **settings,
                "T_ms": experiment.limit_ms,
                **{limit.symbol: limit.bound for limit in experiment.limits.each},
                "device": experiment.oracle.device,
                "sources": _short_sources(experiment),
                **{f"controller.{k}": v for k, v in asdict(config.controller).items()},
                **{f"reward.{k}": v for k, v in asdict(config.reward).items()},
            },
            {
                f"result/best accuracy within {experiment.limits.label}": best["accuracy_searched"]
                if best
                else 0.0,
                "result/feasible share": summary["feasible_share"],
            },
            figures,
        )
        self._write_report(
            summary,
            samples,
            accuracy_test=accuracy_test,
            latency_predicted=latency_predicted,
            feasible=feasible,
            history=history,
        )
        write_summary(folder.summary, summary)
        folder.journal.unlink()
        print_summary(self.console, summary)
        self.console.print(
            f"next: open {folder.report}, or python -m tensorboard.main --logdir {folder.path}",
            soft_wrap=True,
        )
        for line in _source_lines(experiment):
            self.console.print(line, soft_wrap=True)
        return summary

    def _confirm(self, samples: Samples, feasible: Bool[ndarray, "n"]) -> list[Candidate] | None:
        """Time the best again where that can come out otherwise; None where it was not done."""
        oracle = self.experiment.oracle
        if not isinstance(oracle, LiveOracle) or not oracle.confirm_top:
            return None
        self.console.print("timing the best within T again", soft_wrap=True)
        return confirm(
            samples,
            feasible,
            oracle.measure_again,
            top=oracle.confirm_top,
            limit_ms=self.experiment.limit_ms,
        )

    def _write_report(
        self,
        summary: dict[str, Any],
        samples: Samples,
        *,
        accuracy_test: Float64[ndarray, "n"],
        latency_predicted: Bool[ndarray, "n"],
        feasible: Bool[ndarray, "n"],
        history: OperationHistory,
    ) -> None:
        # a run's first sample does not wait for it
        from nas.report.run_page import Evidence, run_page, write_report  # noqa: PLC0415

        evidence = Evidence(
            summary,
            samples,
            accuracy_test,
            latency_predicted,
            feasible,
            self.experiment.landscape,
            history,
            self.experiment.limits,
        )
        folder = self.folder
        machine = json.loads(folder.environment.read_text(encoding="utf-8"))
        config = folder.config.read_text(encoding="utf-8")
        write_report(folder.report, run_page(evidence, machine, self.command, config))
