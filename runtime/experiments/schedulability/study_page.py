"""The schedulability study as one page: figures 5.1 to 5.3 and tables 5.2 to 5.4 of its source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runtime.experiments.schedulability.schedulability import SCENARIOS, Share
from runtime.experiments.schedulability.verdict import published_size, verdict
from runtime.page.document import Page, Section
from runtime.page.palette import SERIES
from runtime.page.parts import Figure, Note, Part, Table

_Cells = Mapping[tuple[str, float], Sequence[Share]]

_TITLES = {
    "nvdla": "NVDLA first: figure 5.1, table 5.2; the two NVDLA as one exclude each alone",
    "nvdla-apart": "NVDLA first, with the two as one counted as a third unit",
    "gpu_tc": "Tensor cores first: figure 5.2, table 5.3",
    "gpu_rc": "Regular cores first: figure 5.3, table 5.4",
}


def study_page(cells: _Cells, settings: Mapping[str, Any]) -> Page:
    """All cells of a study."""
    sections = [
        _section(scenario, {t: own for (name, t), own in cells.items() if name == scenario})
        for scenario in dict.fromkeys(name for name, _ in cells)
    ]
    apart: list[Part | str] = [
        Note(
            "Times are the published ones of an NVIDIA Jetson AGX Xavier; the sets are random. The "
            "source counts up to 3.4 with NVDLA as reference; with exclusive units its table 5.1 "
            "does not yield that, with a third NVDLA unit it does."
        )
    ]
    return Page(
        title="Do the networks fit?",
        subtitle="Schedulability of random sets of networks on the units of a Xavier",
        answer=[*verdict(cells), *apart],
        sections=sections,
        provenance={name: str(value) for name, value in settings.items()},
    )


def _section(scenario: str, cells: Mapping[float, Sequence[Share]]) -> Section:
    columns = [*SCENARIOS[scenario].columns]
    data: list[dict[str, Any]] = []
    for colour, column in zip(SERIES, columns, strict=False):
        own = {
            t: share for t, shares in cells.items() for share in shares if share.column == column
        }
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": column,
                "line": {"color": colour},
                "x": [*own],
                "y": [100 * share.feasible / share.sets for share in own.values()],
            }
        )
    layout = {
        "xaxis": {"title": {"text": "utilisation of the reference"}},
        "yaxis": {"title": {"text": "sets that fit, %"}},
    }
    title = _TITLES[scenario]
    rows = [
        [f"{threshold}", *(_cell(scenario, threshold, share) for share in shares)]
        for threshold, shares in cells.items()
    ]
    table = Table(
        ["utilisation", *columns],
        rows,
        "Sets that fit; mean number of their networks, published in brackets",
    )
    return Section(title, [Figure(f"Sets that fit: {scenario}", data, layout), table])


def _cell(scenario: str, threshold: float, share: Share) -> str:
    theirs = published_size(scenario, share.column, threshold)
    told = "\u00d7" if theirs is None else f"{theirs:.2f}"
    ours = "\u00d7" if share.mean_size is None else f"{share.mean_size:.2f}"
    unknown = f", {share.unknown} unknown" if share.unknown else ""
    return f"{share.feasible / share.sets:.1%}; {ours} ({told}){unknown}"
