"""Networks with weights that timm has no name for, for `pool=benchmarks/pretrained_functions.py:NAME`.

`benchmarks.pretrained_weights` writes their weights into the folder `functions` of its own, which the
environment variable WEIGHTS names. NAME is that of a file there, as `mobilenetv1_050_128`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import load_file
from torch import nn

from nas.fit.starts.pretrained.libraries import timm

MCUNET = (
    ["ds_r1_k3_s1_c8"],
    ["ir_r1_k7_s2_e3_c16", "ir_r1_k3_s1_e5_c16", "ir_r1_k7_s1_e5_c16", "ir_r1_k5_s1_e4_c16"],
    ["ir_r1_k5_s2_e5_c24", "ir_r2_k5_s1_e5_c24"],
    ["ir_r1_k3_s2_e5_c40", "ir_r1_k7_s1_e6_c40", "ir_r1_k5_s1_e4_c40"],
    ["ir_r1_k5_s1_e5_c48", "ir_r1_k7_s1_e5_c48", "ir_r1_k3_s1_e5_c48"],
    ["ir_r1_k3_s2_e6_c96", "ir_r1_k7_s1_e5_c96", "ir_r1_k3_s1_e4_c96", "ir_r1_k7_s1_e5_c160"],
)
"""Blocks of the network of 320 kB and 1 MB (Lin et al., NeurIPS 2020), as timm writes them."""


def mobilenet_v1(width: float, classes: int) -> nn.Module:
    """MobileNetV1 of any width with TensorFlow's padding."""
    build = timm().models.efficientnet._gen_mobilenet_v1  # noqa: SLF001 - no public name for it
    network: nn.Module = build("mobilenetv1_100", width, num_classes=classes, pad_type="same")
    return network


def mcunet(classes: int) -> nn.Module:
    """MCUNet for 320 kB of memory."""
    library = timm().models.efficientnet
    network: nn.Module = library.EfficientNet(
        library.decode_arch_def(MCUNET),
        num_classes=classes,
        num_features=0,
        stem_size=16,
        act_layer=nn.ReLU6,
    )
    return network


BUILD: dict[str, Callable[[int], nn.Module]] = {
    "mobilenetv1_050": partial(mobilenet_v1, 0.5),
    "mobilenetv1_025": partial(mobilenet_v1, 0.25),
    "mobilenetv1_025_float": partial(mobilenet_v1, 0.25),
    "mobilenetv1_025_keras": partial(mobilenet_v1, 0.25),
    "mcunet_320kb": mcunet,
}


def __getattr__(name: str) -> Callable[[int], nn.Module]:
    """The function that builds the network of a file."""
    if name.rpartition("_")[0] not in BUILD:
        raise AttributeError(name)
    return partial(_with_weights, name)


def _with_weights(name: str, classes: int) -> nn.Module:
    file = Path(os.environ["WEIGHTS"]) / "functions" / f"{name}.safetensors"
    with safe_open(file, "pt") as opened:
        about = opened.metadata()
    network: Any = BUILD[name.rpartition("_")[0]](classes)
    weights = load_file(file)
    body = {key: value for key, value in weights.items() if not key.startswith("classifier.")}
    network.load_state_dict(body, strict=False)
    side = int(about["side"])
    network.pretrained_cfg = {
        "input_size": (3, side, side),
        "mean": json.loads(about["mean"]),
        "std": json.loads(about["sd"]),
        "license": about["licence"],
        "top1": float(about["top1"]),
        "classifier": "classifier",
    }
    return network
