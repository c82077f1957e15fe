"""`python -m nas.ui`: a page over a folder of runs, on this machine alone."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from common.command.exit_status import one_line_errors


def main() -> None:
    """Serve the page until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m nas.ui", description=__doc__)
    parser.add_argument(
        "runs", nargs="?", type=Path, default=Path("runs"), help="folder of runs (default: runs)"
    )
    parser.add_argument("--port", type=int, default=6070, help="default: 6070; 0: any that is free")
    given = parser.parse_args()
    with one_line_errors():
        from nas.ui.server import serve  # noqa: PLC0415 - Ctrl-C while the rest is imported

        with serve(given.runs, given.port) as server:
            sys.stdout.write(f"runs of {given.runs}: {server.url} (Ctrl-C ends it)\n")
            sys.stdout.flush()
            server.serve_forever()


if __name__ == "__main__":
    main()
