"""The console of all commands: text is printed as it is, and a closed pipe does not end a run."""

from __future__ import annotations

import os
import sys
from typing import Any, final

from rich.console import Console


@final
class PlainConsole(Console):
    """A console for text from users, files and boards: brackets in it are not markup."""

    def __init__(self, **options: Any) -> None:
        if os.environ.get("COLUMNS") == "0":  # a terminal that does not say
            options.setdefault("width", 80)
        super().__init__(highlight=False, emoji=False, markup=False, **options)

    def on_broken_pipe(self) -> None:
        """Go on without output, as after `| head -1`; results are in files."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.stderr.write("edgenas: nobody reads the output any more; going on without it\n")
