"""`frigate/` of an export: what Frigate's custom classification loads, `model.tflite` of uint8 pixels and `labelmap.txt`."""

from __future__ import annotations

from pathlib import Path
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from edgenas_core.inference.formats.tflite_export import tflite_bytes, without_names
from edgenas_core.types.errors import UserError
from nas.fit.data.image_set import ImageSet

FOLDER, MODEL, LABELS = "frigate", "model.tflite", "labelmap.txt"

_SIDE = 224
"""Pixels of the crops that Frigate gives a network, stretched to a square."""

_LUMA = (0.299, 0.587, 0.114)


@final
class _OfPixels(nn.Module):
    """A network from RGB pixels of 0 to 255 to calibrated probabilities."""

    def __init__(self, network: nn.Module, images: ImageSet, side: int, temperature: float) -> None:
        super().__init__()
        self._network, self._side, self._temperature = network, side, temperature
        self._channels = images.channels
        for name in ("mean", "sd"):
            values = torch.tensor(getattr(images, name), dtype=torch.float32)
            self.register_buffer(name, 255 * values.view(1, -1, 1, 1))

    def forward(self, pixels: Float[Tensor, "1 3 h w"]) -> Float[Tensor, "1 classes"]:
        """Probabilities of the classes."""
        if self._channels == "bgr":
            pixels = pixels.flip(1)
        if self._channels == "grey":
            luma = torch.tensor(_LUMA).view(1, 3, 1, 1)
            pixels = (pixels * luma).sum(1, keepdim=True)
        side = (self._side, self._side)
        small = functional.interpolate(pixels, side, mode="bilinear", align_corners=False)
        mean, sd = self.get_buffer("mean"), self.get_buffer("sd")
        outputs: Tensor = self._network((small - mean) / sd)
        return (outputs / self._temperature).softmax(1)


def write_frigate(
    folder: Path, network: nn.Module, images: ImageSet, side: int, temperature: float
) -> None:
    """Write the folder.

    Raises:
      UserError: if the converter is not installed, or cannot convert the network.
      OSError: if a file cannot be written.
    """
    (folder / FOLDER).mkdir()
    whole = _OfPixels(network, images, side, temperature).eval()
    try:
        content = tflite_bytes(whole, torch.zeros(1, 3, _SIDE, _SIDE))
    except ValueError as refused:
        raise UserError(f"formats=[frigate]: {refused}") from refused
    (folder / FOLDER / MODEL).write_bytes(_of_bytes(without_names(content)))
    names = "".join(f"{' '.join(name.split())}\n" for name in images.classes)
    (folder / FOLDER / LABELS).write_text(names, encoding="utf-8")


def _of_bytes(tflite: bytes) -> bytes:
    """The network with an input of uint8, which is cast to floating point first."""
    from ai_edge_litert import schema_py_generated as schema  # noqa: PLC0415 - an extra
    from ai_edge_litert.tools import flatbuffer_utils  # noqa: PLC0415 - loaded when needed

    model = flatbuffer_utils.read_model_from_bytearray(bytearray(tflite))
    (graph,) = model.subgraphs
    pixels = schema.TensorT()
    pixels.name, pixels.type = b"pixels", schema.TensorType.UINT8
    pixels.shape = np.array([1, _SIDE, _SIDE, 3], np.int32)
    cast = schema.OperatorT()
    kind = schema.OperatorCodeT()
    kind.builtinCode = kind.deprecatedBuiltinCode = schema.BuiltinOperator.CAST
    kind.version = 1
    cast.opcodeIndex = len(model.operatorCodes)
    cast.inputs, cast.outputs = [len(graph.tensors)], [int(graph.inputs[0])]
    model.operatorCodes.append(kind)
    graph.tensors.append(pixels)
    graph.operators.insert(0, cast)
    graph.inputs = [len(graph.tensors) - 1]
    for signature in model.signatureDefs or ():
        signature.inputs[0].tensorIndex = len(graph.tensors) - 1
    return bytes(flatbuffer_utils.convert_object_to_bytearray(model))
