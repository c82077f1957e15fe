"""Files of lines that grow while a program runs: a kill may cut off the last line, and spoils no other."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from edgenas_core.files.atomic_file import naming
from edgenas_core.files.safe_file import opened

_LONGEST = 2**24
"""Bytes of a line; a batch of 100,000 architectures has fewer."""


def complete_lines(path: Path, most: int | None = None) -> Iterator[bytes]:
    """The lines of a file with their ends, without one that was cut off.

    Args:
      path: the file.
      most: bytes that are read at most; by default all of the file, a line at a time.

    Raises:
      UserError: if it is no regular file.
      OSError: if it cannot be read.
      ValueError: if a line is too long, or the file.
    """
    total = 0
    with opened(path) as file:
        while (line := file.readline(_LONGEST)).endswith(b"\n"):
            total += len(line)
            if most is not None and total > most:
                raise ValueError(f"it is larger than {most:,} bytes")
            yield line
    if len(line) == _LONGEST:
        raise ValueError("one of its lines has no end")


def append_lines(path: Path, text: str) -> None:
    """Add lines, and hand them to the operating system.

    One write in append mode takes all of them, so that two processes do not mix theirs; more follow only where it
    falls short, as on a full disk.

    Raises:
      OSError: if they cannot be written; its `filename` is set.
    """
    with naming(path), path.open("ab", buffering=0) as file:
        left = memoryview(text.encode())
        while left:
            left = left[file.write(left) :]


def cut_lines(path: Path, count: int | None = None) -> None:
    """Keep the first lines of a file, by default all complete ones; nothing is written anew that a kill could lose."""
    if path.exists():
        os.truncate(path, sum(map(len, islice(complete_lines(path), count))))
