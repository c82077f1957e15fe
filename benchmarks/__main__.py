"""Run a study with its analyses, such as that of the thesis.

$ python -m benchmarks experiment=thesis
"""

from __future__ import annotations

import signal

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # its processes end, as by Ctrl-C
    from edgenas_core.command.exit_status import run_command

    run_command("benchmarks.studies.command")
