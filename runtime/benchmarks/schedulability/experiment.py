"""Figures 5.1 to 5.3 and tables 5.2 to 5.4 of the schedulability study, beside the published values."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

from benchmarks.experiment import Chart, PaperExperiment, ResultTable
from benchmarks.results import Row, grouped
from benchmarks.schedulability.published import FEASIBLE, MEAN_SIZES, published_size
from benchmarks.schedulability.study import steps
from edgenas_core.page.chart import axes, line
from edgenas_core.page.palette import SERIES

_TITLES = {
    "nvdla": "NVDLA first: figure 5.1, table 5.2; the two NVDLA as one exclude each alone",
    "nvdla-apart": "NVDLA first, with the two as one counted as a third unit",
    "gpu_tc": "Tensor cores first: figure 5.2, table 5.3",
    "gpu_rc": "Regular cores first: figure 5.3, table 5.4",
}


def _beside_published(rows: list[Row]) -> list[Row]:
    """The rows with their share of sets that fit, and the published mean number of networks."""
    return [
        {
            **row,
            "title": _TITLES[row["scenario"]],
            "share": _feasible(row),
            "published_size": published_size(row["scenario"], row["column"], row["threshold"]),
        }
        for row in rows
    ]


def _curves(rows: list[Row]) -> list[dict[str, Any]]:
    return [
        line(
            column,
            [row["threshold"] for row in group],
            [100 * _feasible(row) for row in group],
            mode="lines+markers",
            color=colour,
        )
        for colour, ((column,), group) in zip(SERIES, grouped(rows, "column").items(), strict=False)
    ]


def _feasible(row: Row) -> float:
    return float(row["feasible"] / row["sets"])


def _sentences(rows: list[Row]) -> list[str]:
    """The comparison with the published values, and the number of sets without an answer."""
    lines = [
        f"{scenario}, {column} at {threshold}: {_feasible(row):.1%} of the sets fit (published "
        f"{published:.0%})"
        for (scenario, column, threshold), published in FEASIBLE.items()
        for row in rows
        if (row["scenario"], row["column"], row["threshold"]) == (scenario, column, threshold)
    ]
    for (scenario,), group in grouped(rows, "scenario").items():
        if differences := [*_differences(group)]:
            lines.append(
                f"{scenario}: the mean number of networks differs from the published one by "
                f"{median(differences):.1%} in the median, {max(differences):.1%} at most, in "
                f"{len(differences)} entries that both have"
            )
        column = [*MEAN_SIZES[scenario]][-1]
        published = 1 + 0.2 * (len(MEAN_SIZES[scenario][column]) - 1)
        last = [row for row in group if row["column"] == column]
        some = max((row["threshold"] for row in last if row["feasible"]), default=None)
        lines.append(
            f"{scenario}, {column}: all sets fit up to {_reach(last) or 'no threshold'}, "
            f"some up to {some or 'none'} (published: some up to {published:.1f})"
        )
    unknown, sets = (sum(row[name] for row in rows) for name in ("unknown", "sets"))
    return [*lines, f"without an answer in the time allowed: {unknown} of {sets:,} sets"]


def _reach(rows: list[Row]) -> float | None:
    """The highest threshold up to which all sets fit at every threshold."""
    reached = None
    for row in sorted(rows, key=lambda row: float(row["threshold"])):
        if row["feasible"] < row["sets"]:
            break
        reached = row["threshold"]
    return reached


def _differences(rows: list[Row]) -> Iterator[float]:
    for row in rows:
        published = published_size(row["scenario"], row["column"], row["threshold"])
        if row["mean_size"] is not None and published is not None:
            yield abs(row["mean_size"] / published - 1)


def _simulated(_: list[Row]) -> str:
    return (
        "Times are the published ones of an NVIDIA Jetson AGX Xavier; the sets are random. With "
        "NVDLA as reference the source reaches 3.4. Its table 5.1 does not yield that with "
        "exclusive units; with a third NVDLA unit it does."
    )


SCHEDULABILITY = PaperExperiment(
    "schedulability",
    "Schedulability of random sets of networks on the units of a Xavier",
    steps,
    tables=(
        ResultTable(
            "{title}",
            "column threshold share:.1% mean_size published_size unknown",
            _beside_published,
            by=("scenario",),
            note="Share: of the sets that fit; size: mean number of their networks.",
        ),
    ),
    charts=(
        Chart(
            "Sets that fit. {title}",
            _curves,
            axes("utilisation of the reference", "sets that fit, %"),
            _beside_published,
            by=("scenario",),
        ),
    ),
    sentences=_sentences,
    simulated=_simulated,
)
