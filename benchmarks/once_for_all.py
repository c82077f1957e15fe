"""Claim: sub-networks of Once-for-All's supernet agree with the reference implementation to 1e-4.

    $ python benchmarks/once_for_all.py <clone of mit-han-lab/once-for-all> [networks of each width]

Random weights, statistics and kernel matrices go through a file of the published layout; logits of
random sub-networks at their sides are compared with those of the reference, relative to the largest
without its bias.
"""

import sys
import tempfile
from hashlib import sha1
from pathlib import Path

import numpy as np
import torch
from torch import nn

from nas.fit.starts.pretrained.libraries import timm
from nas.spaces.mobilenet_v3.plugin import NARROW, SPACE
from nas.spaces.mobilenet_v3.space import IMAGENET, MOST_BLOCKS, side_of, stages_of

_KERNEL, _EXPANSION = 3, 3  # of blocks that are skipped


def reference(width: float) -> nn.Module:
    """The reference network with random weights, statistics and kernel matrices."""
    from ofa.imagenet_classification.elastic_nn.networks import (  # noqa: PLC0415 - its path is an argument
        OFAMobileNetV3,
    )

    network = OFAMobileNetV3(
        dropout_rate=0.0,
        width_mult=width,
        ks_list=[3, 5, 7],
        expand_ratio_list=[3, 4, 6],
        depth_list=[2, 3, 4],
    )
    for name, tensor in network.state_dict().items():
        if name.endswith("_matrix"):
            tensor.add_(0.2 * torch.randn_like(tensor))
        elif name.endswith("running_var"):
            tensor.uniform_(0.5, 2.0)
        elif tensor.ndim == 1:
            tensor.add_(0.2 * torch.randn_like(tensor))
    return network.eval()


def old_name(name: str) -> str:
    """Name of a tensor in the published files, which are older than the reference's code."""
    name = name.replace(".conv.inverted", ".mobile_inverted_conv.inverted")
    for part in ("depth_conv", "point_linear"):
        name = name.replace(f".conv.{part}", f".mobile_inverted_conv.{part}")
    return name


def largest_difference(width: float, networks: int, folder: Path) -> float:
    """Largest difference of logits over random sub-networks, as a share of the largest logit."""
    torch.manual_seed(0)
    whole, file = reference(width), folder / f"w{width}"
    tensors = {old_name(name): tensor for name, tensor in whole.state_dict().items()}
    torch.save({"state_dict": tensors}, file)
    content = file.read_bytes()
    blob = sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
    plain = {1.0: NARROW, 1.2: SPACE}[width]
    space = plain.with_argument(f"{file},{blob}")
    shared = space.supernet(IMAGENET)
    worst = 0.0
    for row in space.sample(np.random.default_rng(0), networks):
        stages = stages_of(row)
        padded = [
            [*stage, *[(_KERNEL, _EXPANSION)] * (MOST_BLOCKS - len(stage))] for stage in stages
        ]
        blocks = [block for stage in padded for block in stage]
        kernels, expansions = zip(*blocks, strict=True)
        whole.set_active_subnet(list(kernels), list(expansions), [len(stage) for stage in stages])
        side = side_of(row)
        images = torch.randn(1, 3, side, side)
        with torch.no_grad():
            expected = whole(images)
            network = space.network(row, IMAGENET).eval()
            network.load_state_dict(dict(shared.weights(row)))
            logits = network(images)
        largest = (expected - shared.state_dict()["network.classifier.1.bias"]).abs().max()
        worst = max(worst, float((logits - expected).abs().max() / largest))
    return worst


def main() -> None:
    """Print a line for each width."""
    timm()  # imports torchvision, which the reference needs, beside any torch
    sys.path.insert(0, sys.argv[1])
    networks = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    with tempfile.TemporaryDirectory() as folder:
        for width in (1.0, 1.2):
            worst = largest_difference(width, networks, Path(folder))
            print(f"width {width}: {networks} sub-networks, largest difference {worst:.1e}")


if __name__ == "__main__":
    main()
