"""Scenarios on the page of a study: what changes, and the cost of searching in the wrong one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

from benchmarks.studies.scenarios.measure import (
    BoardScenario,
    BoardScenarios,
    Chosen,
    Mismatch,
    applies,
    board_scenarios,
    in_words,
)
from benchmarks.studies.scenarios.order import OrderComparison
from edgenas_core.page.document import Section
from edgenas_core.page.parts import PageNote, PagePart
from nas.study.analysis import Analysis, Declared, declared_table
from nas.study.evaluation.results import Results
from nas.study.evaluation.statistics import text_of, with_intervals


def _sections(boards: Sequence[BoardScenarios], results: Results) -> Iterator[Section]:
    for board in boards:
        yield Section(f"Scenarios of {board.title}", list(_parts(board, results)))


def _parts(board: BoardScenarios, results: Results) -> Iterator[PagePart | str]:
    yield from board.sentences
    predicted = [scenario for scenario in board.scenarios if scenario.predicted_share]
    if predicted:
        shares = ", ".join(f"{one.predicted_share:.0%} {in_words(one.name)}" for one in predicted)
        yield PageNote(f"Some latencies are predictions, not measurements: {shares}.")
    yield (
        f"Found is the mean test accuracy of the networks that the searches of {len(results.seeds)} "
        f"seeds found{with_intervals(len(results.seeds))}. Kendall's tau compares the order of all "
        f"architectures by latency with the order alone: 1 is the same order. Chosen by one factor is "
        f"the best network alone within T over the median slowdown: the value of knowing that factor."
    )
    yield declared_table(board.scenarios, _SCENARIO, "The scenarios, over the whole space")
    orders = [(one, one.order) for one in board.scenarios if one.order is not None]
    if orders:
        yield (
            "Predictions follow the latency alone by construction. So this table has only architectures "
            f"that were measured both in the scenario and {board.alone}, 1,000 at most. Noise alone is the tau "
            "of an unchanged order, simulated with the differences of networks that were measured twice: "
            "its mean and 95 % of it. The order changes where tau lies below. The last four columns are of "
            "101 limits between the 10 % and the 90 % quantile of the latencies, at which the best "
            f"network is chosen by the latency {board.alone} times the median ratio; in brackets the same "
            "with noise alone."
        )
        yield declared_table(orders, _ORDER, "The order, on measured architectures only")
    yield (
        "Searched in one scenario, run in another. A network that misses T is of no use there; for "
        "those that meet it, accuracy lost is the gain of searching in the scenario where it runs, in "
        "points of test accuracy. Best measured is without search and prediction: the most accurate of "
        "the architectures measured in both, as searched on."
    )
    elsewhere = [pair for pair in board.mismatches if pair.searched != pair.runs]
    title = "Searching in the wrong scenario, with 95 % intervals over seeds"
    yield declared_table(elsewhere, _MISMATCH, title)


def _text(chosen: Chosen | None) -> str:
    if chosen is None:
        return "nothing"
    met = f"{chosen.share_of_t:.2f} T"
    return f"{met}, misses" if chosen.share_of_t > 1 else f"{met}, {chosen.lost:.2f} points lost"


def _noise_tau(order: OrderComparison) -> str:
    noise = order.noise
    if noise is None:
        return "no repeats"
    return f"{noise.tau:.3f} [{noise.tau_low:.3f}, {noise.tau_high:.3f}]"


def _beside_noise(name: str, form: str, pair: tuple[BoardScenario, OrderComparison]) -> str:
    """A share of the choice by one factor in percent, and in brackets the same by noise alone."""
    order = pair[1]
    factors = [order.one_factor, *([] if order.noise is None else [order.noise.one_factor])]
    texts = [form.format(100 * getattr(factor, name)) for factor in factors]
    return texts[0] if len(texts) == 1 else f"{texts[0]} ({texts[1]})"


_SCENARIO: Declared[BoardScenario] = {
    "scenario": lambda one: one.name,
    "latency to alone": lambda one: f"{one.median_ratio:.2f}",
    "tau to alone": lambda one: f"{one.kendall_tau:.3f}",
    "within T": lambda one: f"{one.feasible_share:.1%}",
    "found (%)": lambda one: text_of(one.found, digits=2) if one.found else "nothing within T",
    "chosen by one factor": lambda one: _text(one.scaled),
    "best network": lambda one: "none" if one.optimum is None else f"`{one.optimum}`",
    "its accuracy searched on": lambda one: (
        "" if one.optimum is None else f"{100 * one.optimum_accuracy:.2f} %"
    ),
    "as alone": lambda one: "yes" if one.same_optimum else "no",
}
_ORDER: Declared[tuple[BoardScenario, OrderComparison]] = {
    "scenario": lambda pair: pair[0].name,
    "architectures": lambda pair: f"{pair[1].architectures:,}",
    "latency to it [5 %, 95 %]": lambda pair: (
        f"{pair[1].median_ratio:.2f} [{pair[1].ratio_low:.2f}, {pair[1].ratio_high:.2f}]"
    ),
    "tau": lambda pair: f"{pair[1].kendall_tau:.3f}",
    "noise alone": lambda pair: _noise_tau(pair[1]),
    "changes": lambda pair: {None: "unknown", True: "yes", False: "not beyond noise"}[
        pair[1].changes
    ],
    "same network": partial(_beside_noise, "same", "{:.0f} %"),
    "misses T": partial(_beside_noise, "missed", "{:.0f} %"),
    "then by": partial(_beside_noise, "beyond", "{:.1f} %"),
    "points lost else": partial(_beside_noise, "lost", "{:.2f}"),
}
_MISMATCH: Declared[Mismatch] = {
    "searched in": lambda one: one.searched,
    "runs in": lambda one: one.runs,
    "misses T": lambda one: text_of(one.missed, digits=2),
    "then takes": lambda one: "" if math.isnan(one.beyond) else f"{one.beyond:.2f} T",
    "points lost else": lambda one: text_of(one.lost, digits=2) if one.lost else "all miss T",
    "best measured": lambda one: _text(one.measured),
}

SCENARIOS = Analysis("scenarios", applies, board_scenarios, _sections)
