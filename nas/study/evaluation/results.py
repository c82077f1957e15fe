"""Results of a study: all measures of all settings, and the tests between them."""

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

from edgenas_core.files.atomic_file import write_whole
from edgenas_core.types.task import Task
from nas.spaces.base import SearchSpace
from nas.study.answers import Answers
from nas.study.config import Axis, StudyConfig
from nas.study.evaluation.learning_curve import LearningCurve
from nas.study.evaluation.measures import Measure, measures_of
from nas.study.evaluation.statistics import (
    Interval,
    holm,
    median_intervals,
    paired_p,
    probability_of_improvement,
)
from nas.study.folder import StudyFolder
from nas.study.plan import Plan, Setting
from nas.study.search_log import load_log

SCHEMA = 3
SIGNIFICANT = 0.05
TESTED = {
    Axis.reward: (
        "settled",
        "settled_bin",
        "gap",
        "best_accuracy",
        "feasible_share",
        "end_accuracy",
    ),
    Axis.controller: (
        *("gap_at_200_queries", "gap_at_1000_queries", "gap", "queries_to_optimum"),
        *("best_at_200_queries", "best_at_1000_queries", "best_accuracy"),
    ),
}
"""Measures on which the reference is tested against the others, by the compared axis."""


@final
@dataclass(frozen=True)
class Comparison:
    """Test of the reference against one other setting, all else equal, paired by seed."""

    reference: Setting
    other: Setting
    measure: str
    improvement: Interval  # probability that a run of the reference beats one of the other
    p: float
    p_holm: float  # over all comparisons of this measure in the study

    @property
    def verdict(self) -> str:
        """`better`, `worse` or `no difference`: the reference against the other."""
        if self.p_holm > SIGNIFICANT or self.improvement.middle == 0.5:
            return "no difference"
        return "better" if self.improvement.middle > 0.5 else "worse"


@final
@dataclass(frozen=True)
class Results:
    """Measures of all searches of a study, with their medians and tests."""

    config: StudyConfig
    space: SearchSpace
    task: Task
    seeds: range
    why_not_exact: str  # why the optimum of the space is not known; empty if it is
    curves: Mapping[Setting, LearningCurve]
    measures: tuple[Measure, ...]
    values: Mapping[Setting, Mapping[str, Float64[ndarray, "R"]]]
    medians: Mapping[Setting, Mapping[str, Interval | None]]  # None: unknown in every search
    comparisons: tuple[Comparison, ...]

    @property
    def default_settings(self) -> list[Setting]:
        """Settings without overrides."""
        return [setting for setting in self.values if not setting.overrides]

    @property
    def answers(self) -> dict[str, Answers]:
        """Answers about everything that was sampled on each device."""
        by_device: dict[str, list[Answers]] = {}
        for setting, curve in self.curves.items():
            by_device.setdefault(setting.device, []).append(curve.answers)
        return {device: Answers.joined(parts) for device, parts in by_device.items()}

    def measure(self, name: str) -> Measure:
        """The measure of this name."""
        return next(measure for measure in self.measures if measure.name == name)

    def name(self, setting: Setting) -> str:
        """Name of a setting among those of its problem: its value on every axis that varies."""
        axes = (setting.reward, self.config.rewards), (setting.controller, self.config.controllers)
        varied = [name for name, values in axes if len(values) > 1]
        compared: str = getattr(setting, self.config.compare.value)
        return ", ".join(varied) or compared

    def known(self, setting: Setting, measure: str) -> int:
        """Number of seeds that have a measure; its median leaves out the others."""
        return int((~np.isnan(self.values[setting][measure])).sum())

    @property
    def optimum(self) -> str:
        """Name of the optimum by the kinds of its numbers, such as `exact optimum`."""
        names = dict.fromkeys(curve.optimum_name for curve in self.curves.values())
        return " or ".join(sorted(names))


