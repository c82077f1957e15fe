"""`python -m nas.figures run=runs/2026-11-21/09-00-00-thesis out=figures/`."""

from __future__ import annotations

from edgenas_core.command.exit_status import run_command

if __name__ == "__main__":
    run_command("nas.figures.command")
