"""Writing the tables that come with a search space, as `latency.devices.bundled` reads them."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable
from io import TextIOWrapper
from typing import BinaryIO

COLUMNS = ("index", "median_ms", "p95_ms", "p99_ms")

DIGITS = 5
"""Decimal digits of a millisecond that are stored: 10 ns, below the resolution of the clocks."""


def write_bundled(file: BinaryIO, rows: Iterable[tuple[int, float, float, float]]) -> None:
    """Store times, in the order of the index; the same times make the same bytes."""
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed,
        TextIOWrapper(packed, encoding="utf-8", newline="") as text,
    ):
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        for index, *times_ms in sorted(rows):
            writer.writerow([index, *(f"{ms:.{DIGITS}f}" for ms in times_ms)])
