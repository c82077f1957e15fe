"""Converts quantised MobileNets of TensorFlow into safetensors for `space=pretrained weights=FOLDER`.

    $ python -m benchmarks.pretrained_weights TFLITE_FOLDER WEIGHTS_FOLDER [PHOTOS_FOLDER]

The evaluated network of a uint8 file is `scale * (q - zero)`, so that nothing is lost. Batch
normalisation is folded into the convolutions there; `space=pretrained` puts it back. Each network is
compared with the TFLite interpreter on the photos: same class (or largest feature), and the largest
difference, which is that of 8-bit rounding.
Needs ai-edge-litert beside the extra `networks`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float64
from numpy import ndarray
from PIL import Image, ImageOps
from safetensors.torch import save_file
from torch import nn

from benchmarks.pretrained_functions import mobilenet_v1
from nas.spaces.pretrained.timm_library import timm

CLASSES = 1001
"""Classes of ImageNet, and the background before them."""

TOP1 = {
    ("mobilenetv2_100", 224): 0.718,
    ("mobilenetv2_100", 192): 0.707,
    ("mobilenetv2_100", 160): 0.688,
    ("mobilenetv2_100", 128): 0.653,
    ("mobilenetv2_100", 96): 0.603,
    ("mobilenetv2_075", 224): 0.698,
    ("mobilenetv2_075", 192): 0.687,
    ("mobilenetv2_075", 160): 0.664,
    ("mobilenetv2_075", 128): 0.632,
    ("mobilenetv2_075", 96): 0.588,
    ("mobilenetv2_050", 224): 0.654,
    ("mobilenetv2_050", 192): 0.639,
    ("mobilenetv2_050", 160): 0.610,
    ("mobilenetv2_050", 128): 0.577,
    ("mobilenetv2_050", 96): 0.512,
    ("tf_mobilenetv3_large_minimal_100", 224): 0.723,
    ("mobilenet_edgetpu_100", 224): 0.758,
    ("mobilenetv1_100", 224): 0.709,
    ("mobilenetv1_050", 224): 0.633,
    ("mobilenetv1_050", 192): 0.617,
    ("mobilenetv1_050", 160): 0.591,
    ("mobilenetv1_050", 128): 0.563,
    ("mobilenetv1_025", 224): 0.498,
    ("mobilenetv1_025", 192): 0.477,
    ("mobilenetv1_025", 160): 0.455,
    ("mobilenetv1_025", 128): 0.415,
}
"""ImageNet top-1 of the float networks, by TF-slim's pages."""


WIDTHS = {"mobilenetv1_050": 0.5, "mobilenetv1_025": 0.25}
"""Widths of MobileNetV1 that timm has no name for: `benchmarks.pretrained_functions` builds these."""

LINEAR = {"mobilenet_edgetpu_100": ["blocks.0.0.bn1.act"]}
"""Activations of timm's network that TensorFlow's is without."""


class TorchConvolution(NamedTuple):
    """A convolution as torch stores it."""

    weight: Float64[ndarray, "out in h w"]
    bias: Float64[ndarray, "out"]


def architecture_of(name: str) -> tuple[str, int] | None:
    """Timm's name and the side of a file; None if timm has no such network."""
    if match := re.fullmatch(r"mobilenet_v([12])_(\d)_(\d+)_(\d+)_quant", name):
        width = round(float(f"{match[2]}.{match[3]}") * 100)
        return f"mobilenetv{match[1]}_{width:03d}", int(match[4])
    return {
        "mobilenet_v3_large_minimalistic_1_0_224_quant": ("tf_mobilenetv3_large_minimal_100", 224),
        "mobilenet_edgetpu_224_1.0_uint8": ("mobilenet_edgetpu_100", 224),
        "mobilenet_v1_1.0_224_quant_embedding_extractor": ("mobilenetv1_100", 224),
    }.get(name)


def layers(interpreter: Any) -> Iterator[TorchConvolution]:
    """The convolutions in the order in which they are computed."""
    details = {detail["index"]: detail for detail in interpreter.get_tensor_details()}

    def numbers(index: int) -> Float64[ndarray, "..."]:
        quantised = details[index]["quantization_parameters"]
        scales, zeros = quantised["scales"], quantised["zero_points"]
        tensor: Float64[ndarray, "..."] = interpreter.get_tensor(index).astype(np.float64)
        if not len(scales):
            return tensor
        if len(scales) > 1:
            shape = [1] * tensor.ndim
            shape[quantised["quantized_dimension"]] = -1
            scales, zeros = scales.reshape(shape), zeros.reshape(shape)
        evaluated: Float64[ndarray, "..."] = (tensor - zeros) * scales
        return evaluated

    for operation in interpreter._get_ops_details():  # noqa: SLF001 - the public interface has no order
        kind = operation["op_name"]
        if kind not in {"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"}:
            continue
        _, weight, bias = operation["inputs"][:3]
        stored = numbers(weight)
        if kind == "DEPTHWISE_CONV_2D":
            stored = stored.transpose(3, 0, 1, 2)
        elif kind == "CONV_2D":
            stored = stored.transpose(0, 3, 1, 2)
        yield TorchConvolution(stored, numbers(bias))


