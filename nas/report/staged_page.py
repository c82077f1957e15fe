"""A search on own images: its stages on the terminal, and its page."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from rich.console import Console

from edgenas_core.command.console import say
from edgenas_core.page.document import HtmlPage, Section
from edgenas_core.page.parts import Table, TextListing
from edgenas_core.types.kind import Kind
from edgenas_core.types.units import epochs_text
from nas.accuracy.slow import Fidelity
from nas.fit.learners.data import TrainingData
from nas.fit.ranking.stage_result import StageResult
from nas.report.answer import Answer
from nas.report.next_steps import NextSteps, next_section
from nas.report.number import Number
from nas.report.run_folder import Environment
from nas.report.run_page import answer_parts, provenance
from nas.report.summary import Summary
from nas.report.tables import drawings
from nas.report.training_charts import TrainedWinner, candidates_chart
from nas.trials.problem import SearchProblem
from nas.trials.trial import Trials

_TITLES = {
    "draw": "latencies",
    "proxies": "proxies",
    "supernet": "supernet",
    "frozen": "frozen features",
    "original": "the trained network",
    "rule": "the baseline",
    "scratch": "a network from scratch",
    "short": "short trainings",
    "longer": "longer trainings",
    "replaced": "a winner that was replaced",
    "within": "a network for a smaller limit",
    "full": "the winner",
}
_NOTES = {
    "proxies": "The favourite of the proxies has a score alone; place before is that by FLOPs. ",
    "supernet": "The supernet is judged with inherited weights. ",
    "frozen": "The accuracy of frozen features is no validation accuracy: it is the mean of ridge regression and "
    "nearest neighbours, each image left out of its own answer. ",
}
_COLUMNS = ("networks", "go on", "fidelity", "seconds", "favourite", "place before")


def print_stage(console: Console, stage: StageResult) -> None:
    """Print the result of a stage and its best network; draws are announced elsewhere."""
    if stage.favourite is None:
        return
    accuracy = "" if stage.accuracy is None else f", {stage.accuracy:.2%}"
    first = f"{stage.favourite}{accuracy}"
    if stage.name in {"rule", "scratch", "original"}:
        length = f", {stage.fidelity}" if stage.fidelity else ""
        length = ", for which the time was too short" if stage.accuracy is None else length
        say(console, f"{_TITLES[stage.name]}: {first}{length}")
        return
    length = f" of {stage.fidelity}" if stage.name != "frozen" and stage.fidelity else ""
    failed = f", {stage.failed} failed" if stage.failed else ""
    before = f" (before: place {stage.place_before})" if (stage.place_before or 1) > 1 else ""
    say(
        console,
        f"{_TITLES[stage.name]}{length}: {stage.networks:,} done in {stage.seconds:.0f} s{failed}; first is "
        f"{first}{before}",
    )


def staged_page(
    summary: Summary,
    trials: Trials,
    problem: SearchProblem,
    *,
    fidelities: tuple[Fidelity, ...],
    winner: TrainedWinner | None,
    environment: Environment,
    command: str,
    config: str,
    images: TrainingData,
    steps: NextSteps | None = None,
    limits: Table | None = None,
) -> HtmlPage:
    """The answer first, then how it was found, then where its numbers come from.

    `fidelities` are those that rank, and that of the winner; `winner`, `steps` and `limits`, the networks of several limits,
    are None where there are none.
    """
    answer, settings, best = Answer(summary), summary.settings, summary.best
    rows = {} if best is None else {"the winner": problem.space.parse(best.arch)}
    network = drawings(rows, best, problem) if rows else []
    charts = () if winner is None else winner.charts()
    return HtmlPage(
        title=f"{answer.dataset} on {answer.device} within {answer.limits}",
        subtitle=(
            f"One fit of networks of {settings.space.partition(':')[0]}, ranked by {settings.controller}, "
            f"seed {settings.seed}; the winner was trained for {epochs_text(settings.epochs)}"
        ),
        answer=answer_parts(answer),
        key_figures=answer.headline_figures,
        sections=[
            Section(
                "The front",
                [
                    *([] if limits is None else [limits]),
                    candidates_chart(trials, fidelities, problem, summary),
                ],
            ),
            *([] if steps is None else [next_section(steps, images)]),
            Section(
                "The network",
                [*network, *_accuracies(answer), *_classes(summary), *charts],
                is_behind=True,
            ),
            Section("The stages", [_stages(summary.stages, answer.metric)], is_behind=True),
            Section(
                "All trainings",
                [_trainings(trials, fidelities, problem, answer.metric)],
                is_behind=True,
            ),
        ],
        provenance=provenance(answer, environment, command)
        | ({"data": "; ".join(images.report)} if images.report else {})
        | ({"start of the winner": summary.start} if summary.start else {}),
        provenance_parts=[TextListing("config.yaml", config)],
    )


def _accuracies(answer: Answer) -> Iterator[Table]:
    """Every accuracy of the winner; the headline has the one on test images."""
    rows = [[each.label, each.value, each.note] for each in answer.figures]
    if rows:
        yield Table(["measure", "value", "of what"], rows, "All numbers of the winner.")


def _classes(summary: Summary) -> Iterator[Table]:
    """A row a class, the worst first."""
    if not summary.by_class:
        return
    ordered = sorted(summary.by_class, key=lambda result: result.right / result.images)
    yield Table(
        ["class", "test images", "right", "accuracy", "otherwise mostly"],
        [
            [
                result.name,
                f"{result.images:,}",
                f"{result.right:,}",
                f"{result.right / result.images:.1%}",
                result.taken_for or "-",
            ]
            for result in ordered
        ],
        "The winner on the test images of each class, the worst first.",
        begins_with_names=True,
    )


def _stages(stages: tuple[StageResult, ...], metric: str) -> Table:
    """A row a stage; the favourite is the network that the stage puts first."""
    return _table(
        ["stage", *_COLUMNS, metric],
        [[_TITLES[stage.name], *_cells(stage)] for stage in stages],
        "".join(note for name, note in _NOTES.items() if name in {stage.name for stage in stages})
        + f"Else the {metric} is that of the validation split. Seconds of trainings are summed.",
    )


def _cells(stage: StageResult) -> list[str]:
    failed = f", {stage.failed} failed" if stage.failed else ""
    return [
        f"{stage.networks:,}{failed}",
        f"{stage.kept:,}",
        stage.fidelity or "-",
        f"{stage.seconds:.1f}",
        "-" if stage.favourite is None else f"`{stage.favourite}`",
        "-" if stage.place_before is None else f"{stage.place_before:,}",
        "-" if stage.accuracy is None else f"{stage.accuracy:.2%}",
    ]


def _trainings(
    trials: Trials, fidelities: tuple[Fidelity, ...], problem: SearchProblem, metric: str
) -> Table:
    rows = [
        [
            f"{trials.number[i] + 1:,}",
            fidelities[int(trials.fidelity[i])].name,
            "failed" if trials.error[i] else f"{trials.accuracy[i]:.2%}",
            Number(float(trials.latency_ms[i]), "ms", Kind(trials.latency_kind[i])).text,
            f"{trials.seconds[i]:.1f}",
            f"`{problem.space.text(trials.architectures[i])}`",
            str(trials.error[i]) or "-",
        ]
        for i in np.flatnonzero(trials.fidelity >= 0).tolist()
    ]
    header = ["training", "fidelity", metric, "latency", "seconds", "architecture"]
    caption = "Results of different fidelities cannot be compared."
    return _table([*header, "error"], rows, caption)


def _table(header: list[str], rows: list[list[str]], caption: str) -> Table:
    """A table without columns that would be empty."""
    shown = [at for at in range(len(header)) if any(row[at] != "-" for row in rows)]
    return Table([header[at] for at in shown], [[row[at] for at in shown] for row in rows], caption)
