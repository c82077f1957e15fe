"""`python -m nas.search`: the most accurate architecture, by tables, predictors and boards."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgenas_core.command.console import PlainConsole, say
from edgenas_core.command.exit_status import one_line_errors, run_command
from nas.config.build import register
from nas.config.moved_settings import fit_words, require_search_settings
from nas.config.run_config import live_settings
from nas.runs.command import run_command_line

HANDED_OVER = "training on your own data is the command nas.fit now; starting it"
"""The line that tells so."""

if TYPE_CHECKING:
    from nas.config.build import SearchExperiment
    from nas.runs.begin import RunKind


def main(words: Sequence[str] | None = None) -> None:
    """Run the command line's search, or its sweep; 2 if a run of a sweep could not be made.

    Settings of a fit, such as data=, are handed over to nas.fit.
    """
    words = sys.argv[1:] if words is None else list(words)
    with one_line_errors():
        of_fit = fit_words(words)
    if of_fit is not None:
        say(PlainConsole(), HANDED_OVER)
        run_command("nas.fit.command", of_fit)
        return
    register()
    settings = dict(word.partition("=")[::2] for word in words)
    with one_line_errors():
        require_search_settings(settings)
    live = live_settings(settings)
    words = [*(f"{name}={value}" for name, value in live.items()), *words]
    run_command_line("nas.search", "search", words, search_kind)


def search_kind() -> RunKind[SearchExperiment]:
    """What a search is made of."""
    from nas.search.kind import SEARCH  # noqa: PLC0415 - `--help` does not wait for it

    return SEARCH
