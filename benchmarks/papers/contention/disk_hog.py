"""A hog of a disk, and its program."""

from __future__ import annotations

import math
import mmap
import os
import random
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from runtime.contention.hogs.control_page import MB
from runtime.contention.hogs.hog import Hog, HogContext, RunningHog
from runtime.contention.hogs.process_hogs import HogProcess, hog_arguments
from runtime.contention.hogs.python_hog import run_process

_DISK_PIECE = 2**20


@final
@dataclass(frozen=True)
class DiskHog(Hog):
    """Takes bandwidth of a disk, by direct reads of 1 MB that bypass the page cache."""

    name: str = field(default="disk", init=False)
    where: Path | None = None  # a folder on the disk; None: the folder of temporary files
    bytes: int = 2**28  # size of the anonymous file that it reads

    def start(self, context: HogContext, number: int) -> RunningHog:
        """Write the file, then read it in a loop."""
        where = self.where if self.where is not None else Path(tempfile.gettempdir())
        if not where.is_dir():
            raise ValueError(f"a disk hog needs a folder to write to, and {where} is not a folder")
        program = [sys.executable, "-m", "benchmarks.papers.contention.disk_hog"]
        arguments = hog_arguments(context, number, self.bytes, self.core)
        command = [*program, "disk", *arguments, str(where)]
        try:
            return HogProcess(command, context)
        except ValueError as error:
            raise ValueError(
                f"{error}; the file system of {where} may lack direct reads: choose another folder"
            ) from error


def _reads(_kind: str, size: int, where: str) -> tuple[Callable[[], object], int]:
    pieces = max(1, size // _DISK_PIECE)
    flags = os.O_RDWR | getattr(os, "O_DIRECT", 0)
    handle, name = tempfile.mkstemp(prefix="edgenas-hog-", dir=where)
    try:
        noise = random.Random(0).randbytes(MB)  # noqa: S311 - incompressible content
        for _ in range(math.ceil(pieces * _DISK_PIECE / MB)):
            os.write(handle, noise)
        os.fsync(handle)
        direct = os.open(name, flags)
    finally:
        os.close(handle)
        Path(name).unlink()
    buffer = mmap.mmap(-1, _DISK_PIECE)  # aligned, as direct reads require
    places = random.Random(0)  # noqa: S311 - order of reads

    def read() -> None:
        os.preadv(direct, [buffer], places.randrange(pieces) * _DISK_PIECE)

    read()  # raises here if the file system has no direct reads
    return read, _DISK_PIECE


if __name__ == "__main__":
    run_process(_reads)
