"""Page of one search, from its samples and the ranking of the space."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from edgenas_core.page.document import HtmlPage, KeyFigure, Section, Tone
from edgenas_core.page.parts import PageNote, PagePart, Slider, TextListing
from nas.report.answer import Answer, margin_text
from nas.report.network import networks_of
from nas.report.number import amount
from nas.report.run_folder import Environment
from nas.report.search_charts import choices, convergence, front
from nas.report.summary import Summary
from nas.report.tables import best_networks, drawings, reported_networks
from nas.trials.problem import SearchProblem
from nas.trials.statistics import ChoiceHistory
from nas.trials.survey import pareto_front
from nas.trials.trial import State, Trials


def run_page(
    summary: Summary,
    trials: Trials,
    problem: SearchProblem,
    history: ChoiceHistory,
    *,
    environment: Environment,
    command: str,
    config: str,
) -> HtmlPage:
    """The answer first, then how the search got there, then where its numbers come from.

    `environment` is that of the run's folder.
    """
    answer, settings = Answer(summary), summary.settings
    done = trials.rows(trials.state == State.done)
    feasible = problem.feasible(done)
    listed = best_networks(done, feasible, problem, answer)
    seen: list[PagePart | str] = [] if listed is None else [listed]
    went: list[PagePart | str] = choices(history, problem.space)
    if len(done):
        went.insert(0, convergence(done, feasible, problem, answer))
        seen[:0] = [
            front(done, feasible, problem, answer),
            *_every_limit(answer, problem),
        ]
    figures = [*answer.headline_figures, *answer.search_figures]
    if answer.best is None and len(done):
        figures.insert(0, _nearest(done, problem))
    return HtmlPage(
        title=f"{answer.dataset} on {answer.device} within {answer.limits}",
        subtitle=(
            f"One search of {settings.space}: {len(trials):,} samples by the controller "
            f"{settings.controller}, reward {settings.reward}, seed {settings.seed}"
        ),
        answer=answer_parts(answer),
        key_figures=figures,
        sections=[
            Section("The architecture", _architectures(answer, done, problem)),
            Section("How the search went", went),
            Section("What it saw", seen),
        ],
        provenance=provenance(answer, environment, command),
        provenance_parts=[TextListing("config.yaml", config)],
    )


def answer_parts(answer: Answer) -> list[PagePart | str]:
    """The network to use in a sentence, and what must be known of the numbers."""
    network = answer.network
    if network is None:
        parts: list[PagePart | str] = [answer.headline]
    else:
        accuracy, latency, *_ = answer.headline_figures
        numbers = (
            f"{accuracy.label} {accuracy.value}, {accuracy.note}; {latency.label} {latency.value}"
        )
        parts = [f"{answer.headline}: {numbers}.", f"`{network.arch}`"]
    return [*parts, *(PageNote(f"{note[0].upper()}{note[1:]}.") for note in answer.notes)]


def provenance(answer: Answer, machine: Environment, command: str) -> dict[str, str]:
    """Origin of the numbers, and the command that makes them again."""
    summary = answer.summary
    settings, sources = summary.settings, answer.sources
    packages = ", ".join(f"{name} {version}" for name, version in machine.packages.items())
    resumed = summary.resumed_at_sample
    since = f" since it was resumed at sample {resumed:,}" if resumed else ""
    return {
        "command": f"`{command}`",
        "search space": settings.space,
        **(
            {"ranking": settings.controller}
            if settings.reward is None
            else {"reward, controller": f"{settings.reward}, {settings.controller}"}
        ),
        "seed": str(settings.seed),
        "samples": (
            f"{summary.samples:,}; {summary.distinct_architectures:,} distinct architectures, "
            f"{summary.distinct_networks:,} distinct networks"
        ),
        **sources,
        answer.metric: f"{answer.searched} on {answer.dataset}; {sources[answer.metric]}",
        "latency": f"{summary.device}; {sources['latency']}",
        "date": machine.date,
        "time of the loop": f"{summary.seconds:.1f} s{since}",
        "machine": f"{machine.platform}, {machine.processors} processors",
        "versions": f"Python {machine.python}, {packages}",
    }


def _nearest(done: Trials, problem: SearchProblem) -> KeyFigure:
    """The sample that exceeds its worst limit by least, and by how much."""
    ratios, symbols = done.ratios, ("T", *problem.limits.symbols)
    at = int(np.lexsort((ratios.sum(axis=1), ratios.max(axis=1)))[0])
    costs = [
        limit.text(cost)
        for limit, cost in zip(problem.limits.each, done.costs[at].tolist(), strict=True)
    ]
    exceeded = [
        f"{symbol} by {ratio - 1:.2%}"
        for symbol, ratio in zip(symbols, ratios[at].tolist(), strict=True)
        if ratio > 1
    ]
    note = f"beyond {', '.join(exceeded)}" if exceeded else "not within T when timed again"
    if problem.limits:
        met = (ratios <= 1).sum(axis=0).tolist()
        alone = (f"{symbol} alone {n:,}" for symbol, n in zip(symbols, met, strict=True))
        note += f"; trials within {', '.join(alone)}"
    value = ", ".join([amount(float(done.latency_ms[at]), "ms"), *costs])
    return KeyFigure("nearest sample", value, note, Tone.bad)


def _every_limit(answer: Answer, problem: SearchProblem) -> Iterator[PagePart]:
    """Sliders with the answer for each T: among the samples, and in the whole space if it is known."""
    summary = answer.summary
    margin = margin_text(summary)
    sampled = [
        (ms, f"{network.arch}: {network.line}, sample {network.sample:,}")
        for ms, network in summary.answers
    ]
    share = summary.front_share
    caption = "The most accurate sample within another T, off the found front"
    if share is not None:
        caption += f", which has {share:.2%} of the hypervolume of the {answer.front_name}"
    if sampled:
        yield Slider(
            "The answer for another T",
            *("T", "ms", sampled, summary.T_ms, "No sample takes so little time."),
            f"{caption}. `python -m nas.export run=<this folder> T=12ms` exports it.{margin}",
        )
    if space := _front_of_space(problem):
        yield Slider(
            f"The {answer.optimum_name} for another T",
            *("T", "ms", space, summary.T_ms, "No architecture takes so little time."),
            f"The most accurate architecture of the whole space within T, without a search.{margin}",
        )


def _front_of_space(problem: SearchProblem) -> list[tuple[float, str]]:
    """Least T and text of each step of the front of the whole space."""
    survey = problem.survey
    if survey is None:
        return []
    counted_ms = np.where(survey.met, survey.compared_ms, np.nan)
    at = pareto_front(survey.accuracy, counted_ms)
    networks = networks_of(problem.surveyed(at), problem)
    texts = [f"{network.arch}: {network.line}" for network in networks]
    return list(zip(counted_ms[at].tolist(), texts, strict=True))


def _architectures(answer: Answer, done: Trials, problem: SearchProblem) -> list[PagePart | str]:
    best, optimum, space = answer.best, answer.summary.optimum, problem.space
    texts = {}
    if best is not None:
        texts[f"best sample within {answer.label}"] = best.arch
    elif len(done):
        fastest = int(np.argmin(done.latency_ms))
        is_beyond = done.latency_ms[fastest] > answer.summary.T_ms
        missed = "beyond T" if is_beyond else f"not within {answer.label}"
        texts[f"fastest sample, {missed}"] = space.text(done.architectures[fastest])
    if optimum is not None and (best is None or optimum.arch != best.arch):
        texts[f"{answer.optimum_name} within {answer.label}"] = optimum.arch
    parsed = {role: space.parse(text) for role, text in texts.items()}
    parts = drawings(parsed, answer.summary.best, problem) if parsed else []
    return [reported_networks(answer), *parts]
