"""Accuracy from `nb201_accuracy.csv`, the benchmark's numbers in the open layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from nas.accuracy.base import AccuracyConfig, Space, Split
from nas.accuracy.tabular import TabularAccuracy
from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from nas.spaces.nas_bench_201.training_length import FULL_EPOCHS, SHORT_EPOCHS, check_epochs
from runtime.network.task import Task
from runtime.shell.errors import UserError
from runtime.shell.keyed_table import ACCURACY_FILE, CsvTable, data_folder, read_csv_table

_IMPORT = "`python -m nas.data import FOLDER` makes it from the official archive"


def accuracy_column(task: Task, split: Split, epochs: int) -> str:
    """Name of a column of the accuracy table; its numbers are percent."""
    length = "" if epochs == FULL_EPOCHS else f"epoch{epochs}_"
    return f"{task.name}_{length}{split.value}"


@final
@dataclass
class TableAccuracyConfig(AccuracyConfig):
    """The table in the data folder; see `runtime.shell.keyed_table`."""

    def build(self, space: Space, task: Task, split: Split, epochs: int) -> TabularAccuracy:  # noqa: ARG002
        """Read the two columns: what is searched on, and the test accuracy beside it.

        After 12 epochs only validation accuracy is searched on; the test accuracy reported
        beside it stays that of 200 epochs. `auto` falls back to test where a file of 200 epochs
        has no validation accuracy.

        Raises:
          UserError: if the file or a column is missing, an accuracy is missing or lies outside
            0 to 100, or the file cannot answer for this split and these epochs.
        """
        check_epochs(epochs)
        if epochs == SHORT_EPOCHS and split is Split.test:
            raise UserError(
                f"epochs={epochs} is a signal to search on, of the validation split only; "
                f"choose split=valid, or epochs={FULL_EPOCHS}"
            )
        table = _read()
        searched = _chosen(table, task, split, epochs)
        column = accuracy_column(task, searched, epochs)
        return TabularAccuracy(
            source="table",
            description=_describe(table, column, epochs, split),
            split=searched,
            searched=_fractions(table, column),
            tested=_fractions(table, accuracy_column(task, Split.test, FULL_EPOCHS)),
        )


def _read() -> CsvTable:
    path = data_folder() / ACCURACY_FILE
    if not path.exists():
        raise UserError(
            f"there is no {path}; `python -m nas.data fetch` downloads its test accuracies (3 MB), "
            f"and {_IMPORT}"
        )
    return read_csv_table(path)


def _chosen(table: CsvTable, task: Task, split: Split, epochs: int) -> Split:
    if split is not Split.auto:
        return split
    has_valid = accuracy_column(task, Split.valid, epochs) in table.columns
    return Split.valid if has_valid or epochs == SHORT_EPOCHS else Split.test


def _describe(table: CsvTable, column: str, epochs: int, asked: Split) -> str:
    text = f"table: {table.path}, {column} after {epochs} epochs, mean over NATS-Bench's seeds"
    if not column.endswith(Split.test.value):
        return text
    why = " for want of validation accuracy" if asked is Split.auto else ""
    return f"{text}; searches on the test split{why}"


def _fractions(table: CsvTable, column: str) -> Float64[ndarray, "5 5 5 5 5 5"]:
    if column not in table.columns:
        raise UserError(
            f"{table.path} has no column {column!r}; {_IMPORT}{_instead(table, column)}"
        )
    percent = table.column(column)
    wrong = ~((percent >= 0) & (percent <= 100))
    if wrong.any():
        row = int(np.argmax(wrong))
        what = "is missing" if np.isnan(percent[row]) else f"is {percent[row]:g}, not 0 to 100"
        raise UserError(
            f"{table.path}: {column} of {NAS_BENCH_201.strings[row]} {what}; "
            f"remove the file, and fetch or import it again"
        )
    return table.grid(column) / 100


def _instead(table: CsvTable, column: str) -> str:
    on_test = f"{column.split('_', maxsplit=1)[0]}_{Split.test.value}"
    return "; or search with split=test epochs=200" if on_test in table.columns else ""
