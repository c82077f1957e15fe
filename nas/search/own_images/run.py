"""One search on own images in its folder; each of its stages may be interrupted and resumed."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import final

import torch
from rich.console import Console

from common.command.console import say
from common.files.typed_json import write_json
from common.types.errors import UserError
from common.types.kind import Kind
from latency.base import LiveOracle
from nas.accuracy.base import HasSupernet
from nas.accuracy.images.image_set import ImageSet
from nas.accuracy.own_images import Order, OwnImages, OwnImagesConfig
from nas.accuracy.short import SideBySide
from nas.accuracy.slow import Evaluation, Fidelity, SlowAccuracySource
from nas.accuracy.supernet.stored import Inheriting
from nas.accuracy.training.checkpoint import epochs_done
from nas.accuracy.training.evaluation import device_named
from nas.accuracy.training.recipe import recipe_named
from nas.accuracy.training.share import take_share
from nas.accuracy.training.trial import NetworkOf, TrialTraining, checkpoint_of
from nas.accuracy.training.untrained import untrained
from nas.config.build import Experiment
from nas.report.event_file import EventFile
from nas.report.run_page import write_report
from nas.report.staged_page import print_stage, staged_page
from nas.report.summary import Settings, Summary, feasible_of, summarise
from nas.report.tensorboard_log import FLUSH_S
from nas.report.terminal import print_next, print_summary
from nas.search.environment import write_environment
from nas.search.folder import RunFolder
from nas.search.interruption import Interruption
from nas.search.journal import Asked, Journal, cut_journal, read_journal
from nas.search.own_images.scoring import ProxyScores, Scores, supernet_scores
from nas.search.own_images.winner import (
    Winner,
    epochs_within,
    forget_checkpoint,
    read_winner,
    train_winner,
)
from nas.search.record import write_record
from nas.search.run import OnTrials, nothing
from nas.train.job import Start
from nas.trials.executor import Evaluated, Workers
from nas.trials.problem import SearchProblem
from nas.trials.staged.candidates import Candidates, draw, load_candidates, save_candidates, scored
from nas.trials.staged.loop import StagedLoop
from nas.trials.staged.stage_result import StageResult, stage_results
from nas.trials.staged.stages import LONGER, Job, Stages
from nas.trials.survey import estimated_share
from nas.trials.trial import Trials

EPOCHS = (1, 3, 12, 36)
"""Lengths of the trainings that rank."""

GPU_WORKERS = 8
"""Trainings at once on a GPU, which one small network leaves mostly idle."""

CPU_SIDE, CPU_SHRUNK = 16, 7
"""Pixels of the images that rank on a CPU, and how many times smaller larger ones become at most.

