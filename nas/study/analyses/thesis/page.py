"""The figures and tables of the thesis's section 5.1, published values beside the study's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from nas.study.analyses.thesis.measure import (
    HARD,
    PROPOSED,
    PUBLISHED,
    RIVALS,
    SOFT,
    T_MS,
    TABLE_5_1,
    Reproduction,
    by_chance,
    claims,
    heat_map,
    is_the_thesis_problem,
    reproductions,
)
from nas.study.charts import accuracy_by_bins, heat_map_figure, latency_by_bins
from nas.study.plan import Cell
from nas.study.results import Comparison, Results
from nas.study.terminal import number_text, text_of
from rewards.base import Reward
from rewards.mnasnet import MnasReward
from rewards.proposed import ProposedReward
from runtime.page.document import Section
from runtime.page.palette import BLUE, ORANGE, VERMILLION
from runtime.page.parts import Columns, Figure, Part, Table


def thesis_sections(results: Results) -> Iterator[Section]:
    """What the thesis prints, and what comes of it here."""
    found = list(reproductions(results))
    if found:
        closest = min(found, key=lambda r: r.distance)
        yield Section("The thesis's figures", list(_figures(results, found[0].cell, closest.cell)))
        yield Section("The thesis's numbers", list(_numbers(results, found)))
    tests = [test for rival in claims(results).values() for test in rival]
    if tests:
        yield Section("The claim, setting by setting", [_claim_text(results), _claims(results)])
    yield Section("The rewards themselves", list(_rewards()))


def _figures(results: Results, first: Cell, closest: Cell) -> Iterator[Part | str]:
    shown = {first: "the first device with the default settings"}
    if is_the_thesis_problem(results):
        shown.setdefault(closest, "closest to the thesis's numbers by the medians")
    for cell, why in shown.items():
        yield f"Figures 5-1 and 5-2 on {_place(cell)}: {why}."
        pair = {name: results.courses[replace(cell, reward=name)] for name in (SOFT, PROPOSED)}
        said = "Figure 5-1: samples of a search, mean over the seeds; the dashed line is T."
        maps = [
            heat_map_figure(heat_map(course), f"Heat map: {name}", cell.limit_ms, said)
            for name, course in pair.items()
        ]
        everyone = {
            other.reward: course
            for other, course in results.courses.items()
            if replace(other, reward=cell.reward) == cell
        }
        yield Columns(
            [
                *maps,
                latency_by_bins(everyone, _place(cell), cell.limit_ms),
                accuracy_by_bins(everyone, _place(cell)),
            ]
        )


def _numbers(results: Results, found: list[Reproduction]) -> Iterator[Part | str]:
    if is_the_thesis_problem(results):
        yield (
            "Median over our seeds, with the least and the most of any seed: the thesis prints one "
            "run, so its number comes out where it lies between these. The last column "
            "counts. Its device is a GTX 1080 Ti at batch 256 that no open "
            "table has in full; its learning rate, batch and entropy weight are unknown."
        )
    else:
        yield "The thesis searched 5,000 samples within 17 ms; this study did not."
    header = ["device", "settings"]
    header += [f"{p.what}, {p.reward} (thesis: {p.value:,.0f})" for p in PUBLISHED]
    header += ["in range, of 6"]
    rows: list[list[str | float]] = [
        [
            _device(reproduction.cell),
            " ".join(reproduction.cell.settings) or "default",
            *(_spread(ours) for ours in reproduction.ours),
            sum(reproduction.within_range),
        ]
        for reproduction in found
    ]
    spaces = {_device(r.cell): results.courses[r.cell].landscape for r in found}
    for device, space in spaces.items():
        chances = [by_chance(space, published) for published in PUBLISHED]
        shown = ["" if chance is None else number_text(chance) for chance in chances]
        rows.append([device, "an even draw of 5,000 from the space", *shown, ""])
    yield Table(header, rows, "Figures 5-1 and 5-2 in numbers; axis: samples")


def _spread(values: Float64[ndarray, "R"]) -> str:
    middle = float(np.median(values))
    least, most = number_text(float(values.min())), number_text(float(values.max()))
    return f"{number_text(middle)} ({least} to {most})"


def _claim_text(results: Results) -> str:
    return (
        f"Samples until the mean latency of 100 samples stays within T, median over "
        f"{results.config.seeds} seeds, and the paired test against each rival. 'Never' is longer "
        f"than {results.config.budget:,} samples."
    )


def _claims(results: Results) -> Table:
    by_cell: dict[Cell, dict[str, Comparison]] = {}
    for rival, found in claims(results).items():
        for test in found:
            by_cell.setdefault(test.reference, {})[rival] = test
    header = ["device", "settings", PROPOSED]
    for rival in RIVALS:
        header += [rival, f"proposed against {rival}", "p (Holm)"]
    header += [f"end accuracy, {name}, %" for name in (PROPOSED, SOFT, HARD)]
    rows = []
    for cell, tests in by_cell.items():
        row = [_device(cell), " ".join(cell.settings) or "default", _settled(results, cell)]
        for rival in RIVALS:
            if rival not in tests:
                row += ["", "", ""]
                continue
            rated = tests[rival]
            said = {"better": "sooner", "worse": "later"}.get(rated.verdict, rated.verdict)
            row += [_settled(results, rated.other), said, f"{rated.p_holm:.2g}"]
        for name in (PROPOSED, SOFT, HARD):
            medians = results.medians.get(replace(cell, reward=name))
            row.append("" if medians is None else text_of(medians["end_accuracy"]))
        rows.append(row)
    return Table(header, rows, "The proposed reward against MnasNet's; axis: samples")


def _settled(results: Results, cell: Cell) -> str:
    return text_of(results.medians[cell]["settled"])


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
        "Table 5-1, T = 17 ms. The thesis cuts digits off; two of MnasNet's do not follow from its "
        "equations, by 5e-5 at most.",
    )


def _curves(
    title: str, x: Float64[ndarray, "n"], curves: dict[str, Float64[ndarray, "n"]], axis: str
) -> Figure:
    colours = {"MnasNet, soft": BLUE, "proposed": ORANGE, "MnasNet, hard": VERMILLION}
    limit: dict[str, Any] = {"type": "line", "yref": "paper", "x0": T_MS, "x1": T_MS}
    limit |= {"y0": 0, "y1": 1, "line": {"color": VERMILLION, "dash": "dash", "width": 1}}
    return Figure(
        title,
        [
            {"x": x, "y": y, "name": name, "mode": "lines", "line": {"color": colours[name]}}
            for name, y in curves.items()
        ],
        {
            "xaxis": {"title": {"text": "latency (ms)"}},
            "yaxis": {"title": {"text": axis}},
            "shapes": [limit],
        },
        f"T = {T_MS:g} ms, dashed.",
        height=320,
    )


def _place(cell: Cell) -> str:
    words = " ".join(cell.settings)
    return f"{_device(cell)}, {words}" if words else _device(cell)


def _device(cell: Cell) -> str:
    return cell.device if cell.limit_ms == T_MS else f"{cell.device}, T = {cell.limit_ms:g} ms"
