"""A search on own images in stages: what its kinds share, from the first training to the winner's."""

from __future__ import annotations

import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64
from numpy import ndarray

from edgenas_core.command.console import say
from edgenas_core.files.typed_json import typed_record
from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from edgenas_core.types.units import epochs_text
from latency.base import Latencies, LiveOracle
from latency.probe.settings import BoardPrecision
from nas.accuracy.base import Accuracies
from nas.accuracy.slow import Evaluation, Fidelity, SlowAccuracySource
from nas.fit.config import Begun
from nas.fit.learners.data import TrainingData
from nas.fit.own_images import OwnImages
from nas.fit.ranking.candidates import Candidates, candidates_of
from nas.fit.ranking.proposer import StagedProposer
from nas.fit.ranking.stage_result import StageResult
from nas.fit.ranking.stages import Jobs, StageJob
from nas.fit.run.int8 import int8_of_winner
from nas.fit.run.winner import (
    Winner,
    forget_checkpoint,
    spent_since,
    train_winner,
    valid_accuracy,
)
from nas.fit.training.trained_folder import (
    PICTURES,
    RECORD,
    Training,
    read_training,
    trained_folder,
)
from nas.report.event_file import EventFile
from nas.report.staged_page import print_stage, staged_page
from nas.report.summary import Int8Accuracy, RunSettings, Summary
from nas.report.training_charts import TrainedWinner
from nas.runs.journal import Asked, Event, Journal, JournalNote
from nas.runs.strategy import Outcome
from nas.train.job import Start
from nas.trials.asynchronous import Asynchronous
from nas.trials.executor import Workers
from nas.trials.trial import Trials

GPU_WORKERS = 8
"""Trainings at once on a GPU, which one small network leaves mostly idle."""

_INT8_SHARE = 0.03
"""Share of the time for the winner's int8 file and its accuracy."""

TOLD_EVERY_S = 5.0
"""Seconds between two lines about how far a stage is."""

_BRIEF_S = 600.0
"""Time of a search of which the start of a process, which imports torch, would be a notable part."""

_NOTABLY_LESS = 1 / 3
"""Share of the time in the forecast below which the user hears why the winner has so few epochs."""

_EARLY = 0.05
"""Share of the time that is left where the user hears why."""


