"""The console of all commands: text is printed as it is, and a closed pipe does not end a run.

Every line also goes to the standard logger `edgenas`, quiet or not, so that a program which calls edgenas can
listen: `logging.getLogger("edgenas").addHandler(...)`. Lines that begin with "warning" have that level.
"""

from __future__ import annotations

import logging
import os
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, final

from rich.console import Console
from rich.text import Text

from edgenas_core.types.errors import UserError

_log = logging.getLogger("edgenas")
_log.addHandler(logging.NullHandler())
_log.propagate = False  # handlers of the root would print again what is printed here

_is_quiet = ContextVar("_is_quiet", default=False)


@contextmanager
def quietly(*, quiet: bool) -> Iterator[None]:
    """Keep every console that is made in the block quiet, also those of sources and boards, if `quiet` is True."""
    token = _is_quiet.set(_is_quiet.get() or quiet)
    try:
        yield
    finally:
        _is_quiet.reset(token)


@final
class PlainConsole(Console):
    """A console for text from users, files and boards: brackets in it are not markup."""

    def __init__(self, *, quiet: bool = False, **options: Any) -> None:
        if not isinstance(quiet, bool):
            raise UserError(f"quiet={quiet!r:.200} is not True or False")
        if os.environ.get("COLUMNS") == "0":  # a terminal that does not say
            options.setdefault("width", 80)
        # a notebook would show each line as an output of its own
        options.setdefault("force_jupyter", False)
        # it says that it is a terminal, but shows each state of a bar
        if "ipykernel" in sys.modules:
            options.setdefault("force_terminal", False)
        quiet = quiet or _is_quiet.get()
        super().__init__(quiet=quiet, highlight=False, emoji=False, markup=False, **options)
        self.stage = ""
        """What the command does at present, for `Heartbeat`."""
        self.printed_s = time.monotonic()
        """When the last line was printed, on the monotonic clock."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print, and log the text without its wrapping; tables and bars are only printed."""
        text = " ".join(
            " ".join(str(each) for each in objects if isinstance(each, str | Text)).split()
        )
        if text:
            _log.log(logging.WARNING if text.startswith("warning") else logging.INFO, text)
        self.printed_s = time.monotonic()
        super().print(*objects, **options)

    def on_broken_pipe(self) -> None:
        """Go on without output, as after `| head -1`; results are in files."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.stderr.write("edgenas: nobody reads the output any more; going on without it\n")


_SILENCE_S = 10.0
"""A command that works prints a line at least this often."""


@final
class Heartbeat:
    """While the block runs, prints its stage and its share of the time where nothing else was printed for 10 s."""

    def __init__(self, console: PlainConsole, began_s: float, hours: float | None) -> None:
        """Begins with the block.

        Args:
          console: prints, and knows the stage.
          began_s: when the time began, on the monotonic clock.
          hours: the time that there is; None: no limit.
        """
        self._console, self._began_s, self._hours = console, began_s, hours
        self._over = threading.Event()

    def __enter__(self) -> Heartbeat:
        threading.Thread(target=self._beat, daemon=True, name="heartbeat").start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def _beat(self) -> None:
        while not self._over.wait(1.0):
            has_bar = bool(getattr(self._console, "_live_stack", None))  # which shows the same
            if not has_bar and time.monotonic() - self._console.printed_s >= _SILENCE_S:
                self._console.print(self._line(), soft_wrap=True)

    def _line(self) -> str:
        spent_s = time.monotonic() - self._began_s
        stage = f"{self._console.stage or 'working'}: {spent_s:,.0f} s"
        if not self._hours:
            return stage
        return f"{stage} of {3600 * self._hours:,.0f} s, {spent_s / (36 * self._hours):.0f} % of hours={self._hours:g}"


def at_stage(console: Console, stage: str) -> None:
    """Note what the command does at present."""
    if isinstance(console, PlainConsole):
        console.stage = stage


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
