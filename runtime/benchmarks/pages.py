"""Results in a terminal, and as a page beside their file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.experiment import PaperExperiment, Shown
from benchmarks.results import PaperResults, Row
from edgenas_core.files.atomic_file import write_whole
from edgenas_core.page.document import HtmlPage, Section
from edgenas_core.page.parts import PageNote, PagePart, TextListing
from edgenas_core.page.parts import Table as PageTable
from edgenas_runtime.mapping.printed import print_lines

_STEADY = "Every step was measured, and the control runs found the machine steady."


def print_results(
    results: PaperResults, experiment: PaperExperiment, path: Path, console: Console
) -> None:
    """Print the results of `path`, and write their page as `<path>.html`.

    Raises:
      OSError: if the page cannot be written.
    """
    tables = experiment.shown(results.rows)
    before = [experiment.stand_in(results.settings), experiment.simulated(results.rows)]
    print_lines(console, *filter(None, before))
    for table in tables:
        console.print(_rich_table(table))
    errors = dict.fromkeys(row["error"] for row in results.rows if row.get("error"))
    page = path.with_suffix(".html")
    write_whole(page, results_page(results, experiment).html())
    flagged, timed = experiment.flagged(results.rows)
    print_lines(
        console,
        *_notes(tables),
        *experiment.sentences(results.rows),
        *(f"failed: {error}" for error in errors),
        *(f"{missed}; a larger minutes= gives more" for missed in _without_time(results)),
        *([f"{flagged} of {timed} rows flagged: the machine was not steady"] if flagged else []),
        f"-> {path}, {page}",
    )


def results_page(results: PaperResults, experiment: PaperExperiment) -> HtmlPage:
    """The page of one results file."""
    rows = results.rows
    flagged, timed = experiment.flagged(rows)
    answer: list[PagePart | str] = [*experiment.sentences(rows)]
    if timed and not flagged and results.is_complete:
        answer.append(_STEADY)
    notes = [experiment.stand_in(results.settings), experiment.simulated(rows)]
    if not results.is_complete:
        faults = [f"{fault['step']} failed: {fault['error']}" for fault in results.faults]
        parts = [*faults, *_without_time(results)]
        notes.append(f"Incomplete: {'; '.join(parts) or 'the experiment was interrupted'}.")
    if flagged:
        notes.append(
            f"{flagged} of {timed} rows are flagged: a control run drifted by more than 5 %, "
            "or other processes used the machine."
        )
    answer += [PageNote(note) for note in notes if note]
    figures, shown = experiment.figures(rows), experiment.shown(rows)
    tables = [PageTable(one.header, one.rows, one.title) for one in shown]
    sections = [Section("Figures", figures)] if figures else []
    where = results.machine.get("gpu") or results.machine.get("cpu", "an unknown machine")
    settings = "\n".join(f"{name}={value}" for name, value in results.settings.items())
    return HtmlPage(
        title=experiment.title,
        subtitle=f"experiment={results.experiment} on {where}",
        answer=answer,
        sections=[*sections, Section("Tables", [*tables, *_notes(shown)])],
        provenance=_provenance(results),
        provenance_parts=[
            TextListing("Settings", settings),
            TextListing("Control runs", "\n".join(map(_line, results.controls))),
        ],
    )


def _without_time(results: PaperResults) -> Iterator[str]:
    if results.not_measured:
        yield f"no time was left for {', '.join(results.not_measured)}"
    if results.cut_short:
        yield f"time ran out during {', '.join(results.cut_short)}, which has fewer rounds"


def _notes(tables: list[Shown]) -> list[str]:
    """The notes of all tables, without repetitions."""
    return [*dict.fromkeys(table.note for table in tables if table.note)]


def _rich_table(shown: Shown) -> Table:
    table = Table(title=shown.title, title_justify="left", box=None, pad_edge=False)
    for i, name in enumerate(shown.header):
        is_name = i < shown.names
        table.add_column(name, justify="left" if is_name else "right", no_wrap=is_name)
    for row in shown.rows:
        table.add_row(*map(Text, row))  # brackets are no markup
    return table


def _provenance(results: PaperResults) -> dict[str, str]:
    facts = {name: str(value) for name, value in results.machine.items() if name != "versions"}
    versions = results.machine.get("versions", {})
    return facts | {"versions": ", ".join(f"{name} {text}" for name, text in versions.items())}


def _line(row: Row) -> str:
    return ", ".join(f"{name} {value}" for name, value in row.items() if value not in ([], None))
