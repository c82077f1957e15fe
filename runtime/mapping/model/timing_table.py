"""Execution long each network takes in each configuration of a platform, as a CSV file.

One line a pair: `network,configuration,min_ms,mean_ms,max_ms`, or one column `ms` where a single
number is known. A pair whose times are empty, or that is not there, is not supported. Other columns
are the reader's own. It is table 5.1 of R. Pujol Torramorell (MSc thesis, UPC/BSC, 2020).
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

COLUMNS = ("network", "configuration", "min_ms", "mean_ms", "max_ms")

_NAMES = COLUMNS[:2]


class Bound(Enum):
    """Which of a pair's times counts."""

    min = "min"
    mean = "mean"
    max = "max"  # what a guarantee needs


@final
@dataclass(frozen=True)
class TimingTable:
    """Times of networks, nan where a network cannot run."""

    networks: tuple[str, ...]
    configurations: tuple[str, ...]
    ms: Float64[ndarray, "networks configurations 3"]
    """Least, mean and most."""

    def of(self, bound: Bound) -> Float64[ndarray, "networks configurations"]:
        """One of the three, milliseconds."""
        times_ms: Float64[ndarray, "networks configurations"]
        times_ms = self.ms[:, :, [*Bound].index(bound)]
        return times_ms

    def chosen(self, networks: Sequence[str]) -> TimingTable:
        """Some of the networks; one that is named twice runs twice.

        Raises:
          ValueError: if one is not in the table.
        """
        unknown = [name for name in networks if name not in self.networks]
        if unknown:
            raise ValueError(
                f"networks={','.join(unknown)} not in the timing table; "
                f"it has {', '.join(self.networks)}"
            )
        rows = [self.networks.index(name) for name in networks]
        return TimingTable(tuple(networks), self.configurations, self.ms[rows])


def read_timing_table(path: Path) -> TimingTable:
    """A file of times.

    Raises:
      OSError: if it cannot be read.
      ValueError: naming the line, if it is not such a table.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            header = reader.fieldnames or []
            lines = [(reader.line_num, row) for row in reader]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} is not a CSV file: {error}") from error
    times = ("ms",) * 3 if "ms" in header else COLUMNS[2:]
    missing = [name for name in (*_NAMES, *dict.fromkeys(times)) if name not in header]
    if missing:
        raise ValueError(
            f"{path} has no column {', '.join(missing)}; a timing table has the columns "
            f"{', '.join(COLUMNS)}, or ms for the last three"
        )
    found: dict[tuple[str, str], tuple[float, ...]] = {}
    for number, row in lines:
        where = f"{path}, line {number}"
        if None in row:  # what csv calls the fields beyond the header's
            raise ValueError(
                f"{where}: more fields than columns ({', '.join(header)}); is a decimal point a comma?"
            )
        pair = tuple((row[name] or "").strip() for name in _NAMES)
        if not all(pair):
            raise ValueError(f"{where}: network and configuration must both have a name")
        if pair in found:
            raise ValueError(f"{where}: {' in '.join(pair)} is there twice")
        found[pair[0], pair[1]] = _times([row[name] or "" for name in times], where)
    if not found:
        raise ValueError(f"{path} holds no times")
    return _table(found)


def _times(texts: Sequence[str], where: str) -> tuple[float, ...]:
    if not any(text.strip() for text in texts):
        return (math.nan,) * 3
    try:
        times = tuple(float(text) for text in texts)
    except ValueError:
        times = (math.nan,)
    if not all(0 < time < math.inf for time in times) or list(times) != sorted(times):
        raise ValueError(
            f"{where}: {', '.join(texts)} must be milliseconds above 0, least, mean and most, or "
            f"all empty where the network cannot run"
        )
    return times


def _table(found: dict[tuple[str, str], tuple[float, ...]]) -> TimingTable:
    networks = tuple(dict.fromkeys(network for network, _ in found))
    configurations = tuple(dict.fromkeys(configuration for _, configuration in found))
    ms = np.full((len(networks), len(configurations), 3), np.nan)
    for (network, configuration), times in found.items():
        ms[networks.index(network), configurations.index(configuration)] = times
    return TimingTable(networks, configurations, ms)


def csv_text(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table as the text of a file."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows((header, *rows))
    return text.getvalue()
