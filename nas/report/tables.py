"""The architectures that matter as tables: what was found, the best few, their choices."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Int64
from numpy import ndarray

from common.page.parts import Columns, Part, Table
from common.types.architectures import Enumerable
from common.types.kind import Kind
from latency.base import OfBlocks
from nas.report.summary import Network, Summary
from nas.report.terminal import policy_arrived
from nas.report.wording import Wording, kind_note, milliseconds, percent
from nas.spaces.base import Layered, SearchSpace
from nas.trials.problem import SearchProblem
from nas.trials.trial import Trials

LISTED = 10
_FEW_POSITIONS = 16


def _arrived(summary: Summary) -> str:
    gap = summary.mode_gap
    if gap is None:
        return ""
    text = policy_arrived(gap)
    return f" {text[0].upper()}{text[1:]}."


def found(summary: Summary, wording: Wording) -> Table:
    """The best sample, the optimum and what the policy now prefers."""
    best = summary.best
    unconfirmed = "" if best is None or not best.is_disturbed else ", unconfirmed"
    every = {
        f"best sample within {wording.label}{unconfirmed}": best,
        f"{wording.optimum} within {wording.label}": summary.optimum,
        "the policy's mode": summary.mode,
    }
    rows = {name: row for name, row in every.items() if row is not None}
    accuracy_kinds = [Kind[row.accuracy_kind] for row in rows.values()]
    searched, accuracies = _noted(
        wording.split,
        [wording.accuracy(row.accuracy_searched) for row in rows.values()],
        accuracy_kinds,
    )
    test, tested = _noted(
        "test", [wording.accuracy(row.accuracy_test) for row in rows.values()], accuracy_kinds
    )
    is_tested = any(row.accuracy_test is not None for row in rows.values())
    latency, latencies = _noted(
        "latency",
        [
            milliseconds(row.latency_ms) + ("" if row.latency_ms <= summary.T_ms else ", beyond T")
            for row in rows.values()
        ],
        [Kind[row.latency_kind] for row in rows.values()],
    )
    ranked = ["rank"] if summary.optimum is not None else []
    numbered = ["number"] if any(row.index is not None for row in rows.values()) else []
    ranks = f" The rank is that among the architectures within {wording.label}."
    return Table(
        [
            "",
            searched,
            *[test][:is_tested],
            latency,
            *wording.cost_columns,
            *ranked,
            *numbered,
            "architecture",
        ],
        [
            [
                name,
                accuracy,
                *[tested_on][:is_tested],
                latency_ms,
                *wording.costs(row.costs),
                *(["-" if row.rank is None else f"{row.rank:,}"] if ranked else []),
                *([str(row.index)] if numbered else []),
                f"`{row.arch}`",
            ]
            for (name, row), accuracy, tested_on, latency_ms in zip(
                rows.items(), accuracies, tested, latencies, strict=True
            )
        ],
        f"Top-1 accuracy.{ranks if ranked else ''}{_arrived(summary)}",
    )


def best_few(
    done: Trials, feasible: Bool[ndarray, "n"], problem: SearchProblem, wording: Wording
) -> Table | None:
    """The most accurate distinct networks within all limits; None if none was."""
    space = problem.space
    within = np.flatnonzero(feasible)
    order = within[np.lexsort((within, -done.accuracy[within]))]
    # equal networks may have been trained each on its own: of a network's, the most accurate
    _, first = np.unique(space.groups(done.architectures[order]), return_index=True)
    at = order[np.sort(first)][:LISTED]
    if not len(at):
        return None
    names = [limit.name for limit in problem.limits.each]
    searched, accuracies = _noted(
        wording.split,
        [wording.accuracy(fraction) for fraction in done.accuracy[at].tolist()],
        [Kind(kind) for kind in done.accuracy_kind[at].tolist()],
    )
    latency, latencies = _noted(
        "latency",
        [milliseconds(latency_ms) for latency_ms in done.latency_ms[at].tolist()],
        [Kind(kind) for kind in done.latency_kind[at].tolist()],
    )
    first_at = "first at sample"
    numbered = isinstance(space, Enumerable)
    numbers = space.numbers(done.architectures[at]) if isinstance(space, Enumerable) else at
    return Table(
        [
            "",
            searched,
            latency,
            *wording.cost_columns,
            first_at,
            *["number"][:numbered],
            "architecture",
        ],
        [
            [
                str(place),
                *answers,
                *wording.costs(dict(zip(names, done.costs[i].tolist(), strict=True))),
                f"{done.number[i] + 1:,}",
                *[str(number)][:numbered],
                f"`{space.text(done.architectures[i])}`",
            ]
            for place, (i, number, *answers) in enumerate(
                zip(at, numbers, accuracies, latencies, strict=True), start=1
            )
        ],
        f"The {LISTED} most accurate distinct networks sampled within {wording.label}: of those "
        f"that compute the same, the best. Test accuracy is asked of the reported networks only.",
    )


def drawn(
    architectures: Mapping[str, Int64[ndarray, "D"]], best: Network | None, problem: SearchProblem
) -> list[Part | str]:
    """Drawings of some architectures, their options, and the layers of the best network."""
    space = problem.space
    parts: list[Part | str] = [
        space.drawing(one, name[0].upper() + name[1:]) for name, one in architectures.items()
    ]
    layers = None if best is None else _layer_by_layer(best, problem)
    if layers is None or len(space.positions) <= _FEW_POSITIONS:  # else the layers say it shorter
        parts.append(_choice_by_choice(architectures, space))
    columns = Columns(parts, least_width=300)
    return [columns] if layers is None else [columns, layers]


def _choice_by_choice(
    architectures: Mapping[str, Int64[ndarray, "D"]], space: SearchSpace
) -> Table:
    """The options that some architectures take, as text."""
    columns = [space.describe(one) for one in architectures.values()]
    rows = [
        [f"`{position}`", *(f"`{text}`" for text in texts)]
        for position, *texts in zip(space.positions, *columns, strict=True)
    ]
    is_off = any("-" in texts for texts in columns)
    caption = "`-`: switched off by another choice." if is_off else ""
    return Table(["position", *architectures], rows, caption)


def _layer_by_layer(network: Network, problem: SearchProblem) -> Table | None:
    """Shapes and costs of the layers of a network; None where the space does not list them."""
    space, oracle = problem.space, problem.oracle
    if not isinstance(space, Layered):
        return None
    layers = space.layer_list(space.parse(network.arch), problem.task)
    total = sum(layer.multiply_accumulates for layer in layers)
    times = []
    if isinstance(oracle, OfBlocks) and all(layer.block is not None for layer in layers):
        times = [oracle.block_ms(*layer.block) for layer in layers if layer.block is not None]
    rows = [
        [
            layer.name,
            f"{layer.channels} x {layer.side} x {layer.side}",
            f"{layer.parameters:,}",
            f"{layer.multiply_accumulates / 1e6:.2f}",
            percent(layer.multiply_accumulates / total, 0),
            *["-" if math.isnan(ms) else f"{ms:.3f}" for ms in times[at : at + 1]],
        ]
        for at, layer in enumerate(layers)
    ]
    said = (
        "Times are those of the measured blocks that the latency is the sum of."
        if times
        else "Times of single layers are not known here."
    )
    return Table(
        [
            "layer",
            "output",
            "parameters",
            "million multiply-accumulates",
            "share of them",
            *["ms"][: len(times)],
        ],
        rows,
        f"The best network layer by layer, for one image. {said}",
    )


def _noted(title: str, texts: list[str], kinds: list[Kind]) -> tuple[str, list[str]]:
    """Header and cells of a column of numbers; a kind that all of them share is in the header."""
    if len(set(kinds)) == 1:
        return f"{title}{kind_note(kinds[0])}", texts
    return title, [f"{text}{kind_note(kind)}" for text, kind in zip(texts, kinds, strict=True)]
