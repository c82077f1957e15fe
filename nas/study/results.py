"""All measures of all cells, and the tests between them: `measures.csv` and `results.json`."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from nas.study.boards import Board
from nas.study.config import Axis, StudyConfig
from nas.study.folder import StudyFolder
from nas.study.learning_curve import Course
from nas.study.measures import Measure, measures_of
from nas.study.plan import Cell, Plan
from nas.study.statistics import (
    Interval,
    holm,
    median_intervals,
    paired_p,
    probability_of_improvement,
)
from nas.study.tables import Tables, load_tables
from nas.study.trace import load_trace
from runtime.shell.atomic_file import replacing

SCHEMA = 1
SIGNIFICANT = 0.05
TESTED = {
    Axis.reward: ("settled", "settled_bin", "gap", "feasible_share", "end_accuracy"),
    Axis.controller: ("gap_at_200_queries", "gap_at_1000_queries", "gap", "queries_to_optimum"),
}
"""Measures that the reference is tested on against the others, by what is compared."""


@final
@dataclass(frozen=True)
class Comparison:
    """The reference against one other, all else equal, paired by seed."""

    reference: Cell
    other: Cell
    measure: str
    improvement: Interval  # how likely a run of the reference beats one of the other
    p: float
    p_holm: float  # over all comparisons of this measure in the study

    @property
    def verdict(self) -> str:
        """What the test says of the reference: better, worse, or no difference."""
        if self.p_holm > SIGNIFICANT or self.improvement.middle == 0.5:
            return "no difference"
        return "better" if self.improvement.middle > 0.5 else "worse"


@final
@dataclass(frozen=True)
class Pooled:
    """The reference against one other over all problems, with the defaults."""

    other: str
    measure: str
    improvement: Interval
    problems: int


@final
@dataclass(frozen=True)
class Results:
    """What the study found."""

    config: StudyConfig
    seeds: range
    tables: Tables
    courses: Mapping[Cell, Course]
    measures: tuple[Measure, ...]
    values: Mapping[Cell, Mapping[str, Float64[ndarray, "R"]]]
    medians: Mapping[Cell, Mapping[str, Interval | None]]  # None: unknown in every search
    comparisons: tuple[Comparison, ...]
    pooled: tuple[Pooled, ...]
    boards: tuple[Board, ...]

    @property
    def on_boards(self) -> set[tuple[str, float]]:
        """Devices and limits that were searched for a board, which is told as a whole."""
        return {
            problem
            for board in self.boards
            for problem in (
                (board.device, board.limit_ms),
                *((unit.device, unit.left_ms) for unit in board.units),
            )
        }

    def measure(self, name: str) -> Measure:
        """The measure of this name."""
        return next(measure for measure in self.measures if measure.name == name)

    def name(self, cell: Cell) -> str:
        """What tells a cell from the others of its problem: every axis with more than one value."""
        axes = (cell.reward, self.config.rewards), (cell.controller, self.config.controllers)
        varied = [name for name, values in axes if len(values) > 1]
        compared: str = getattr(cell, self.config.compare.value)
        return ", ".join(varied) or compared

    def known(self, cell: Cell, measure: str) -> int:
        """Of how many seeds a measure is known; the others are in no median of it."""
        return int((~np.isnan(self.values[cell][measure])).sum())

    @property
    def optimum(self) -> str:
        """What the best architectures of the space within T are called, by their sources."""
        names = dict.fromkeys(course.optimum_name for course in self.courses.values())
        return " or ".join(sorted(names))


def gather(plan: Plan, folder: StudyFolder) -> Results:
    """Read every cell and work out its measures.

    Raises:
      UserError: if a file of the folder is damaged.
    """
    tables = load_tables(folder.tables)
    courses, values = {}, {}
    measures: tuple[Measure, ...] = ()
    for job in plan.jobs:
        cell = job.cell
        courses[cell] = Course(
            load_trace(folder.file(cell)),
            plan.landscapes[cell.device, cell.limit_ms],
            tables,
            accuracy_is_predicted=plan.accuracy.source == "surrogate",
            latency_predicted=tables.predicted[cell.device],
        )
        measured = measures_of(courses[cell])
        measures = tuple(measure for measure, _ in measured)
        values[cell] = {measure.name: found for measure, found in measured}
    comparisons = tuple(_compare(plan.config, measures, values))
    return Results(
        plan.config,
        plan.seeds,
        tables,
        courses,
        measures,
        values,
        {cell: _medians(found) for cell, found in values.items()},
        comparisons,
        tuple(_pool(plan.config, measures, values, comparisons)),
        plan.boards,
    )


def _medians(values: Mapping[str, Float64[ndarray, "R"]]) -> dict[str, Interval | None]:
    """Medians over the seeds; a seed of which a measure is unknown is left out of it."""
    whole = [name for name, found in values.items() if not np.isnan(found).any()]
    medians: dict[str, Interval | None] = dict.fromkeys(values)
    medians.update(
        zip(whole, median_intervals(np.stack([values[name] for name in whole])), strict=True)
    )
    for name in set(values) - set(whole):
        known = values[name][~np.isnan(values[name])]
        if len(known):
            (medians[name],) = median_intervals(known[None])
    return medians


def _compare(
    config: StudyConfig,
    measures: Sequence[Measure],
    values: Mapping[Cell, Mapping[str, Float64[ndarray, "R"]]],
) -> Iterator[Comparison]:
    if not config.reference:
        return
    for measure in measures:
        if measure.name not in TESTED[config.compare]:
            continue
        tested = []
        for other, found in values.items():
            if config.compare is Axis.reward:
                reference = replace(other, reward=config.reference)
            else:
                reference = replace(other, controller=config.reference)
            if other != reference and reference in values:
                ours, theirs = (
                    _less_is_better(measure, v[measure.name]) for v in (values[reference], found)
                )
                likely = probability_of_improvement([(ours, theirs)])
                p = paired_p(ours, theirs)
                tested.append(Comparison(reference, other, measure.name, likely, p, p))
        adjusted = holm([comparison.p for comparison in tested])
        for comparison, p in zip(tested, adjusted, strict=True):
            yield replace(comparison, p_holm=p)


def _pool(
    config: StudyConfig,
    measures: Sequence[Measure],
    values: Mapping[Cell, Mapping[str, Float64[ndarray, "R"]]],
    comparisons: Sequence[Comparison],
) -> Iterator[Pooled]:
    by_other: dict[tuple[str, str], list[Comparison]] = {}
    for comparison in comparisons:
        if not comparison.other.settings:
            name: str = getattr(comparison.other, config.compare.value)
            by_other.setdefault((name, comparison.measure), []).append(comparison)
    known = {measure.name: measure for measure in measures}
    for (name, measure), found in by_other.items():
        tasks = [
            (
                _less_is_better(known[measure], values[c.reference][measure]),
                _less_is_better(known[measure], values[c.other][measure]),
            )
            for c in found
        ]
        yield Pooled(name, measure, probability_of_improvement(tasks), len(tasks))


def _less_is_better(measure: Measure, values: Float64[ndarray, "R"]) -> Float64[ndarray, "R"]:
    return values if measure.less_is_better else -values


def write_measures(path: Path, results: Results) -> None:
    """A line a search: the cell's settings, the seed, every measure; `inf` is never."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [measure.name for measure in results.measures]
    writer.writerow(["reward", "controller", "device", "T_ms", "settings", "seed", *names])
    for cell, values in results.values.items():
        words = (cell.reward, cell.controller, cell.device, cell.limit_ms, " ".join(cell.settings))
        for row, seed in enumerate(results.seeds):
            writer.writerow([*words, seed, *(f"{values[name][row]:.8g}" for name in names)])
    with replacing(path) as file:
        file.write(text.getvalue().encode())


