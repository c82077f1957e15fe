"""Static int8 quantisation of weights and activations, by ONNX Runtime."""

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
    """Quantise an ONNX network to int8: weights per channel, activations per tensor."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "int8.onnx"
        root = logging.getLogger()
        level = root.level
        root.setLevel(logging.ERROR)  # hides the advice to preprocess, which does not improve this
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


class _Reader(CalibrationDataReader):  # type: ignore[misc]  # untyped
    def __init__(self, inputs: Sequence[Float32[ndarray, "..."]]) -> None:
        self._inputs = iter(inputs)

    def get_next(self) -> dict[str, Any] | None:
        return next(({"input_0": one} for one in self._inputs), None)
