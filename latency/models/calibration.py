"""The calibration file: architectures to time on a new device, and their times.

A CSV file with the columns `arch` and `latency_ms`; others are ignored.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from common.files.atomic_file import replacing
from common.files.safe_file import read_text
from common.types.errors import UserError
from common.types.units import require_ms
from latency.base import EnumerableSpace, Space
from latency.models.process import FEWEST_NETWORKS

_COLUMNS = ("arch", "latency_ms")


@final
@dataclass(frozen=True)
class Calibration:
    """Calibration networks, each once: number of the architecture, and milliseconds."""

    index: Int64[ndarray, " n"]
    latency_ms: Float64[ndarray, " n"]

    def __post_init__(self) -> None:
        """Check that they are enough to predict from.

        Raises:
          UserError: if they are too few, or all took the same time.
        """
        if len(self.index) < FEWEST_NETWORKS:
            raise UserError(
                f"{len(self.index)} calibration networks, but at least {FEWEST_NETWORKS} are needed and 10 "
                f"are good; `python -m nas.transfer choose=10 out=<file>` names some"
            )
        if (self.latency_ms == self.latency_ms[0]).all():
            raise UserError(
                f"every calibration network took {self.latency_ms[0]:g} ms, so that no two can be ordered; "
                f"time them with a finer clock"
            )


def write_calibration(path: Path, space: Space, architectures: Int64[ndarray, "n D"]) -> None:
    """Write a file whose times are still to be filled in.

    Raises:
      UserError: if there is a file already: it may hold times.
      OSError: if it cannot be written.
    """
    if path.exists():
        raise UserError(f"{path} is there already and may hold times; name another file with out=")
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows([space.text(row), ""] for row in architectures)
    with replacing(path) as file:
        file.write(text.getvalue().encode())


def read_calibration(path: Path, space: EnumerableSpace) -> Calibration:
    """Read a file that was filled in.

    Raises:
      UserError: if the file is missing or lacks a column, an architecture is none or has two
        times, a time is missing or not positive, or there are too few to predict from.
    """
    architectures, latency_ms = read_timed(path, space)
    try:
        return Calibration(space.numbers(architectures), latency_ms)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def read_timed(path: Path, space: Space) -> tuple[Int64[ndarray, "n D"], Float64[ndarray, " n"]]:
    """Architectures of a file that was filled in, each once, and their milliseconds.

    Raises:
      UserError: if the file is missing, lacks a column or has no row, an architecture is none or has two
        times, or a time is missing or not positive.
    """
    taken: dict[bytes, float] = {}
    rows = []
    for where, arch, text in _rows(path):
        row = _architecture(arch, where, space)
        latency_ms = _milliseconds(text, arch, where)
        key = row.tobytes()
        if key not in taken:
            rows.append(row)
        if taken.setdefault(key, latency_ms) != latency_ms:
            raise UserError(
                f"{where}: {arch} has {latency_ms:g} ms here and {taken[key]:g} ms before; "
                f"keep one of them, or their median"
            )
    empty = np.empty((0, len(space.num_choices)), np.int64)
    return np.stack(rows) if rows else empty, np.array(list(taken.values()))


def _rows(path: Path) -> list[tuple[str, str, str]]:
    """(place in the file, architecture, time) of each line."""
    try:
        text = read_text(path, encoding="utf-8-sig")
        reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        rows = [(reader.line_num, row) for row in reader]
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except csv.Error as error:
        raise UserError(f"{path} is no CSV file: {error}") from error
    devices = sorted({row.get("device") or "" for _, row in rows})
    if len(devices) > 1:
        raise UserError(
            f"{path} has times of several devices in its column 'device' ({', '.join(devices)}); "
            f"keep those of one"
        )
    names = tuple(reader.fieldnames or ())
    if any(names.count(name) != 1 for name in _COLUMNS):
        raise UserError(
            f"{path} has the columns {', '.join(names) or '(none)'}; a file of calibration "
            f"networks has {' and '.join(_COLUMNS)}, each once"
        )
    longer = next((line for line, row in rows if None in row), None)  # csv's key for further fields
    if longer is not None:
        raise UserError(
            f"{path}, line {longer}: more fields than columns ({', '.join(names)}); a decimal comma is not "
            f"allowed"
        )
    return [
        (f"{path}, line {line}", row["arch"] or "", row["latency_ms"] or "") for line, row in rows
    ]


def _architecture(arch: str, where: str, space: Space) -> Int64[ndarray, "D"]:
    try:
        return space.normal(space.parse(arch))
    except UserError as error:
        raise UserError(f"{where}: {error}") from error


def _milliseconds(text: str, arch: str, where: str) -> float:
    if not text.strip():
        raise UserError(f"{where}: {arch} has no latency_ms; time it, or delete the line")
    try:
        time: float | str = float(text)
    except ValueError:
        time = repr(text.strip())
    return float(require_ms(time, f"{where}: latency_ms of {arch} is"))
