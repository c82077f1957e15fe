"""`front=[10ms,17ms]`: the best accuracy that each limit allows, before one is searched for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float64, Int8, Int64
from numpy import ndarray
from rich.console import Console
from rich.table import Table as TerminalTable

from latency.base import Latencies
from nas.report.wording import milliseconds
from nas.search.announcement import sources
from nas.trials.preflight import require_complete
from nas.trials.problem import SearchProblem
from nas.trials.survey import ESTIMATED_FROM, pareto_front
from runtime.page.document import Page, Section
from runtime.page.palette import BLUE, ORANGE
from runtime.page.parts import Figure, Note, Table
from runtime.shell.atomic_file import replacing
from runtime.shell.errors import UserError
from runtime.shell.provenance import Kind, is_predicted

_HEADER = ("T", "accuracy", "points more", "test", "latency", "within", "architecture")


@final
@dataclass(frozen=True)
class _Known:
    """Architectures with the answers of both sources: the whole space, or uniform samples."""

    rows: Int64[ndarray, "n D"]
    accuracy: Float64[ndarray, "n"]
    accuracy_kind: Int8[ndarray, "n"]
    latency_ms: Float64[ndarray, "n"]
    latency_kind: Int8[ndarray, "n"]
    met: Bool[ndarray, "n"]  # every limit but the latency's
    whole: bool


def write_what_limits_buy(
    problem: SearchProblem, limits_ms: Sequence[float], runs: Path, console: Console
) -> Path:
    """Print the best architecture within each limit, and write the page; returns its path.

    Raises:
      UserError: if the sources do not answer at once for this device.
      OSError: if the page cannot be written.
    """
    known = _known(problem)
    rows = _rows(problem, known, sorted(limits_ms))
    table = TerminalTable(box=None, header_style="bold", pad_edge=False)
    for name in _HEADER[:-1]:
        table.add_column(name, justify="right", overflow="fold")
    for row in rows:
        table.add_row(*row[:-1])
    console.print(sources(problem), soft_wrap=True, markup=False)
    console.print(table, markup=False)
    for line in _notes(problem, known):
        console.print(line, soft_wrap=True, markup=False)
    slug = re.sub(r"[^A-Za-z0-9.]+", "-", problem.oracle.device).strip("-")
    now = datetime.now().astimezone()
    path = runs / f"{now:%Y-%m-%d}" / f"{now:%H-%M-%S}-front-{slug[:100]}" / "report.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(_page(problem, known, rows, limits_ms).html().encode())
    console.print(f"next: open {path}, or search with one of these T=", soft_wrap=True)
    return path


def _known(problem: SearchProblem) -> _Known:
    if not (problem.accuracy.instant and problem.oracle.instant):
        raise UserError(
            "front= asks for accuracy and latency of thousands of networks at once, which trainings and "
            "live boards do not answer; leave out front=, data= and latency=probe"
        )
    survey, space = problem.survey, problem.space
    if survey is not None:
        require_complete(survey, problem.oracle.device)
        numbers = np.arange(survey.space.size)
        answers = survey.accuracy, survey.accuracy_kind, survey.latency_ms, survey.latency_kind
        return _Known(survey.space.architectures(numbers), *answers, survey.met, whole=True)
    rows = space.sample(np.random.default_rng(0), ESTIMATED_FROM)
    rows = rows[problem.oracle.known(rows) & problem.accuracy.known(rows)]
    if not len(rows):
        raise UserError(f"front=: no network of {space.name} is known on {problem.oracle.device}")
    latencies, accuracies = problem.oracle.answer(rows), problem.accuracy.answer(rows)
    met = problem.limits.met(problem.limits.costs(rows))
    return _Known(
        rows, accuracies.fraction, accuracies.kind, latencies.ms, latencies.kind, met, whole=False
    )


def _rows(problem: SearchProblem, known: _Known, limits_ms: Sequence[float]) -> list[list[str]]:
    found, before = [], None
    for limit_ms in limits_ms:
        compared_ms = problem.compared_ms(Latencies(known.latency_ms, known.latency_kind))
        within = (compared_ms <= limit_ms) & known.met
        share = f"{within.mean():.1%}"
        if not within.any():
            found.append([f"{limit_ms:g} ms", "none", "-", "-", "-", share, "-"])
            continue
        at = int(np.argmax(np.where(within, known.accuracy, -np.inf)))
        accuracy, row = float(known.accuracy[at]), known.rows[at]
        test = float(problem.accuracy.test(row[None])[0])
        guessed = "~" if Kind(known.accuracy_kind[at]).is_predicted else ""
        timed = "~" if Kind(known.latency_kind[at]).is_predicted else ""
        found.append(
            [
                f"{limit_ms:g} ms",
                f"{guessed}{accuracy:.2%}",
                "-" if before is None else f"{100 * (accuracy - before):+.2f}",
                "-" if np.isnan(test) else f"{guessed}{test:.2%}",
                f"{timed}{milliseconds(float(known.latency_ms[at]))}",
                share,
                problem.space.text(row),
            ]
        )
        before = accuracy
    return found


def _notes(problem: SearchProblem, known: _Known) -> list[str]:
    notes = []
    if is_predicted(known.accuracy_kind).any() or is_predicted(known.latency_kind).any():
        notes.append("Numbers marked by ~ are predicted, not measured.")
    if known.whole:
        notes.append(f"Each row is the best of all {len(known.rows):,} architectures.")
    else:
        notes.append(
            f"Each row is the best of {len(known.rows):,} uniform samples of {problem.space.name}; a search "
            f"finds better ones."
        )
    return notes


def _page(
    problem: SearchProblem, known: _Known, rows: list[list[str]], limits_ms: Sequence[float]
) -> Page:
    device, task = problem.oracle.device, problem.task
    compared_ms = problem.compared_ms(Latencies(known.latency_ms, known.latency_kind))
    front = pareto_front(known.accuracy, np.where(known.met, compared_ms, np.nan))
    best = [known.accuracy[front][compared_ms[front] <= one].max(initial=0) for one in limits_ms]
    front_line = {
        "x": compared_ms[front],
        "y": 100 * known.accuracy[front],
        "mode": "lines",
        "line": {"color": BLUE, "width": 1.5, "shape": "hv"},
        "name": "best accuracy within T",
    }
    marks = {
        "x": [one for one, top in zip(limits_ms, best, strict=True) if top],
        "y": [100 * top for top in best if top],
        "mode": "markers",
        "marker": {"color": ORANGE, "size": 10},
        "name": "the limits asked for",
    }
    percent: dict[str, Any] = {"title": {"text": "accuracy (%)"}}
    if any(best):  # the least accurate networks would flatten the rest
        lowest = 100 * min(top for top in best if top) - 5
        percent |= {"range": [lowest, 100 * known.accuracy[front].max() + 1]}
    axes = {"xaxis": {"title": {"text": "T (ms)"}}, "yaxis": percent}
    answer = ", ".join(f"{row[1]} within {row[0]}" for row in rows)
    return Page(
        title=f"What a time limit buys on {device}",
        subtitle=f"{problem.space.name}, {task}",
        answer=[
            f"Accuracy of the best network: {answer}.",
            *(Note(line) for line in _notes(problem, known)),
        ],
        sections=[
            Section(
                "Limits",
                [
                    Table(_HEADER, [[*row[:-1], f"`{row[-1]}`"] for row in rows],
                          "The most accurate network within each T, and the share of networks within it."),
                    Figure("Accuracy against T", [front_line, marks], axes),
                ],
            )
        ],
        provenance={"accuracy": problem.accuracy.description, "latency": problem.oracle.description},
    )  # fmt: skip
