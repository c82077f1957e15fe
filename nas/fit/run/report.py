"""What a fit reports: records of its trainings, stages, learning curves and the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Int64
from numpy import ndarray

from edgenas_core.page.parts import Table
from edgenas_core.types.kind import Kind
from edgenas_core.types.units import epochs_text
from nas.accuracy.base import Accuracies
from nas.accuracy.slow import Evaluation, Fidelity
from nas.fit.data.image_set import ImageSet
from nas.fit.data.names import names_of
from nas.fit.learners.data import TrainingData
from nas.fit.ranking.candidates import Candidates
from nas.fit.ranking.stage_result import StageResult
from nas.fit.ranking.stages import StageJob
from nas.fit.run.context import AnyJobs, FitContext, Ranking, within_smaller
from nas.fit.run.kind import FitKind
from nas.fit.run.winner import Winner, valid_accuracy
from nas.fit.training.trained_folder import (
    PICTURES,
    Judged,
    Training,
    read_training,
    trained_folder,
)
from nas.report.event_file import EventFile
from nas.report.handed_network import HandedBaseline, HandedNetwork, table_of
from nas.report.next_steps import NextSteps
from nas.report.staged_page import staged_page
from nas.report.summary import RunSettings, Summary
from nas.report.training_charts import TrainedWinner
from nas.trials.limits import LimitSet
from nas.trials.survey import wilson_interval
from nas.trials.trial import Trials


def curve(
    context: FitContext, fidelities: Sequence[Fidelity]
) -> Callable[[Trials, Evaluation], None]:
    """A function that writes a training's losses, accuracy and latency for TensorBoard.

    Each training has a curve of its own. The run `trainings` has a point for each, by its number, and T as a line.
    """
    limit_ms = context.problem.limit_ms

    def write(trial: Trials, evaluation: Evaluation) -> None:
        epochs = fidelities[int(trial.fidelity[0, 0])].epochs
        root, number = context.begun.folder.tensorboard, trial.first + 1
        together, limit = EventFile(root / "trainings"), EventFile(root / "T")
        together.scalar(f"trainings/{context.images.metric}", evaluation.accuracy, number)
        together.scalar("trainings/latency_ms", float(trial.latency_ms[0, 0]), number)
        limit.scalar("trainings/latency_ms", limit_ms, number)
        together.close()
        limit.close()
        folder = root / f"{number}-{epochs}-epochs"
        events = EventFile(folder)
        for epoch, loss in enumerate(evaluation.losses, 1):
            events.scalar("training/loss", loss, epoch)
        events.scalar(f"training/{context.images.metric}", evaluation.accuracy, epochs)
        events.close()

    return write


def trained_trial(  # noqa: PLR0917 - columns of a record
    context: FitContext,
    ranking: Ranking[AnyJobs],
    number: int,
    at: int,
    winner: Winner,
    training: Training,
    fidelity: int,
) -> Trials:
    """Record of a training in full, with the latency as it was confirmed; the test accuracy is kept."""
    candidates = ranking.candidates
    candidates.latency_ms[at] = winner.latency_ms
    candidates.latency_kind[at] = winner.latency_kind
    if training.test is not None:
        row = candidates.architectures[at]
        context.accuracy.tested[row.tobytes()] = training.test.fraction
    accuracies = Accuracies(np.array([valid_accuracy(training)]), np.array([Kind.trained], np.int8))
    return candidates.judged(
        context.problem,
        number,
        np.array([at]),
        accuracies,
        seconds=training.seconds,
        fidelity=fidelity,
    )


def inherited_trials(context: FitContext, candidates: Candidates, number: int) -> Trials:
    """Records of all candidates with the accuracies that they inherit."""
    kinds = np.full(len(candidates), Kind.supernet, np.int8)
    return candidates.judged(
        context.problem,
        number,
        np.arange(len(candidates)),
        Accuracies(candidates.prior, kinds),
        seconds=candidates.score_s,
        fidelity=-1,
    )


def trained_stage(training: Training, order: Sequence[int], at: int, name: str) -> StageResult:
    """The stage of a training in full: of the winner, one that was replaced, or one within a smaller limit."""
    return StageResult(
        name,
        1,
        int(name != "replaced"),
        training.seconds,
        epochs_text(training.epochs),
        training.arch,
        1 + order.index(at) if at in order else None,
        valid_accuracy(training),
    )


def baseline_stage(
    context: FitContext,
    ranking: Ranking[AnyJobs],
    at: int,
    jobs: Sequence[StageJob],
    untrained: float | None = None,
) -> StageResult:
    """The baseline by the longest of its trainings that did not fail, or by its accuracy before any."""
    results, fidelities = ranking.results, ranking.jobs.fidelities
    done = [job for job in jobs if not np.isnan(results[job].accuracy)]
    longest = max(
        done,
        key=lambda job: (fidelities[job.fidelity].epochs, results[job].accuracy),
        default=None,
    )
    seconds = sum((results[job].seconds for job in jobs), 0.0)
    fidelity, accuracy = "", untrained
    if longest is not None:
        at, accuracy = longest.candidate, results[longest].accuracy
        fidelity = fidelities[longest.fidelity].name
    text = context.problem.space.text(ranking.candidates.architectures[at])
    return StageResult("rule", 1, 1, seconds, fidelity, text, None, accuracy)


def run_settings(context: FitContext, epochs: int) -> RunSettings:
    """Settings of the summary."""
    task = context.problem.task
    return RunSettings(
        space=context.problem.space.name,
        dataset=task.name,
        dataset_title=str(task),
        reward=None,
        controller=context.rule.by,
        epochs=epochs,
        test_epochs=epochs,
        seed=context.config.seed,
        budget=context.rule.draws,
        metric=context.images.metric,
        items=context.images.items,
    )


def handed_networks(  # noqa: PLR0917 - what they are made of
    context: FitContext,
    kind: FitKind[AnyJobs],
    ranking: Ranking[AnyJobs],
    winner: Winner,
    training: Training,
    smaller: Sequence[tuple[LimitSet, Winner, Training]],
) -> tuple[HandedNetwork, ...]:
    """The winner and the network of each smaller limit, with their baselines; none where there is one limit."""
    experiment, candidates = context.begun.experiment, ranking.candidates
    if not experiment.smaller:
        return ()
    every = np.ones(len(candidates), bool)
    masks = dict(
        zip(map(str, experiment.smaller), within_smaller(context, candidates), strict=True)
    )

    def handed(
        texts: Mapping[str, str], within: Bool[ndarray, "n"], decided: Winner, trained: Training
    ) -> HandedNetwork:
        judged = trained.test
        return HandedNetwork(
            dict(texts),
            trained.arch,
            decided.latency_ms,
            Kind(decided.latency_kind).name,
            valid_accuracy(trained),
            None if judged is None else judged.fraction,
            None if judged is None else judged.interval or _interval(judged),
            trained.epochs,
            _baseline(context, kind, ranking, within),
        )

    first = handed(experiment.texts, every, winner, training)
    return (
        first,
        *(
            handed(each.texts, masks[str(each)], decided, trained)
            for each, decided, trained in smaller
        ),
    )


def _interval(judged: Judged) -> tuple[float, float]:
    """95 % interval of an accuracy."""
    return wilson_interval(judged.fraction, judged.images)


def _baseline(
    context: FitContext,
    kind: FitKind[AnyJobs],
    ranking: Ranking[AnyJobs],
    within: Bool[ndarray, "n"],
) -> HandedBaseline | None:
    """The baseline among some candidates, as far as it was evaluated."""
    stage = kind.baseline_within(ranking, within)
    if stage is None or stage.favourite is None:
        return None
    at = ranking.position(context.problem.space.parse(stage.favourite))
    latency_ms = float(ranking.candidates.latency_ms[at])
    return HandedBaseline(stage.favourite, latency_ms, stage.accuracy, stage.fidelity)


def page_of(  # noqa: PLR0917 - what the page shows
    context: FitContext,
    fidelities: Sequence[Fidelity],
    replaced: Sequence[Training],
    images_of: Callable[[Int64[ndarray, "D"]], TrainingData],
    summary: Summary,
    trials: Trials,
    steps: NextSteps | None,
) -> str:
    """The page with the stages and all trainings."""
    folder, winner, epochs = context.begun.folder, None, summary.settings.epochs
    handed = {network.arch for network in summary.handed}
    others = [
        Fidelity(
            f"{epochs_text(each.epochs)}, {'a smaller limit' if each.arch in handed else 'replaced'}",
            each.epochs,
        )
        for each in replaced
    ]
    if summary.best is not None:
        row = context.problem.space.parse(summary.best.arch)
        trained = trained_folder(context.folder, summary.best.arch)
        images = images_of(row)
        names = names_of(images) if isinstance(images, ImageSet) else None
        files = () if names is None else names.files[-len(images.test) :]
        training = read_training(trained)
        winner = TrainedWinner(training, images.test, trained / PICTURES, files)
    return staged_page(
        summary,
        trials,
        context.problem,
        fidelities=(*fidelities, *others, Fidelity(epochs_text(epochs), epochs)),
        winner=winner,
        environment=folder.read_environment(),
        command=context.begun.command,
        config=folder.config.read_text(encoding="utf-8"),
        images=context.images,
        steps=steps,
        limits=_limits_table(context, summary),
    ).html()


def _limits_table(context: FitContext, summary: Summary) -> Table | None:
    """The networks of several limits; None where there is one."""
    if not summary.handed:
        return None
    run, space = context.begun.folder.path, context.problem.space.name
    return table_of(summary.handed, run, space, context.config.data)
