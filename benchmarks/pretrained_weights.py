"""Converts MobileNets of TensorFlow and Keras, and MCUNet, for `space=pretrained weights=FOLDER`.

    $ python -m benchmarks.pretrained_weights FOLDER WEIGHTS_FOLDER [PHOTOS_FOLDER]

The evaluated network of a uint8 file is `scale * (q - zero)`, so that nothing is lost. Batch
normalisation is folded into the convolutions there; `space=pretrained` puts it back. Each network is
compared with the TFLite interpreter on the photos: same class (or largest feature), and the largest
difference, which is that of 8-bit rounding. Files of Keras, .h5, are compared with Keras, and
MCUNet's .pth with its .tflite.
Needs ai-edge-litert beside the extra `networks`; for .h5 h5py, and keras with KERAS_BACKEND=torch.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float64, UInt8
from numpy import ndarray
from PIL import Image, ImageOps
from safetensors.torch import save_file
from torch import nn

from benchmarks.pretrained_functions import BUILD
from nas.fit.starts.pretrained.libraries import timm

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
    ("mobilenetv1_025_float", 224): 0.498,
    ("mobilenetv1_025_keras", 224): 0.498,
    ("mobilenetv2_035", 128): 0.508,
    ("mcunet_320kb", 176): 0.618,
}
"""ImageNet top-1 of the float networks, by TF-slim's pages and MCUNet's."""

LINEAR = {"mobilenet_edgetpu_100": ["blocks.0.0.bn1.act"]}
"""Activations of timm's network that TensorFlow's is without."""


_MCUNET_EPS = 1e-5

Answers = Callable[[UInt8[ndarray, "h w 3"]], Float64[ndarray, "n"]]


class TorchConvolution(NamedTuple):
    """A convolution as torch stores it."""

    weight: Float64[ndarray, "out in h w"]
    bias: Float64[ndarray, "out"] | None = None
    norm: Float64[ndarray, "4 out"] | None = None
    """Scale, offset, mean and variance of batch normalisation, in which the constant is; None: folded."""


def architecture_of(name: str) -> tuple[str, int] | None:
    """Timm's name and the side of a file; None if timm has no such network."""
    if match := re.fullmatch(r"mobilenet_v([12])_(\d)_(\d+)_(\d+)_quant", name):
        width = round(float(f"{match[2]}.{match[3]}") * 100)
        return f"mobilenetv{match[1]}_{width:03d}", int(match[4])
    return {
        "mobilenet_v3_large_minimalistic_1_0_224_quant": ("tf_mobilenetv3_large_minimal_100", 224),
        "mobilenet_edgetpu_224_1.0_uint8": ("mobilenet_edgetpu_100", 224),
        "mobilenet_v1_1.0_224_quant_embedding_extractor": ("mobilenetv1_100", 224),
        "mobilenet_v1_0.25_224_1_default_1": ("mobilenetv1_025_float", 224),
        "mobilenet_v1_0.25_224": ("mobilenetv1_025_keras", 224),
        "mobilenet_v2_0.35_128": ("mobilenetv2_035", 128),
        "mcunet-320kb-1mb_imagenet": ("mcunet_320kb", 176),
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


def keras_layers(file: Path) -> Iterator[TorchConvolution]:
    """The layers of an .h5 file of Keras, in the order in which they are computed."""
    import h5py  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415 - not in the tests' needs

    stored = h5py.File(file)
    weights = stored.get("model_weights", stored)
    waiting: TorchConvolution | None = None
    for layer in json.loads(stored.attrs["model_config"])["config"]["layers"]:
        kind, name = layer["class_name"], layer["config"]["name"]
        if kind not in {"Conv2D", "DepthwiseConv2D", "BatchNormalization", "Dense"}:
            continue
        values = {
            key.partition(":")[0]: np.asarray(value, np.float64)
            for key, value in weights[name][name].items()
        }
        if kind == "BatchNormalization" and waiting is not None:
            norm = np.stack(
                [values[key] for key in ("gamma", "beta", "moving_mean", "moving_variance")]
            )
            norm[3] += layer["config"]["epsilon"]
            waiting = waiting._replace(norm=norm)
            continue
        if waiting is not None:
            yield waiting
        axes = (2, 3, 0, 1) if kind == "DepthwiseConv2D" else (3, 2, 0, 1)
        weight = values["depthwise_kernel" if kind == "DepthwiseConv2D" else "kernel"]
        weight = weight.T if kind == "Dense" else weight.transpose(axes)
        waiting = TorchConvolution(weight, values.get("bias"))
    if waiting is not None:
        yield waiting


def mcunet_layers(file: Path) -> Iterator[TorchConvolution]:
    """The layers of MCUNet's .pth file, in their order."""
    stored = torch.load(file, "cpu", weights_only=True)["state_dict"]
    values = {key: value.double().numpy() for key, value in stored.items()}
    for key, weight in values.items():
        if key.endswith("conv.weight"):
            norms = key.replace("conv.weight", "bn.")
            names = ("weight", "bias", "running_mean", "running_var")
            norm = np.stack([values[norms + name] for name in names])
            norm[3] += _MCUNET_EPS
            yield TorchConvolution(weight, norm=norm)
    yield TorchConvolution(values["classifier.linear.weight"], values["classifier.linear.bias"])


def converted(body: list[TorchConvolution], architecture: str) -> nn.Module:
    """The network with these weights, in evaluation mode.

    Raises:
      ValueError: if a layer is of another shape.
    """
    classes = len(body[-1].weight)
    if architecture in BUILD:
        network: Any = BUILD[architecture](classes).eval()
    else:
        network = timm().create_model(architecture, num_classes=classes, pad_type="same").eval()
    for name in LINEAR.get(architecture, []):
        network.set_submodule(name, nn.Identity())
    modules = list(network.modules())
    convolutions = [module for module in modules if isinstance(module, nn.Conv2d)]
    norms = iter([module for module in modules if isinstance(module, nn.BatchNorm2d)])
    head = body.pop() if len(body) > len(convolutions) else None  # none: it ends with its features
    with torch.no_grad():
        for convolution, layer in zip(convolutions, body, strict=True):
            _copy(convolution.weight, layer.weight)
            if convolution.bias is not None:
                _copy(convolution.bias, layer.bias)
                continue
            norm = next(norms)
            if layer.norm is None:
                norm.register_buffer("running_var", torch.full_like(norm.bias, 1 - norm.eps))
                _copy(norm.bias, layer.bias)
                continue
            _copy(norm.weight, layer.norm[0])
            _copy(norm.bias, layer.norm[1])
            _copy(norm.running_mean, layer.norm[2])
            _copy(norm.running_var, layer.norm[3] - norm.eps)
        if head is not None:
            _copy(network.classifier.weight, head.weight.reshape(classes, -1))
            _copy(network.classifier.bias, head.bias)
        else:
            network.reset_classifier(0)
    made: nn.Module = network
    return made


def _copy(parameter: torch.Tensor, values: Float64[ndarray, "..."] | None) -> None:
    if values is None or tuple(parameter.shape) != values.shape:
        raise ValueError(f"{tuple(parameter.shape)} is wanted, the file has {np.shape(values)}")
    parameter.copy_(torch.from_numpy(values))


def tflite_answers(interpreter: Any, pixels: UInt8[ndarray, "h w 3"]) -> Float64[ndarray, "n"]:
    """Outputs of the TFLite interpreter."""
    (put,), (got,) = interpreter.get_input_details(), interpreter.get_output_details()
    taken: dict[type, ndarray] = {
        np.uint8: pixels,
        np.int8: (pixels.astype(np.int16) - 128).astype(np.int8),
        np.float32: (pixels / 128 - 1).astype(np.float32),
    }
    interpreter.set_tensor(put["index"], taken[put["dtype"]][None])
    interpreter.invoke()
    scale, zero = got["quantization"]
    outputs = interpreter.get_tensor(got["index"]).ravel().astype(float)
    return np.asarray((outputs - zero) * (scale or 1))


def keras_answers(model: Any, pixels: UInt8[ndarray, "h w 3"]) -> Float64[ndarray, "n"]:
    """Outputs of a network of Keras, whose images lie between -1 and 1."""
    scaled = torch.from_numpy(pixels[None] / 127.5 - 1).float()
    with torch.inference_mode():
        outputs = model(scaled, training=False)
    return np.asarray(outputs.cpu().numpy().ravel().astype(float))


def compare(answers: Answers, network: nn.Module, about: dict[str, str], photos: Path) -> str:
    """Agreement of the network with the answers of another program on the photos of a folder."""
    side, files = int(about["side"]), sorted(photos.iterdir())
    mean, sd = (255 * np.array(json.loads(about[name])) for name in ("mean", "sd"))
    same, largest, apart = 0, 0.0, 0.0
    for file in files:
        pixels = np.array(ImageOps.fit(Image.open(file).convert("RGB"), (side, side)))
        theirs = answers(pixels)
        with torch.inference_mode():
            scaled = torch.from_numpy((pixels - mean) / sd).permute(2, 0, 1)[None].float()
            ours = network(scaled)[0].numpy()
        if theirs.max() <= 1 and theirs.min() >= 0:  # probabilities
            ours = np.exp(ours - ours.max()) / np.exp(ours - ours.max()).sum()
        same += int(theirs.argmax() == ours.argmax())
        largest = max(largest, float(np.abs(theirs - ours).max()))
        apart = max(apart, float(theirs.max() - theirs[ours.argmax()]))
    return (
        f"same largest output for {same} of {len(files)} photos, largest difference {largest:.3g}; "
        f"the other program's outputs for the two largest are {apart:.3g} apart at most"
    )


def opened(file: Path) -> tuple[list[TorchConvolution], Answers]:
    """The layers of a file, and what another program answers with it."""
    if file.suffix == ".h5":
        import keras  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415 - as above

        class OfKeras2(keras.layers.DepthwiseConv2D):  # type: ignore[misc,unused-ignore]  # untyped
            def __init__(self, *, groups: int = 1, **settings: Any) -> None:  # noqa: ARG002
                super().__init__(**settings)

        objects = {"DepthwiseConv2D": OfKeras2}
        model = keras.saving.load_model(file, compile=False, custom_objects=objects)
        return list(keras_layers(file)), partial(keras_answers, model)
    from ai_edge_litert.interpreter import (  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: PLC0415 - as above
        Interpreter,
    )

    interpreter = Interpreter(
        str(file.with_suffix(".tflite")), experimental_preserve_all_tensors=True
    )
    interpreter.allocate_tensors()
    body = list(mcunet_layers(file) if file.suffix == ".pth" else layers(interpreter))
    return body, partial(tflite_answers, interpreter)


def main(source: Path, target: Path, photos: Path | None) -> None:
    """Convert every file that there is an architecture for."""
    (target / "functions").mkdir(parents=True, exist_ok=True)
    files = (file for kind in ("tflite", "h5", "pth") for file in sorted(source.glob(f"*.{kind}")))
    for file in files:
        named = architecture_of(file.stem)
        if named is None or file.with_suffix(".pth").is_file() > (file.suffix == ".pth"):
            continue
        architecture, side = named
        body, answers = opened(file)
        network = converted(body, architecture)
        middle = 0.5 if file.suffix in {".h5", ".pth"} else 128 / 255
        about = {
            "architecture": architecture,
            "arguments": json.dumps({"pad_type": "same"}),
            "side": str(side),
            "mean": json.dumps([middle] * 3),
            "sd": json.dumps([middle] * 3),
            "top1": str(TOP1[named]),
            "linear": json.dumps(LINEAR.get(architecture, [])),
            "licence": "mit" if file.suffix == ".pth" else "apache-2.0",
            "origin": file.name,
        }
        path = f"{architecture}.tf_{side}"
        if architecture in BUILD:
            path = f"functions/{architecture}_{side}"
        save_file(network.state_dict(), target / f"{path}.safetensors", about)
        agrees = "" if photos is None else compare(answers, network, about, photos)
        print(f"{path}: {agrees}", flush=True)


if __name__ == "__main__":
    first, second, *others = map(Path, sys.argv[1:])
    main(first, second, others[0] if others else None)
