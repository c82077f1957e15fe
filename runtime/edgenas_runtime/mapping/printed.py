"""Lines for a terminal, wrapped by it, and the console that they are printed on."""

from __future__ import annotations

from rich.console import Console

from edgenas_core.command.console import PlainConsole


def wide_console() -> Console:
    """Return a console, of 160 columns if the output is not a terminal."""
    console = PlainConsole()
    return console if console.is_terminal else PlainConsole(width=160)


def print_lines(console: Console, *lines: str) -> None:
    """Print lines that a terminal wraps, with brackets as they are."""
    for line in lines:
        console.print(line, soft_wrap=True, markup=False)
