"""Laws of the proxies that are compared with those of a search, on small networks."""

import math

import torch
from torch import nn

from benchmarks.own_images_proxies import PROXIES, SIGNALS, naswot, progression, synflow
from nas.accuracy.proxies.scores import columns_of, scores
from runtime.network.models.nas_bench_201 import CellNetwork

IMAGES = torch.randn(8, 3, 8, 8, generator=torch.Generator().manual_seed(0))
CELL = ("nor_conv_3x3", "none", "nor_conv_1x1", "skip_connect", "avg_pool_3x3", "nor_conv_1x1")

AZ_NAS = ("progression", "trainability")


def network():
    torch.manual_seed(0)
    return CellNetwork(CELL, cells_per_stage=1, channels=4)


def test_scores_keep_the_weights_but_for_az_nas_which_is_last():
    net = network()
    before = [weight.clone() for weight in net.parameters()]

    scores(net, IMAGES, [name for name in PROXIES if name not in AZ_NAS], 0, PROXIES)

    for weight, old in zip(net.parameters(), before, strict=True):
        assert torch.equal(weight, old)
    assert tuple(PROXIES)[-2:] == AZ_NAS


def test_signals_are_of_columns_that_the_proxies_have():
    columns = columns_of(list(PROXIES), PROXIES)

    assert all(set(weights) <= set(columns) for weights in SIGNALS.values())


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


def test_progression_is_minus_infinity_where_features_vanish():
    class Vanishing(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList([nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 1)])

        def forward(self, x):
            return self.blocks[1](self.blocks[0](x) * 0.0)

    assert all(map(math.isfinite, progression(network(), IMAGES)))
    assert progression(Vanishing(), IMAGES)[0] == -math.inf
