"""Run an experiment of a paper, or a study with its analyses.

$ python -m benchmarks experiment=qs
"""

from __future__ import annotations

import signal
import sys

_STUDIES = ("thesis", "smoke", "searchers", "help", "scenarios", "tail", "variants")


def _experiment() -> str:
    """Name of the experiment on the command line; a study is also resumed by its folder alone."""
    settings = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
    return settings.get("experiment", "thesis" if "resume" in settings else "")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # its processes end, as by Ctrl-C
    from edgenas_core.command.exit_status import one_line_errors

    with one_line_errors():  # Ctrl-C while the rest is imported
        if (name := _experiment()) in _STUDIES:
            from benchmarks.studies.command import main
        elif name == "mapped":
            from benchmarks.mapped.command import main
        else:
            from benchmarks.command import main
    main()
