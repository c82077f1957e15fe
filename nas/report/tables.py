"""The architectures that matter as tables: what was found, the best few, their choices."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Int64
from numpy import ndarray

from nas.report.summary import Summary
from nas.report.wording import Wording
from nas.spaces.base import Enumerable, SearchSpace
from nas.trials.problem import SearchProblem
from nas.trials.trial import Trials
from runtime.page.parts import Table
from runtime.shell.provenance import Kind

LISTED = 10


def found(summary: Summary, wording: Wording) -> Table:
    """The best sample, the optimum and what the policy now prefers."""
    rows = {
        f"best sample within {wording.label}": summary.best,
        f"{wording.optimum} within {wording.label}": summary.optimum,
        "the policy's mode": summary.mode,
    }
    return Table(
        [
            "",
            *_accuracy_columns(wording, tested=True),
            "latency",
            *wording.cost_columns,
            "rank",
            "number",
            "architecture",
        ],
        [
            [
                name,
                wording.accuracy(row.accuracy_searched),
                wording.accuracy(row.accuracy_test),
                wording.latency_of(row) + ("" if row.latency_ms <= summary.T_ms else ", beyond T"),
                *wording.costs(row.costs),
                "-" if row.rank is None else f"{row.rank:,}",
                "-" if row.index is None else str(row.index),
                f"`{row.arch}`",
            ]
            for name, row in rows.items()
            if row is not None
        ],
        f"Top-1 accuracy. The rank is that among the architectures within {wording.label}.",
    )


def best_few(
    done: Trials, feasible: Bool[ndarray, "n"], problem: SearchProblem, wording: Wording
) -> Table | None:
    """The most accurate distinct networks within all limits; None if none was."""
    space = problem.space
    within = np.flatnonzero(feasible)
    order = within[np.lexsort((within, -done.accuracy[within]))]
    # equal networks may have been trained each on its own: of a network's, the most accurate
    networks = space.canonical(done.architectures[order])
    _, first = np.unique(networks, axis=0, return_index=True)
    at = order[np.sort(first)][:LISTED]
    if not len(at):
        return None
    names = [limit.name for limit in problem.limits.each]
    return Table(
        [
            "",
            *_accuracy_columns(wording, tested=False),
            "latency",
            *wording.cost_columns,
            "first at sample",
            "number",
            "architecture",
        ],
        [
            [
                str(place),
                wording.accuracy(float(done.accuracy[i])),
                wording.latency(float(done.latency_ms[i]), Kind(int(done.latency_kind[i]))),
                *wording.costs(dict(zip(names, done.costs[i].tolist(), strict=True))),
                f"{done.number[i] + 1:,}",
                _number(done.architectures[i], space),
                f"`{space.text(done.architectures[i])}`",
            ]
            for place, i in enumerate(at, start=1)
        ],
        f"The {LISTED} most accurate distinct networks sampled within {wording.label}: of equal "
        f"networks, the best. Test accuracy is asked of the reported networks only.",
    )


def choice_by_choice(architectures: Mapping[str, Int64[ndarray, "D"]], space: SearchSpace) -> Table:
    """The options that some architectures take, as text."""
    columns = [space.describe(one) for one in architectures.values()]
    rows = [
        [f"`{position}`", *(f"`{text}`" for text in texts)]
        for position, *texts in zip(space.positions, *columns, strict=True)
    ]
    is_off = any("-" in texts for texts in columns)
    caption = "`-`: switched off by another choice." if is_off else ""
    return Table(["position", *architectures], rows, caption)


def _number(architecture: Int64[ndarray, "D"], space: SearchSpace) -> str:
    return str(int(space.numbers(architecture))) if isinstance(space, Enumerable) else "-"


def _accuracy_columns(wording: Wording, *, tested: bool) -> list[str]:
    predicted = " (predicted)" if wording.summary.accuracy_is_predicted else ""
    columns = [f"{wording.split}{predicted}"]
    return [*columns, f"test{predicted}"] if tested else columns
