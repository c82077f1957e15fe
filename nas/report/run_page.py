"""The page of one run, from what it sampled and what is known of the space."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from common.files.atomic_file import replacing
from common.page.document import Page, Section
from common.page.parts import Listing, Part, Slider
from common.types.kind import Kind
from nas.report.answer import answer, key_figures
from nas.report.charts.choices import choices
from nas.report.charts.convergence import convergence
from nas.report.charts.front import front
from nas.report.charts.heat_map import heat_map
from nas.report.provenance import provenance
from nas.report.summary import Summary, feasible_of
from nas.report.tables import best_few, drawn, found
from nas.report.wording import Wording, kind_note, percent
from nas.trials.choice_history import ChoiceHistory
from nas.trials.problem import SearchProblem
from nas.trials.survey import Survey, pareto_front
from nas.trials.trial import State, Trials


def run_page(
    summary: Summary,
    trials: Trials,
    problem: SearchProblem,
    history: ChoiceHistory,
    *,
    environment: Mapping[str, Any],
    command: str,
    config: str,
) -> Page:
    """The answer first, then how the search got there, then where its numbers come from."""
    wording = Wording(summary)
    done = trials.rows(trials.state == State.done)
    feasible = feasible_of(done, problem)
    few = best_few(done, feasible, problem, wording)
    settings = summary.settings
    seen: list[Part | str] = [] if few is None else [few]
    went: list[Part | str] = choices(history, problem.space)
    if len(done):
        went.insert(0, convergence(done, feasible, problem.survey, summary.T_ms, wording))
        seen[:0] = [
            front(done, feasible, problem, wording),
            *_every_limit(summary, problem, wording),
            heat_map(done, summary.T_ms, wording),
        ]
    return Page(
        title=f"{wording.dataset} on {summary.device} within {_bounds(wording)}",
        subtitle=(
            f"One search of {settings.space}: {len(trials):,} samples by the controller "
            f"{settings.controller}, reward {settings.reward}, seed {settings.seed}"
        ),
        answer=answer(summary, done, problem, wording),
        key_figures=key_figures(summary, done, problem, wording),
        sections=[
            Section("The architecture", _architectures(summary, done, problem, wording)),
            Section("How the search went", went),
            Section("What it saw", seen),
        ],
        provenance=provenance(summary, wording, environment, command),
        provenance_parts=[Listing("config.yaml", config)],
    )


def write_report(path: Path, page: Page) -> None:
    """Write the page, atomically."""
    with replacing(path) as file:
        file.write(page.html().encode())


def _bounds(wording: Wording) -> str:
    """The limits for the title: 17 ms alone, or T = 17 ms, E = 5 mJ."""
    return wording.limits if wording.summary.limits else f"{wording.summary.T_ms:g} ms"


def _every_limit(summary: Summary, problem: SearchProblem, wording: Wording) -> Iterator[Part]:
    """The answer for each T: of the samples, and of the whole space where it is known."""
    found = []
    for least_ms, one in summary.answers:
        tested = "" if one.accuracy_test is None else f", test {percent(one.accuracy_test, 2)}"
        guessed = kind_note(Kind[one.accuracy_kind])
        accuracy = f"{wording.accuracy(one.accuracy_searched)}{guessed} {wording.searched}{tested}"
        latency = wording.latency(one.latency_ms, Kind[one.latency_kind])
        found.append((least_ms, f"{one.arch}: {accuracy}, {latency}, sample {one.sample:,}"))
    share = summary.front_share
    caption = "The most accurate sample within another T, off the found front"
    if share is not None:
        caption += f", which has {percent(share, 2)} of the hypervolume of the {wording.front}"
    margin = ""
    if summary.margin:
        below = percent(1 - math.exp(-summary.margin), 1)
        margin = f" A predicted latency is {below} below T or more, for confidence={summary.confidence:g}."
    known = [] if problem.survey is None else _of_every_architecture(problem.survey, wording)
    for title, steps, below, said in (
        (
            "The answer for another T",
            found,
            "No sample takes so little time.",
            f"{caption}. `python -m nas.export run=<this folder> T=12ms` exports it.{margin}",
        ),
        (
            f"The {wording.optimum} for another T",
            known,
            "No architecture takes so little time.",
            f"The most accurate architecture of the whole space within T, without a search.{margin}",
        ),
    ):
        if steps:
            yield Slider(title, "T", "ms", steps, summary.T_ms, below, said)


def _of_every_architecture(survey: Survey, wording: Wording) -> list[tuple[float, str]]:
    """Least T and text of each step of the front of the whole space."""
    counted_ms = np.where(survey.met, survey.compared_ms, np.nan)
    steps = []
    for number in pareto_front(survey.accuracy, counted_ms).tolist():
        arch = survey.space.text(survey.space.architectures(np.array(number)))
        guessed = kind_note(Kind(survey.accuracy_kind[number]))
        accuracy = f"{wording.accuracy(float(survey.accuracy[number]))}{guessed}"
        latency = wording.latency(
            float(survey.latency_ms[number]), Kind(survey.latency_kind[number])
        )
        steps.append(
            (float(counted_ms[number]), f"{arch}: {accuracy} {wording.searched}, {latency}")
        )
    return steps


def _architectures(
    summary: Summary, done: Trials, problem: SearchProblem, wording: Wording
) -> list[Part | str]:
    best, optimum, space = summary.best, summary.optimum, problem.space
    texts = {}
    if best is not None:
        texts[f"best sample within {wording.label}"] = best.arch
    elif len(done):
        fastest = int(np.argmin(done.latency_ms))
        missed = wording.missed(float(done.latency_ms[fastest]))
        texts[f"fastest sample, {missed}"] = space.text(done.architectures[fastest])
    if optimum is not None and (best is None or optimum.arch != best.arch):
        texts[f"{wording.optimum} within {wording.label}"] = optimum.arch
    parsed = {name: space.parse(text) for name, text in texts.items()}
    return [found(summary, wording), *(drawn(parsed, best, problem) if parsed else [])]
