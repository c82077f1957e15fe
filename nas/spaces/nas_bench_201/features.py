"""Features of an architecture that latency is roughly linear in, and descriptions for accuracy.

Some compilers remove operations that the output does not need, some runtimes do not. Therefore the
operation of each edge is encoded three times: as written; only if its result is *needed* by the
output; and only if it is *live* (on a path from input to output). `needed` matters on devices that
compute on zeros.

Products of counts model the costs and savings of parallel branches. One product for each pair of
edges instead (240 of them) predicts held-out cells of 40 devices no better on average.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations_with_replacement

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from nas.spaces.nas_bench_201.costs import mflops, parameters
from nas.spaces.nas_bench_201.space import EDGES, NAS_BENCH_201, OPERATIONS, TASKS

_NONE, _SKIP = OPERATIONS.index("none"), OPERATIONS.index("skip_connect")
_FORMS = ("written", "needed", "live")
_WORKING = tuple(name for name in OPERATIONS if name != "none")
PATHS = ((3,), (0, 4), (1, 5), (0, 2, 5))
"""Edges of each path from input to output, as positions in `EDGES`."""

SEQUENCES = 1 + 3 + 3**2 + 3**3
"""Sequences of at most three of the three operations that compute."""

_LENGTHS = {  # operations that a longest path counts: time on devices that run branches in parallel
    "convolutions": ("nor_conv_1x1", "nor_conv_3x3"),
    "3x3 convolutions": ("nor_conv_3x3",),
    "poolings": ("avg_pool_3x3",),
    "computing operations": ("nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3"),
    "edges": _WORKING,
}
_PAIRS = tuple(combinations_with_replacement(range(len(_WORKING)), 2))

FEATURES: tuple[str, ...] = (
    *(
        f"{name} {form} on {source}->{target}"
        for form in _FORMS
        for source, target in EDGES
        for name in _WORKING
    ),
    "connected",
    *(f"longest path in {what}" for what in _LENGTHS),
    *(f"live {_WORKING[a]} * live {_WORKING[b]}" for a, b in _PAIRS),
)
"""Name of each column of `cell_features`; stored with every model that is fitted on them."""


def cell_features(architectures: Int64[ndarray, "*n 6"]) -> Float64[ndarray, "*n 88"]:
    """Value of each of `FEATURES`: flags, path lengths, and products of live counts."""
    live = NAS_BENCH_201.live_edges(architectures)
    flags = _flags(architectures, live)
    counts = flags.reshape(*live.shape, -1).sum(axis=-2)
    features: Float64[ndarray, "*n 88"] = np.concatenate(
        [
            _flags(architectures, architectures != _NONE),
            _flags(architectures, _needed_edges(architectures)),
            flags,
            live.any(axis=-1, keepdims=True),
            _longest_paths(architectures, live),
            np.stack([counts[..., a] * counts[..., b] for a, b in _PAIRS], axis=-1),
        ],
        axis=-1,
    )
    return features


def _flags(
    architectures: Int64[ndarray, "*n 6"], counted: Bool[ndarray, "*n 6"]
) -> Float64[ndarray, "*n 24"]:
    """One-hot encoding of each edge's operation; zeros for `none` and where `counted` is False."""
    working = [OPERATIONS.index(name) for name in _WORKING]
    hot = (architectures[..., None] == working) & counted[..., None]
    flags: Float64[ndarray, "*n 24"] = hot.reshape(*architectures.shape[:-1], -1).astype(np.float64)
    return flags


def _needed_edges(architectures: Int64[ndarray, "*n 6"]) -> Bool[ndarray, "*n 6"]:
    """True for each edge whose result, zeros included, reaches the output."""
    carries = architectures != _NONE
    leads = {3: np.ones(architectures.shape[:-1], bool)}
    for node in (2, 1):
        out = [(e, target) for e, (source, target) in enumerate(EDGES) if source == node]
        leads[node] = np.logical_or.reduce([carries[..., e] & leads[t] for e, t in out])
    return np.stack([carries[..., e] & leads[t] for e, (_, t) in enumerate(EDGES)], axis=-1)


def _longest_paths(
    architectures: Int64[ndarray, "*n 6"], live: Bool[ndarray, "*n 6"]
) -> Float64[ndarray, "*n 5"]:
    """Largest number of operations of each group on one live path."""
    whole = [live[..., list(path)].all(axis=-1) for path in PATHS]
    columns = []
    for names in _LENGTHS.values():
        counts = np.isin(architectures, [OPERATIONS.index(name) for name in names])
        lengths = [counts[..., list(path)].sum(axis=-1) for path in PATHS]
        columns.append(np.max(np.where(whole, lengths, 0), axis=0))
    return np.stack(columns, axis=-1).astype(np.float64)


def path_counts(architectures: Int64[ndarray, "n 6"]) -> Int64[ndarray, "n 40"]:
    """Number of paths from input to output that apply each sequence of operations.

    A skip applies nothing and a `none` ends the path, so cells of the same function have the
    same counts. Column k is the sequence whose digits spell k in bijective base 3.
    """
    counts = np.zeros((len(architectures), SEQUENCES), np.int64)
    rows = np.arange(len(architectures))
    for route in PATHS:
        sequence = np.zeros(len(architectures), np.int64)
        for edge in route:
            choice = architectures[:, edge]
            sequence = np.where(choice == _SKIP, sequence, 3 * sequence + choice - _SKIP)
        open_ = (architectures[:, list(route)] != _NONE).all(axis=-1)
        np.add.at(counts, (rows[open_], sequence[open_]), 1)
    return counts


_MOST = 2  # paths of a kind that are told apart
_TASK = TASKS["cifar10"]  # the others differ in the classifier and the side


@cache
def cell_descriptions() -> tuple[
    Float64[ndarray, "15625 41"], Float64[ndarray, "15625 17"], Float64[ndarray, "15625 4"]
]:
    """Descriptions of every cell; cells with similar descriptions have similar accuracies.

    Paths as in the path encoding of BANANAS (White et al., AAAI 2021), with skips left out; counts of
    operations and lengths of paths; parameters and FLOPs. Counts and costs are in standard deviations.
    """
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
