"""Results of an experiment, as one JSON file that is replaced atomically."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any, final

import numpy as np

from edgenas_core.files.atomic_file import write_whole

SCHEMA = 1
"""Version of the file format; changed whenever a reader of older files would misread newer ones."""

Row = dict[str, Any]
"""One record of results: numbers and texts by name."""


@final
@dataclass
class PaperResults:
    """Rows, control runs and the circumstances of one experiment."""

    experiment: str
    settings: dict[str, Any]
    machine: dict[str, Any]
    rows: list[Row] = field(default_factory=list)
    controls: list[Row] = field(default_factory=list)
    """The control run and the machine's state before and after each step."""
    faults: list[Row] = field(default_factory=list)
    """Steps that raised an error, and the errors."""
    not_measured: list[str] = field(default_factory=list)
    """Steps that were not begun for lack of time."""
    cut_short: list[str] = field(default_factory=list)
    """Steps that were shortened for lack of time: fewer rounds, or parts left out."""
    is_complete: bool = False

    def write(self, path: Path) -> None:
        """Replace the file.

        Raises:
          OSError: if it cannot be written; the file is unchanged.
        """
        write_whole(path, self.json())

    def json(self) -> str:
        """The content of the file; numbers that are not finite become null."""
        content = {"schema": SCHEMA, **vars(self)}
        return json.dumps(_finite(content), indent=1, allow_nan=False) + "\n"


def summary(samples: list[float]) -> Row:
    """Median and spread, as `ms`, `low_ms` and `high_ms` (quartiles), and every sample."""
    low, _, high = quantiles(samples, n=4, method="inclusive") if len(samples) > 1 else samples * 3
    return {
        "ms": round(median(samples), 4),
        "low_ms": round(low, 4),
        "high_ms": round(high, 4),
        "samples_ms": [round(sample, 4) for sample in samples],
    }


def grouped(rows: Iterable[Row], *columns: str) -> dict[tuple[Any, ...], list[Row]]:
    """Rows by their values in these columns; groups in the order of their first rows."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in columns), []).append(row)
    return groups


def _finite(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return value
