"""The study as one page: the answer, the table of everything compared, the curves, the tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from nas.study.analyses.situations.measure import Family
from nas.study.analyses.situations.page import situation_sections
from nas.study.analyses.thesis.measure import claims, numbers, verdict
from nas.study.analyses.thesis.page import thesis_sections
from nas.study.analyses.variants.measure import variants
from nas.study.analyses.variants.page import variant_sections
from nas.study.charts import (
    Courses,
    accuracy_by_bins,
    fronts,
    gap_by_queries,
    gap_by_samples,
    gap_by_training,
    improvements,
    latency_by_bins,
)
from nas.study.plan import Cell
from nas.study.results import TESTED, Comparison, Results
from nas.study.statistics import no_intervals, with_intervals
from nas.study.terminal import text_of
from runtime.page.document import KeyFigure, Page, Section
from runtime.page.parts import Columns, Listing, Note, Part, Table
from runtime.shell.atomic_file import replacing

COLUMNS = {
    "how far from the optimum": (
        *(f"gap_at_{count}_queries" for count in (50, 100, 200, 500, 1000, 5000)),
        "gap",
    ),
    "how the search went": (
        "queries_to_optimum",
        "settled",
        "feasible_share",
        "end_accuracy",
        "best_test",
        "hypervolume",
    ),
    "what it cost, and what was predicted": (
        "queries",
        "training_hours",
        "seconds",
        "accuracy_predicted",
        "latency_predicted",
    ),
}
"""Measures of each table, as many as a page of 1,200 pixels has room for."""


def write_page(
    path: Path,
    results: Results,
    situations: Sequence[Family],
    *,
    sources: str,
    predicted: bool,
    provenance: Mapping[str, str],
    settings: str,
) -> None:
    """Write the page; the file is whole or absent."""
    config = results.config
    notes = [Note(f"Some of these numbers are predictions: {sources}.")] if predicted else []
    few = no_intervals(config.seeds)
    page = Page(
        f"Study: {config.name}",
        f"{config.task.name}, {len(results.values)} cells of {config.seeds} seeds x "
        f"{config.budget:,} samples",
        [*([Note(few)] if few else []), *answer(results, situations), *notes],
        list(_key_figures(results)),
        list(_sections(results, situations)),
        {**provenance, "sources": sources},
        [Listing("Settings", settings)],
    )
    with replacing(path) as file:
        file.write(page.html().encode())


def answer(results: Results, situations: Sequence[Family]) -> list[str]:
    """What the study says, in a paragraph or two made of its tests and nothing else."""
    paragraphs = [verdict(results), numbers(results)] if results.config.thesis else []
    paragraphs += [family.sentence for family in situations]
    paragraphs += [found.sentence for found in variants(results)]
    return [*filter(None, paragraphs), *_smallest_gap(results)]


def _smallest_gap(results: Results) -> Iterator[str]:
    compared, problems = list(_compared(results)), list(_by_problem(results).values())
    if len(compared) < 2:
        return
    wins: Counter[str] = Counter()
    empty = 0
    for cells in problems:
        found = {name: results.medians[cell]["gap"] for name, cell in cells.items()}
        gaps = {
            name: gap.middle
            for name, gap in found.items()
            if gap is not None and np.isfinite(gap.middle)
        }
        wins.update(name for name, gap in gaps.items() if gap <= min(gaps.values()))
        empty += not gaps
    told = ", ".join(f"{name} on {wins[name]}" for name in compared)
    if empty:
        told += f", and on {empty} the median search of none finds any network within T"
    yield (
        f"Smallest median gap to the {results.optimum} after {results.config.budget:,} samples, of "
        f"{len(problems)} problems: {told} (ties count for each)."
    )


def _counted(results: Results) -> Iterator[str]:
    """On how many problems the reference is better and worse, a sentence a measure."""
    for measure in TESTED[results.config.compare]:
        counts: dict[str, Counter[str]] = {}
        for c in results.comparisons:
            if c.measure == measure and not c.other.settings:
                counts.setdefault(results.name(c.other), Counter()).update([c.verdict])
        parts = [
            f"better than {name} on {found['better']} and worse on {found['worse']} of "
            f"{sum(found.values())} problems"
            for name, found in counts.items()
        ]
        if parts:
            title = _title(results, measure)
            yield f"{results.config.reference}, by {title}: {'; '.join(parts)}."


def _key_figures(results: Results) -> Iterator[KeyFigure]:
    searches = len(results.values) * results.config.seeds
    samples = searches * results.config.budget
    yield KeyFigure("searches", f"{searches:,}", f"{samples:,} samples")
    seconds = sum(course.trace.seconds for course in results.courses.values())
    yield KeyFigure("seconds of searching", f"{seconds:,.1f}", "all processes together")
    if results.config.thesis:
        for rival, tests in claims(results).items():
            if tests:
                sooner = sum(test.verdict == "better" for test in tests)
                yield KeyFigure(
                    f"proposed sooner within T than {rival}",
                    f"{sooner} of {len(tests)}",
                    "settings, Holm-corrected",
                )
    elif results.pooled:
        for entry in results.pooled:
            if entry.measure == "gap":
                yield KeyFigure(
                    f"probability that {results.config.reference} beats {entry.other}",
                    text_of(entry.improvement, digits=2),
                    "gap after all samples",
                )


def _sections(results: Results, situations: Sequence[Family]) -> Iterator[Section]:
    if any((cell.device, cell.limit_ms) not in results.on_boards for cell in results.values):
        yield Section("What was compared", list(_table(results)))
    if results.config.thesis:
        yield from thesis_sections(results)
    yield from situation_sections(situations, results)
    yield from variant_sections(results)
    titles = {m.name: _title(results, m.name) for m in results.measures}
    if results.comparisons:
        parts: list[Part | str] = [*_counted(results)]
        if results.pooled:
            parts.append(improvements(results.pooled, results.config.reference, titles))
        parts.append(_tests(results, [c for c in results.comparisons if not c.other.settings]))
        yield Section("Tests", parts)
    for (device, limit_ms), cells in _by_problem(results).items():
        if (device, limit_ms) in results.on_boards:
            continue
        courses: Courses = {name: results.courses[cell] for name, cell in cells.items()}
        space = next(iter(courses.values())).landscape
        problem = f"{device}, T = {limit_ms:g} ms"
        figures = [
            gap_by_queries(courses, problem),
            gap_by_samples(courses, problem),
            gap_by_training(courses, problem),
            latency_by_bins(courses, problem, limit_ms),
            accuracy_by_bins(courses, problem),
            fronts(courses, problem, space),
        ]
        share = f"{space.feasible_share:.1%} of the space is within T."
        yield Section(problem, [share, Columns([figure for figure in figures if figure])])


def _table(results: Results) -> Iterator[Part | str]:
    yield (
        f"Medians over {results.config.seeds} seeds{with_intervals(results.config.seeds)}; in brackets, the "
        f"axis and the unit. A sample is an architecture that a search proposes, a query one that it "
        f"has not proposed before; hours are those of training every query once, by the accuracy "
        f"table; seconds are this machine's, a search's share of all seeds together. Gaps are points "
        f"of accuracy below the {results.optimum} within T. A search is within T from where the mean "
        f"latency of 100 samples stays so; hypervolume is that of the found front, over that of the whole "
        f"space's. The shares predicted are those of the samples' accuracies and latencies. What is "
        f"unknown of a seed is in no median, and then it is said of how many seeds it is known."
    )
    known = {measure.name for measure in results.measures}
    for what, columns in COLUMNS.items():
        names = [name for name in columns if name in known]
        rows = []
        for cell, medians in results.medians.items():
            if not cell.settings and (cell.device, cell.limit_ms) not in results.on_boards:
                shown = (
                    text_of(medians[name]) + _of_seeds(results.known(cell, name), results)
                    for name in names
                )
                rows.append(
                    [cell.device, f"{cell.limit_ms:g} ms", cell.reward, cell.controller, *shown]
                )
        header = ["device", "T", "reward", "controller", *(_title(results, n) for n in names)]
        yield Table(header, rows, f"Every cell with the default settings: {what}")


def _of_seeds(known: int, results: Results) -> str:
    seeds = len(results.seeds)
    return f" ({known} of {seeds} seeds)" if 0 < known < seeds else ""


def _tests(results: Results, comparisons: Sequence[Comparison]) -> Table:
    rows: list[list[str | float]] = [
        [
            c.other.device,
            f"{c.other.limit_ms:g} ms",
            results.measure(c.measure).title,
            f"{results.name(c.reference)} against {results.name(c.other)}",
            text_of(results.medians[c.reference][c.measure]),
            text_of(results.medians[c.other][c.measure]),
            text_of(c.improvement, digits=2),
            f"{c.p_holm:.2g}",
            c.verdict,
        ]
        for c in comparisons
    ]
    header = ["device", "T", "measure", "who", "median", "median of the other"]
    header += ["probability of improvement", "p (Holm)", "verdict"]
    return Table(
        header, rows, "Wilcoxon's signed-rank test, paired by seed, Holm-corrected for each measure"
    )


def _by_problem(results: Results) -> dict[tuple[str, float], dict[str, Cell]]:
    """The cells with the default settings, by problem, then by the name of what differs."""
    found: dict[tuple[str, float], dict[str, Cell]] = {}
    for cell in results.values:
        if not cell.settings:
            cells = found.setdefault((cell.device, cell.limit_ms), {})
            cells[results.name(cell)] = cell
    return found


def _compared(results: Results) -> Mapping[str, None]:
    return dict.fromkeys(name for cells in _by_problem(results).values() for name in cells)


def _title(results: Results, name: str) -> str:
    """What a measure is and on which axis; `gap at 100 (queries, points)`."""
    measure = results.measure(name)
    return f"{measure.title} ({', '.join(filter(None, (measure.axis, measure.unit)))})"
