"""Printing of results in a terminal; their page is written beside their file."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.papers.results import Results
from benchmarks.papers.results_page import results_page
from benchmarks.papers.table_view import TableView, notes
from benchmarks.papers.view import View
from common.files.atomic_file import write_whole
from common.page.print import print_lines


def print_results(results: Results, view: View, path: Path, console: Console) -> None:
    """Print the results of `path`, and write their page as `<path>.html`.

    Raises:
      OSError: if the page cannot be written.
    """
    tables = view.tables(results.rows)
    before = [view.stand_in(results.settings), view.simulated(results.rows)]
    print_lines(console, *(line for line in before if line))
    for table in tables:
        console.print(_rich_table(table))
    after = [*notes(tables), *view.sentences(results.rows)]
    errors = dict.fromkeys(row["error"] for row in results.rows if row.get("error"))
    after += [f"failed: {error}" for error in errors]
    if results.not_measured:
        after.append(
            f"no time was left for {', '.join(results.not_measured)}; a larger {view.minutes} gives more"
        )
    if results.cut_short:
        after.append(
            f"time ran out during {', '.join(results.cut_short)}, which has fewer rounds; a larger "
            f"{view.minutes} gives more"
        )
    flagged, timed = view.flagged(results.rows)
    if flagged:
        after.append(f"{flagged} of {timed} rows flagged: the machine was not steady")
    page = path.with_suffix(".html")
    write_whole(page, results_page(results, view).html())
    print_lines(console, *after, f"-> {path}, {page}")


def _rich_table(view: TableView) -> Table:
    table = Table(title=view.title, title_justify="left", box=None, pad_edge=False)
    for i, name in enumerate(view.header):
        is_name = i < view.names
        table.add_column(name, justify="left" if is_name else "right", no_wrap=is_name)
    for row in view.rows:
        table.add_row(*(Text(str(value)) for value in row))  # brackets are no markup
    return table
