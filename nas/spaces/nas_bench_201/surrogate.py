"""Accuracy predicted by a small embedded model, for a machine that has no benchmark data.

`surrogate.md` beside this file is the model card; `python -m benchmarks.fitting.nas_bench_201.accuracy` fits the model
and writes both the weights and the card.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, Float64
from numpy import ndarray

from edgenas_core.types.architectures import EnumerableKeys
from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from edgenas_core.types.task import Task
from nas.accuracy.base import Split
from nas.accuracy.tabular import TabularAccuracy
from nas.spaces.nas_bench_201.space import ACCURACY_TABLE, TASKS
from nas.spaces.nas_bench_201.surrogate_network import predict

WEIGHTS = Path(__file__).with_name("surrogate.safetensors")
METADATA_KEY = "fit"

TARGETS = tuple(
    ACCURACY_TABLE.column(task, split, epochs)
    for epochs, splits in zip(
        ACCURACY_TABLE.epochs, ((Split.valid, Split.test), (Split.valid,)), strict=True
    )
    for task in TASKS.values()
    for split in splits
)
"""Predicted quantities, named like the columns of the accuracy table."""


def surrogate(space: EnumerableKeys, task: Task, split: Split, epochs: int) -> TabularAccuracy:
    """Predict the whole space once.

    Raises:
      UserError: if the model was not fitted for this length of training or split.
    """
    full, short = ACCURACY_TABLE.epochs
    if epochs not in {full, short}:
        raise UserError(
            f"epochs={epochs}: accuracy=surrogate predicts epochs={short} or epochs={full}"
        )
    searched_split = Split.valid if split is Split.auto else split
    if epochs == short and searched_split is Split.test:
        raise UserError(
            f"split=test: after {short} epochs accuracy=surrogate predicts split=valid only; "
            f"use split=valid or epochs={full}"
        )
    searched, tested = (
        ACCURACY_TABLE.column(task, each_split, epochs)
        for each_split in (searched_split, Split.test)
    )
    weights, metadata = load(WEIGHTS)
    accuracy = predict(weights, chance(TARGETS)).mean(axis=0).clip(0, 1)
    agreement = metadata["held_out"]["function_class"][searched]
    held_out, of_searched = agreement["all"], accuracy[:, TARGETS.index(searched)]
    return TabularAccuracy(
        space,
        source="surrogate",
        description=(
            f"surrogate: predicted by a small model fitted on {ACCURACY_TABLE.benchmark} "
            f"({epochs} epochs), held-out tau {held_out['tau']:.2f}, MAE {held_out['mae']:.2f} "
            f"points; not a measurement"
        ),
        kind=Kind.surrogate,
        split=searched_split,
        searched=of_searched,
        tested=(
            accuracy[:, TARGETS.index(tested)]
            if tested in TARGETS
            else np.full(len(accuracy), np.nan)
        ),
        sds=_standard_deviations(of_searched, held_out["rmse"], agreement["top half"]["rmse"]),
    )


def _standard_deviations(
    predicted: Float64[ndarray, "size"], rmse_of_all: float, rmse_of_better: float
) -> Float64[ndarray, "size"]:
    """Held-out root mean square error, in fractions, of the half that each cell is in by prediction."""
    rmse_of_others = math.sqrt(max(0.0, 2 * rmse_of_all**2 - rmse_of_better**2))
    better = predicted >= np.median(predicted)
    return np.asarray(np.where(better, rmse_of_better, rmse_of_others) / 100)


def load(path: Path) -> tuple[dict[str, Float32[ndarray, "..."]], dict[str, Any]]:
    """The weights of the fitted ensemble in a file, by name, and the metadata that its fit recorded."""
    from safetensors import safe_open  # noqa: PLC0415 - slow to import, and not always needed

    with safe_open(path, framework="np") as file:
        weights = {name: file.get_tensor(name).astype(np.float32) for name in file.keys()}  # noqa: SIM118 - not a dict
        metadata = json.loads(file.metadata()[METADATA_KEY])
    return weights, metadata


def chance(targets: Sequence[str]) -> Float64[ndarray, "targets"]:
    """Accuracy of guessing for each target, as a fraction."""
    return np.array([1 / TASKS[target.split("_")[0]].num_classes for target in targets])
