"""ONNX files of one network in three precisions, each made from the fp32 file."""

from __future__ import annotations

import warnings
from enum import Enum


class Precision(Enum):
    """Number format of a file's weights and activations; input and output are always fp32."""

    fp32 = "fp32"
    fp16 = "fp16"
    int8 = "int8"  # QDQ: 8-bit weights, scaled per channel, and 8-bit activations but for sums

    @property
    def file(self) -> str:
        """Name of the file."""
        return "network.onnx" if self is Precision.fp32 else f"network-{self.value}.onnx"


def half(onnx: bytes) -> bytes:
    """The network in fp16, between casts of its input and output."""
    import onnx as onnx_format  # noqa: PLC0415 - only where fp16 is asked for
    from onnxruntime.transformers.float16 import convert_float_to_float16  # noqa: PLC0415 - as above

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of each weight too small for fp16, which becomes 1e-7
        model = convert_float_to_float16(onnx_format.load_from_string(onnx), keep_io_types=True)
    content: bytes = model.SerializeToString()
    return content


def with_batch(onnx: bytes, batch_size: int) -> bytes:
    """The network with this number of images a batch, where it takes any."""
    import onnx as onnx_format  # noqa: PLC0415 - only for boards

    model = onnx_format.load_from_string(onnx)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = batch_size
    content: bytes = model.SerializeToString()
    return content
