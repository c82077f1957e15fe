"""The results as a page."""

from __future__ import annotations

from typing import Any

from runtime.experiments.faces import face_of
from runtime.page.document import Page, Section
from runtime.page.parts import Listing, Note, Part, Table
from runtime.page.results import Results, Row
from runtime.page.table_view import notes

_QUIET = "Every step was measured, on a machine that its control run found quiet."


def page(results: Results) -> Page:
    """Of one experiment."""
    face = face_of(results)
    flagged, timed = face.flagged(results.rows)
    simulated = face.simulated(results.rows)
    answer: list[Part | str] = []
    if stand_in := face.stand_in(results.settings):
        answer.append(Note(stand_in))
    if simulated:
        answer.append(Note(simulated))
    if not results.is_complete:
        answer.append(Note(_incomplete(results)))
    if flagged:
        answer.append(
            Note(
                f"{flagged} of {timed} rows are flagged: a control run drifted by more "
                "than 5 %, or others kept the machine busy."
            )
        )
    sections = []
    figures: list[Part | str] = [*face.figures(results.rows)]
    if figures:
        sections.append(Section("Figures", figures))
    shown = face.tables(results.rows)
    tables = [Table(one.header, one.rows, one.title) for one in shown]
    sections.append(Section("Tables", [*tables, *notes(shown)]))
    where = results.machine.get("gpu") or results.machine.get("cpu", "an unknown machine")
    return Page(
        title=face.title,
        subtitle=f"experiment={results.experiment} on {where}",
        answer=answer if flagged or simulated or not results.is_complete else [_QUIET, *answer],
        key_figures=face.key_figures(results.rows),
        sections=sections,
        provenance=_provenance(results),
        provenance_parts=[
            Listing("Settings", _lines(results.settings)),
            Listing("Control runs", "\n".join(map(_line, results.controls))),
            *_traces(results.rows),
        ],
    )


def _incomplete(results: Results) -> str:
    parts = [f"{fault['step']} failed: {fault['error']}" for fault in results.faults]
    if results.not_measured:
        parts.append(f"no time was left for {', '.join(results.not_measured)}")
    if results.cut_short:
        parts.append(f"the time ended in {', '.join(results.cut_short)}, which has fewer rounds")
    return f"Incomplete: {'; '.join(parts) or 'the experiment was interrupted'}."


def _traces(rows: list[Row]) -> list[Part | str]:
    """Runs that were kept, for https://ui.perfetto.dev."""
    kept = [row["trace"] for row in rows if row.get("trace")]
    return (
        [Listing("Traces, beside the results; Perfetto opens them", "\n".join(kept))]
        if kept
        else []
    )


def _provenance(results: Results) -> dict[str, str]:
    facts = {name: str(value) for name, value in results.machine.items() if name != "versions"}
    versions = results.machine.get("versions", {})
    facts["versions"] = ", ".join(f"{name} {value}" for name, value in versions.items())
    return facts


def _lines(settings: dict[str, Any]) -> str:
    return "\n".join(f"{name}={value}" for name, value in settings.items())


def _line(row: Row) -> str:
    return ", ".join(f"{name} {value}" for name, value in row.items() if value not in ([], None))
