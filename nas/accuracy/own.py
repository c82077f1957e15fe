"""Accuracies of the user's own: a column `accuracy` of a table in the data folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from edgenas_core.files.keyed_table import accuracy_columns, data_folder, read_csv_table
from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from edgenas_core.types.task import Task
from latency.base import EnumerableSpace, every_architecture
from latency.models.regression import FEWEST_MEASURED, fit, held_out_ms, judge
from nas.accuracy.base import HasAccuracyTable, HasSurrogate, Split
from nas.accuracy.tabular import TabularAccuracy


def own_column(space: object) -> tuple[Path, str] | None:
    """File and name of the column of own accuracies; None without any.

    Raises:
      UserError: if there are several.
    """
    if not isinstance(space, EnumerableSpace):
        return None
    benchmark = space.accuracy_table.file if isinstance(space, HasAccuracyTable) else ""
    found = accuracy_columns(data_folder(), space, benchmark)
    if len(found) > 1:
        each = ", ".join(f"{column!r} of {path}" for path, column in found[:3])
        raise UserError(
            f"several columns hold accuracies of your own: {each}; keep one, or take accuracy=surrogate"
        )
    return found[0] if found else None


def own_accuracy(
    space: EnumerableSpace, own: tuple[Path, str], task: Task, split: Split, epochs: int
) -> TabularAccuracy:
    """The column, and predictions for the rest of the space by a linear model that is fitted on it.

    Numbers are fractions if none is above 1, else percent.

    Args:
      space: of the architectures.
      own: file and column.
      task: whose embedded predictions, if there are any, help to predict the others.
      split: as the column is to be called; `auto` is validation.
      epochs: of the embedded predictions.

    Raises:
      UserError: if a number is no accuracy, or there are too few to predict the others.
    """
    path, column = own
    values = read_csv_table(path, space).column(column)
    is_measured = np.isfinite(values)
    accuracy = values / (1 if np.nanmax(values, initial=0) <= 1 else 100)
    wrong = is_measured & ~((accuracy >= 0) & (accuracy <= 1))
    if wrong.any():
        text = space.text(space.architectures(np.array(int(np.argmax(wrong)))))
        raise UserError(
            f"{path}: {column} of {text} is {values[wrong][0]:g}; accuracies are 0 to 1, or 0 to 100 percent"
        )
    count = int(is_measured.sum())
    description = f"table: your own, {column} of {path}, {count:,} architectures"
    sds = None
    if count < len(values):
        rows = every_architecture(space)
        embedded = None
        if isinstance(space, HasSurrogate):
            embedded = space.surrogate(task, Split.auto, epochs).answer(rows).fraction
        accuracy, sd, quality = _filled(space, accuracy, own, embedded)
        sds = np.where(is_measured, np.nan, sd)
        description += f"; {len(values) - count:,} others predicted by regression ({quality})"
    return TabularAccuracy(
        space,
        source="table",
        description=description,
        kind=Kind.measured,
        split=Split.valid if split is Split.auto else split,
        searched=accuracy,
        tested=np.full(len(values), np.nan),
        sds=sds,
        is_predicted=None if sds is None else ~is_measured,
    )


def _filled(
    space: EnumerableSpace,
    accuracy: Float64[ndarray, "size"],
    own: tuple[Path, str],
    embedded: Float64[ndarray, "size"] | None,
) -> tuple[Float64[ndarray, "size"], float, str]:
    """Accuracies with predictions in their gaps, the standard deviation of these, and their quality.

    Raises:
      UserError: if too few are known.
    """
    known = np.flatnonzero(np.isfinite(accuracy))
    if len(known) < FEWEST_MEASURED:
        raise UserError(
            f"{own[0]}: {own[1]} has {len(known)} accuracies, and predicting the other {len(accuracy) - len(known):,} "
            f"takes {FEWEST_MEASURED}; add more, or take accuracy=surrogate"
        )
    rows = every_architecture(space)
    features = space.features(rows)
    if embedded is not None:
        features = np.column_stack([features, embedded])
    # the model is one of positive numbers, which it keeps above the fifth least: errors are such
    errors = 1.001 - accuracy[known]
    held_out = held_out_ms(features[known], errors, space.groups(rows[known]))
    quality = judge(held_out, errors)
    predicted = 1.001 - fit(features[known], errors).predict_ms(features)
    filled = np.where(np.isfinite(accuracy), accuracy, predicted.clip(0, 1))
    text = f"held-out R2 {quality.r2:.3f}, Spearman {quality.spearman:.3f}"
    return filled, float((held_out - errors).std()), text
