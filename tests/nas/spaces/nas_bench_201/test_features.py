"""Features of a cell for models of latency."""

import numpy as np
import pytest

from latency.models.regression import embedded_models
from nas.spaces.nas_bench_201.features import FEATURES, cell_features
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201


def named(text):
    return dict(zip(FEATURES, cell_features(NAS_BENCH_201.parse(text)), strict=True))


def test_each_feature_has_one_name():
    assert cell_features(NAS_BENCH_201.rows[:2]).shape == (2, len(FEATURES))
    assert len(set(FEATURES)) == len(FEATURES)


def test_the_embedded_models_were_fitted_on_these_features():
    assert {model.features for model in embedded_models(SPACE).values()} == {FEATURES}


def test_an_operation_whose_result_is_dropped_is_written_but_not_needed():
    features = named("|nor_conv_3x3~0|+|none~0|none~1|+|skip_connect~0|none~1|none~2|")

    assert features["nor_conv_3x3 written on 0->1"] == 1
    assert features["nor_conv_3x3 needed on 0->1"] == 0
    assert features["nor_conv_3x3 live on 0->1"] == 0


def test_an_operation_on_zeros_is_needed_but_not_live():
    features = named("|none~0|+|none~0|nor_conv_1x1~1|+|skip_connect~0|none~1|skip_connect~2|")

    assert features["nor_conv_1x1 needed on 1->2"] == 1
    assert features["nor_conv_1x1 live on 1->2"] == 0


@pytest.mark.parametrize("end", ["none", "skip_connect"])
def test_a_cell_is_connected_by_a_path(end):
    features = named(f"|nor_conv_3x3~0|+|none~0|nor_conv_1x1~1|+|none~0|none~1|{end}~2|")

    has_path = end != "none"
    assert features["connected"] == has_path
    assert features["longest path in convolutions"] == 2 * has_path
    assert features["longest path in 3x3 convolutions"] == has_path
    assert features["longest path in edges"] == 3 * has_path
    assert features["live nor_conv_1x1 * live nor_conv_3x3"] == has_path


def test_the_live_features_are_the_live_edges_of_the_space():
    architectures = NAS_BENCH_201.rows
    live = [i for i, name in enumerate(FEATURES) if " live on " in name]

    on_each_edge = cell_features(architectures)[:, live].reshape(-1, 6, 4).sum(axis=-1)

    assert np.array_equal(on_each_edge, NAS_BENCH_201.live_edges(architectures))