def network_of(architecture: str) -> nn.Module:
    """The architecture with new weights."""
    if architecture in WIDTHS:
        return mobilenet_v1(WIDTHS[architecture], CLASSES)
    network: nn.Module = timm().create_model(architecture, num_classes=CLASSES, pad_type="same")
    return network


def converted(interpreter: Any, architecture: str) -> nn.Module:
    """Timm's network with these weights, in evaluation mode.

    Raises:
      ValueError: if a layer is of another shape.
    """
    network: Any = network_of(architecture).eval()
    for name in LINEAR.get(architecture, []):
        network.set_submodule(name, nn.Identity())
    modules = list(network.modules())
    convolutions = [module for module in modules if isinstance(module, nn.Conv2d)]
    norms = iter([module for module in modules if isinstance(module, nn.BatchNorm2d)])
    body = list(layers(interpreter))
    head = body.pop() if len(body) > len(convolutions) else None  # none: it ends with its features
    with torch.no_grad():
        for convolution, layer in zip(convolutions, body, strict=True):
            _copy(convolution.weight, layer.weight)
            if convolution.bias is not None:
                _copy(convolution.bias, layer.bias)
                continue
            norm = next(norms)
            norm.register_buffer("running_var", torch.full_like(norm.bias, 1 - norm.eps))
            _copy(norm.bias, layer.bias)
        if head is not None:
            _copy(network.classifier.weight, head.weight.reshape(CLASSES, -1))
            _copy(network.classifier.bias, head.bias)
        else:
            network.reset_classifier(0)
    made: nn.Module = network
    return made


def _copy(parameter: torch.Tensor, values: Float64[ndarray, "..."]) -> None:
    if tuple(parameter.shape) != values.shape:
        raise ValueError(f"{tuple(parameter.shape)} is wanted, the file has {values.shape}")
    parameter.copy_(torch.from_numpy(values))


def compare(interpreter: Any, network: nn.Module, side: int, photos: Path) -> str:
    """Agreement of the network with the interpreter on the photos of a folder."""
    (input_details,), (output_details,) = (
        interpreter.get_input_details(),
        interpreter.get_output_details(),
    )
    scale, zero = output_details["quantization"]
    same, largest, files = 0, 0.0, sorted(photos.iterdir())
    for file in files:
        pixels = np.asarray(ImageOps.fit(Image.open(file).convert("RGB"), (side, side)))
        interpreter.set_tensor(input_details["index"], pixels[None])
        interpreter.invoke()
        theirs = (
            interpreter.get_tensor(output_details["index"]).ravel().astype(float) - zero
        ) * scale
        with torch.inference_mode():
            ours = network(
                (torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None].float() - 128) / 128
            )
        ours = ours[0].numpy()
        if theirs.max() <= 1 and theirs.min() >= 0:  # probabilities
            ours = np.exp(ours - ours.max()) / np.exp(ours - ours.max()).sum()
        same += int(theirs.argmax() == ours.argmax())
        largest = max(largest, float(np.abs(theirs - ours).max()))
    return (
        f"same largest output for {same} of {len(files)} photos, largest difference {largest:.3g}"
    )


def main(source: Path, target: Path, photos: Path | None) -> None:
    """Convert every file that there is an architecture for."""
    from ai_edge_litert.interpreter import (  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: PLC0415 - not in the tests' needs
        Interpreter,
    )

    (target / "functions").mkdir(parents=True, exist_ok=True)
    for file in sorted(source.glob("*.tflite")):
        named = architecture_of(file.stem)
        if named is None:
            continue
        architecture, side = named
        interpreter = Interpreter(str(file), experimental_preserve_all_tensors=True)
        interpreter.allocate_tensors()
        network = converted(interpreter, architecture)
        about = {
            "architecture": architecture,
            "arguments": json.dumps({"pad_type": "same"}),
            "side": str(side),
            "mean": json.dumps([128 / 255] * 3),
            "sd": json.dumps([128 / 255] * 3),
            "top1": str(TOP1[named]),
            "linear": json.dumps(LINEAR.get(architecture, [])),
            "licence": "apache-2.0",
            "origin": f"TensorFlow's {file.name}",
        }
        path = f"{architecture}.tf_{side}"
        if architecture in WIDTHS:
            path = f"functions/{architecture}_{side}"
        save_file(network.state_dict(), target / f"{path}.safetensors", about)
        agrees = "" if photos is None else compare(interpreter, network, side, photos)
        print(f"{path}: {agrees}", flush=True)


if __name__ == "__main__":
    first, second, *others = map(Path, sys.argv[1:])
    main(first, second, others[0] if others else None)
