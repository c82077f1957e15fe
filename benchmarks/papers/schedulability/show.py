"""Figures 5.1 to 5.3 and tables 5.2 to 5.4 of the schedulability study, beside the published values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from statistics import median

from benchmarks.papers.results import Row
from benchmarks.papers.schedulability.published import FEASIBLE, MEAN_SIZES, published_size
from benchmarks.papers.schedulability.scenarios import SCENARIOS, Share
from benchmarks.papers.table_view import TableView
from benchmarks.papers.view import View
from common.page.chart import axes, line
from common.page.palette import SERIES
from common.page.parts import Figure

_Curves = dict[str, dict[float, list[Share]]]
"""Shares by scenario and threshold."""

_TITLES = {
    "nvdla": "NVDLA first: figure 5.1, table 5.2; the two NVDLA as one exclude each alone",
    "nvdla-apart": "NVDLA first, with the two as one counted as a third unit",
    "gpu_tc": "Tensor cores first: figure 5.2, table 5.3",
    "gpu_rc": "Regular cores first: figure 5.3, table 5.4",
}


def _curves(rows: list[Row]) -> _Curves:
    names = [field.name for field in fields(Share)]
    found: _Curves = {}
    for row in rows:
        share = Share(**{name: row[name] for name in names})
        found.setdefault(row["scenario"], {}).setdefault(row["threshold"], []).append(share)
    return found


def _figures(rows: list[Row]) -> list[Figure]:
    return [_figure(scenario, curve) for scenario, curve in _curves(rows).items()]


def _figure(scenario: str, curve: dict[float, list[Share]]) -> Figure:
    data = []
    for colour, column in zip(SERIES, SCENARIOS[scenario].columns, strict=False):
        own = {t: one for t, shares in curve.items() for one in shares if one.column == column}
        feasible = [100 * share.feasible / share.sets for share in own.values()]
        data.append(line(column, [*own], feasible, mode="lines+markers", color=colour))
    layout = axes("utilisation of the reference", "sets that fit, %")
    return Figure(f"Sets that fit. {_TITLES[scenario]}", data, layout)


def _tables(rows: list[Row]) -> list[TableView]:
    return [
        TableView(
            _TITLES[scenario],
            ["utilisation", *SCENARIOS[scenario].columns],
            [
                [f"{t}", *(_entry(scenario, t, share) for share in shares)]
                for t, shares in curve.items()
            ],
            1,
            "Sets that fit; mean number of their networks, published in brackets.",
        )
        for scenario, curve in _curves(rows).items()
    ]


def _entry(scenario: str, threshold: float, share: Share) -> str:
    published = _size(published_size(scenario, share.column, threshold))
    unknown = f", {share.unknown} unknown" if share.unknown else ""
    return f"{share.feasible / share.sets:.1%}; {_size(share.mean_size)} ({published}){unknown}"


def _size(mean: float | None) -> str:
    return "\u00d7" if mean is None else f"{mean:.2f}"


def _sentences(rows: list[Row]) -> list[str]:
    """The comparison with the published values, and the number of sets without an answer."""
    curves = _curves(rows)
    lines = [*_published_shares(curves)]
    for scenario, curve in curves.items():
        if differences := _differences(scenario, curve):
            lines.append(
                f"{scenario}: the mean number of networks differs from the published one by "
                f"{median(differences):.1%} in the median, {max(differences):.1%} at most, in "
                f"{len(differences)} entries that both have"
            )
        column = [*MEAN_SIZES[scenario]][-1]
        published = 1 + 0.2 * (len(MEAN_SIZES[scenario][column]) - 1)
        last = max((t for t, shares in curve.items() if shares[-1].feasible), default=None)
        lines.append(
            f"{scenario}, {column}: all sets fit up to {_reach(curve, column) or 'no threshold'}, "
            f"some up to {last or 'none'} (published: some up to {published:.1f})"
        )
    shares = [one for curve in curves.values() for own in curve.values() for one in own]
    unknown, sets = sum(one.unknown for one in shares), sum(one.sets for one in shares)
    return [*lines, f"without an answer in the time allowed: {unknown} of {sets:,} sets"]


def _published_shares(curves: _Curves) -> Iterator[str]:
    for (scenario, column, threshold), published in FEASIBLE.items():
        for share in curves.get(scenario, {}).get(threshold, ()):
            if share.column == column:
                yield (
                    f"{scenario}, {column} at {threshold}: {share.feasible / share.sets:.1%} of the "
                    f"sets fit (published {published:.0%})"
                )


def _reach(curve: dict[float, list[Share]], column: str) -> float | None:
    """The highest threshold up to which all sets fit at every threshold."""
    found = None
    for threshold, shares in sorted(curve.items()):
        share = next(one for one in shares if one.column == column)
        if share.feasible < share.sets:
            break
        found = threshold
    return found


def _differences(scenario: str, curve: dict[float, list[Share]]) -> Sequence[float]:
    found = []
    for threshold, shares in curve.items():
        for share in shares:
            published = published_size(scenario, share.column, threshold)
            if share.mean_size is not None and published is not None:
                found.append(abs(share.mean_size / published - 1))
    return found


def _simulated(_: list[Row]) -> str:
    return (
        "Times are the published ones of an NVIDIA Jetson AGX Xavier; the sets are random. With "
        "NVDLA as reference the source reaches 3.4. Its table 5.1 does not yield that with "
        "exclusive units; with a third NVDLA unit it does."
    )


SCHEDULABILITY = View(
    "Schedulability of random sets of networks on the units of a Xavier",
    _tables,
    _figures,
    sentences=_sentences,
    simulated=_simulated,
)
