"""Claim: parameters and multiply-accumulates are those of the public implementation, exactly.

    $ pip install ofa torchvision
    $ python -m benchmarks.mobilenet_v3_costs

Draws 200 networks of each width, builds each with `ofa` (github.com/mit-han-lab/once-for-all) and
with this project, and counts both by ofa's own counters. Recorded in
benchmarks/results/mobilenet_v3_latency.md.
"""

import numpy as np
import torch
from ofa.imagenet_classification.elastic_nn.networks import OFAMobileNetV3
from ofa.utils import count_net_flops, count_parameters
from torch import nn

from nas.spaces.base import task_named
from nas.spaces.mobilenet_v3.space import KERNELS, MOST_BLOCKS, side_of, stages_of
from nas.spaces.registry import space_named

NETWORKS = 200
WIDTHS = {"mobilenet_v3": 1.2, "mobilenet_v3_w1.0": 1.0}


def settings(architecture):
    """Depths, and a kernel and an expansion for each of 20 blocks, as ofa takes them."""
    stages = stages_of(architecture)
    off = [(KERNELS[0], 3)] * MOST_BLOCKS
    blocks = [block for stage in stages for block in (*stage, *off)[:MOST_BLOCKS]]
    return {
        "d": [len(stage) for stage in stages],
        "ks": [kernel for kernel, _ in blocks],
        "e": [expansion for _, expansion in blocks],
    }


def compare(name, multiplier):
    space = space_named(name)
    task = task_named(space, "auto")
    supernet = OFAMobileNetV3(
        width_mult=multiplier,
        ks_list=[3, 5, 7],
        expand_ratio_list=[3, 4, 6],
        depth_list=[2, 3, 4],
    )
    rows = space.sample(np.random.default_rng(15), NETWORKS // 2)
    shallow = rows.copy()  # half of them with any depth alike: uniform samples are mostly deep
    shallow[:, 1::9] = np.random.default_rng(16).integers(0, 3, (len(rows), 5))
    rows = space.normal(np.concatenate([rows, shallow]))
    costs = space.costs(rows, task)
    wrong = 0
    for number, row in enumerate(rows):
        supernet.set_active_subnet(**settings(row))
        theirs = supernet.get_active_subnet(preserve_weight=False)
        side = side_of(row)
        flops = count_net_flops(theirs, (1, 3, side, side))
        wrong += count_parameters(theirs) != costs["parameters"][number]
        wrong += exact_flops(theirs, side) != costs["flops"][number]
        assert abs(flops / costs["flops"][number] - 1) < 1e-6
    print(f"{name}: {len(rows)} networks, {wrong} differences")
    return wrong


def exact_flops(network, side):
    """Their count with integers: their counter's hooks, whose float32 sums round."""
    total = 0

    def count(module, _, output):
        nonlocal total
        if isinstance(module, nn.Linear):
            total += module.in_features * module.out_features
        else:
            area = module.kernel_size[0] * module.kernel_size[1]
            total += module.in_channels // module.groups * output.numel() * area

    hooks = [
        module.register_forward_hook(count)
        for module in network.modules()
        if isinstance(module, (nn.Conv2d, nn.Linear))
    ]
    with torch.no_grad():
        network.eval()(torch.zeros(1, 3, side, side))
    for hook in hooks:
        hook.remove()
    return total


if __name__ == "__main__":
    raise SystemExit(int(sum(compare(*item) for item in WIDTHS.items()) > 0))
