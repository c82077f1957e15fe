"""`python -m nas.ui`: write a page over a folder of runs, `index.html` in it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from edgenas_core.command.arguments import OneLineParser
from edgenas_core.command.exit_status import one_line_errors
from edgenas_core.command.json_output import add_result
from edgenas_core.files.atomic_file import write_whole
from edgenas_core.types.errors import UserError
from edgenas_core.types.printable import printable


@one_line_errors()
def main(words: Sequence[str] | None = None) -> None:
    """Write the page and print its path."""
    parser = OneLineParser(
        prog="python -m nas.ui",
        description="Write a page over a folder of runs, `index.html` in it.",
        epilog="--json prints the result as one JSON document",
    )
    parser.add_argument(
        "runs", nargs="?", type=Path, default=Path("runs"), help="folder of runs (default: runs)"
    )
    root = parser.parse_args(words).runs
    from nas.ui.page import runs_page  # noqa: PLC0415 - `--help` does not wait for it

    if not root.is_dir():
        raise UserError(f"{root} is no folder; out=<folder> of a search makes one")
    page = root / "index.html"
    write_whole(page, runs_page(root).html())
    add_result(page=page.absolute())
    sys.stdout.write(f"page: {printable(str(page.absolute()))}\n")
