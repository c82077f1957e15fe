"""The page of a search on own images: the answer, the stages, all trainings, provenance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from common.page.document import KeyFigure, Page, Section
from common.page.parts import Listing, Part, Table
from nas.report.answer import accuracy_figures, answer, latency_figure
from nas.report.provenance import provenance
from nas.report.stages import stages_table
from nas.report.summary import Summary
from nas.report.tables import drawn, found
from nas.report.wording import Wording, milliseconds, percent
from nas.trials.problem import SearchProblem
from nas.trials.trial import State, Trials


def staged_page(
    summary: Summary,
    trials: Trials,
    problem: SearchProblem,
    *,
    epochs: tuple[int, ...],
    environment: Mapping[str, Any],
    command: str,
    config: str,
) -> Page:
    """The answer first, then how it was found, then where its numbers come from.

    `epochs` is the length of training of each fidelity.
    """
    wording = Wording(summary)
    settings, best = summary.settings, summary.best
    done = trials.rows(trials.state == State.done)
    figures: list[KeyFigure] = []
    network: list[Part | str] = [found(summary, wording)]
    if best is not None:
        figures = [*accuracy_figures(best, wording), latency_figure(best, wording)]
        network += drawn({"the network": problem.space.parse(best.arch)}, best, problem)
    return Page(
        title=f"{wording.dataset} on {summary.device} within {wording.limits}",
        subtitle=(
            f"One search of {settings.space} on own images, ranked by {settings.controller}, "
            f"seed {settings.seed}; the winner was trained for {settings.epochs} epochs"
        ),
        answer=answer(summary, done, problem, wording),
        key_figures=figures,
        sections=[
            Section("The network", network),
            Section("The stages", [stages_table(summary.stages)]),
            Section("All trainings", [_trainings(trials, epochs, problem)]),
        ],
        provenance=provenance(summary, wording, environment, command),
        provenance_parts=[Listing("config.yaml", config)],
    )


def _trainings(trials: Trials, epochs: tuple[int, ...], problem: SearchProblem) -> Table:
    rows = [
        [
            f"{trials.number[i] + 1:,}",
            str(epochs[int(trials.fidelity[i])]),
            "failed" if trials.error[i] else percent(float(trials.accuracy[i]), 2),
            milliseconds(float(trials.latency_ms[i])),
            f"{trials.seconds[i]:.1f}",
            f"`{problem.space.text(trials.architectures[i])}`",
            str(trials.error[i]) or "-",
        ]
        for i in np.flatnonzero(trials.fidelity >= 0).tolist()
    ]
    return Table(
        [
            "training",
            "epochs",
            "validation accuracy",
            "latency",
            "seconds",
            "architecture",
            "error",
        ],
        rows,
        "Accuracies after different numbers of epochs cannot be compared.",
    )
