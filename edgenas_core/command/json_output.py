"""`--json` of every command: one JSON document on standard output, all other lines on standard error.

docs/reference/json.md describes the document.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any, final

SCHEMA = 1
OPTION = "--json"


@final
class _Output:
    """The document that a command fills while it runs."""

    def __init__(self) -> None:
        self.results: list[dict[str, Any]] = []
        self.error: str | None = None


_outputs: list[_Output] = []
"""The document of the command that runs; empty without `--json`."""


def add_result(**fields: Any) -> None:
    """Add what one run of the command made: paths as text, numbers with their units in the names."""
    for output in _outputs:
        output.results.append(fields)


def note_error(line: str) -> None:
    """Note the line that the command ends with."""
    for output in _outputs:
        output.error = line


@contextmanager
def as_json(command: str) -> Iterator[None]:
    """While the block runs, print on standard error; at its end, print the document.

    Raises:
      SystemExit: of the block, after the document with its status.
    """
    output = _Output()
    _outputs.append(output)
    written, status = sys.stdout, 1
    try:
        with _on_standard_error(), redirect_stdout(sys.stderr):
            yield
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
        raise
    finally:
        _outputs.remove(output)
        error_line = output.error
        if status and error_line is None:
            error_line = "standard error has the reason"
        document = {
            "schema": SCHEMA,
            "command": command,
            "status": status,
            "error": error_line if status else None,
            "results": output.results,
        }
        written.write(f"{json.dumps(document, indent=2, allow_nan=False, default=str)}\n")
        written.flush()


@contextmanager
def _on_standard_error() -> Iterator[None]:
    """Let processes that the block starts print on standard error, too."""
    try:
        sys.stdout.flush()
        number = sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):  # a program's own stream
        yield
        return
    kept = os.dup(number)
    os.dup2(2, number)
    try:
        yield
    finally:
        os.dup2(kept, number)
        os.close(kept)
