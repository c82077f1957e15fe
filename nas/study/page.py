"""Page of a study: the answer, tables of everything compared, learning curves, tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgenas_core.files.atomic_file import write_whole
from edgenas_core.page.document import HtmlPage, KeyFigure, Section
from edgenas_core.page.parts import Columns, Figure, PageNote, PagePart, Table, TextListing
from nas.study.analysis import Analysis
from nas.study.evaluation.charts import (
    Curves,
    fronts,
    latency_by_bins,
    progress_by_queries,
)
from nas.study.evaluation.results import Results
from nas.study.evaluation.statistics import no_intervals, text_of, with_intervals
from nas.study.plan import Setting
from nas.trials.limits import share_text

COLUMNS = {
    "how good the best network is": (
        *(f"gap_at_{count}_queries" for count in (50, 100, 200, 500, 1000, 5000)),
        *(f"best_at_{count}_queries" for count in (50, 100, 200, 500, 1000, 5000)),
        *("gap", "best_accuracy"),
    ),
    "how the search went": (
        "queries_to_optimum",
        "settled",
        "feasible_share",
        "end_accuracy",
        "best_test",
        "hypervolume",
    ),
    "costs, and shares of predictions": (
        "queries",
        "training_hours",
        "seconds",
        "accuracy_predicted",
        "latency_predicted",
    ),
}
"""Measures of each table, as many as fit on a page of 1,200 pixels."""


Findings = Mapping[Analysis, Sequence[Any]]
"""Findings of each analysis that applies."""


def write_page(
    path: Path,
    results: Results,
    findings: Findings,
    *,
    sources: str,
    predicted: bool,
    provenance: Mapping[str, str],
    settings: str,
    charts: Mapping[tuple[str, float], Sequence[Figure]],
) -> None:
    """Write the page; the file is whole or absent.

    `sources` says where the numbers come from, `predicted` whether a model gave any of them; `charts` are
    `problem_charts`, unless an analysis draws its own.
    """
    config = results.config
    notes = [PageNote(f"Some of these numbers are predictions: {sources}.")] if predicted else []
    few = no_intervals(config.seeds)
    page = HtmlPage(
        f"Study: {config.name}",
        f"{results.task.name}, {len(results.values)} settings of {config.seeds} seeds x "
        f"{config.budget:,} samples",
        [*([PageNote(few)] if few else []), *answer(results, findings), *notes],
        list(_key_figures(results, findings)),
        list(_sections(results, findings, charts)),
        {**provenance, "sources": sources},
        [TextListing("Settings", settings)],
    )
    write_whole(path, page.html())


def answer(results: Results, findings: Findings) -> list[str]:
    """The answer of the study, in paragraphs made of its findings and tests."""
    paragraphs = [
        sentence
        for group in findings.values()
        for finding in group
        for sentence in finding.sentences
    ]
    if results.why_not_exact:
        paragraphs.append(f"The optimum is not known: {results.why_not_exact}.")
    return [*paragraphs, *_most_accurate(results)]


def _most_accurate(results: Results) -> Iterator[str]:
    compared, problems = list(_compare(results)), list(_by_problem(results).values())
    if len(compared) < 2:
        return
    measure, sign = ("best_accuracy", -1) if results.why_not_exact else ("gap", 1)
    wins: Counter[str] = Counter()
    empty = 0
    for settings in problems:
        medians = {name: results.medians[setting][measure] for name, setting in settings.items()}
        ranked = {
            name: sign * median.middle
            for name, median in medians.items()
            if median is not None and np.isfinite(median.middle)
        }
        wins.update(name for name, value in ranked.items() if value <= min(ranked.values()))
        empty += not ranked
    counts = ", ".join(f"{name} on {wins[name]}" for name in compared)
    if empty:
        counts += f"; on {empty} no median search finds a network within T"
    what = (
        f"Smallest median gap to the {results.optimum}" if sign > 0 else "Highest median accuracy"
    )
    yield (
        f"{what} after {results.config.budget:,} samples, of {len(problems)} problems: {counts} (ties "
        f"count for each)."
    )


def _key_figures(results: Results, findings: Findings) -> Iterator[KeyFigure]:
    searches = len(results.values) * results.config.seeds
    samples = searches * results.config.budget
    yield KeyFigure("searches", f"{searches:,}", f"{samples:,} samples")
    seconds = sum(curve.log.seconds for curve in results.curves.values())
    yield KeyFigure("seconds of searching", f"{seconds:,.1f}", "all processes together")
    for analysis, items in findings.items():
        if analysis.key_figures:
            yield from analysis.key_figures(items, results)


def _sections(
    results: Results, findings: Findings, charts: Mapping[tuple[str, float], Sequence[Figure]]
) -> Iterator[Section]:
    is_covered = any(analysis.is_whole for analysis in findings)
    if results.default_settings and not is_covered:
        yield Section("What was compared", list(_table(results)))
    for analysis, items in findings.items():
        yield from analysis.sections(items, results)
    if results.comparisons:
        yield Section("Tests", [_tests(results)])
    for (device, limit_ms), figures in charts.items():
        setting = next(iter(_by_problem(results)[device, limit_ms].values()))
        survey = results.curves[setting].survey
        share = [f"{share_text(survey.feasible_share)} of the space is within T."] if survey else []
        yield Section(f"{device}, T = {limit_ms:g} ms", [*share, Columns(figures)])


def problem_charts(results: Results) -> dict[tuple[str, float], list[Figure]]:
    """Charts of each device and limit: gaps, latencies, and fronts."""
    charts = {}
    for (device, limit_ms), settings in _by_problem(results).items():
        curves: Curves = {name: results.curves[setting] for name, setting in settings.items()}
        problem = f"{device}, T = {limit_ms:g} ms"
        charts[device, limit_ms] = [
            progress_by_queries(curves, problem),
            latency_by_bins(curves, problem, limit_ms),
            fronts(curves, problem, limit_ms),
        ]
    return charts


def _table(results: Results) -> Iterator[PagePart | str]:
    judged = "Best: accuracy of the best network within T."
    if not results.why_not_exact:
        judged = (
            f"Gaps: points of accuracy below the {results.optimum} within T. Hypervolume: that of the "
            f"found front over that of the whole space."
        )
    yield (
        f"Medians over {results.config.seeds} seeds{with_intervals(results.config.seeds)}; in brackets, the "
        f"axis and the unit. A sample is an architecture that a search proposes, a query one that it "
        f"has not proposed before. Hours: training every query once, by the accuracy table. Seconds: "
        f"searching on this machine, divided by the number of seeds. {judged} A search is within T "
        f"from where the mean latency of 100 samples stays within it. The shares predicted are those of "
        f"the samples' accuracies and latencies. Medians are over the seeds for which a measure is "
        f"known; their number is given where it is not all."
    )
    present = {measure.name for measure in results.measures}
    for what, columns in COLUMNS.items():
        names = [name for name in columns if name in present]
        rows = []
        for setting in results.default_settings:
            row = [setting.device, f"{setting.limit_ms:g} ms", setting.reward, setting.controller]
            for name in names:
                seeds_known = _of_seeds(results.known(setting, name), results)
                row.append(text_of(results.medians[setting][name]) + seeds_known)
            rows.append(row)
        header = ["device", "T", "reward", "controller", *(_title(results, n) for n in names)]
        yield Table(header, rows, f"Every search with the default settings: {what}")


def _of_seeds(seeds_with_value: int, results: Results) -> str:
    seeds = len(results.seeds)
    return f" ({seeds_with_value} of {seeds} seeds)" if 0 < seeds_with_value < seeds else ""


def _tests(results: Results) -> Table:
    header = ("device", "T", "measure", "who", "median", "median of the other")
    rows = [
        [
            test.other.device,
            f"{test.other.limit_ms:g} ms",
            results.measure(test.measure).title,
            f"{results.name(test.reference)} against {results.name(test.other)}",
            text_of(results.medians[test.reference][test.measure]),
            text_of(results.medians[test.other][test.measure]),
            text_of(test.improvement, digits=2),
            f"{test.p_holm:.2g}",
            test.verdict,
        ]
        for test in results.comparisons
        if not test.other.overrides
    ]
    return Table(
        [*header, "probability of improvement", "p (Holm)", "verdict"],
        rows,
        "Wilcoxon's signed-rank test, paired by seed, Holm-corrected for each measure",
    )


def _by_problem(results: Results) -> dict[tuple[str, float], dict[str, Setting]]:
    """Settings without overrides, by problem, then by the name of what differs."""
    settings_of: dict[tuple[str, float], dict[str, Setting]] = {}
    for setting in results.values:
        if not setting.overrides:
            settings = settings_of.setdefault((setting.device, setting.limit_ms), {})
            settings[results.name(setting)] = setting
    return settings_of


def _compare(results: Results) -> Mapping[str, None]:
    return dict.fromkeys(name for settings in _by_problem(results).values() for name in settings)


def _title(results: Results, name: str) -> str:
    """Title of a measure with its axis and unit, as `gap at 100 (queries, points)`."""
    measure = results.measure(name)
    axis = measure.axis if not measure.axis.startswith(measure.unit or " ") else ""  # hours, in h
    return f"{measure.title} ({', '.join(filter(None, (axis, measure.unit)))})"
