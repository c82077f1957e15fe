"""Weights and activations in 8 bits, by ONNX Runtime's own static quantisation."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
from jaxtyping import Float32
from numpy import ndarray
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static


def quantise(content: bytes, calibration: Sequence[Float32[ndarray, "..."]]) -> bytes:
    """An ONNX network in int8, one scale a channel of the weights, one a tensor of activations.

    Args:
      content: the network in fp32, of one input.
      calibration: inputs; least and greatest activations are taken from them.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "int8.onnx"
        root = logging.getLogger()
        level = root.level
        root.setLevel(logging.ERROR)  # it advises to preprocess, which it could not do better
        try:
            quantize_static(
                onnx.load_from_string(content),
                path,
                _Reader(calibration),
                quant_format=QuantFormat.QDQ,
                per_channel=True,
                activation_type=QuantType.QUInt8,
                weight_type=QuantType.QInt8,
            )
        finally:
            root.setLevel(level)
        return path.read_bytes()


class _Reader(CalibrationDataReader):  # type: ignore[misc]  # it has no types
    def __init__(self, inputs: Sequence[Float32[ndarray, "..."]]) -> None:
        self._inputs = iter(inputs)

    def get_next(self) -> dict[str, Any] | None:
        return next(({"input_0": one} for one in self._inputs), None)
