"""The calibration file: architectures to time on a new device, and their times.

A CSV file with the columns `arch` and `latency_ms` (or `latency_s`, `latency_us`, ...); others are ignored.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from edgenas_core.files.atomic_file import write_whole
from edgenas_core.files.csv_dialect import architecture_text, standard_rows
from edgenas_core.files.safe_file import read_bytes
from edgenas_core.files.time_unit import TimeUnit, to_ms
from edgenas_core.types.errors import UserError
from edgenas_core.types.units import require_ms
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
    write_whole(path, text.getvalue())


def read_calibration(
    path: Path, space: EnumerableSpace, unit: TimeUnit | None = None
) -> Calibration:
    """Read a file that was filled in.

    Raises:
      UserError: if the file is missing or lacks a column, an architecture is none or has two
        times, a time is missing or not positive, or there are too few to predict from.
    """
    architectures, latency_ms = read_timed(path, space, unit)
    try:
        return Calibration(space.numbers(architectures), latency_ms)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def read_timed(
    path: Path, space: Space, unit: TimeUnit | None = None
) -> tuple[Int64[ndarray, "n D"], Float64[ndarray, " n"]]:
    """Architectures of a file that was filled in, each once, and their milliseconds.

    Raises:
      UserError: if the file is missing, lacks a column or has no row, an architecture is none or has two
        times, or a time is missing or not positive.
    """
    row_of: dict[bytes, Int64[ndarray, "D"]] = {}
    taken: dict[bytes, float] = {}
    for line, arch, latency_ms in _lines(path, unit):
        where = f"{path}, line {line}"
        try:
            row = space.normal(space.parse(architecture_text(arch, space)))
        except UserError as error:
            raise UserError(f"{where}: {error}") from error
        if latency_ms is None:
            raise UserError(f"{where}: {arch} has no latency_ms; time it, or delete the line")
        require_ms(latency_ms, f"{where}: latency_ms of {arch} is")
        key = row.tobytes()
        row_of.setdefault(key, row)
        if taken.setdefault(key, latency_ms) != latency_ms:
            raise UserError(
                f"{where}: {arch} has {latency_ms:g} ms here and {taken[key]:g} ms before; "
                f"keep one of them, or their median"
            )
    rows = [*row_of.values()] or np.empty((0, len(space.num_choices)), np.int64)
    return np.array(rows), np.array(list(taken.values()))


def _lines(path: Path, unit: TimeUnit | None) -> Iterator[tuple[int, str, float | None]]:
    """(number of the line, architecture, milliseconds) of each line."""
    try:
        names, *rows = standard_rows(read_bytes(path), wide=False)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except UserError as error:
        raise UserError(f"{path} is no such table: {error}") from error
    of_times = [name for name in names if name.lower().startswith("latency")]
    if names.count("arch") != 1 or len(of_times) != 1:
        raise UserError(
            f"{path} needs the columns {' and '.join(_COLUMNS)}, each once; latency_s, latency_us, latency_ns and "
            f"latency_fps are other units"
        )
    arch, time = names.index("arch"), names.index(of_times[0])
    if "device" in names and len({row[names.index("device")] for row in rows}) > 1:
        raise UserError(f"{path} has times of several devices in its column 'device'; keep one's")
    values = [_time(row[time], f"{path}, line {line}") for line, row in enumerate(rows, start=2)]
    times_ms = to_ms(np.array(values), path, of_times[0], unit)
    for line, (row, ms) in enumerate(zip(rows, times_ms.tolist(), strict=True), start=2):
        yield line, row[arch], None if np.isnan(ms) else ms


def _time(field: str, where: str) -> float:
    try:
        return float(field or "nan")
    except ValueError:
        raise UserError(f"{where}: {field[:40]!r} is no time") from None
