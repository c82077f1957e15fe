"""The published CSV of test accuracies, one row a cell, in percent after 200 epochs."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from nas.accuracy.base import Split
from nas.spaces.nas_bench_201.space import ACCURACY_TABLE, NAS_BENCH_201, TASKS
from nas.spaces.nas_bench_201.training_length import FULL_EPOCHS
from runtime.shell.errors import UserError

_PUBLISHED_NAMES = {
    TASKS["cifar10"]: "CIFAR10TestAccuracy200Epochs",
    TASKS["cifar100"]: "CIFAR100TestAccuracy200Epochs",
    TASKS["imagenet16"]: "ImageNetTestAccuracy200Epochs",
}


def read_published_accuracy(path: Path) -> dict[str, Float64[ndarray, "15625"]]:
    """Percent, by column name of the accuracy table.

    Raises:
      UserError: if its rows are not the 15,625 architectures in official order.
    """
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if tuple(row.get("ArchitectureString") for row in rows) != NAS_BENCH_201.strings:
        raise UserError(f"{path} does not list the 15,625 architectures in their official order")
    return {
        ACCURACY_TABLE.column(dataset, Split.test, FULL_EPOCHS): np.array(
            [float(r[name]) for r in rows]
        )
        for dataset, name in _PUBLISHED_NAMES.items()
    }
