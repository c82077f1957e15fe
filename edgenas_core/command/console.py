"""The console of all commands: text is printed as it is, and a closed pipe does not end a run.

Every line also goes to the standard logger `edgenas`, quiet or not, so that a program which calls edgenas can
listen: `logging.getLogger("edgenas").addHandler(...)`. Lines that begin with "warning" have that level.
"""

from __future__ import annotations

import logging
import os
import sys
import textwrap
from typing import Any, final

from rich.console import Console
from rich.text import Text

from edgenas_core.types.errors import UserError

_log = logging.getLogger("edgenas")
_log.addHandler(logging.NullHandler())


@final
class PlainConsole(Console):
    """A console for text from users, files and boards: brackets in it are not markup."""

    def __init__(self, *, quiet: bool = False, **options: Any) -> None:
        if not isinstance(quiet, bool):
            raise UserError(f"quiet={quiet!r:.200} is not True or False")
        if os.environ.get("COLUMNS") == "0":  # a terminal that does not say
            options.setdefault("width", 80)
        super().__init__(quiet=quiet, highlight=False, emoji=False, markup=False, **options)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print, and log the text without its wrapping; tables and bars are only printed."""
        text = " ".join(
            " ".join(str(each) for each in objects if isinstance(each, str | Text)).split()
        )
        if text:
            _log.log(logging.WARNING if text.startswith("warning") else logging.INFO, text)
        super().print(*objects, **options)

    def on_broken_pipe(self) -> None:
        """Go on without output, as after `| head -1`; results are in files."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.stderr.write("edgenas: nobody reads the output any more; going on without it\n")


def say(console: Console, text: str) -> None:
    """Print lines as they are, wrapped between words; a path, an architecture and a command stay whole."""
    for line in text.splitlines():
        if line.lstrip().startswith(("next: ", "python -m ")):
            console.print(Text(line), soft_wrap=True)
        else:
            wrapped(console, line, "", "")


def wrapped(console: Console, text: str, first: str, indent: str) -> None:
    """Print a text wrapped between words, with these indents of the first line and of the others."""
    lines = textwrap.wrap(
        text,
        console.width,
        initial_indent=first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    console.print(Text("\n".join(lines)), soft_wrap=True)
