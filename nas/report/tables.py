"""The cells that matter as tables: what was found, the best few, the operations edge by edge."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from nas.report.wording import Wording
from nas.spaces.nas_bench_201.space import EDGES, NAS_BENCH_201
from nas.trials.limits import Limits
from nas.trials.trial import Samples
from runtime.page.parts import Table

LISTED = 10


def found(wording: Wording) -> Table:
    """The best sample, the optimum and what the policy now prefers."""
    summary = wording.summary
    rows = {
        f"best sample within {wording.label}": summary["best"],
        f"{wording.optimum} within {wording.label}": summary["optimum"],
        "the policy's mode": summary["mode"],
    }
    return Table(
        [
            "",
            *_accuracy_columns(wording),
            "latency",
            *wording.cost_columns,
            "rank",
            "number",
            "cell",
        ],
        [
            [
                name,
                wording.accuracy(row["accuracy_searched"]),
                wording.accuracy(row["accuracy_test"]),
                wording.latency(row["latency_ms"], predicted=row["latency_predicted"])
                + ("" if row["latency_ms"] <= summary["T_ms"] else ", beyond T"),
                *wording.costs(row),
                "-" if row["rank"] is None else f"{row['rank']:,}",
                str(row["index"]),
                f"`{row['arch']}`",
            ]
            for name, row in rows.items()
            if row is not None
        ],
        f"Top-1 accuracy. The rank is that among the cells within {wording.label}; numbers are the official archive's.",
    )


def best_few(
    samples: Samples,
    accuracy_test: Float64[ndarray, "n"],
    latency_predicted: Bool[ndarray, "n"],
    feasible: Bool[ndarray, "n"],
    *,
    limits: Limits,
    wording: Wording,
) -> Table | None:
    """The most accurate distinct networks within all limits; None if none was."""
    indices = NAS_BENCH_201.numbers(samples.architectures)
    within = np.flatnonzero(feasible)
    order = within[np.lexsort((within, -samples.accuracy[within]))]
    # isomorphic cells were trained each on its own: of a network's, the most accurate
    _, first = np.unique(NAS_BENCH_201.network_class[indices[order]], return_index=True)
    at = order[np.sort(first)][:LISTED]
    if not len(at):
        return None
    return Table(
        [
            "",
            *_accuracy_columns(wording),
            "latency",
            *wording.cost_columns,
            "first at sample",
            "number",
            "cell",
        ],
        [
            [
                str(place),
                wording.accuracy(float(samples.accuracy[i])),
                wording.accuracy(None if np.isnan(accuracy_test[i]) else float(accuracy_test[i])),
                wording.latency(float(samples.latency_ms[i]), predicted=bool(latency_predicted[i])),
                *(wording.cost(one.symbol, float(one.costs[indices[i]])) for one in limits.each),
                f"{i + 1:,}",
                str(indices[i]),
                f"`{NAS_BENCH_201.strings[indices[i]]}`",
            ]
            for place, i in enumerate(at, start=1)
        ],
        f"The {LISTED} most accurate distinct networks sampled within {wording.label}: of isomorphic cells, the best.",
    )


def edge_by_edge(cells: Mapping[str, Int64[ndarray, "6"]]) -> Table:
    """The operations of some cells as text."""
    live = {name: NAS_BENCH_201.live_edges(cell) for name, cell in cells.items()}
    rows = []
    for number, (source, target) in enumerate(EDGES):
        row = [f"`{source} → {target}`"]
        for name, cell in cells.items():
            operation = NAS_BENCH_201.operations(cell)[number]
            is_idle = operation != "none" and not live[name][number]
            row.append(f"`{operation}`{', idle' if is_idle else ''}")
        rows.append(row)
    return Table(
        ["edge", *cells],
        rows,
        "Node 0 is the cell's input, node 3 its output; an idle edge is on no path between them.",
    )


def _accuracy_columns(wording: Wording) -> list[str]:
    predicted = " (predicted)" if wording.accuracy_is_predicted else ""
    return [f"{wording.split}{predicted}", f"test{predicted}"]
