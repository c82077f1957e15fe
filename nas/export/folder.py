"""The folder of an export: all of its files, or none of them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from nas.search.interruption import Interruption
from runtime.network.task import Task
from runtime.shell.errors import UserError

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
    if not any(out.iterdir()):
        return
    record = out / RECORD
    if not record.is_file():
        raise UserError(f"out={out} holds other files; name another folder with out=")
    try:
        before = json.loads(record.read_text(encoding="utf-8"))
        held = (str(before["architecture"]["arch"]), str(before["space"]), str(before["dataset"]))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(
            f"{record} is not the record of an export; name another folder with out="
        ) from error
    if held != (arch, space, task.name):
        raise UserError(
            f"out={out} holds the export of another network, {held[0]} of {held[1]} for {held[2]}; "
            f"name another folder with out=, or remove that one"
        )


@contextmanager
def filling(out: Path) -> Iterator[Path]:
    """A folder to write in, whose files are in `out` when the block ends without an error.

    They replace files of the same names; others that are in `out`, such as a TensorRT engine,
    stay. After an error nothing is left behind and `out` is as it was.

    Raises:
      OSError: if it cannot be written.
    """
    is_new = not out.is_dir()
    name = f"{out.name}.{uuid4().hex[:8]}.tmp"
    staged = out.with_name(name) if is_new else out / name
    staged.mkdir(parents=True)
    try:
        yield staged
        with Interruption():  # between two of these a Ctrl-C would leave files of two exports
            if is_new:
                staged.rename(out)
            else:
                for file in sorted(staged.iterdir(), key=lambda file: file.name == RECORD):
                    file.replace(out / file.name)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
