"""The cells that matter as tables: what was found, the best few, the operations edge by edge."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from nas.report.wording import Wording
from nas.samples import Samples
from nas.search_space import EDGES, NAS_BENCH_201
from runtime.page.parts import Table

LISTED = 10


def found(wording: Wording) -> Table:
    """The best sample, the optimum and what the policy now prefers."""
    summary = wording.summary
    rows = {
        "best sample within T": summary["best"],
        f"{wording.optimum} within T": summary["optimum"],
        "the policy's mode": summary["mode"],
    }
    return Table(
        ["", *_accuracy_columns(wording), "latency", "rank within T", "number", "cell"],
        [
            [
                name,
                wording.accuracy(row["accuracy_searched"]),
                wording.accuracy(row["accuracy_test"]),
                wording.latency(row["latency_ms"], predicted=row["latency_predicted"])
                + ("" if row["feasible"] else ", beyond T"),
                row["rank"],
                row["index"],
                f"`{row['arch']}`",
            ]
            for name, row in rows.items()
            if row is not None
        ],
        "Ranks count the cells within T that are more accurate; numbers are those of the official "
        "archive.",
    )


def best_few(
    samples: Samples,
    accuracy_test: Float64[ndarray, "n"],
    latency_predicted: Bool[ndarray, "n"],
    limit_ms: float,
    wording: Wording,
) -> Table | None:
    """The most accurate distinct networks within T; None if none was."""
    indices = NAS_BENCH_201.index(samples.architectures)
    within = np.flatnonzero(samples.latency_ms <= limit_ms)
    # of a network's cells, and of a cell's samples, the first
    _, first = np.unique(NAS_BENCH_201.network_class[indices[within]], return_index=True)
    at = within[first]
    at = at[np.lexsort((at, -samples.accuracy[at]))][:LISTED]
    if not len(at):
        return None
    return Table(
        ["", *_accuracy_columns(wording), "latency", "first at sample", "number", "cell"],
        [
            [
                str(place),
                wording.accuracy(float(samples.accuracy[i])),
                wording.accuracy(None if np.isnan(accuracy_test[i]) else float(accuracy_test[i])),
                wording.latency(float(samples.latency_ms[i]), predicted=bool(latency_predicted[i])),
                f"{i + 1:,}",
                str(indices[i]),
                f"`{NAS_BENCH_201.strings[indices[i]]}`",
            ]
            for place, i in enumerate(at, start=1)
        ],
        "The most accurate distinct networks sampled within T: isomorphic cells count as one.",
    )


def edge_by_edge(cells: Mapping[str, Int64[ndarray, "6"]]) -> Table:
    """The operations of some cells as text."""
    live = {name: NAS_BENCH_201.live_edges(cell) for name, cell in cells.items()}
    rows = []
    for number, (source, target) in enumerate(EDGES):
        row = [f"{source} → {target}"]
        for name, cell in cells.items():
            operation = f"`{NAS_BENCH_201.operations(cell)[number]}`"
            row.append(operation if live[name][number] else f"{operation} (carries nothing)")
        rows.append(row)
    return Table(["edge", *cells], rows, "Node 0 is the input of the cell, node 3 its output.")


def _accuracy_columns(wording: Wording) -> list[str]:
    predicted = " (predicted)" if wording.accuracy_is_predicted else ""
    return [f"{wording.searched}{predicted}", f"test accuracy{predicted}"]
