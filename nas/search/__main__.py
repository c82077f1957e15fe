"""`python -m nas.search reward=proposed T=17ms`."""

from __future__ import annotations

from edgenas_core.command.exit_status import run_command

if __name__ == "__main__":
    run_command("nas.search.command")
