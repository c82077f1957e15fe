"""Scenarios on the page of a study: what changes, and the cost of searching in the wrong one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.studies.scenarios.measure import (
    BoardScenarios,
    Chosen,
    Mismatch,
    Scenario,
    applies,
    board_scenarios,
    in_words,
)
from benchmarks.studies.scenarios.order import Order
from common.page.document import Section
from common.page.markup import chart_text
from common.page.palette import SEQUENTIAL
from common.page.parts import Columns, Figure, Note, Part, Table
from nas.study.analysis import Analysis
from nas.study.evaluation.results import Results
from nas.study.evaluation.statistics import text_of, with_intervals

_SIDE = 90  # pixels of a row of a matrix


def _sections(found: Sequence[BoardScenarios], results: Results) -> Iterator[Section]:
    for board in found:
        yield Section(f"Scenarios of {board.title}", list(_parts(board, results)))


def _parts(board: BoardScenarios, results: Results) -> Iterator[Part | str]:
    yield from board.sentences
    predicted = [scenario for scenario in board.scenarios if scenario.predicted_share]
    if predicted:
        shares = ", ".join(f"{one.predicted_share:.0%} {in_words(one.name)}" for one in predicted)
        yield Note(f"Some latencies are predictions, not measurements: {shares}.")
    yield (
        f"Found is the mean test accuracy of the networks that the searches of {len(results.seeds)} "
        f"seeds found{with_intervals(len(results.seeds))}. Kendall's tau compares the order of all "
        f"architectures by latency with the order alone: 1 is the same order. Chosen by one factor is "
        f"the best network alone within T over the median slowdown: the value of knowing that factor."
    )
    yield _scenarios(board)
    yield _best(board)
    orders = [
        (scenario, scenario.order) for scenario in board.scenarios if scenario.order is not None
    ]
    if orders:
        yield (
            "Predictions follow the latency alone by construction. So this table has only architectures "
            f"that were measured both in the scenario and {board.alone}, 1,000 at most. Noise alone is the tau "
            "of an unchanged order, simulated with the differences of networks that were measured twice: "
            "its mean and 95 % of it. The order changes where tau lies below."
        )
        yield _orders(orders)
        yield (
            "For each of 101 limits between the 10 % and the 90 % quantile of the latencies, the best "
            f"network is chosen by the latency {board.alone} times the median ratio. In brackets: the same "
            "with noise alone."
        )
        yield _factors(orders)
    yield (
        "Searched in the scenario of the row, run in that of the column. A network that misses T is "
        "of no use there; for those that meet it, accuracy lost is the gain of searching in the column's "
        "own scenario, in points of test accuracy. Best measured is without search and prediction: the "
        "most accurate of the architectures measured in both, as searched on."
    )
    yield Columns(
        [
            _matrix(
                board,
                "Share of the networks found that miss T",
                [100 * mismatch.missed.middle for mismatch in board.mismatches],
                "%",
            ),
            _matrix(
                board,
                "Accuracy lost by those that meet T",
                [
                    math.nan if mismatch.lost is None else mismatch.lost.middle
                    for mismatch in board.mismatches
                ],
                "points",
            ),
        ]
    )
    yield _mismatch(board.mismatches)


def _scenarios(board: BoardScenarios) -> Table:
    rows: list[list[str | float]] = [
        [
            scenario.name,
            f"{scenario.median_ratio:.2f}",
            f"{scenario.kendall_tau:.3f}",
            f"{scenario.feasible_share:.1%}",
            "nothing within T" if scenario.found is None else text_of(scenario.found, digits=2),
            _text(scenario.scaled),
        ]
        for scenario in board.scenarios
    ]
    header = ["scenario", "latency to alone", "tau to alone", "within T", "found (%)"]
    header += ["chosen by one factor"]
    return Table(header, rows, "The scenarios, over the whole space")


def _best(board: BoardScenarios) -> Table:
    rows: list[list[str | float]] = [
        [
            scenario.name,
            "none" if scenario.optimum is None else f"{100 * scenario.optimum_accuracy:.2f} %",
            "yes" if scenario.same_optimum else "no",
            "none is within T" if scenario.optimum is None else f"`{scenario.optimum}`",
        ]
        for scenario in board.scenarios
    ]
    header = ["scenario", "accuracy searched on", f"as {board.alone}", "network"]
    return Table(header, rows, "The most accurate network within T, measured or predicted")


def _text(chosen: Chosen | None) -> str:
    if chosen is None:
        return "nothing"
    met = f"{chosen.share_of_t:.2f} T"
    return f"{met}, misses" if chosen.share_of_t > 1 else f"{met}, {chosen.lost:.2f} points lost"


def _orders(found: Sequence[tuple[Scenario, Order]]) -> Table:
    answers = {None: "unknown", True: "yes", False: "not beyond noise"}
    rows: list[list[str | float]] = [
        [
            one.name,
            f"{order.architectures:,}",
            f"{order.median_ratio:.2f} [{order.ratio_low:.2f}, {order.ratio_high:.2f}]",
            f"{order.kendall_tau:.3f}",
            _noise_tau(order),
            answers[order.changes],
        ]
        for one, order in found
    ]
    header = [
        "scenario",
        "architectures",
        "latency to it [5 %, 95 %]",
        "tau",
        "noise alone",
        "changes",
    ]
    return Table(header, rows, "The order, on measured architectures only")


def _factors(found: Sequence[tuple[Scenario, Order]]) -> Table:
    rows: list[list[str | float]] = [
        [
            one.name,
            _beside(order, "same", "{:.0f} %"),
            _beside(order, "missed", "{:.0f} %"),
            _beside(order, "beyond", "{:.1f} %"),
            _beside(order, "lost", "{:.2f}"),
        ]
        for one, order in found
    ]
    header = ["scenario", "same network", "misses T", "then by", "points lost else"]
    return Table(header, rows, "Chosen by one factor, on measured architectures only")


def _noise_tau(order: Order) -> str:
    noise = order.noise
    if noise is None:
        return "no repeats"
    return f"{noise.tau:.3f} [{noise.tau_low:.3f}, {noise.tau_high:.3f}]"


def _beside(order: Order, name: str, form: str) -> str:
    """A share of the choice by one factor in percent, and in brackets the same by noise alone."""
    factors = [order.one_factor, *([] if order.noise is None else [order.noise.one_factor])]
    texts = [form.format(100 * getattr(factor, name)) for factor in factors]
    return texts[0] if len(texts) == 1 else f"{texts[0]} ({texts[1]})"


def _mismatch(found: Sequence[Mismatch]) -> Table:
    rows: list[list[str | float]] = [
        [
            one.searched,
            one.runs,
            text_of(one.missed, digits=2),
            "" if math.isnan(one.beyond) else f"{one.beyond:.2f} T",
            "all miss T" if one.lost is None else text_of(one.lost, digits=2),
            _text(one.measured),
        ]
        for one in found
        if one.searched != one.runs
    ]
    header = ["searched in", "runs in", "misses T", "then takes", "points lost else"]
    header += ["best measured"]
    return Table(header, rows, "Searching in the wrong scenario, with 95 % intervals over seeds")


def _matrix(board: BoardScenarios, title: str, values: Sequence[float], unit: str) -> Figure:
    names = [chart_text(scenario.name) for scenario in board.scenarios]
    size = len(names)
    rows = [list(values[k * size : (k + 1) * size]) for k in range(size)]
    trace: dict[str, Any] = {
        "type": "heatmap",
        "x": names,
        "y": names,
        "z": rows,
        "colorscale": SEQUENTIAL,
        "zmin": 0,
        "texttemplate": "%{z:.3g}",
        "hovertemplate": f"searched in %{{y}}<br>runs in %{{x}}<br>%{{z:.3g}} {unit}<extra></extra>",
        "colorbar": {"title": {"text": unit}},
    }
    layout = {
        "xaxis": {"title": {"text": "runs in"}, "tickangle": -30, "automargin": True},
        "yaxis": {"title": {"text": "searched in"}, "autorange": "reversed", "automargin": True},
    }
    return Figure(title, [trace], layout, f"Mean over seeds, in {unit}.", height=200 + _SIDE * size)


SCENARIOS = Analysis("scenarios", applies, board_scenarios, _sections)
