"""`list`: which accuracies and which devices a search can use here, as tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from rich.table import Table

from nas.accuracy.base import HasAccuracyTable
from nas.data.devices_report import DeviceRow
from nas.spaces.base import SearchSpace
from runtime.shell.keyed_table import read_csv_table

_COLUMN = re.compile(r"(?P<dataset>[a-z0-9]+)_(epoch(?P<epochs>[0-9]+)_)?(?P<split>valid|test)")


@final
@dataclass(frozen=True)
class AccuracyRow:
    """One data set of one source."""

    source: str  # as in `accuracy=`
    dataset: str
    splits: tuple[str, ...]  # each with its epochs
    rows: int
    where: str  # below the data folder


def accuracy_rows(space: SearchSpace, folder: Path) -> Iterator[AccuracyRow]:
    """What the accuracy table in the data folder holds, a row for each task.

    Raises:
      UserError: if the table exists but cannot be read.
    """
    if not isinstance(space, HasAccuracyTable):
        return
    path = folder / space.accuracy_table.file
    if path.exists():
        table = read_csv_table(path, space)
        matches = [m for m in map(_COLUMN.fullmatch, table.columns) if m]
        for dataset in dict.fromkeys(m["dataset"] for m in matches):
            mine = [m for m in matches if m["dataset"] == dataset]
            splits = tuple(
                f"{m['split']} @ {m['epochs'] or space.accuracy_table.full_epochs}" for m in mine
            )
            filled = ~np.isnan([table.column(m.group()) for m in mine]).any(axis=0)
            yield AccuracyRow("table", dataset, splits, int(filled.sum()), path.name)


def accuracy_table(rows: Iterable[AccuracyRow]) -> Table:
    """One line a source and data set."""
    table = Table("accuracy", "data set", "split @ epochs", "cells", "in", title="Accuracy")
    for row in rows:
        cells = f"{row.rows:,}"
        table.add_row(row.source, row.dataset, ", ".join(row.splits), cells, row.where)
    return table


def devices_table(rows: Iterable[DeviceRow]) -> Table:
    """A device's id with its alias below it; flaws are numbered, and said once at the end."""
    table = Table(title="Devices", caption_justify="left")
    table.add_column("device, alias", overflow="fold", ratio=1)  # for copying, so whole
    for name in ("latency", "measured", "R2", "flaws"):
        table.add_column(name)
    number_of: dict[str, int] = {}
    for row in rows:
        numbers = [number_of.setdefault(flaw, len(number_of) + 1) for flaw in row.flaws]
        table.add_row(
            f"{row.device.id}\n  {row.device.column}",
            "\n".join(row.sources),
            "" if row.measured_count is None else f"{row.measured_count:,}",
            "" if row.quality is None else f"{row.quality.r2:.3f}",
            ", ".join(map(str, numbers)),
        )
    table.caption = "\n".join(f"{number}: {flaw}" for flaw, number in number_of.items()) or None
    return table
