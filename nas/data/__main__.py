"""`python -m nas.data list | fetch | import | verify`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from runtime.shell.exit_status import USER_ERROR, one_line_errors
from runtime.shell.keyed_table import data_folder


@one_line_errors()
def main(arguments: Sequence[str] | None = None) -> None:
    """Run one of the four commands.

    Raises:
      SystemExit: with status 2 if it cannot work, or `verify` found a table that is wrong.
    """
    chosen = _parser().parse_args(arguments)
    if chosen.command == "list":
        _list(data_folder())
        return
    folder = chosen.to or data_folder()
    if chosen.command == "fetch":
        from nas.spaces.nas_bench_201.public.fetch import fetch  # noqa: PLC0415 - each command loads only its own

        _say(fetch(folder, chosen.mirror))
    elif chosen.command == "import":
        from nas.spaces.nas_bench_201.public.importing import import_paths  # noqa: PLC0415 - slow to import, and not always needed

        _say(import_paths(chosen.paths, folder, partial=chosen.partial))
    else:
        _verify(folder)


def _parser() -> argparse.ArgumentParser:
    from nas.spaces.nas_bench_201.public.registry import MIRROR  # noqa: PLC0415 - slow to import, and not always needed

    parser = argparse.ArgumentParser(
        prog="python -m nas.data",
        description="Real benchmark files into the compact tables that a search reads.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    commands.add_parser("list", help="which accuracies and devices are there")
    fetching = commands.add_parser("fetch", help="download the small public tables (8 MB)")
    fetching.add_argument("--mirror", default=MIRROR, metavar="URL", help="in place of %(default)s")
    importing = commands.add_parser("import", help="convert files that you have")
    importing.add_argument(
        "paths",
        nargs="+",
        type=Path,
        metavar="PATH",
        help="the unpacked NATS-Bench archive (a folder), or .pt latency files of HELP",
    )
    importing.add_argument(
        "--partial", action="store_true", help="accept an archive that lacks cells"
    )
    verifying = commands.add_parser("verify", help="check every table")
    for command in (fetching, importing, verifying):
        command.add_argument(
            "--to" if command in (fetching, importing) else "--in",
            dest="to",
            type=Path,
            metavar="FOLDER",
            help="folder of the tables (default: NAS_DATA, or your own data folder)",
        )
    return parser


def _list(folder: Path) -> None:
    from rich.console import Console  # noqa: PLC0415 - slow to import, and not always needed

    from nas.data.devices_report import known_devices  # noqa: PLC0415 - slow to import, and not always needed
    from nas.data.listing import (  # noqa: PLC0415 - slow to import, and not always needed
        accuracy_rows,
        accuracy_table,
        devices_table,
    )

    console = Console()
    rows = list(accuracy_rows(folder))
    console.print(devices_table(known_devices()))
    if rows:
        console.print(accuracy_table(rows))
    else:
        _say([f"no accuracies in {folder}; `python -m nas.data fetch` downloads the public ones"])


def _verify(folder: Path) -> None:
    from nas.data.verify import verify  # noqa: PLC0415 - slow to import, and not always needed

    failed = False
    for verdict in verify(folder):
        _say([verdict.line])
        failed |= not verdict.passed
    if failed:
        sys.exit(USER_ERROR)


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