class StagedSearch(ABC):
    """A strategy of a run: scores, short and longer trainings rank, and the winner is trained in full.

    The journal holds the candidates, every training and the winner; the supernet, the rankings'
    trainings and the winner's go on from checkpoints.
    """

    def __init__(self, begun: Begun) -> None:
        self._begun = begun
        self._problem, self._config = begun.experiment.problem, begun.experiment.config
        rule, accuracy = begun.experiment.rule, self._problem.accuracy
        if not isinstance(accuracy, OwnImages):
            raise TypeError(f"{type(accuracy).__name__} is not of own images")
        self._rule, self._accuracy, self._images = rule, accuracy, accuracy.images
        self._folder = begun.folder.path.absolute()  # as other processes see it
        self._fidelities = self._lengths()
        self._candidates: Candidates | None = None
        self._winners: list[Winner] = []  # decided on; each was replaced by the next
        self._scratch: Winner | None = None  # network with new weights beside them
        self._trials: list[Trials] = []  # of an earlier part
        self._trained: list[tuple[Winner, Training]] = []  # in full; the last is handed over
        self._asked = 0
        self._began_s = begun.began_s
        self._ranked_from_s = self._told_s = time.monotonic()
        self._spent_s = 0.0  # by the search until the loop began
        self._promised_s = 0.0  # to the winner, in the forecast of its epochs

    def __enter__(self) -> StagedSearch:  # noqa: PYI034 - a subclass is one of it
        return self

    def __exit__(self, *_: object) -> None:  # noqa: B027 - no kind has anything to close
        """Hold nothing open."""

    @property
    def _inherits(self) -> bool:
        """Whether networks begin with the weights of a supernet."""
        return self._rule.inherits

    @property
    def _parallel(self) -> int:
        """Networks that are scored or trained at once."""
        if self._config.executor is Workers.threads:
            return 1
        on_gpus = GPU_WORKERS * torch.cuda.device_count()
        return self._config.workers or max(1, on_gpus)

    @property
    def _executor(self) -> Workers:
        """As set; the start of one other process would take a notable part of a brief search."""
        chosen, is_brief = self._config.executor, self._seconds <= _BRIEF_S
        is_alone = chosen is Workers.processes and self._parallel == 1
        return Workers.threads if is_alone and is_brief else chosen

    @property
    def _seconds(self) -> float:
        """Time of the whole search."""
        return 3600 * self._config.hours

    @property
    def _checkpoints(self) -> Path:
        """Folder of the ranking trainings."""
        return self._folder / "checkpoints"

    def restore(self, events: Sequence[Event]) -> Sequence[Event]:
        """Take over the candidates, the trainings and the winner of an earlier part."""
        notes = [event for event in events if isinstance(event, JournalNote)]
        try:
            for note in notes:
                if note.name == "candidates":
                    self._candidates = candidates_of(note.value, self._problem.space)
                elif note.name == "winner":
                    winner = typed_record(note.value, Winner)
                    self._winners.append(winner)
                elif note.name == "scratch":
                    self._scratch = typed_record(note.value, Winner)
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            path = self._begun.folder.journal
            raise UserError(f"{path} is not the journal of a staged search: {error}") from error
        self._trials = [event for event in events if isinstance(event, Trials)]
        asked = [event.first + 1 for event in events if isinstance(event, Asked)]
        self._asked = max(asked, default=0)
        return events

    def loop(self, journal: Journal, check: Callable[[], None]) -> Generator[Trials, None, None]:
        """Draw and score candidates, and train the promising ones until the winner's time begins."""
        if self._candidates is None:
            self._candidates = self._drawn(check)
            journal.note("candidates", self._candidates.values())
        self._proposer = StagedProposer(
            self._stages(self._candidates),
            self._config.seed,
            asked=self._asked,
            on_asked=journal.asked,
        )
        try:
            for trial in self._trials:
                self._proposer.learn(trial.as_batch())
        except KeyError as error:
            path = self._begun.folder.journal
            raise UserError(f"{path} holds a training of a network that was not drawn") from error
        if self._trials:
            self._say(f"going on after {len(self._trials):,} trainings")
        self._ranked_from_s = time.monotonic()
        trained_s = sum(result.seconds for result in self._proposer.results.values())
        spent_s = self._candidates.seconds + trained_s / self._parallel
        self._spent_s = max(spent_s, self._ranked_from_s - self._began_s)
        decided = [*filter(None, [self._scratch]), *self._winners]
        if decided:
            self._spent_s = max(self._spent_s, spent_since(self._folder, decided[-1]))
        if self._winners:
            return

        source = self._trainings()
        loop = Asynchronous(self._problem, source, self._parallel, check, self._curve)
        yield from loop.search(self._proposer, elapsed_s=self._spent_s)

    @property
    def _elapsed_s(self) -> float:
        return self._spent_s + time.monotonic() - self._ranked_from_s

    @property
    def _drawn_candidates(self) -> Candidates:
        if self._candidates is None:
            raise TypeError("there are no candidates before the loop")
        return self._candidates

    def consume(self, trials: Trials) -> None:
        """Say what a training came to."""
        arch = self._problem.space.text(trials.architectures[0])
        name = (
            f"training {trials.first + 1}, {arch}, {self._fidelities[int(trials.fidelity[0])].name}"
        )
        seconds, left_s = float(trials.seconds[0]), self._ranking_ends_s - self._elapsed_s
        ended = (
            f"failed after {seconds:.0f} s: {trials.error[0]}"
            if trials.error[0]
            else f"{trials.accuracy[0]:.2%} at {trials.latency_ms[0]:.2f} ms, {seconds:.0f} s"
        )
        self._say(f"{name}: {ended}; ranking ends in {max(0.0, left_s):.0f} s")

    def _curve(self, trial: Trials, evaluation: Evaluation) -> None:
        """Write a training's losses, and the accuracy it ended with, for TensorBoard."""
        epochs = self._fidelities[int(trial.fidelity[0, 0])].epochs
        name = f"training-{trial.first + 1}-epochs-{epochs}"
        folder = self._begun.folder.tensorboard / name
        events = EventFile(folder)
        for epoch, loss in enumerate(evaluation.losses, 1):
            events.scalar("training/loss", loss, epoch)
        events.scalar(f"training/{self._images.metric}", evaluation.accuracy, epochs)
        events.close()

    def outcome(self, parts: Sequence[Trials]) -> Outcome:
        """Train the winner in full, in the time that is left.

        Raises:
          UserError: if every training failed, or no candidate is within T when timed again.
        """
        left_s = self._seconds - self._elapsed_s
        candidates, proposer = self._drawn_candidates, self._proposer
        stages = self._stage_results()
        for stage in stages:
            print_stage(self._begun.console, stage)
        order = proposer.stages.order(proposer.results).tolist()
        as_searched = candidates.rows(np.arange(len(candidates)))  # with the first latencies
        trials, results = [*parts], []
        self._trained = self._trained_in_full(order, left_s)
        for number, (winner, training) in enumerate(self._trained):
            at, is_last = self._candidate(winner.arch), number == len(self._trained) - 1
            trials.append(self._trial(number, at, winner, training))
            results.append(
                StageResult(
                    "full" if is_last else "replaced",
                    1,
                    int(is_last),
                    training.seconds,
                    epochs_text(training.epochs),
                    training.arch,
                    1 + order.index(at) if at in order else None,
                    valid_accuracy(training),
                )
            )
        left_s = self._seconds - self._elapsed_s - self._int8_s
        if left_s > _EARLY * self._seconds:
            is_whole = training.epochs >= self._most_epochs(winner.recipe)
            why = "epochs= allows more" if is_whole else "another one takes longer"
            self._say(
                f"{left_s:.0f} s are left after {epochs_text(training.epochs)} of the winner: {why}"
            )
        if self._inherits:
            kinds = np.full(len(candidates), Kind.supernet, np.int8)
            trials.append(
                candidates.judged(
                    self._problem,
                    proposer.asked + len(results),
                    np.arange(len(candidates)),
                    Accuracies(candidates.prior, kinds),
                    seconds=candidates.score_s,
                    fidelity=-1,
                )
            )
        is_timed_again = (
            self._times_again and not Kind(int(as_searched.latency_kind[at])).is_predicted
        )
        return Outcome(
            Trials.joined(trials),
            self._settings(training.epochs),
            stages=(*stages, *results),
            training=training,
            first_ms=float(as_searched.latency_ms[at]) if is_timed_again else None,
            int8=self._int8_of_winner(training),
        )

    def _rule_stage(
        self, at: int, jobs: Sequence[StageJob], untrained: float | None = None
    ) -> StageResult:
        """The rule of thumb by the longest of its trainings that did not fail, or by its accuracy before any."""
        results, rows = self._proposer.results, self._drawn_candidates.architectures
        done = [job for job in jobs if not np.isnan(results[job].accuracy)]
        longest = max(
            done,
            key=lambda job: (self._fidelities[job.fidelity].epochs, results[job].accuracy),
            default=None,
        )
        seconds = sum((results[job].seconds for job in jobs), 0.0)
        fidelity, accuracy = "", untrained
        if longest is not None:
            at, accuracy = longest.candidate, results[longest].accuracy
            fidelity = self._fidelities[longest.fidelity].name
        text = self._problem.space.text(rows[at])
        return StageResult("rule", 1, 1, seconds, fidelity, text, None, accuracy)

    def _images_of(self, architecture: Int64[ndarray, "D"]) -> TrainingData:  # noqa: ARG002 - all take the same
        """Images as the network takes them."""
        return self._images

    def _trial(self, number: int, at: int, winner: Winner, training: Training) -> Trials:
        """Record of a training in full, of a fidelity beyond those that rank, and its latency as confirmed."""
        candidates = self._drawn_candidates
        candidates.latency_ms[at] = winner.latency_ms
        candidates.latency_kind[at] = winner.latency_kind
        if training.test is not None:
            row = candidates.architectures[at]
            self._accuracy.tested[row.tobytes()] = training.test.fraction
        return candidates.judged(
            self._problem,
            self._proposer.asked + number,
            np.array([at]),
            Accuracies(np.array([valid_accuracy(training)]), np.array([Kind.trained], np.int8)),
            seconds=training.seconds,
            fidelity=len(self._fidelities) + number,
        )

    def _trained_in_full(self, order: list[int], left_s: float) -> list[tuple[Winner, Training]]:
        """Decisions with their trainings; the last is handed over, those before it were replaced."""
        ends_s = time.monotonic() + left_s
        if not self._winners:
            self._decide(self._decided(order, ends_s))
            left_s = max(0.0, ends_s - self._int8_s - time.monotonic())
            if left_s < _NOTABLY_LESS * self._promised_s:
                self._say(
                    f"{left_s:.0f} s are left for the winner, not {self._promised_s:.0f} s: what came "
                    f"before took longer than planned; allow more hours="
                )
        *replaced, winner = self._winners
        folders = [(each, trained_folder(self._folder, each.arch)) for each in replaced]
        before = [
            (each, read_training(folder))
            for each, folder in folders
            if each.arch != winner.arch and (folder / RECORD).is_file()
        ]
        return [*before, (winner, self._train(winner, ends_s - self._int8_s))]

    def _decide(self, winner: Winner) -> Winner:
        """Keep a decision, which a resumed search goes on with."""
        winner = replace(winner, after_s=self._elapsed_s)
        self._note("winner", winner)
        self._winners.append(winner)
        return winner

    def _note(self, name: str, winner: Winner) -> None:
        with Journal(self._begun.folder.journal, self._problem.space) as journal:
            journal.note(name, asdict(winner))

    def _train(self, winner: Winner, ends_s: float) -> Training:
        """Train in full, or go on with it."""
        return train_winner(
            self._begun.experiment,
            self._images_of(self._problem.space.parse(winner.arch)),
            self._folder,
            winner,
            self._begun.console,
            start=replace(self._start(winner), ranked=self._ranked_accuracy(winner.arch)),
            most=self._most_epochs(winner.recipe),
            ends_s=ends_s,
        )

    def _ranked_accuracy(self, arch: str) -> float:
        """Accuracy on validation images after its longest ranking training; 0 if there is none."""
        at, fidelities = self._candidate(arch), self._fidelities
        trained = [
            (fidelities[job.fidelity].epochs, result.accuracy)
            for job, result in self._proposer.results.items()
            if job.candidate == at and not np.isnan(result.accuracy)
        ]
        epochs, accuracy = max(trained, default=(0, 0.0))
        return accuracy if epochs else 0.0  # that of frozen features is another accuracy

    def _candidate(self, arch: str) -> int:
        """Position among the candidates."""
        row = self._problem.space.parse(arch)
        return int((self._drawn_candidates.architectures == row).all(-1).argmax())

    @property
    def _is_for_int8(self) -> bool:
        return self._config.precision is BoardPrecision.int8

    @property
    def _int8_s(self) -> float:
        """Time that is kept for the winner's int8 file."""
        return _INT8_SHARE * self._seconds if self._is_for_int8 else 0.0

    def _int8_of_winner(self, training: Training) -> Int8Accuracy | None:
        """Accuracy of the winner after quantisation, of a search for int8."""
        if not self._is_for_int8:
            return None
        images = self._images_of(self._problem.space.parse(training.arch))
        folder = trained_folder(self._folder, training.arch)
        accuracy = int8_of_winner(self._problem, images, training, folder, self._say)
        self._say(f"int8: {accuracy.valid_text}")
        return accuracy

    @property
    def _times_again(self) -> bool:
        """Whether the winner is timed a second time, which then counts."""
        oracle = self._problem.oracle
        return isinstance(oracle, LiveOracle) and bool(oracle.confirm_top)

    def _confirmed(self, order: list[int]) -> tuple[int, float, int]:
        """The first candidate that a live device finds within T again, with its latency and the kind."""
        if not order:
            raise UserError(
                "every training failed; the journal in the run's folder holds the errors"
            )
        oracle, candidates = self._problem.oracle, self._drawn_candidates
        first_ms, first_kind = candidates.latency_ms.tolist(), candidates.latency_kind.tolist()
        if not isinstance(oracle, LiveOracle) or not self._times_again:
            return order[0], first_ms[order[0]], first_kind[order[0]]
        rows, top = candidates.architectures, oracle.confirm_top
        is_predicted = Latencies(candidates.latency_ms, candidates.latency_kind).is_predicted
        measured = [at for at in order[top:] if not is_predicted[at]]
        fastest = sorted(order, key=first_ms.__getitem__)[:top]  # of a board that is slower now
        disturbed = []
        for candidate in dict.fromkeys((*order[:top], *measured[:top], *fastest)):
            again = oracle.measure_again(rows[[candidate]])
            ms, kind = float(again.ms[0]), Kind(int(again.kind[0]))
            before = "predicted" if is_predicted[candidate] else "at first"
            self._say(
                f"timed again: {self._problem.space.text(rows[candidate])} {ms:.3f} ms, {kind.words}; "
                f"{before} {first_ms[candidate]:.3f} ms"
            )
            if ms <= self._problem.limit_ms:
                if kind is not Kind.disturbed:
                    return candidate, ms, kind
                disturbed.append((candidate, ms, int(kind)))
        if disturbed:
            return disturbed[0]
        why = "is the board quiet, are its clocks fixed?"
        if is_predicted[order[:top]].all():
            why = "the predictions were too low; time more with networks="
        raise UserError(
            f"neither the best nor the fastest {len(order[:top])} networks are within T when timed again; {why}"
        )

    def _settings(self, epochs: int) -> RunSettings:
        task = self._problem.task
        return RunSettings(
            space=self._problem.space.name,
            dataset=task.name,
            dataset_title=str(task),
            reward=None,
            controller=self._rule.by,
            epochs=epochs,
            test_epochs=epochs,
            seed=self._config.seed,
            budget=self._rule.draws,
            metric=self._images.metric,
            items=self._images.items,
        )

    def page(self, summary: Summary, trials: Trials) -> str:
        """The page with the stages and all trainings."""
        folder, trained, epochs = self._begun.folder, None, summary.settings.epochs
        replaced = [
            Fidelity(f"{epochs_text(training.epochs)}, replaced", training.epochs)
            for _, training in self._trained[:-1]
        ]
        if summary.best is not None:
            row = self._problem.space.parse(summary.best.arch)
            training = read_training(trained_folder(self._folder, summary.best.arch))
            folder_of = trained_folder(self._folder, summary.best.arch)
            trained = TrainedWinner(training, self._images_of(row).test, folder_of / PICTURES)
        return staged_page(
            summary,
            trials,
            self._problem,
            fidelities=(*self._fidelities, *replaced, Fidelity(epochs_text(epochs), epochs)),
            winner=trained,
            environment=folder.read_environment(),
            command=self._begun.command,
            config=folder.config.read_text(encoding="utf-8"),
            images=self._images,
        ).html()

    def clean(self, summary: Summary) -> None:
        """Remove the checkpoints: a longer training of the winner, by nas.train, begins anew."""
        shutil.rmtree(self._checkpoints, ignore_errors=True)
        if summary.best is not None:
            forget_checkpoint(self._folder, summary.best.arch)

    def _tell(self, line: str) -> None:
        """Say how far a stage is, not too often."""
        if time.monotonic() >= self._told_s + TOLD_EVERY_S:
            self._told_s = time.monotonic()
            self._say(line)

    def _say(self, line: str) -> None:
        say(self._begun.console, line)

    @abstractmethod
    def _most_epochs(self, recipe: str) -> int:
        """Most epochs of a winner by this recipe."""

    @abstractmethod
    def _lengths(self) -> tuple[Fidelity, ...]:
        """Lengths of the trainings that rank, the shortest first."""

    @abstractmethod
    def _stages(self, candidates: Candidates) -> Jobs:
        """What is trained next, and for how long."""

    @property
    @abstractmethod
    def _ends_s(self) -> Mapping[str, float]:
        """End of each stage, in seconds from the beginning."""

    @property
    def _ranking_ends_s(self) -> float:
        """End of the trainings that rank, in seconds from the beginning."""
        return self._ends_s["longer"]

    @property
    def _scored_s(self) -> float:
        """Time until the candidates were known; images and boards take time, too."""
        return max(self._drawn_candidates.seconds, time.monotonic() - self._began_s)

    @abstractmethod
    def _drawn(self, check: Callable[[], None]) -> Candidates:
        """Candidates within every limit."""

    @abstractmethod
    def _trainings(self) -> SlowAccuracySource:
        """Trainings, so many at once."""

    @abstractmethod
    def _stage_results(self) -> tuple[StageResult, ...]:
        """Results of the stages before the winner's own training."""

    @abstractmethod
    def _decided(self, order: list[int], ends_s: float) -> Winner:
        """The winner, which is confirmed, and as many epochs as fit."""

    @abstractmethod
    def _start(self, winner: Winner) -> Start:
        """The winner's network, and what it goes on from."""
