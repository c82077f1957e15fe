"""FLOPs of live convolutions, on small networks."""

import torch

from edgenas_core.inference.models.nas_bench_201 import CellNetwork
from nas.fit.starts.live_flops import live_flops
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

    counted = live_flops(network(operations), IMAGES)

    cells = sum(9 * c * c * side**2 for c, side in ((4, 8), (8, 4), (16, 2)))
    residual = sum(
        (9 * a * b + 9 * b * b + a * b) * side**2 for a, b, side in ((4, 8, 4), (8, 16, 2))
    )
    assert counted == 27 * 4 * 64 + cells + residual
    assert live_flops(network(DEAD), IMAGES) == 0


def test_counting_keeps_the_weights():
    net = network()
    before = [weight.clone() for weight in net.parameters()]

    live_flops(net, IMAGES)

    for weight, old in zip(net.parameters(), before, strict=True):
        assert torch.equal(weight, old)
