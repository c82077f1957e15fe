"""ONNX files of one network in three precisions, each made from the fp32 file."""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path

from jaxtyping import Float32
from numpy import ndarray

from runtime.shell.errors import UserError
from runtime.shell.files.atomic_file import naming

_IN_FP32 = {"Add", "AveragePool", "BatchNormalization"}
"""Operations of an int8 file that stay in fp32: ONNX Runtime's 8-bit sums are slower than its fp32
ones, and a sum of branches needs more than 8 bits."""


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


def quantised(onnx: bytes, batches: Iterable[Float32[ndarray, "b 3 h w"]]) -> bytes:
    """The network in int8, calibrated on batches of images: the scales cover all their activations.

    Activations are unsigned: ONNX Runtime's kernels for signed ones take five times as long on x86.

    Raises:
      UserError: if ONNX Runtime cannot quantise the network.
    """
    import onnx as onnx_format  # noqa: PLC0415 - only where int8 is asked for
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static  # noqa: PLC0415 - as above
    from onnxruntime.quantization.shape_inference import quant_pre_process  # noqa: PLC0415 - as above

    with tempfile.TemporaryDirectory() as folder, _quiet_logging():
        given, prepared, made = (
            Path(folder) / f"{name}.onnx" for name in ("given", "prepared", "int8")
        )
        try:
            with naming(Path(folder)):
                # by its path: onnxruntime 1.30 fails on a model in memory with onnx 1.23.1
                given.write_bytes(onnx)
                quant_pre_process(str(given), str(prepared), skip_symbolic_shape=True)
                kinds = {node.op_type for node in onnx_format.load(prepared).graph.node}
                quantize_static(
                    prepared,
                    made,
                    _Calibration(batches),
                    quant_format=QuantFormat.QDQ,
                    per_channel=True,
                    activation_type=QuantType.QUInt8,
                    weight_type=QuantType.QInt8,
                    op_types_to_quantize=sorted(kinds - _IN_FP32),
                )
        except OSError:
            raise
        except Exception as error:  # its errors have no common base class
            reason = str(error).partition("\n")[0]
            raise UserError(f"ONNX Runtime cannot quantise this network: {reason}") from error
        return made.read_bytes()


def with_batch(onnx: bytes, batch_size: int) -> bytes:
    """The network with this number of images a batch, where it takes any."""
    import onnx as onnx_format  # noqa: PLC0415 - only for boards

    model = onnx_format.load_from_string(onnx)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = batch_size
    content: bytes = model.SerializeToString()
    return content


class _Calibration:
    """ONNX Runtime's `CalibrationDataReader`: inputs one at a time, then None."""

    def __init__(self, batches: Iterable[Float32[ndarray, "b 3 h w"]]) -> None:
        self._batches: Iterator[Float32[ndarray, "b 3 h w"]] = iter(batches)

    def get_next(self) -> dict[str, Float32[ndarray, "b 3 h w"]] | None:
        """The next input, by name."""
        batch = next(self._batches, None)
        return None if batch is None else {"input_0": batch}

    def __iter__(self) -> _Calibration:
        return self

    def __next__(self) -> dict[str, Float32[ndarray, "b 3 h w"]]:
        found = self.get_next()
        if found is None:
            raise StopIteration
        return found


@contextmanager
def _quiet_logging() -> Iterator[None]:
    """Without the warnings that ONNX Runtime's quantisation gives to the root logger."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
