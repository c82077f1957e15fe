"""Accuracy predicted by a small embedded model, for a machine that has no benchmark data.

The model is an ensemble whose members compute along the graph of the cell. It is written once for NumPy, which
predicts without importing torch, and for torch, which fits it.

`surrogate.md` beside this file is the model card; `python -m benchmarks.fitting.nas_bench_201.accuracy` fits the model
and writes both the weights and the card.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64
from numpy import ndarray

from edgenas_core.types.architectures import Enumerable
from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from edgenas_core.types.task import Task
from nas.accuracy.base import Split
from nas.accuracy.tabular import TabularAccuracy
from nas.spaces.nas_bench_201.features import path_counts
from nas.spaces.nas_bench_201.space import ACCURACY_TABLE, NAS_BENCH_201, OPERATIONS, TASKS

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


def surrogate(space: Enumerable, task: Task, split: Split, epochs: int) -> TabularAccuracy:
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
    """Held-out root mean square error (a fraction) of the predicted half that each cell belongs to."""
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


STATE, HIDDEN, READOUT, PATHS = 24, 48, 64, 80
"""Widths of a node's state, the inside of an operation, the readout and the path features."""

_COMPUTING = len(OPERATIONS) - 2
_NONE = OPERATIONS.index("none")


@final
@dataclass(frozen=True)
class Functions:
    """The different functions that cells compute, each represented by its first cell."""

    architectures: Int64[ndarray, "functions 6"]
    paths: Float32[ndarray, "functions 80"]  # path counts and presence, each column standardised
    connected: Bool[ndarray, "functions"]  # whether any path reaches the output
    of_cell: Int64[ndarray, "15625"]  # row of each cell's function, cells in official order


@cache
def functions() -> Functions:
    """The 4,930 functions of the space; cells of one function share a row."""
    first_cells, of_cell = np.unique(NAS_BENCH_201.function_class, return_inverse=True)
    architectures = NAS_BENCH_201.rows[first_cells]
    counts = path_counts(architectures)
    paths = np.concatenate([counts, counts > 0], axis=-1).astype(np.float32)
    standardised = (paths - paths.mean(axis=0)) / paths.std(axis=0)
    connected: Bool[ndarray, "functions"] = counts.sum(axis=-1) > 0
    return Functions(architectures, standardised, connected, of_cell.astype(np.int64))


def shapes(targets: int) -> dict[str, tuple[int, ...]]:
    """Shape of every weight of one member."""
    return {
        "input": (1, STATE),
        "operation_in": (_COMPUTING, STATE, HIDDEN),
        "operation_in_bias": (_COMPUTING, 1, HIDDEN),
        "operation_out": (_COMPUTING, HIDDEN, STATE),
        "operation_out_bias": (_COMPUTING, 1, STATE),
        "readout": (STATE + PATHS, READOUT),
        "readout_bias": (1, READOUT),
        "residual": (READOUT, READOUT),
        "residual_bias": (1, READOUT),
        "head": (READOUT, targets),
        "head_bias": (1, targets),
    }


def output(
    weights: Mapping[str, Any], architectures: Any, paths: Any, xp: Any, silu: Callable[[Any], Any]
) -> Any:
    """Accuracy in standard units (subtract `centre`, divide by `scale`): (members, functions, targets).

    The cell's input is a learned state; a convolution or pooling is a learned map of states; a skip
    is the identity, `none` is zero, and a node is the sum of its inputs. A small perceptron maps the
    state of the output node and the path features to all targets. Sums commute and skips are
    identities, so all cells of one function get the same prediction.

    Args:
      weights: arrays by the names of `shapes`, with the members along a leading axis.
      architectures: (functions, 6).
      paths: features of the paths, (functions, 80).
      xp: the module of the arrays, numpy or torch.
      silu: x * sigmoid(x).
    """
    state = _output_state(weights, architectures, xp, silu)
    paths = xp.broadcast_to(paths, (len(state), *paths.shape))
    seen = xp.concatenate([state, paths], -1)
    read = silu(seen @ weights["readout"] + weights["readout_bias"])
    read = read + silu(read @ weights["residual"] + weights["residual_bias"])
    return read @ weights["head"] + weights["head_bias"]


def _output_state(
    weights: Mapping[str, Any], architectures: Any, xp: Any, silu: Callable[[Any], Any]
) -> Any:
    """State of the cell's last node: (members, functions, state).

    Over all cells node 1 has only 5 states and node 2 only 125: the operations, the costly part,
    run on these, and each cell selects its own.
    """
    count = len(OPERATIONS)

    def after_each_operation(states: Any, reached: Any) -> Any:
        """Each operation on each of n states, (members, 5, n, state); zero where not `reached`."""
        states = states[:, None]
        inside = silu(states @ weights["operation_in"] + weights["operation_in_bias"])
        computed = inside @ weights["operation_out"] + weights["operation_out_bias"]
        return xp.concatenate([xp.zeros_like(states), states, computed], 1) * reached[:, None]

    cells = xp.arange(count**3)
    edge_0, edge_1, edge_2 = cells // count**2, cells // count % count, cells % count
    reached_1 = xp.arange(count) != _NONE
    reached_2 = (edge_1 != _NONE) | (reached_1[edge_0] & (edge_2 != _NONE))
    from_0 = after_each_operation(weights["input"], xp.arange(1) == 0)[:, :, 0]
    from_1 = after_each_operation(from_0, reached_1)
    node_2 = from_0[:, edge_1] + from_1[:, edge_2, edge_0]
    from_2 = after_each_operation(node_2, reached_2)

    op_01, op_02, op_12, op_03, op_13, op_23 = architectures.T
    which_2 = (op_01 * count + op_02) * count + op_12
    return from_0[:, op_03] + from_1[:, op_13, op_01] + from_2[:, op_23, which_2]


def predict(
    weights: Mapping[str, Float32[ndarray, "..."]], chance: Float64[ndarray, "targets"]
) -> Float64[ndarray, "members 15625 targets"]:
    """Accuracy of every cell, in official order, as a fraction, by each member.

    The classifier of a cell without a path from input to output sees a constant: such a cell gets
    `chance`.

    Args:
      weights: those of `shapes`, and `centre` and `scale`, each (members, 1, targets).
      chance: accuracy of guessing, as a fraction.
    """
    cells = functions()
    standard = output(weights, cells.architectures, cells.paths, np, _silu)
    accuracy = (weights["centre"] + weights["scale"] * standard).astype(np.float64)
    accuracy[:, ~cells.connected] = chance
    return np.asarray(accuracy[:, cells.of_cell])


def _silu(x: Float32[ndarray, "..."]) -> Float32[ndarray, "..."]:
    half = np.float32(0.5)  # sigmoid(x) = (1 + tanh(x / 2)) / 2, which cannot overflow
    activated: Float32[ndarray, "..."] = x * (half + half * np.tanh(half * x))
    return activated
