"""Claim: sub-networks of networks that no one tuned for run, export, and agree between torch and ONNX.

    $ python -m benchmarks.elastic_networks [rows of each network] [names]

Ten networks of timm and torchvision, three of them no classifiers, with random weights and
statistics, on images of 96 pixels. A space is built of each; random rows are built, exported, and
their outputs compared with ONNX Runtime's, relative to the largest. Prints what was left whole.
"""

import sys
import time
from collections import Counter

import numpy as np
import onnxruntime
import torch
from torch import nn

from edgenas_core.inference.formats.onnx_export import onnx_bytes
from nas.fit.starts.elastic.space import ElasticSpace
from nas.fit.starts.elastic.structure import tensors_of
from nas.fit.starts.pretrained.libraries import timm

SIDE = 96
NETWORKS = (
    "timm/mobilenetv4_conv_small",
    "timm/ghostnet_050",
    "timm/convnext_atto",
    "timm/hgnetv2_b0",
    "timm/levit_conv_128s",
    "torchvision/mnasnet0_5",
    "torchvision/regnet_y_400mf",
    "torchvision/lraspp_mobilenet_v3_large",
    "torchvision/deeplabv3_mobilenet_v3_large",
    "timm/resnet18 features_only",
)


class Flat(nn.Module):
    """Results of a network as a tuple, which exporters take."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """All tensors."""
        return tuple(tensors_of(self.network(images)))


def built(name: str) -> tuple[nn.Module, int]:
    """A network with random statistics, and its side."""
    library, _, rest = name.partition("/")
    architecture, _, option = rest.partition(" ")
    torch.manual_seed(0)
    if library == "timm":
        settings = {option: True} if option else {"num_classes": 10}
        network = timm().create_model(architecture, **settings)
    else:
        timm()  # imports torchvision beside any torch
        import torchvision  # noqa: PLC0415 - as said

        settings = {"weights_backbone": None} if "_mobilenet" in architecture else {}
        network = torchvision.models.get_model(architecture, weights=None, **settings)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean, std=0.1)
            nn.init.uniform_(module.running_var, 0.5, 2.0)
    about = getattr(network, "pretrained_cfg", None) or {}
    is_fixed = bool(about.get("fixed_input_size"))
    return network, about["input_size"][-1] if is_fixed else SIDE


def difference(space: ElasticSpace, row: np.ndarray) -> float:
    """Largest difference between torch and ONNX Runtime, as a share of the largest output."""
    task = space.tasks["images"]
    images = space.example_input(row, task, 1)
    network = Flat(space.network(row, task)).eval()
    with torch.no_grad():
        expected = [tensor.numpy() for tensor in network(images)]
    session = onnxruntime.InferenceSession(onnx_bytes(network, [images]))
    answered = session.run(None, {session.get_inputs()[0].name: images.numpy()})
    return max(
        float(np.abs(one - other).max() / np.abs(one).max())
        for one, other in zip(expected, answered, strict=True)
    )


def main() -> None:
    """Print a line for each network."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    for name in sys.argv[2:] or NETWORKS:
        network, side = built(name)
        began_s = time.perf_counter()
        space = ElasticSpace(network, side)
        built_s, parts = time.perf_counter() - began_s, space.structure
        drawn = space.sample(np.random.default_rng(0), rows)
        worst = max(difference(space, row) for row in drawn)
        print(
            f"{name}, {side} pixels: 10^{np.log10(space.num_choices).sum():.0f} rows of "
            f"{len(parts.groups)} widths, {sum(map(len, parts.stages.values()))} blocks, "
            f"{len(parts.kernels)} kernels, {len(parts.sides)} sides, in {built_s:.0f} s; "
            f"{rows} rows agree to {worst:.0e}"
        )
        for reason, count in Counter(parts.whole.values()).most_common(3):
            print(f"    left whole, {count} groups: {reason}")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
