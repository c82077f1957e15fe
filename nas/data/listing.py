"""`list`: which accuracies and which devices a search can use here, as tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, final

import numpy as np
from rich.table import Table

from nas.accuracy.base import Dataset, Split
from nas.accuracy.training_length import FULL_EPOCHS, SHORT_EPOCHS
from nas.archive import FOLDER_NAME, NatsArchive
from nas.csv_tables import ACCURACY_FILE, read_csv_table
from nas.search_space import NAS_BENCH_201

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

_ARCHIVE_SPLITS = tuple(
    f"{split.value} @ {epochs}"
    for epochs in (FULL_EPOCHS, SHORT_EPOCHS)
    for split in (Split.valid, Split.test)
)
_COLUMN = re.compile(r"(?P<dataset>[a-z0-9]+)_(epoch(?P<epochs>[0-9]+)_)?(?P<split>valid|test)")


@final
@dataclass(frozen=True)
class AccuracyRow:
    """One data set of one source."""

    source: str  # as in `accuracy=`
    dataset: str
    splits: tuple[str, ...]  # each with its epochs
    rows: int  # of 15,625
    where: str  # below the data folder


class DeviceEntry(Protocol):
    """One device as the list shows it."""

    @property
    def id(self) -> str:
        """Board / runtime / precision / batch."""

    @property
    def alias(self) -> str:
        """The name in its source's files."""

    @property
    def sources(self) -> Sequence[str]:
        """As in `latency=`."""

    @property
    def measured(self) -> int:
        """Cells of 15,625."""

    @property
    def quality(self) -> str:
        """How good what is not measured is."""

    @property
    def flaws(self) -> Sequence[str]:
        """Known of the measurements."""


def accuracy_rows(folder: Path) -> Iterator[AccuracyRow]:
    """What the data folder holds: the accuracy table, and the official archive inside it.

    Raises:
      UserError: if one of them is there but cannot be read.
    """
    path = folder / ACCURACY_FILE
    if path.exists():
        table = read_csv_table(path)
        matches = [m for m in map(_COLUMN.fullmatch, table.columns) if m]
        for dataset in dict.fromkeys(m["dataset"] for m in matches):
            mine = [m for m in matches if m["dataset"] == dataset]
            splits = tuple(f"{m['split']} @ {m['epochs'] or FULL_EPOCHS}" for m in mine)
            filled = ~np.isnan([table.column(m.group()) for m in mine]).any(axis=0)
            yield AccuracyRow("table", dataset, splits, int(filled.sum()), path.name)
    archive_folder = folder / FOLDER_NAME
    if archive_folder.is_dir():
        archive = NatsArchive(archive_folder)
        held = sum(archive.has(index) for index in range(NAS_BENCH_201.size))
        yield from (
            AccuracyRow("nats", dataset.value, _ARCHIVE_SPLITS, held, FOLDER_NAME)
            for dataset in Dataset
        )


def accuracy_table(rows: Iterable[AccuracyRow]) -> Table:
    """One line a source and data set."""
    table = Table("accuracy", "data set", "split @ epochs", "cells", "in", title="Accuracy")
    for row in rows:
        cells = f"{row.rows:,}"
        table.add_row(row.source, row.dataset, ", ".join(row.splits), cells, row.where)
    return table


def devices_table(rows: Iterable[DeviceEntry]) -> Table:
    """One line a device."""
    table = Table("device", "alias", "latency", "measured", "quality", "flaws", title="Devices")
    for row in rows:
        table.add_row(
            row.id,
            row.alias,
            ", ".join(row.sources),
            f"{row.measured:,}",
            row.quality,
            "; ".join(row.flaws),
        )
    return table
