"""Run an experiment that reproduces a paper, or the study of variants.

$ python -m benchmarks experiment=qs
"""

from __future__ import annotations

import signal
import sys

_COMMANDS = {"variants": "benchmarks.variants.command", "mapped": "benchmarks.mapped.command"}
"""Module of the experiments that have settings of their own."""


def _experiment() -> str:
    """Name of the experiment on the command line; only a study is resumed by its folder."""
    settings = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
    return settings.get("experiment", "variants" if "resume" in settings else "")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # its processes end, as by Ctrl-C
    from edgenas_core.command.exit_status import run_command

    run_command(_COMMANDS.get(_experiment(), "benchmarks.command"))
