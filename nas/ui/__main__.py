"""`python -m nas.ui`: write a page over a folder of runs, `index.html` in it."""

from __future__ import annotations

from edgenas_core.command.exit_status import run_command

if __name__ == "__main__":
    run_command("nas.ui.command")
