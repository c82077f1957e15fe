"""`python -m nas.data list | fetch | import | verify`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from edgenas_core.command.arguments import OneLineParser
from edgenas_core.command.exit_status import USER_ERROR, one_line_errors
from edgenas_core.command.json_output import add_result
from edgenas_core.files.keyed_table import data_folder
from nas.spaces.base import OnMicrocontroller, SearchSpace
from nas.spaces.public_data import HasPublicData, raw_folder
from nas.spaces.registry import default_space, space_named

_SPACE, _DEFAULT = "space=", default_space()


@one_line_errors()
def main(words: Sequence[str] | None = None) -> None:
    """Run one of the four commands.

    Raises:
      SystemExit: with status 2 if it cannot work, or `verify` found a table that is wrong.
    """
    words = sys.argv[1:] if words is None else words
    spaces = [word.removeprefix(_SPACE) for word in words if word.startswith(_SPACE)]
    space = space_named(spaces[-1] if spaces else _DEFAULT)
    chosen = _parser(space).parse_args([word for word in words if not word.startswith(_SPACE)])
    if chosen.command == "list":
        _list(space, data_folder())
        return
    folder = chosen.to or data_folder(to_fill=chosen.command in {"fetch", "import"})
    if chosen.command == "verify":
        _verify(space, folder)
        return
    from nas.data.convert import fetch, import_files  # noqa: PLC0415 - slow to import, and not always needed

    if chosen.command == "fetch":
        _print(fetch(space, folder, chosen.mirror))
    else:
        _print(import_files(space, chosen.paths, folder))


def _parser(space: SearchSpace) -> OneLineParser:
    data = space.public_data() if isinstance(space, HasPublicData) else None
    num_bytes = sum(file.num_bytes for file in data.files) if data else 0
    parser = OneLineParser(
        prog="python -m nas.data",
        description="Convert public benchmark files into the compact tables that a search reads.",
        epilog=f"{_SPACE}NAME chooses the search space (default: {_DEFAULT}); --json prints the result as one JSON document",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    commands.add_parser("list", help="list the accuracies and devices that a search can use")
    fetching = commands.add_parser(
        "fetch", help=f"download the public tables ({num_bytes / 1e6:.0f} MB)"
    )
    fetching.add_argument(
        "--mirror",
        default=data.mirror if data else "",
        metavar="URL",
        help="server to download from (default: %(default)s)",
    )
    importing = commands.add_parser("import", help="convert files that you have")
    importing.add_argument(
        "paths", nargs="+", type=Path, metavar="PATH", help=data.importable if data else None
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


def _list(space: SearchSpace, folder: Path) -> None:

    from nas.data.listing import (  # noqa: PLC0415 - slow to import, and not always needed
        accuracy_lines,
        chip_lines,
        device_lines,
        known_devices,
    )

    lines = list(accuracy_lines(space, folder))
    nothing = (
        f"space={space.name} has no accuracies and no latencies yet; `python -m nas.measure "
        f"space={space.name} board=<name>` times this machine"
    )
    _print([*device_lines(known_devices(space)), *lines] or [nothing])
    if isinstance(space, OnMicrocontroller):
        _print(
            ["P=, RAM= and flash= limit what is computed from the layers of each network: no table"]
        )
        _print(chip_lines(space))
    if not lines and isinstance(space, HasPublicData):
        raw, files = raw_folder(space, folder), space.public_data().files
        there = sum((raw / file.name).is_file() for file in files)
        line = f"no table of accuracies; {there} of {len(files)} public files are in {raw}"
        name = "" if space.name == _DEFAULT else f"{_SPACE}{space.name} "
        fetch = f"; `python -m nas.data {name}fetch` downloads what is public"
        _print([line + fetch * (there < len(files))])


def _verify(space: SearchSpace, folder: Path) -> None:
    from nas.data.verify import verify  # noqa: PLC0415 - slow to import, and not always needed

    failed = False
    for verdict in verify(space, folder):
        _print([verdict.line])
        failed |= not verdict.passed
    if failed:
        sys.exit(USER_ERROR)


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        add_result(line=line)
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
