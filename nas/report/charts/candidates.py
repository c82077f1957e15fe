"""Accuracy against latency of all candidates of a search on own images."""

from __future__ import annotations

import numpy as np

from edgenas_core.page.chart import axes, limit_line, points
from edgenas_core.page.palette import BLUE, GREEN, GREY, INK, OLIVE, ORANGE, PURPLE, SKY
from edgenas_core.page.parts import Figure
from nas.accuracy.slow import Fidelity
from nas.report.answer import Answer
from nas.report.number import amount
from nas.report.summary import Summary
from nas.trials.problem import SearchProblem
from nas.trials.trial import Trials

_COLOURS = (GREY, SKY, GREEN, PURPLE, OLIVE)
"""By the epochs of the fidelities; learning rates differ by their symbol."""


def candidates_chart(
    trials: Trials, fidelities: tuple[Fidelity, ...], problem: SearchProblem, summary: Summary
) -> Figure:
    """A mark for each training, by its length; the winner and the rule of thumb stand out."""
    traces, lengths = [], sorted({each.epochs for each in fidelities[:-1]})
    for fidelity in sorted({*trials.fidelity[trials.fidelity >= 0].tolist()}):
        done = (trials.fidelity == fidelity) & ~np.isnan(trials.accuracy)
        rows, trained = trials.rows(np.flatnonzero(done)), fidelities[fidelity]
        is_winner = fidelity == len(fidelities) - 1
        texts = [
            f"{accuracy:.2%}, {amount(float(ms), 'ms')}<br>{problem.space.text(row)}"
            for accuracy, ms, row in zip(
                rows.accuracy, rows.latency_ms, rows.architectures, strict=True
            )
        ]
        name = f"the winner, {trained.name}" if is_winner else trained.name
        style = (
            {"symbol": "star", "size": 17, "color": ORANGE, "line": {"color": INK, "width": 1}}
            if is_winner
            else {
                "symbol": "circle" if trained.rate == 1 else "diamond",
                "size": 8,
                "color": _COLOURS[lengths.index(trained.epochs) % len(_COLOURS)],
            }
        )
        traces.append(points(name, rows.latency_ms, 100 * rows.accuracy, text=texts, **style))
    if (rule := summary.rule_of_thumb) is not None:
        mark = {"symbol": "circle-open", "size": 15, "color": BLUE, "line": {"width": 2.5}}
        name, text = f"the rule of thumb, {rule.fidelity}", f"{rule.line}<br>{rule.arch}"
        percent = [rule.accuracy.value]
        traces.append(points(name, [rule.latency_ms], percent, text=[text], **mark))
    answer = Answer(summary)
    return Figure(
        "Candidates",
        [{"hovertemplate": "%{text}<extra></extra>"} | trace for trace in traces],
        axes(answer.latency_axis, f"{answer.metric} (%)")
        | limit_line(problem.limit_ms, answer.limit),
        "Results of different fidelities cannot be compared.",
    )
