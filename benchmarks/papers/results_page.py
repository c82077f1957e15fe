"""Results as a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.papers.results import Results, Row
from benchmarks.papers.table_view import notes
from benchmarks.papers.view import View
from common.page.document import Page, Section
from common.page.parts import Listing, Note, Part, Table

_STEADY = "Every step was measured, and the control runs found the machine steady."


def results_page(results: Results, view: View) -> Page:
    """The page of one results file."""
    flagged, timed = view.flagged(results.rows)
    simulated = view.simulated(results.rows)
    answer: list[Part | str] = [*view.sentences(results.rows)]
    if timed and not flagged and results.is_complete:
        answer.append(_STEADY)
    if stand_in := view.stand_in(results.settings):
        answer.append(Note(stand_in))
    if simulated:
        answer.append(Note(simulated))
    if not results.is_complete:
        answer.append(Note(_incomplete(results)))
    if flagged:
        answer.append(
            Note(
                f"{flagged} of {timed} rows are flagged: a control run drifted by more than 5 %, "
                "or other processes used the machine."
            )
        )
    sections = []
    figures: list[Part | str] = [*view.figures(results.rows)]
    if figures:
        sections.append(Section("Figures", figures))
    shown = view.tables(results.rows)
    tables = [Table(one.header, one.rows, one.title) for one in shown]
    sections.append(Section("Tables", [*tables, *notes(shown)]))
    where = results.machine.get("gpu") or results.machine.get("cpu", "an unknown machine")
    return Page(
        title=view.title,
        subtitle=f"experiment={results.experiment} on {where}",
        answer=answer,
        key_figures=view.key_figures(results.rows),
        sections=sections,
        provenance=_provenance(results),
        provenance_parts=[
            Listing("Settings", "\n".join(f"{name}={v}" for name, v in results.settings.items())),
            Listing("Control runs", "\n".join(map(_line, results.controls))),
            *_traces(results.rows),
        ],
    )


def _incomplete(results: Results) -> str:
    parts = [f"{fault['step']} failed: {fault['error']}" for fault in results.faults]
    if results.not_measured:
        parts.append(f"no time was left for {', '.join(results.not_measured)}")
    if results.cut_short:
        parts.append(f"time ran out during {', '.join(results.cut_short)}, which has fewer rounds")
    return f"Incomplete: {'; '.join(parts) or 'the experiment was interrupted'}."


def _traces(rows: list[Row]) -> list[Part | str]:
    """Paths of the recorded schedules, for https://ui.perfetto.dev."""
    paths = [row["trace"] for row in rows if row.get("trace")]
    title = "Traces, in the folder of the results; open them with Perfetto"
    return [Listing(title, "\n".join(paths))] if paths else []


def _provenance(results: Results) -> dict[str, str]:
    facts = {name: str(value) for name, value in results.machine.items() if name != "versions"}
    versions: Mapping[str, Any] = results.machine.get("versions", {})
    facts["versions"] = ", ".join(f"{name} {value}" for name, value in versions.items())
    return facts


def _line(row: Row) -> str:
    return ", ".join(f"{name} {value}" for name, value in row.items() if value not in ([], None))
