"""What the surrogate sees of a cell."""

import numpy as np
import pytest

from nas.spaces.nas_bench_201.features import path_counts
from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from nas.spaces.nas_bench_201.surrogate import functions


@pytest.mark.parametrize(
    ("cell", "sequences"),
    [
        ("|none~0|+|none~0|none~1|+|skip_connect~0|none~1|none~2|", {0: 1}),
        # 1x1 is digit 1, 3x3 digit 2, pooling digit 3
        ("|nor_conv_3x3~0|+|none~0|nor_conv_1x1~1|+|none~0|none~1|avg_pool_3x3~2|", {24: 1}),
        ("|nor_conv_1x1~0|+|none~0|none~1|+|nor_conv_1x1~0|skip_connect~1|none~2|", {1: 2}),
        ("|none~0|+|none~0|nor_conv_3x3~1|+|none~0|nor_conv_3x3~1|skip_connect~2|", {}),
    ],
)
def test_paths_are_counted_by_their_sequence_of_operations(cell, sequences):
    counts = path_counts(NAS_BENCH_201.parse(cell)[None])[0]

    assert {int(k): int(counts[k]) for k in np.flatnonzero(counts)} == sequences


def test_cells_of_one_function_have_the_same_paths():
    counts = path_counts(NAS_BENCH_201.rows)

    np.testing.assert_array_equal(counts, counts[NAS_BENCH_201.function_class])


def test_a_function_without_paths_is_a_cell_without_live_edges():
    cells = functions()

    connected = NAS_BENCH_201.live_edges(NAS_BENCH_201.rows).any(axis=-1)

    np.testing.assert_array_equal(cells.connected[cells.of_cell], connected)
