"""`accuracy=table`, a benchmark's accuracies in the data folder, `surrogate`, a space's model, and `auto`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from edgenas_core.files.keyed_table import CsvTable, data_folder, read_csv_table
from edgenas_core.types.architectures import Keys
from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from edgenas_core.types.task import Task
from latency.base import EnumerableSpace
from nas.accuracy.base import (
    Accuracy,
    AccuracyConfig,
    AccuracyTable,
    HasAccuracyTable,
    HasSurrogate,
    Split,
)
from nas.accuracy.own import own_accuracy, own_column
from nas.accuracy.tabular import TabularAccuracy


@final
@dataclass
class AutoAccuracyConfig(AccuracyConfig):
    """A column of your own accuracies, else the benchmark's table, if its file is there, else the embedded model."""

    def build(self, space: Keys, task: Task, split: Split, epochs: int) -> Accuracy:
        """Choose the source and open it.

        Raises:
          UserError: if the chosen source has no such answers.
        """
        has_table = own_column(space) is not None or (
            isinstance(space, HasAccuracyTable) and table_path(space).is_file()
        )
        chosen = TableAccuracyConfig() if has_table else SurrogateAccuracyConfig()
        return chosen.build(space, task, split, epochs)


@final
@dataclass
class TableAccuracyConfig(AccuracyConfig):
    """The table in the data folder; see `edgenas_core.files.keyed_table`."""

    def build(self, space: Keys, task: Task, split: Split, epochs: int) -> TabularAccuracy:
        """Read a column of the user's own, or two: the searched accuracy, and the test accuracy for reports.

        After a shorter training only the validation accuracy is searched on; the test accuracy
        reported beside it is that of the full training. `auto` becomes `test` if the table has no
        validation accuracy after the full training.

        Raises:
          UserError: if the space has no table, the file or a column is missing, an accuracy is
            missing or lies outside 0 to 100, or the table has no such split after these epochs.
        """
        own = own_column(space)
        if own is not None:
            assert isinstance(space, EnumerableSpace)
            return own_accuracy(space, own, task, split, epochs)
        return self.of_benchmark(space, task, split, epochs)

    @staticmethod
    def of_benchmark(space: Keys, task: Task, split: Split, epochs: int) -> TabularAccuracy:
        """Read the benchmark's accuracies, whatever columns the user has.

        Raises:
          UserError: as `build`.
        """
        if not isinstance(space, HasAccuracyTable):
            raise UserError(
                f"accuracy=table: space={space.name} has no table of accuracies; choose another "
                f"source"
            )
        layout = space.accuracy_table
        layout.check_epochs(epochs)
        is_short = epochs != layout.full_epochs
        if is_short and split is Split.test:
            raise UserError(
                f"epochs={epochs} has accuracies of the validation split only; choose split=valid, "
                f"or epochs={layout.full_epochs}"
            )
        table = _read(space)
        searched = split
        if split is Split.auto:
            has_valid = layout.column(task, Split.valid, epochs) in table.columns
            searched = Split.valid if has_valid or is_short else Split.test
        column = layout.column(task, searched, epochs)
        description = (
            f"table: {table.path}, {column} after {epochs} epochs, mean over {layout.benchmark}'s "
            f"seeds"
        )
        if searched is Split.test:
            why = " because the table has no validation accuracy" if split is Split.auto else ""
            description += f"; searches on the test split{why}"
        tested = layout.column(task, Split.test, layout.full_epochs)
        return TabularAccuracy(
            space,
            source="table",
            description=description,
            kind=Kind.measured,
            split=searched,
            searched=_fractions(space, table, column, tested),
            tested=_fractions(space, table, tested, tested),
        )


@final
@dataclass
class SurrogateAccuracyConfig(AccuracyConfig):
    """The model that is embedded in a space; no settings."""

    def build(self, space: Keys, task: Task, split: Split, epochs: int) -> Accuracy:
        """The space's own model.

        Raises:
          UserError: if the space has none, or it does not know this split or length of training.
        """
        if not isinstance(space, HasSurrogate):
            raise UserError(
                f"accuracy=surrogate: space={space.name} has no embedded model of accuracy; choose "
                f"another source, or train on your data: python -m nas.fit data=<folder>"
            )
        return space.surrogate(task, split, epochs)


def training_seconds(
    space: HasAccuracyTable, task: Task, epochs: int
) -> Float64[ndarray, "size"] | None:
    """Seconds of one training of each architecture, or None if the table does not have them.

    Raises:
      UserError: if the table cannot be read.
    """
    if epochs != space.accuracy_table.full_epochs:
        return None
    table = _read(space)
    column = f"{task.name}_train_s"
    return table.column(column) if column in table.columns else None


def table_path(space: HasAccuracyTable) -> Path:
    """File of a space's accuracies, whether or not it exists.

    Raises:
      UserError: if `NAS_DATA` names no folder.
    """
    return data_folder() / space.accuracy_table.file


def _read(space: HasAccuracyTable) -> CsvTable:
    path = table_path(space)
    if not path.exists():
        raise UserError(f"there is no {path}; {space.accuracy_table.origin}")
    return read_csv_table(path, space)


def _fractions(
    space: HasAccuracyTable, table: CsvTable, column: str, tested: str
) -> Float64[ndarray, "size"]:
    layout: AccuracyTable = space.accuracy_table
    if column not in table.columns:
        instead = f"; or search with split=test epochs={layout.full_epochs}"
        raise UserError(
            f"{table.path} has no column {column!r}; {layout.origin}"
            f"{instead if tested in table.columns else ''}"
        )
    percent = table.column(column)
    wrong = ~((percent >= 0) & (percent <= 100))
    if wrong.any():
        number = int(np.argmax(wrong))
        value = percent[number]
        what = "is missing" if np.isnan(value) else f"is {value:g}, not 0 to 100"
        text = space.text(space.architectures(np.array(number)))
        raise UserError(
            f"{table.path}: {column} of {text} {what}; remove the file, and fetch or import it "
            f"again"
        )
    return percent / 100
