"""Figures and tables of section 5.1 of the thesis, published values beside those of the study."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from benchmarks.studies.thesis.measure import (
    HARD,
    PROPOSED,
    PUBLISHED,
    RIVALS,
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
from common.page.chart import count_map, limit
from common.page.document import KeyFigure, Section
from common.page.palette import BLUE, ORANGE, VERMILLION
from common.page.parts import Columns, Figure, Part, Table
from nas.study.analysis import Analysis
from nas.study.evaluation.charts import accuracy_by_bins, latency_by_bins
from nas.study.evaluation.results import Comparison, Results
from nas.study.evaluation.statistics import number_text, text_of
from nas.study.plan import Setting
from rewards.base import Reward
from rewards.mnasnet import MnasReward
from rewards.proposed import ProposedReward


def _sections(_: Sequence[ThesisFinding], results: Results) -> Iterator[Section]:
    found = list(reproductions(results))
    if found:
        closest = min(found, key=lambda r: r.distance)
        yield Section(
            "The thesis's figures", list(_figures(results, found[0].setting, closest.setting))
        )
        yield Section("The thesis's numbers", list(_numbers(results, found)))
    tests = [test for rival in claims(results).values() for test in rival]
    if tests:
        yield Section("The claim, setting by setting", [_claim_text(results), _claims(results)])
    yield Section("The rewards themselves", list(_rewards()))


def _figures(results: Results, first: Setting, closest: Setting) -> Iterator[Part | str]:
    places = {first: "the first device with the default settings"}
    if is_the_thesis_problem(results):
        places.setdefault(closest, "closest to the thesis's numbers by the medians")
    for setting, why in places.items():
        yield f"Figures 5-1 and 5-2 on {_place(setting)}: {why}."
        pair = {name: results.curves[replace(setting, reward=name)] for name in (SOFT, PROPOSED)}
        caption = "Figure 5-1: samples of a search, mean over the seeds; the dashed line is T."
        maps = [
            _heat_map_figure(heat_map(curve), f"Heat map: {name}", setting.limit_ms, caption)
            for name, curve in pair.items()
        ]
        everyone = {
            other.reward: curve
            for other, curve in results.curves.items()
            if replace(other, reward=setting.reward) == setting
        }
        yield Columns(
            [
                *maps,
                latency_by_bins(everyone, _place(setting), setting.limit_ms),
                accuracy_by_bins(everyone, _place(setting)),
            ]
        )


def _numbers(results: Results, found: list[Reproduction]) -> Iterator[Part | str]:
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
    header = ["device", "settings"]
    header += [f"{p.what}, {p.reward} (thesis: {p.value:,.0f})" for p in PUBLISHED]
    header += ["in range, of 6"]
    rows: list[list[str | float]] = [
        [
            _device(reproduction.setting),
            " ".join(reproduction.setting.overrides) or "default",
            *(_spread(ours) for ours in reproduction.ours),
            sum(reproduction.within_range),
        ]
        for reproduction in found
    ]
    surveys = {_device(r.setting): results.curves[r.setting].survey for r in found}
    for device, survey in surveys.items():
        chances = [by_chance(survey, published) for published in PUBLISHED] if survey else []
        texts = ["" if chance is None else number_text(chance) for chance in chances]
        rows.append([device, "a uniform sample of 5,000", *texts, ""])
    yield Table(header, rows, "Figures 5-1 and 5-2 in numbers; axis: samples")


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


def _spread(values: Float64[ndarray, "R"]) -> str:
    middle = float(np.median(values))
    least, most = number_text(float(values.min())), number_text(float(values.max()))
    return number_text(middle) + ("" if least == most else f" ({least} to {most})")


def _claim_text(results: Results) -> str:
    return (
        f"Samples until the mean latency of 100 samples stays within T, median over "
        f"{results.config.seeds} seeds, and the paired test against each rival. 'Never' is longer "
        f"than {results.config.budget:,} samples."
    )


def _claims(results: Results) -> Table:
    by_cell: dict[Setting, dict[str, Comparison]] = {}
    for rival, found in claims(results).items():
        for test in found:
            by_cell.setdefault(test.reference, {})[rival] = test
    header = ["device", "settings", PROPOSED]
    for rival in RIVALS:
        header += [rival, f"proposed against {rival}", "p (Holm)"]
    header += [f"end accuracy, {name}, %" for name in (PROPOSED, SOFT, HARD)]
    rows = []
    for setting, tests in by_cell.items():
        row = [
            _device(setting),
            " ".join(setting.overrides) or "default",
            _settled(results, setting),
        ]
        for rival in RIVALS:
            if rival not in tests:
                row += ["", "", ""]
                continue
            rated = tests[rival]
            verdict = {"better": "sooner", "worse": "later"}.get(rated.verdict, rated.verdict)
            row += [_settled(results, rated.other), verdict, f"{rated.p_holm:.2g}"]
        for name in (PROPOSED, SOFT, HARD):
            medians = results.medians.get(replace(setting, reward=name))
            row.append("" if medians is None else text_of(medians["end_accuracy"]))
        rows.append(row)
    return Table(header, rows, "The proposed reward against MnasNet's; axis: samples")


def _settled(results: Results, setting: Setting) -> str:
    return text_of(results.medians[setting]["settled"])


def _rewards() -> Iterator[Part | str]:
    soft, proposed = MnasReward(T_MS), ProposedReward(T_MS)
    hard = MnasReward(T_MS, exponent_within=0.0, exponent_beyond=-1.0)
    rewards: dict[str, tuple[Reward, str]] = {
        "MnasNet, soft": (soft, BLUE),
        "proposed": (proposed, ORANGE),
    }
    latency_ms = np.linspace(1, 30, 291)
    accuracy = np.full(len(latency_ms), 0.5)
    values = {name: reward(accuracy, latency_ms) for name, (reward, _) in rewards.items()}
    slopes = {name: np.gradient(found, latency_ms) for name, found in values.items()}
    with_hard = {**values, "MnasNet, hard": hard(accuracy, latency_ms)}
    yield Columns(
        [
            _curves("Figure 3-1: the rewards at 50 % accuracy", latency_ms, values, "reward"),
            _curves("Figure 3-1: their slopes", latency_ms, slopes, "reward per ms"),
            _curves("Figure 3-2: overlaid, with the hard form", latency_ms, with_hard, "reward"),
        ]
    )
    rows: list[list[str | float]] = [
        [
            name,
            f"{accuracy:.0%}",
            f"{ms:g} ms",
            f"{printed_soft}",
            f"{soft(accuracy, ms):.6f}",
            f"{printed_proposed}",
            f"{proposed(accuracy, ms):.6f}",
        ]
        for name, accuracy, ms, printed_soft, printed_proposed in TABLE_5_1
    ]
    header = ["case", "accuracy", "latency", "MnasNet, printed", "MnasNet, here"]
    header += ["proposed, printed", "proposed, here"]
    yield Table(
        header,
        rows,
        "Table 5-1, T = 17 ms. The thesis truncates digits; two of MnasNet's values deviate from its "
        "equations, by at most 5e-5.",
    )


def _curves(
    title: str, x: Float64[ndarray, "n"], curves: dict[str, Float64[ndarray, "n"]], axis: str
) -> Figure:
    colours = {"MnasNet, soft": BLUE, "proposed": ORANGE, "MnasNet, hard": VERMILLION}
    return Figure(
        title,
        [
            {"x": x, "y": y, "name": name, "mode": "lines", "line": {"color": colours[name]}}
            for name, y in curves.items()
        ],
        {
            "xaxis": {"title": {"text": "latency (ms)"}},
            "yaxis": {"title": {"text": axis}},
            "shapes": [limit("x", T_MS)],
        },
        f"T = {T_MS:g} ms, dashed.",
        height=320,
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


def _key_figures(found: Sequence[ThesisFinding], _: Results) -> Iterator[KeyFigure]:
    for one in found:
        for rival, (sooner, tests) in one.sooner.items():
            yield KeyFigure(
                f"proposed sooner within T than {rival}",
                f"{sooner} of {tests}",
                "settings, Holm-corrected",
            )


THESIS = Analysis("thesis", applies, findings, _sections, _key_figures)
