"""Laws of the zero-cost proxies, on small networks."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from edgenas_core.inference.models.nas_bench_201 import CellNetwork
from nas.fit.starts.proxies.jacobians import blocks, jacov, trainability
from nas.fit.starts.proxies.live_convolutions import live_convolutions
from nas.fit.starts.proxies.scores import AGGREGATED, columns_of, log_rank_sum, scores, signal
from nas.spaces.counted import flops
from nas.spaces.nas_bench_201.plugin import SPACE

IMAGES = torch.randn(8, 3, 8, 8, generator=torch.Generator().manual_seed(0))
CELL = ("nor_conv_3x3", "none", "nor_conv_1x1", "skip_connect", "avg_pool_3x3", "nor_conv_1x1")
DEAD = ("none",) * 6


def network(operations=CELL):
    torch.manual_seed(0)
    return CellNetwork(operations, cells_per_stage=1, channels=4)


def test_flops_are_those_of_the_official_counter():
    task = SPACE.tasks["cifar10"]
    row = SPACE.from_operations(CELL)

    counted = flops(SPACE.network(row, task), torch.zeros(1, 3, 32, 32))

    classifier_bias = task.num_classes
    assert counted + classifier_bias == SPACE.costs(row, task)["flops"]


def test_a_convolution_is_live_if_it_is_on_a_path_to_the_output():
    # 0 -> 1 -> 3 is a path; node 2, which the 1x1 convolution leads to, ends in `none`
    operations = ("nor_conv_3x3", "none", "nor_conv_1x1", "none", "skip_connect", "none")
    outside = 1 + 2 * 3  # the stem, and three in each of the two residual blocks

    count, flops = live_convolutions(network(operations), IMAGES)

    assert count == outside + 3
    cells = sum(9 * c * c * side**2 for c, side in ((4, 8), (8, 4), (16, 2)))
    residual = sum(
        (9 * a * b + 9 * b * b + a * b) * side**2 for a, b, side in ((4, 8, 4), (8, 16, 2))
    )
    assert flops == 27 * 4 * 64 + cells + residual
    assert live_convolutions(network(DEAD), IMAGES) == (0, 0)


def test_scores_keep_the_weights_but_for_the_last():
    net = network()
    before = [weight.clone() for weight in net.parameters()]

    scores(net, IMAGES, AGGREGATED[:-1], 0)

    for weight, old in zip(net.parameters(), before, strict=True):
        assert torch.equal(weight, old)


def test_scores_depend_on_the_seed_alone():
    first, again = (scores(network(), IMAGES, AGGREGATED, 3) for _ in range(2))

    assert first == again
    assert len(first) == len(columns_of(AGGREGATED))


def test_jacov_prefers_gradients_that_differ():
    linear = nn.Sequential(nn.Flatten(), nn.Linear(192, 1))  # one gradient for every image

    assert jacov(linear, IMAGES) < jacov(network(), IMAGES)


def test_a_block_that_is_the_identity_cannot_be_trained():
    skips = network(("none", "none", "none", "skip_connect", "none", "none"))

    assert trainability(skips, IMAGES) == -math.inf


def test_blocks_are_the_stem_and_every_cell():
    net = network()

    assert list(blocks(net)) == [net.stem, *net.cells]


def test_the_best_by_every_score_has_a_log_rank_sum_of_0():
    values = np.array([[3.0, 30.0], [1.0, 20.0], [2.0, -np.inf]])

    sums = log_rank_sum(values, [2.0, 1.0])

    assert sums[0] == 0
    assert sums[1] == pytest.approx(2 * math.log(1 / 3) + math.log(2 / 3))


def test_the_aggregate_is_of_columns_that_its_proxies_have():
    columns = {name: np.arange(4.0) for name in columns_of(AGGREGATED)}

    assert signal("aggregate", columns).argmax() == 3


def test_trainability_is_known_where_an_odd_side_is_halved():
    halving = nn.Sequential(
        nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.Conv2d(4, 4, 3, stride=2, padding=1)
    )

    assert np.isfinite(trainability(halving, torch.randn(2, 3, 9, 9)))
