"""Features of the surrogate: sequences of operations on the paths of a cell."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import final

import numpy as np
from jaxtyping import Bool, Float32, Int64
from numpy import ndarray

from nas.spaces.nas_bench_201.space import NAS_BENCH_201, OPERATIONS

_ROUTES = ((3,), (0, 4), (1, 5), (0, 2, 5))
"""Edges, as positions in `EDGES`, of each path from the cell's input to its output."""

_SEQUENCES = 1 + 3 + 3**2 + 3**3
"""Sequences of at most three of the three operations that compute."""

_NONE, _SKIP = OPERATIONS.index("none"), OPERATIONS.index("skip_connect")


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


def path_counts(architectures: Int64[ndarray, "n 6"]) -> Int64[ndarray, "n 40"]:
    """Number of paths from input to output that apply each sequence of operations.

    A skip applies nothing and a `none` ends the path, so cells of the same function have the
    same counts. Column k is the sequence whose digits spell k in bijective base 3.
    """
    counts = np.zeros((len(architectures), _SEQUENCES), np.int64)
    rows = np.arange(len(architectures))
    for route in _ROUTES:
        sequence = np.zeros(len(architectures), np.int64)
        for edge in route:
            choice = architectures[:, edge]
            sequence = np.where(choice == _SKIP, sequence, 3 * sequence + choice - _SKIP)
        open_ = (architectures[:, list(route)] != _NONE).all(axis=-1)
        np.add.at(counts, (rows[open_], sequence[open_]), 1)
    return counts
