"""Network of the surrogate: an ensemble whose members compute along the graph of the cell.

Written once for NumPy, which predicts without importing torch, and for torch, which fits it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64
from numpy import ndarray

from nas.spaces.nas_bench_201.features import path_counts
from nas.spaces.nas_bench_201.space import NAS_BENCH_201, OPERATIONS

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