def write_results(path: Path, results: Results, extra: Mapping[str, Any]) -> None:
    """The statistics as JSON; null stands for never, or unknown."""
    content = {
        "schema": SCHEMA,
        "measures": [asdict(measure) for measure in results.measures],
        "cells": [
            {
                **_described(cell),
                "optimum": results.courses[cell].optimum_name,
                "medians": {
                    n: None if m is None else {**asdict(m), "seeds": results.known(cell, n)}
                    for n, m in found.items()
                },
            }
            for cell, found in results.medians.items()
        ],
        "comparisons": [
            {
                "reference": comparison.reference.key,
                "other": comparison.other.key,
                "measure": comparison.measure,
                "probability_of_improvement": asdict(comparison.improvement),
                "p": comparison.p,
                "p_holm": comparison.p_holm,
                "verdict": comparison.verdict,
            }
            for comparison in results.comparisons
        ],
        "pooled": [asdict(pooled) for pooled in results.pooled],
        **extra,
    }
    with replacing(path) as file:
        file.write((json.dumps(_finite(content), indent=1) + "\n").encode())


def _described(cell: Cell) -> dict[str, Any]:
    return {**asdict(cell), "settings": list(cell.settings), "key": cell.key}


def _finite(value: Any) -> Any:
    """JSON knows no infinity."""
    if isinstance(value, Mapping):
        return {str(name): _finite(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
