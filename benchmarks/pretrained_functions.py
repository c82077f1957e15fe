"""Networks with weights that timm has no name for, for `pool=benchmarks/pretrained_functions.py:NAME`.

`benchmarks.pretrained_weights` writes their weights into the folder `functions` of its own, which the
environment variable WEIGHTS names.
"""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import load_file
from torch import nn

from nas.spaces.pretrained.timm_library import timm


def mobilenet_v1(width: float, classes: int) -> nn.Module:
    """MobileNetV1 of any width with TensorFlow's padding."""
    build = timm().models.efficientnet._gen_mobilenet_v1  # noqa: SLF001 - no public name for it
    network: nn.Module = build("mobilenetv1_100", width, num_classes=classes, pad_type="same")
    return network


def _with_weights(name: str, width: float, classes: int) -> nn.Module:
    file = Path(os.environ["WEIGHTS"]) / "functions" / f"{name}.safetensors"
    with safe_open(file, "pt") as opened:
        about = opened.metadata()
    network, weights = mobilenet_v1(width, classes), load_file(file)
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


mobilenetv1_025_128 = partial(_with_weights, "mobilenetv1_025_128", 0.25)
mobilenetv1_025_160 = partial(_with_weights, "mobilenetv1_025_160", 0.25)
mobilenetv1_025_192 = partial(_with_weights, "mobilenetv1_025_192", 0.25)
mobilenetv1_025_224 = partial(_with_weights, "mobilenetv1_025_224", 0.25)
mobilenetv1_050_128 = partial(_with_weights, "mobilenetv1_050_128", 0.5)
mobilenetv1_050_160 = partial(_with_weights, "mobilenetv1_050_160", 0.5)
mobilenetv1_050_192 = partial(_with_weights, "mobilenetv1_050_192", 0.5)
mobilenetv1_050_224 = partial(_with_weights, "mobilenetv1_050_224", 0.5)