def gather(plan: Plan, folder: StudyFolder) -> Results:
    """Read every search log and compute the measures.

    Raises:
      UserError: if a file of the folder is damaged.
    """
    curves, values = {}, {}
    measures: tuple[Measure, ...] = ()
    for job in plan.jobs:
        setting = job.setting
        log = load_log(folder.file(setting), plan.space)
        curves[setting] = LearningCurve(
            log,
            plan.answers[setting.device] if log.sampled is None else log.sampled.answers,
            setting.limit_ms,
            plan.space,
            plan.surveys.get((setting.device, setting.limit_ms)),
        )
        measured = measures_of(curves[setting])
        measures = tuple(measure for measure, _ in measured)
        values[setting] = {measure.name: by_measure for measure, by_measure in measured}
    return Results(
        plan.config,
        plan.space,
        plan.task,
        plan.seeds,
        plan.why_not_exact,
        curves,
        measures,
        values,
        {setting: _medians(by_measure) for setting, by_measure in values.items()},
        tuple(_compare(plan.config, measures, values)),
    )


def _medians(values: Mapping[str, Float64[ndarray, "R"]]) -> dict[str, Interval | None]:
    """Median of each measure over the seeds that have it."""
    whole = [name for name, measured in values.items() if not np.isnan(measured).any()]
    medians: dict[str, Interval | None] = dict.fromkeys(values)
    medians.update(
        zip(whole, median_intervals(np.stack([values[name] for name in whole])), strict=True)
    )
    for name in set(values) - set(whole):
        finite = values[name][~np.isnan(values[name])]
        if len(finite):
            (medians[name],) = median_intervals(finite[None])
    return medians


def _compare(
    config: StudyConfig,
    measures: Sequence[Measure],
    values: Mapping[Setting, Mapping[str, Float64[ndarray, "R"]]],
) -> Iterator[Comparison]:
    if not config.tested_against:
        return
    for measure in measures:
        if measure.name not in TESTED[config.compare]:
            continue
        tested = []
        for other, others in values.items():
            if config.compare is Axis.reward:
                reference = replace(other, reward=config.tested_against)
            else:
                reference = replace(other, controller=config.tested_against)
            if other != reference and reference in values:
                ours, theirs = (
                    _less_is_better(measure, v[measure.name]) for v in (values[reference], others)
                )
                likely = probability_of_improvement(ours, theirs)
                p = paired_p(ours, theirs)
                tested.append(Comparison(reference, other, measure.name, likely, p, p))
        adjusted = holm([comparison.p for comparison in tested])
        for comparison, p in zip(tested, adjusted, strict=True):
            yield replace(comparison, p_holm=p)


def _less_is_better(measure: Measure, values: Float64[ndarray, "R"]) -> Float64[ndarray, "R"]:
    return values if measure.less_is_better else -values


def write_measures(path: Path, results: Results) -> None:
    """Write one line per search: its setting, the seed, every measure; `inf` is never."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [measure.name for measure in results.measures]
    writer.writerow(["reward", "controller", "device", "T_ms", "overrides", "seed", *names])
    for setting, values in results.values.items():
        words = (
            setting.reward,
            setting.controller,
            setting.device,
            setting.limit_ms,
            " ".join(setting.overrides),
        )
        for row, seed in enumerate(results.seeds):
            writer.writerow([*words, seed, *(f"{values[name][row]:.8g}" for name in names)])
    write_whole(path, text.getvalue())


def write_results(path: Path, results: Results, extra: Mapping[str, Any]) -> None:
    """Write the statistics as JSON; null stands for never, or unknown."""
    content = {
        "schema": SCHEMA,
        "measures": [asdict(measure) for measure in results.measures],
        "settings": [
            {
                **_describe(setting),
                "optimum": None if results.why_not_exact else results.curves[setting].optimum_name,
                "medians": {
                    n: None if m is None else {**asdict(m), "seeds": results.known(setting, n)}
                    for n, m in medians.items()
                },
            }
            for setting, medians in results.medians.items()
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
        **extra,
    }
    write_whole(path, json.dumps(_finite(content), indent=1) + "\n")


def _describe(setting: Setting) -> dict[str, Any]:
    return {**asdict(setting), "overrides": list(setting.overrides), "key": setting.key}


def _finite(value: Any) -> Any:
    """Replace infinite and unknown numbers by None, which JSON can hold."""
    if isinstance(value, Mapping):
        return {str(name): _finite(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
