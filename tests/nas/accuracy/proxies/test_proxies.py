"""Laws of the zero-cost proxies, on small networks."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from nas.accuracy.proxies.az_nas import progression, trainability
from nas.accuracy.proxies.blocks import blocks
from nas.accuracy.proxies.jacov import jacov
from nas.accuracy.proxies.live_convolutions import live_convolutions
from nas.accuracy.proxies.naswot import naswot
from nas.accuracy.proxies.ranks import log_rank_sum
from nas.accuracy.proxies.scores import AGGREGATED, PROXIES, columns_of, scores, signal
from nas.accuracy.proxies.synflow import synflow
from nas.spaces.nas_bench_201.plugin import SPACE
from runtime.network.models.nas_bench_201 import CellNetwork

IMAGES = torch.randn(8, 3, 8, 8, generator=torch.Generator().manual_seed(0))
CELL = ("nor_conv_3x3", "none", "nor_conv_1x1", "skip_connect", "avg_pool_3x3", "nor_conv_1x1")
DEAD = ("none",) * 6


AZ_NAS = ("progression", "trainability")


def network(operations=CELL, **settings):
    torch.manual_seed(0)
    return CellNetwork(operations, cells_per_stage=1, channels=4, **settings)


def test_flops_are_those_of_the_official_counter():
    task = SPACE.tasks["cifar10"]
    row = SPACE.from_operations(CELL)

    (counted,) = scores(SPACE.network(row, task), torch.zeros(1, 3, 32, 32), ["flops"], 0)

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


def test_scores_keep_the_weights_but_for_az_nas_which_is_last():
    net = network()
    before = [weight.clone() for weight in net.parameters()]

    scores(net, IMAGES, [name for name in PROXIES if name not in AZ_NAS], 0)

    for weight, old in zip(net.parameters(), before, strict=True):
        assert torch.equal(weight, old)
    assert tuple(PROXIES)[-2:] == AZ_NAS


def test_scores_depend_on_the_seed_alone():
    names = list(PROXIES)

    first, again = (scores(network(), IMAGES, names, 3) for _ in range(2))

    assert first == again
    assert len(first) == len(columns_of(names))


def test_synflow_grows_with_the_weights_and_is_minus_infinity_where_nothing_flows():
    small, large = network(), network()
    with torch.no_grad():
        for weight in large.parameters():
            weight.mul_(2)
    blocked = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Flatten(), nn.Linear(256, 2))
    nn.init.zeros_(blocked[2].weight)
    nn.init.zeros_(blocked[2].bias)

    assert synflow(large, IMAGES) > synflow(small, IMAGES)
    assert synflow(blocked, IMAGES) == -math.inf


def test_naswot_is_minus_infinity_for_images_that_are_equal():
    assert math.isfinite(naswot(network(), IMAGES))
    assert naswot(network(), IMAGES[:1].expand(8, -1, -1, -1)) == -math.inf


def test_jacov_prefers_gradients_that_differ():
    linear = nn.Sequential(nn.Flatten(), nn.Linear(192, 1))  # one gradient for every image

    assert jacov(linear, IMAGES) < jacov(network(), IMAGES)


def test_az_nas_is_minus_infinity_where_features_vanish():
    class Vanishing(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList([nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 1)])

        def forward(self, x):
            return self.blocks[1](self.blocks[0](x) * 0.0)

    assert all(map(math.isfinite, progression(network(), IMAGES)))
    assert progression(Vanishing(), IMAGES)[0] == -math.inf
    assert math.isfinite(trainability(network(), IMAGES))


def test_a_block_that_is_the_identity_cannot_be_trained():
    skips = network(("none", "none", "none", "skip_connect", "none", "none"))

    assert trainability(skips, IMAGES) == -math.inf


def test_blocks_are_the_stem_and_every_cell():
    net = network()

    assert blocks(net) == [net.stem, *net.cells]


def test_the_best_by_every_score_has_a_log_rank_sum_of_0():
    values = np.array([[3.0, 30.0], [1.0, 20.0], [2.0, -np.inf]])

    found = log_rank_sum(values, [2.0, 1.0])

    assert found[0] == 0
    assert found[1] == pytest.approx(2 * math.log(1 / 3) + math.log(2 / 3))


def test_the_aggregate_is_of_columns_that_its_proxies_have():

    columns = {name: np.arange(4.0) for name in columns_of(AGGREGATED)}

    assert signal("aggregate", columns).argmax() == 3


def test_trainability_is_known_where_an_odd_side_is_halved():
    network = nn.Sequential(
        nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.Conv2d(4, 4, 3, stride=2, padding=1)
    )

    assert np.isfinite(trainability(network, torch.randn(2, 3, 9, 9)))
