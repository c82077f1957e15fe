"""Figures and tables of section 5.1 of the thesis, published values beside those of the study."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from benchmarks.studies.thesis.measure import (
    PROPOSED,
    PUBLISHED,
    SAMPLES,
    SOFT,
    T_MS,
    TABLE_5_1,
    Reproduction,
    ThesisFinding,
    applies,
    by_chance,
    claims,
    findings,
    heat_map,
    is_the_thesis_problem,
    reproductions,
)
from edgenas_core.page.chart import count_map, limit
from edgenas_core.page.document import KeyFigure, Section
from edgenas_core.page.parts import Columns, Figure, PagePart, Table
from nas.study.analysis import Analysis, Declared, declared_table
from nas.study.evaluation.charts import latency_by_bins
from nas.study.evaluation.results import Comparison, Results
from nas.study.evaluation.statistics import number_text, text_of
from nas.study.plan import Setting
from rewards.mnasnet import MnasReward
from rewards.proposed import ProposedReward


def _sections(_: Sequence[ThesisFinding], results: Results) -> Iterator[Section]:
    reproduced = list(reproductions(results))
    if reproduced:
        closest = min(reproduced, key=lambda r: r.distance)
        yield Section("The thesis's figures", list(_figures(results, closest.setting)))
        yield Section("The thesis's numbers", list(_numbers(results, reproduced)))
    if any(claims(results).values()):
        yield Section("The claim, setting by setting", list(_claims(results)))
    yield Section("The rewards themselves", [_rewards()])


def _figures(results: Results, setting: Setting) -> Iterator[PagePart | str]:
    yield f"Figures 5-1 and 5-2 on {_place(setting)}, which is closest to the thesis by the medians."
    caption = "Figure 5-1: samples of a search, mean over the seeds; the dashed line is T."
    compared = {
        other.reward: curve
        for other, curve in results.curves.items()
        if replace(other, reward=setting.reward) == setting
    }
    yield Columns(
        [
            *(
                _heat_map_figure(
                    heat_map(compared[name]), f"Heat map: {name}", setting.limit_ms, caption
                )
                for name in (SOFT, PROPOSED)
            ),
            latency_by_bins(compared, _place(setting), setting.limit_ms),
        ]
    )


def _numbers(results: Results, reproduced: list[Reproduction]) -> Iterator[PagePart | str]:
    if is_the_thesis_problem(results):
        yield (
            "Median over our seeds, with the least and the most of any seed: the thesis prints one "
            "run; its number is in range where it lies between these, and the last column counts "
            "them. Its times are NATS-Bench's of a GTX 1080 Ti at batch 256, of which there is no complete open "
            "table; the nearest is HELP's of that board and batch, help-1080ti-256, on which the claim fails "
            "(benchmarks/results/thesis.md); "
            "its learning rate, batch and entropy weight are unknown."
        )
    else:
        yield "The thesis searched 5,000 samples within 17 ms; this study did not."
    columns: Declared[Reproduction] = {
        "device": lambda reproduction: _device(reproduction.setting),
        "settings": lambda reproduction: " ".join(reproduction.setting.overrides) or "default",
        **{
            f"{p.what}, {p.reward} (thesis: {p.value:,.0f})": partial(_spread, number)
            for number, p in enumerate(PUBLISHED)
        },
        "in range, of 6": lambda reproduction: sum(reproduction.within_range),
    }
    yield declared_table(reproduced, columns, "Figures 5-1 and 5-2 in numbers; axis: samples")
    survey = results.curves[reproduced[0].setting].whole
    chances = {p.what: by_chance(survey, p) for p in PUBLISHED}
    counts = [f"{chance:,.0f} {what}" for what, chance in chances.items() if chance is not None]
    yield f"A uniform sample of {SAMPLES:,} on {_device(reproduced[0].setting)} has {', '.join(counts)}."


def _heat_map_figure(
    counts: Float64[ndarray, "ms bins"], title: str, limit_ms: float, caption: str
) -> Figure:
    """Samples by whole milliseconds (down) and accuracy (across): figure 5-1."""
    used = np.flatnonzero(counts.sum(1) >= 0.5)
    rows = slice(int(used.min()), int(used.max()) + 1) if len(used) else slice(0, 1)
    counted = counts[rows]
    bins = [f"{low} to {low + 10}" for low in range(0, 100, 10)]
    return Figure(
        title,
        [
            count_map(bins, np.arange(rows.start, rows.stop) + 0.5, counted, "samples")
            | {
                "text": [[f"{c:.0f}" if c >= 0.5 else "" for c in row] for row in counted],
                "texttemplate": "%{text}",
                "hovertemplate": "%{y:.0f} ms, %{x} %: %{customdata:.1f} samples<extra></extra>",
                "showscale": False,
            }
        ],
        {
            "xaxis": {"title": {"text": "accuracy (%)"}},
            "yaxis": {"title": {"text": "latency (whole ms)"}, "autorange": "reversed"},
            "shapes": [limit("y", limit_ms)],
        },
        caption,
        height=520,
    )


def _spread(number: int, reproduction: Reproduction) -> str:
    values = reproduction.ours[number]
    least, middle, most = (number_text(float(f(values))) for f in (np.min, np.median, np.max))
    return middle + ("" if least == most else f" ({least} to {most})")


def _claims(results: Results) -> Iterator[PagePart | str]:
    yield (
        f"Samples until the mean latency of 100 samples stays within T, median over "
        f"{results.config.seeds} seeds, and the paired test against each rival. 'Never' is longer "
        f"than {results.config.budget:,} samples."
    )
    tests = [test for against_rival in claims(results).values() for test in against_rival]
    columns: Declared[Comparison] = {
        "device": lambda test: _device(test.reference),
        "settings": lambda test: " ".join(test.reference.overrides) or "default",
        PROPOSED: lambda test: text_of(results.medians[test.reference]["settled"]),
        "rival": lambda test: test.other.reward,
        "its samples": lambda test: text_of(results.medians[test.other]["settled"]),
        "proposed is": lambda test: _SOONER.get(test.verdict, test.verdict),
        "p (Holm)": lambda test: f"{test.p_holm:.2g}",
        "end accuracy, proposed, %": lambda test: _end_accuracy(results, test.reference),
        "of the rival, %": lambda test: _end_accuracy(results, test.other),
    }
    yield declared_table(tests, columns, "The proposed reward against MnasNet's; axis: samples")


_SOONER = {"better": "sooner", "worse": "later"}


def _end_accuracy(results: Results, setting: Setting) -> str:
    median = results.medians[setting].get("end_accuracy")
    return "" if median is None else text_of(median)


def _rewards() -> Table:
    soft, proposed = MnasReward(T_MS), ProposedReward(T_MS)
    columns: Declared[tuple[str, float, float, float, float]] = {
        "case": lambda row: row[0],
        "accuracy": lambda row: f"{row[1]:.0%}",
        "latency": lambda row: f"{row[2]:g} ms",
        "MnasNet, printed": lambda row: f"{row[3]}",
        "MnasNet, here": lambda row: f"{soft(*row[1:3]):.6f}",
        "proposed, printed": lambda row: f"{row[4]}",
        "proposed, here": lambda row: f"{proposed(*row[1:3]):.6f}",
    }
    return declared_table(
        TABLE_5_1,
        columns,
        "Table 5-1, T = 17 ms. The thesis truncates digits; two of MnasNet's values deviate from its "
        "equations, by at most 5e-5.",
    )


def _place(setting: Setting) -> str:
    words = " ".join(setting.overrides)
    return f"{_device(setting)}, {words}" if words else _device(setting)


def _device(setting: Setting) -> str:
    return (
        setting.device
        if setting.limit_ms == T_MS
        else f"{setting.device}, T = {setting.limit_ms:g} ms"
    )


def _key_figures(findings: Sequence[ThesisFinding], _: Results) -> Iterator[KeyFigure]:
    for finding in findings:
        for verdict in finding.by_rival:
            yield KeyFigure(
                f"{finding.controller}: proposed sooner within T than {verdict.rival}",
                f"{verdict.sooner} of {verdict.tests}",
                "settings, Holm-corrected",
            )


THESIS = Analysis("thesis", applies, findings, _sections, _key_figures)
