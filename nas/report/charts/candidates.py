"""Accuracy against latency of all candidates of a search on own images."""

from __future__ import annotations

import numpy as np

from common.page.chart import axes, limit_line, points
from common.page.palette import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, SKY
from common.page.parts import Figure
from nas.report.answer import Answer
from nas.report.number import amount
from nas.report.summary import Summary
from nas.trials.problem import SearchProblem
from nas.trials.trial import Trials

_COLOURS = (GREY, SKY, GREEN, PURPLE)


def candidates(
    trials: Trials, epochs: tuple[int, ...], problem: SearchProblem, summary: Summary
) -> Figure:
    """A mark for each training, by its length; the winner and the rule of thumb stand out."""
    traces = []
    for fidelity in sorted({*trials.fidelity[trials.fidelity >= 0].tolist()}):
        done = (trials.fidelity == fidelity) & ~np.isnan(trials.accuracy)
        rows, length = trials.rows(np.flatnonzero(done)), epochs[fidelity]
        is_winner = fidelity == len(epochs) - 1
        texts = [
            f"{accuracy:.2%}, {amount(float(ms), 'ms')}<br>{problem.space.text(row)}"
            for accuracy, ms, row in zip(
                rows.accuracy, rows.latency_ms, rows.architectures, strict=True
            )
        ]
        name = f"the winner, {length} epochs" if is_winner else f"{length} epochs"
        style = (
            {"symbol": "star", "size": 17, "color": ORANGE, "line": {"color": INK, "width": 1}}
            if is_winner
            else {"size": 8, "color": _COLOURS[min(fidelity, len(_COLOURS) - 1)]}
        )
        name = "frozen features" if length == 0 else name
        traces.append(points(name, rows.latency_ms, 100 * rows.accuracy, text=texts, **style))
    for stage in summary.stages:
        if stage.name == "rule" and stage.favourite is not None and stage.accuracy is not None:
            row = problem.space.parse(stage.favourite)
            at = np.flatnonzero((trials.architectures == row).all(-1))
            mark = {"symbol": "circle-open", "size": 15, "color": BLUE, "line": {"width": 2.5}}
            traces.append(
                points(
                    f"the rule of thumb, {stage.epochs} epochs",
                    trials.latency_ms[at[:1]],
                    [100 * stage.accuracy],
                    text=[stage.favourite],
                    **mark,
                )
            )
    answer = Answer(summary)
    return Figure(
        "Candidates",
        [{"hovertemplate": "%{text}<extra></extra>"} | trace for trace in traces],
        axes(answer.latency_axis, answer.accuracy_axis)
        | limit_line(problem.limit_ms, answer.limit),
        "Trainings of different lengths cannot be compared.",
    )
