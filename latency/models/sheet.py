"""The sheet of probes: which architectures to time on a new device, and what came out.

A CSV file with the columns `arch` (the benchmark's string) and `latency_ms`; others are passed over.
"""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from latency.models.process import FEWEST_PROBES
from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from runtime.shell.atomic_file import replacing
from runtime.shell.errors import UserError

_COLUMNS = ("arch", "latency_ms")


@final
@dataclass(frozen=True)
class Probes:
    """Architectures by their official numbers, each once, and their milliseconds."""

    index: Int64[ndarray, " probes"]
    latency_ms: Float64[ndarray, " probes"]

    def __post_init__(self) -> None:
        """Checks that something can be predicted from them.

        Raises:
          UserError: if they are too few, or all took the same time.
        """
        if len(self.index) < FEWEST_PROBES:
            raise UserError(
                f"{len(self.index)} probes, but at least {FEWEST_PROBES} are needed and 10 are "
                f"good; `python -m nas.transfer choose=10 out=<file>` names some"
            )
        if (self.latency_ms == self.latency_ms[0]).all():
            raise UserError(
                f"every probe took {self.latency_ms[0]:g} ms, which tells no two of them apart; "
                f"time them with a finer clock"
            )


def write_sheet(path: Path, index: Int64[ndarray, " probes"]) -> None:
    """Write a sheet whose times are still to be filled in.

    Raises:
      UserError: if there is a file already: it may hold times.
      OSError: if it cannot be written.
    """
    if path.exists():
        raise UserError(f"{path} is there already and may hold times; name another file with out=")
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows([NAS_BENCH_201.strings[i], ""] for i in index.tolist())
    with replacing(path) as file:
        file.write(text.getvalue().encode())


def read_probes(path: Path) -> Probes:
    """Read a sheet that was filled in.

    Raises:
      UserError: if the file is missing or is no such sheet, an architecture is none or has two
        times, a time is missing or not positive, or there are too few to predict from.
    """
    taken: dict[int, float] = {}
    for where, arch, text in _rows(path):
        index = int(NAS_BENCH_201.numbers(_architecture(arch, where)))
        latency_ms = _milliseconds(text, arch, where)
        if taken.setdefault(index, latency_ms) != latency_ms:
            raise UserError(
                f"{where}: {arch} has {latency_ms:g} ms here and {taken[index]:g} ms before; "
                f"keep one of them, or their median"
            )
    try:
        return Probes(np.array(list(taken), np.int64), np.array(list(taken.values())))
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def _rows(path: Path) -> list[tuple[str, str, str]]:
    """(where it stands, architecture, time) of each line."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        reader = csv.DictReader(text.splitlines(), strict=True)
        rows = [(reader.line_num, row) for row in reader]
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
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
            f"{path} has the columns {', '.join(names) or '(none)'}; a sheet of probes has "
            f"{' and '.join(_COLUMNS)}, each once"
        )
    return [
        (f"{path}, line {line}", row["arch"] or "", row["latency_ms"] or "") for line, row in rows
    ]


def _architecture(arch: str, where: str) -> Int64[ndarray, "6"]:
    try:
        return NAS_BENCH_201.parse(arch)
    except UserError as error:
        raise UserError(f"{where}: {error}") from error


def _milliseconds(text: str, arch: str, where: str) -> float:
    if not text.strip():
        raise UserError(f"{where}: {arch} has no latency_ms; time it, or delete the line")
    try:
        latency_ms = float(text)
    except ValueError:
        latency_ms = math.nan
    if not 0 < latency_ms < math.inf:
        raise UserError(
            f"{where}: latency_ms of {arch} is {text.strip()!r}; a latency is a positive number of "
            f"milliseconds"
        )
    return latency_ms
