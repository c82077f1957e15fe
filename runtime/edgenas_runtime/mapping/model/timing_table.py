"""Timing tables: the time of each network in each configuration of a platform, as CSV.

One line per pair: `network,configuration,min_ms,mean_ms,max_ms`, or one column `ms` if only a single
number is known. A network cannot run in a configuration whose times are empty or missing. Other
columns are ignored. The format is table 5.1 of R. Pujol Torramorell (MSc thesis, UPC/BSC, 2020).

Bundled is an NVIDIA Jetson AGX Xavier running the networks of Apollo 3.0, of its tables 2.1 and 5.1. The
printed bounds are the means of its figure 4.5 minus and plus 15 %; the means here are read from the
figure, to 0.1 ms.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from importlib.resources import as_file, files
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from edgenas_core.files.safe_file import read_text
from edgenas_core.types.units import LEAST_MS, MOST_MS
from edgenas_runtime.mapping.model.platform_description import Platform, read_platform

COLUMNS = ("network", "configuration", "min_ms", "mean_ms", "max_ms")

XAVIER = "xavier"

_NAMES = COLUMNS[:2]
_MOST_PAIRS = 10**6


class Bound(Enum):
    """Choice among the three times of a pair."""

    min = "min"
    mean = "mean"
    max = "max"  # needed for a guarantee


@final
@dataclass(frozen=True)
class TimingTable:
    """Times of networks by configuration; NaN where a network cannot run."""

    networks: tuple[str, ...]
    configurations: tuple[str, ...]
    ms: Float64[ndarray, "networks configurations 3"]
    """Minimum, mean and maximum."""

    def of(self, bound: Bound) -> Float64[ndarray, "networks configurations"]:
        """Return one of the three times, milliseconds."""
        times_ms: Float64[ndarray, "networks configurations"]
        times_ms = self.ms[:, :, [*Bound].index(bound)]
        return times_ms

    def chosen(self, networks: Sequence[str]) -> TimingTable:
        """Return the table of the named networks; a network named twice runs twice.

        Raises:
          ValueError: if a network is not in the table.
        """
        unknown = [name for name in networks if name not in self.networks]
        if unknown:
            raise ValueError(
                f"networks={','.join(unknown)} must be in the timing table, which has "
                f"{', '.join(self.networks)}"
            )
        rows = [self.networks.index(name) for name in networks]
        return TimingTable(tuple(networks), self.configurations, self.ms[rows])


def read_timing_table(path: Path) -> TimingTable:
    """Read a timing table.

    Raises:
      OSError: if it cannot be read.
      ValueError: naming the line, if it is not a valid table.
    """
    try:
        text = read_text(path)
        reader = csv.DictReader(io.StringIO(text, newline=""))
        header = reader.fieldnames or []
        lines = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise ValueError(f"{path} is not a CSV file: {error}") from error
    times = ("ms",) * 3 if "ms" in header else COLUMNS[2:]
    missing = [name for name in (*_NAMES, *dict.fromkeys(times)) if name not in header]
    if missing:
        raise ValueError(
            f"{path} has no column {', '.join(missing)}; a timing table has the columns "
            f"{', '.join(COLUMNS)}, or ms for the last three"
        )
    by_pair: dict[tuple[str, str], tuple[float, ...]] = {}
    for number, row in lines:
        where = f"{path}, line {number}"
        if None in row:  # csv's key for fields beyond the header
            raise ValueError(
                f"{where}: more fields than columns ({', '.join(header)}); decimal commas are not "
                "allowed"
            )
        pair = tuple((row[name] or "").strip() for name in _NAMES)
        if not all(pair):
            raise ValueError(f"{where}: network and configuration must not be empty")
        if pair in by_pair:
            raise ValueError(f"{where}: {' in '.join(pair)} is given twice")
        by_pair[pair[0], pair[1]] = _times([row[name] or "" for name in times], where)
    if not by_pair:
        raise ValueError(f"{path} has no lines of times")
    return _table(by_pair)


def _times(texts: Sequence[str], where: str) -> tuple[float, ...]:
    if not any(text.strip() for text in texts):
        return (math.nan,) * 3
    try:
        times = tuple(float(text) for text in texts)
    except ValueError:
        times = (math.nan,)
    if not all(LEAST_MS <= time <= MOST_MS for time in times) or list(times) != sorted(times):
        raise ValueError(
            f"{where}: {', '.join(texts)} must be minimum, mean and maximum in milliseconds, between "
            f"{LEAST_MS:g} and {MOST_MS:g}, or all empty if the network cannot run"
        )
    return times


def _table(by_pair: dict[tuple[str, str], tuple[float, ...]]) -> TimingTable:
    networks = tuple(dict.fromkeys(network for network, _ in by_pair))
    configurations = tuple(dict.fromkeys(configuration for _, configuration in by_pair))
    if len(networks) * len(configurations) > _MOST_PAIRS:
        raise ValueError(
            f"{len(networks):,} networks in {len(configurations):,} configurations are more than the "
            f"{_MOST_PAIRS:,} pairs that can be mapped"
        )
    ms = np.full((len(networks), len(configurations), 3), np.nan)
    rows, columns = (
        {name: i for i, name in enumerate(names)} for names in (networks, configurations)
    )
    for (network, configuration), times in by_pair.items():
        ms[rows[network], columns[configuration]] = times
    return TimingTable(networks, configurations, ms)


def xavier_platform() -> Platform:
    """Return the units and configurations of the Xavier."""
    with as_file(files("edgenas_runtime.mapping.model") / "xavier.yaml") as path:
        return read_platform(path)


def xavier_times() -> TimingTable:
    """Return the times of the seven printed networks; the table lacks `DNN2`, a detector."""
    with as_file(files("edgenas_runtime.mapping.model") / "xavier.csv") as path:
        return read_timing_table(path)