The winner sees whole images: sides of 32 pixels become 16, those of 224 become 32.
"""


@final
@dataclass(frozen=True)
class OwnImagesRun:
    """An experiment with images, the names it was asked for by, and its folder."""

    experiment: Experiment
    images: ImageSet
    rule: OwnImagesConfig
    accuracy: OwnImages
    choices: Mapping[str, str]  # group -> name
    folder: RunFolder
    console: Console
    command: str  # that begins the same run
    on_trials: OnTrials

    @classmethod
    def of(  # noqa: PLR0917 - called as `Run` is
        cls,
        experiment: Experiment,
        choices: Mapping[str, str],
        folder: RunFolder,
        console: Console,
        command: str,
        on_trials: OnTrials = nothing,
    ) -> OwnImagesRun:
        """The run of an experiment whose accuracies are of own images."""
        rule, accuracy = experiment.config.accuracy, experiment.problem.accuracy
        if not isinstance(rule, OwnImagesConfig) or not isinstance(accuracy, OwnImages):
            raise TypeError(f"{type(accuracy).__name__} is not of own images")
        return cls(
            experiment,
            accuracy.images,
            rule,
            accuracy,
            choices,
            folder,
            console,
            command,
            on_trials,
        )

    @property
    def _problem(self) -> SearchProblem:
        return self.experiment.problem

    @property
    def _inherits(self) -> bool:
        """Whether networks begin with the weights of a supernet."""
        return self.rule.order is Order.supernet

    @property
    def _parallel(self) -> int:
        """Networks that are scored or trained at once."""
        if self.experiment.config.executor is Workers.threads:
            return 1
        on_gpus = GPU_WORKERS * torch.cuda.device_count()
        return self.experiment.config.workers or max(1, on_gpus)

    def complete(self) -> Summary:
        """Rank, train and write, going on from what the folder holds.

        Raises:
          UserError: if no network is within the limits, every training fails, or a file is corrupt.
          OSError: if the folder cannot be written.
        """
        self._say(f"writing to {self.folder.path}")
        write_environment(self.folder.environment)
        began_s = time.monotonic()
        with Interruption() as interruption:
            candidates = self._candidates(interruption)
            loop, trials, spent_s = self._rank(candidates, interruption, began_s)
        stages = stage_results(loop, self._problem.space, scores_are_accuracies=self._inherits)
        for one in stages:
            print_stage(self.console, one)
        at, last, final = self._train_winner(loop, self._seconds - spent_s)
        print_stage(self.console, last)
        trials.append(loop.trial(loop.asked, Job(at, len(EPOCHS)), final))
        if self._inherits:
            trials.append(loop.scored(loop.asked + 1, Kind.supernet))
        seconds = time.monotonic() - began_s
        return self._finish(Trials.joined(trials), (*stages, last), seconds)

    @property
    def _seconds(self) -> float:
        """Time of the whole search."""
        return 3600 * self.experiment.config.hours

    def _ends_s(self, candidates: Candidates) -> dict[str, float]:
        """End of each stage but the winner's, in seconds from the beginning.

        Where the candidates took longer than their share, the stages share what is left, or half of
        the whole time if that is more.
        """
        shares, spent_s = self.rule.shares, candidates.seconds
        left_s = max(self._seconds - spent_s, self._seconds / 2)
        ends = {"scores": spent_s}
        for stage in ("short", "longer"):
            spent_s += left_s * shares[stage] / (1 - shares["scores"])
            ends[stage] = spent_s
        return ends

    def _candidates(self, interruption: Interruption) -> Candidates:
        """Draws within every limit with their scores; from the folder if they are there."""
        path = self.folder.path / "candidates.npz"
        if path.is_file():
            return load_candidates(path, self._problem.space)
        seed, room_s = self.experiment.config.seed, self._seconds * self.rule.shares["scores"]
        found = draw(self._problem, seed, self.rule.draws, room_s / 2)
        self._say(
            f"{found.drawn:,} draws: {found.within:,} of {found.distinct:,} distinct networks are "
            f"within {self._problem.limits.label}"
        )
        if self.rule.order is Order.chance:
            found = found.in_random_order(seed)
        else:
            began_s = time.monotonic()
            score = self._scores(room_s - found.draw_s, interruption)
            left_s = room_s - found.draw_s - (time.monotonic() - began_s)
            found = scored(found, score.each, score.aggregate, left_s, interruption.check)
            found = replace(found, score_s=time.monotonic() - began_s)
        save_candidates(path, found)
        return found

    def _scores(self, seconds: float, interruption: Interruption) -> Scores:
        """The signal that orders the candidates; a supernet is trained for most of these seconds first."""
        config, space = self.experiment.config, self._problem.space
        if self.rule.order is Order.proxies:
            return ProxyScores(space, self.images, config.seed)
        if not isinstance(space, HasSupernet):
            raise TypeError(f"{space.name} has no supernet")
        return supernet_scores(
            space,
            self.images,
            self._ranking_side,
            self._supernet,
            self.console,
            seed=config.seed,
            seconds=seconds,
            check=interruption.check,
        )

    @property
    def _supernet(self) -> Path:
        """File of the supernet's weights, as other processes see it."""
        return self.folder.path.absolute() / "supernet.safetensors"

    @property
    def _checkpoints(self) -> Path:
        """Folder of the ranking trainings, as other processes see it."""
        return self.folder.path.absolute() / "checkpoints"

    def _network(self, side: int | None) -> NetworkOf:
        """Builder of the networks to train, on images resized to `side`."""
        space = self._problem.space
        if self._inherits and isinstance(space, HasSupernet):
            return Inheriting(space, self._supernet, side)
        return partial(untrained, space, side=side)

    def _rank(
        self, candidates: Candidates, interruption: Interruption, began_s: float
    ) -> tuple[StagedLoop, list[Trials], float]:
        """Train candidates until the winner's time begins.

        Returns:
          The loop, all trials, and the seconds that the search has taken.
        """
        config, problem, folder = self.experiment.config, self._problem, self.folder
        source = self._trainings()
        stages = Stages(candidates, source.fidelities, self._ends_s(candidates), self._parallel)
        events = (
            read_journal(folder.journal, problem, folder.settings_digest())
            if folder.journal.is_file()
            else []
        )
        if events:
            cut_journal(folder.journal, len(events))
        trials = [event for event in events if isinstance(event, Trials)]
        asked = max((event.first + 1 for event in events if isinstance(event, Asked)), default=0)
        with Journal(folder.journal, problem.space, folder.settings_digest()) as journal:
            loop = StagedLoop(
                problem,
                source,
                stages,
                config.seed,
                journal.asked,
                interruption.check,
                self._curve,
            )
            if trials:
                loop.replay(Trials.joined(trials), asked)
                self._say(f"going on after {len(trials):,} trainings")
            decided_already = (folder.path / "winner.json").is_file()
            ranked_from_s = time.monotonic()
            spent_s = max(_spent_s(loop), ranked_from_s - began_s)
            for trial in () if decided_already else loop.search(spent_s):
                journal(trial)
                trials.append(trial)
                self.on_trials(trial)
                elapsed_s = spent_s + time.monotonic() - ranked_from_s
                left_s = max(0.0, stages.until_s["longer"] - elapsed_s)
                name = source.fidelities[int(trial.fidelity[0])].name
                self._say(f"{_line(trial, name)}; ranking ends in {left_s:.0f} s")
                self._keep_best_checkpoints(loop)
                interruption.check()
        source.close()
        return loop, trials, spent_s + time.monotonic() - ranked_from_s

    def _keep_best_checkpoints(self, loop: StagedLoop) -> None:
        """Remove the checkpoints of finished trainings that have no claim to win."""
        rows, seed = loop.stages.candidates.architectures, self.experiment.config.seed
        promising = set(loop.stages.order(loop.results)[:LONGER].tolist())
        for job in loop.results:
            if job.candidate not in promising:
                epochs = EPOCHS[job.fidelity]
                path = checkpoint_of(self._checkpoints, rows[job.candidate], epochs, seed)
                path.unlink(missing_ok=True)

    def _curve(self, number: int, job: Job, evaluation: Evaluation) -> None:
        """Write a training's losses, and the accuracy it ended with, for TensorBoard."""
        epochs = EPOCHS[job.fidelity]
        name = f"training {number + 1}, {epochs} epoch{'s'[: epochs > 1]}"
        events = EventFile(
            self.folder.path / "tensorboard" / name, purge_from=None, flush_s=FLUSH_S
        )
        for epoch, loss in enumerate(evaluation.losses, 1):
            events.scalar("training/loss", loss, epoch)
        events.scalar("training/accuracy", evaluation.accuracy, epochs)
        events.close()

    def _trainings(self) -> SlowAccuracySource:
        """Trainings, so many at once: side by side on one GPU, else wherever `executor=` says."""
        images, where, side = self.images, self.experiment.config.executor, self._ranking_side
        recipe, network = recipe_named(self.rule.recipe), self._network(side)
        pixels = "" if side is None else f" at {side} pixels"
        fidelities = tuple(Fidelity(f"{n} epoch{'s'[: n > 1]}{pixels}", n) for n in EPOCHS)
        named = {"source": self.accuracy.source, "description": self.accuracy.description}
        if torch.cuda.device_count() == 1 and where is not Workers.ray:
            return SideBySide(
                images,
                network,
                recipe,
                fidelities,
                at_once=self._parallel,
                checkpoints=self._checkpoints,
                **named,
            )
        return Evaluated(
            TrialTraining(images, network, recipe, self._checkpoints),
            fidelities,
            workers=where,
            slots=self._parallel,
            prepare=take_share,
            **named,
        )

    @property
    def _ranking_side(self) -> int | None:
        """Side that images are resized to for ranking; None: they keep their own, as on a GPU."""
        side = max(CPU_SIDE, self.images.side // CPU_SHRUNK)
        if device_named("auto").type != "cpu" or self.images.side <= side:
            return None
        return side

    def _train_winner(self, loop: StagedLoop, left_s: float) -> tuple[int, StageResult, Evaluation]:
        """Train the winner in full; returns its position, the stage and the evaluation."""
        run, space, ends_s = self.folder.path, self._problem.space, time.monotonic() + left_s
        order = loop.stages.order(loop.results).tolist()
        rows = loop.stages.candidates.architectures
        path = run / "winner.json"
        if path.is_file():  # decided before the search was interrupted
            winner = read_winner(path)
        else:
            at, disturbed = self._confirmed(order, loop)
            ranked = self._ranked_epochs(at, loop)
            winner = Winner(space.text(rows[at]), self.rule.recipe, ranked, ranked, disturbed)
            left_s = ends_s - time.monotonic()
            more = epochs_within(self.images, rows[at], self._start(winner), winner.recipe, left_s)
            least = int(not ranked or self._ranking_side is not None)
            epochs = ranked + max(least, min(more, self.experiment.config.epochs - ranked))
            winner = replace(winner, epochs=epochs)
            write_json(path, winner)
        training = train_winner(
            self.experiment,
            self.images,
            run,
            winner,
            self.console,
            start=self._start(winner),
            ends_s=ends_s,
        )
        if training.valid is None or training.test is None:
            raise TypeError("a winner is judged on validation and test images")
        row = space.parse(winner.arch)
        self.accuracy.tested[row.tobytes()] = training.test.fraction
        at = int((rows == row).all(-1).argmax())
        if winner.disturbed:
            loop.stages.candidates.latency_kind[at] = Kind.disturbed
        accuracy = training.valid.fraction
        stage = StageResult(
            "full",
            1,
            1,
            training.seconds,
            training.epochs,
            winner.arch,
            1 + order.index(at) if at in order else None,
            accuracy,
            0,
        )
        return at, stage, Evaluation(accuracy, Kind.trained, training.seconds)

    def _ranked_epochs(self, candidate: int, loop: StagedLoop) -> int:
        """Epochs of the longest ranking training that a candidate can go on from; 0 if there is none."""
        row, config = loop.stages.candidates.architectures[candidate], self.experiment.config
        lengths = [EPOCHS[job.fidelity] for job in loop.results if job.candidate == candidate]
        kept = [
            epochs
            for epochs in lengths
            if epochs_done(checkpoint_of(self._checkpoints, row, epochs, config.seed)) == epochs
        ]
        most = config.epochs - (self._ranking_side is not None)  # the rest is on whole images
        return max((epochs for epochs in kept if epochs <= most), default=0)

    def _start(self, winner: Winner) -> Start:
        """The winner's network, and its longest ranking training."""
        seed, space, side = self.experiment.config.seed, self._problem.space, self._ranking_side
        words = ["begun with the weights of a supernet"] if self._inherits else []
        continues = None
        if winner.ranked_epochs:
            row = space.parse(winner.arch)
            continues = checkpoint_of(self._checkpoints, row, winner.ranked_epochs, seed)
            pixels = "" if side is None else f" on images of {side} pixels"
            count = f"{winner.ranked_epochs} epoch{'s'[: winner.ranked_epochs > 1]}"
            words.append(f"its first {count}{pixels}, as it was ranked")
        return Start(self._network(None), continues, "; ".join(words))

    def _confirmed(self, order: list[int], loop: StagedLoop) -> tuple[int, bool]:
        """The first candidate that a live device finds within T again, and whether it was disturbed."""
        if not order:
            raise UserError(
                "every training failed; the journal in the run's folder holds the errors"
            )
        oracle = self._problem.oracle
        if not isinstance(oracle, LiveOracle) or not oracle.confirm_top:
            return order[0], False
        rows = loop.stages.candidates.architectures
        disturbed = []
        for candidate in order[: oracle.confirm_top]:
            again = oracle.measure_again(rows[[candidate]])
            kind, text = Kind(int(again.kind[0])), self._problem.space.text(rows[candidate])
            self._say(f"timed again: {text} {again.ms[0]:.3f} ms, {kind.words}")
            if again.ms[0] <= self._problem.limit_ms:
                if kind is not Kind.disturbed:
                    return candidate, False
                disturbed.append(candidate)
        if disturbed:
            return disturbed[0], True
        raise UserError(
            f"none of the best {oracle.confirm_top} networks is within T when timed again; is the "
            f"board quiet, are its clocks fixed?"
        )

    def _finish(self, trials: Trials, stages: tuple[StageResult, ...], seconds: float) -> Summary:
        """Write the results, the summary last: where there is one, the run has finished."""
        problem, folder, config = self._problem, self.folder, self.experiment.config
        epochs = stages[-1].epochs or 0
        summary = summarise(
            trials,
            None,
            problem,
            Settings(
                space=problem.space.name,
                dataset=problem.task.name,
                dataset_title=str(problem.task),
                reward=self.choices["reward"],
                controller=self.rule.by,
                epochs=epochs,
                test_epochs=epochs,
                seed=config.seed,
                budget=self.rule.draws,
            ),
            seconds=seconds,
            resumed_at=0,
            estimated=estimated_share(
                problem.space, problem.oracle, problem.limit_ms, problem.limits, problem.margin
            ),
            stages=stages,
        )
        write_record(
            folder.samples, trials, feasible_of(trials, problem), problem.space, problem.limits
        )
        page = staged_page(
            summary,
            trials,
            problem,
            epochs=(*EPOCHS, epochs),
            environment=folder.read_environment(),
            command=self.command,
            config=folder.config.read_text(encoding="utf-8"),
        )
        write_report(folder.report, page)
        write_json(folder.summary, summary)
        folder.journal.unlink(missing_ok=True)
        shutil.rmtree(self._checkpoints, ignore_errors=True)
        if summary.best is not None:  # a longer training, by nas.train, begins anew
            forget_checkpoint(folder.path, summary.best.arch)
        print_summary(self.console, summary, verbose=config.verbose)
        print_next(self.console, summary, folder.path, folder.report)
        return summary

    def _say(self, line: str) -> None:
        say(self.console, line)


def _spent_s(loop: StagedLoop) -> float:
    """Seconds of the search so far, from what its stages took."""
    trained_s = sum(one.seconds for one in loop.results.values())
    return loop.stages.candidates.seconds + trained_s / loop.stages.parallel


def _line(trial: Trials, fidelity: str) -> str:
    """One finished training, for the terminal."""
    name, seconds = f"training {trial.number[0] + 1}, {fidelity}", f"{trial.seconds[0]:.0f} s"
    if trial.error[0]:
        return f"{name}: failed after {seconds}: {trial.error[0]}"
    return f"{name}: {trial.accuracy[0]:.2%} at {trial.latency_ms[0]:.2f} ms, {seconds}"
