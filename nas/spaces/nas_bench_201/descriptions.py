"""Descriptions of a cell in which cells that are alike are about as accurate.

Paths as in the path encoding of BANANAS (White et al., AAAI 2021), with skips left out; counts of
operations and lengths of paths; parameters and FLOPs.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from nas.spaces.nas_bench_201.costs import mflops, parameters
from nas.spaces.nas_bench_201.features import FEATURES, cell_features, path_counts
from nas.spaces.nas_bench_201.space import NAS_BENCH_201, OPERATIONS, TASKS

_MOST = 2  # paths of a kind that are told apart
_TASK = TASKS["cifar10"]  # the others differ in the classifier and the side
_FORMS = ("written", "needed", "live")


@cache
def cell_descriptions() -> tuple[
    Float64[ndarray, "15625 41"], Float64[ndarray, "15625 17"], Float64[ndarray, "15625 4"]
]:
    """Paths of each kind; counts and costs, in standard deviations. In official order."""
    rows = NAS_BENCH_201.rows
    features = cell_features(rows)
    counts = np.stack([features[:, columns].sum(1) for columns in _COUNTED], axis=1)
    costs = np.stack([parameters(rows, _TASK), mflops(rows, _TASK)], axis=1)
    costs = np.concatenate([costs, np.log(costs)], axis=1)
    return _paths(rows), counts / counts.std(0), costs / costs.std(0)


def _paths(architectures: Int64[ndarray, "n 6"]) -> Float64[ndarray, "n 41"]:
    """Number of paths from input to output with each sequence of operations, and if there is none."""
    counts = path_counts(architectures)
    is_cut = counts.sum(1, keepdims=True) == 0
    return np.asarray(np.minimum(np.concatenate([counts, is_cut], axis=1), _MOST), float)


_COUNTED = [
    *(
        [i for i, name in enumerate(FEATURES) if name.startswith(f"{operation} {form} on")]
        for form in _FORMS
        for operation in OPERATIONS
        if operation != "none"
    ),
    *([i] for i, name in enumerate(FEATURES) if name.startswith("longest path")),
]
"""Columns of `cell_features` whose sum is a count."""
