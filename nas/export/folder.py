"""The folder of an export: all of its files, or none of them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import final

from edgenas_core.command.interruption import Interruption
from edgenas_core.files.atomic_file import naming
from edgenas_core.files.file_lock import held
from edgenas_core.files.typed_json import read_json
from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task

BOARD = "board"
"""Folder within an export: the sketch for a microcontroller."""

RECORD = "export.json"
"""The file that makes a folder an export; it takes its place last."""


def require_place(out: Path, arch: str, space: str, task: Task) -> None:
    """Refuse to write over anything but an earlier export of the same network.

    Raises:
      UserError: if something else is there.
    """
    if not out.exists():
        return
    if not out.is_dir():
        raise UserError(f"out={out} is a file; name a folder with out=")
    if all(path.name == _work_name(out) for path in out.iterdir()):
        return
    record = out / RECORD
    if not record.is_file():
        raise UserError(f"out={out} holds other files; name another folder with out=")
    try:
        earlier = read_json(record, _Earlier)
    except (OSError, ValueError) as error:
        raise UserError(
            f"{record} is not the record of an export; name another folder with out="
        ) from error
    network = (earlier.architecture.arch, earlier.space, earlier.dataset)
    if network != (arch, space, task.name):
        raise UserError(
            f"out={out} holds the export of another network, {network[0]} of {network[1]} for "
            f"{network[2]}; name another folder with out=, or remove that one"
        )


@final
@dataclass(frozen=True)
class _Arch:
    arch: str


@final
@dataclass(frozen=True)
class _Earlier:
    """The part of the record of every version that says which network it is."""

    architecture: _Arch
    space: str
    dataset: str


@final
@dataclass(frozen=True)
class _Files:
    sha256: dict[str, str]  # of each file, by name


@contextmanager
def filling(out: Path) -> Iterator[Path]:
    """A folder to write in, whose files are in `out` when the block ends without an error.

    They replace the files of an earlier export; others that are in `out`, such as a TensorRT engine,
    stay. After an error nothing is left behind and `out` is as it was; what a killed process left is
    removed. Python's temporary files lie in a folder of their own while the block runs, which has a short path: those
    of sockets, which workers of data loaders open there, end at 107 characters.

    Raises:
      UserError: if another process writes an export there.
      OSError: if it cannot be written.
    """
    is_new = not out.is_dir()
    work = (out.parent if is_new else out) / _work_name(out)
    work.mkdir(parents=True, exist_ok=True)
    lock, staged = work / "lock", work / "files"
    lock.touch()
    usual = tempfile.tempdir
    with (
        held(lock),
        tempfile.TemporaryDirectory("-edgenas", ignore_cleanup_errors=True) as temporary,
    ):
        try:
            shutil.rmtree(staged, ignore_errors=True)
            staged.mkdir()
            tempfile.tempdir = temporary
            with naming(out):
                yield staged
            with Interruption():  # between two of these a Ctrl-C would leave files of two exports
                if is_new:
                    staged.rename(out)
                else:
                    _remove_former(out, staged)
                    for file in sorted(staged.iterdir(), key=lambda file: file.name == RECORD):
                        if file.is_dir():
                            shutil.rmtree(out / file.name, ignore_errors=True)
                        file.replace(out / file.name)
        finally:
            tempfile.tempdir = usual
            shutil.rmtree(work, ignore_errors=True)


def _work_name(out: Path) -> str:
    """Name of the folder that is there while an export is written, beside a new one or in it."""
    return f"{out.name}.edgenas.tmp"


def _remove_former(out: Path, staged: Path) -> None:
    """Remove files of an earlier export that the new one lacks, such as another precision."""
    try:
        former = read_json(out / RECORD, _Files).sha256
    except (OSError, ValueError):
        return
    for name in former:
        is_ours = Path(name).name == name or Path(name).parent == Path(BOARD)
        if is_ours and Path(name).name != ".." and not (staged / name).exists():
            (out / name).unlink(missing_ok=True)
    with suppress(OSError):  # one that holds files of the user's stays
        if not (staged / BOARD).exists():
            (out / BOARD).rmdir()
