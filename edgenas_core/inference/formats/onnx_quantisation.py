"""Static int8 quantisation of ONNX networks (QDQ), by ONNX Runtime."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32
from numpy import ndarray

from edgenas_core.files.atomic_file import naming

_SUMS = {"Add", "AveragePool", "BatchNormalization"}
"""ONNX Runtime's 8-bit sums are slower than its fp32 ones, and a sum of branches needs more than 8 bits."""

_HEAVY = {"Conv", "ConvTranspose", "Einsum", "Gemm", "GRU", "LSTM", "MatMul", "RNN"}
"""Operations that take most of a network's time, by their names where they are left in fp32."""

LEAST_RANGE = 1e-4
"""Range that each scale covers at least: of an activation, and of a channel's weights, which may well be below 0.01.

An activation that is always 0, as behind a `none` of NAS-Bench-201, would have scale 1, to which ONNX Runtime rounds the
bias of the convolution that it feeds.
"""


def quantised(
    onnx: bytes,
    batches: Iterable[Float32[ndarray, "..."]],
    in_fp32: Collection[str] = (),
    *,
    sums_in_fp32: bool = True,
    in_7_bits: bool = False,
) -> bytes:
    """The network in int8: weights per channel, activations per tensor, calibrated on batches of its input.

    Activations are unsigned: ONNX Runtime's kernels for signed ones take five times as long on x86.
    The network is optimised first: torch exports the equal biases of an untrained network once, and ONNX
    Runtime would leave convolutions that share one in fp32, five times as slow.

    Args:
      onnx: a network with one input.
      batches: inputs; the scales cover all their activations.
      in_fp32: layers that are not quantised, by torch's names.
      sums_in_fp32: quantise all operations but sums; else those that ONNX Runtime chooses.
      in_7_bits: weights of 7 bits, whose products do not saturate on x86 processors without VNNI.

    Raises:
      OSError: if the temporary folder cannot be written, as when the disk is full.
      ValueError: if ONNX Runtime cannot quantise the network.
    """
    with tempfile.TemporaryDirectory() as folder, _quiet_logging():
        refused: list[str] = []
        try:
            with naming(Path(folder)):
                return _quantised(
                    onnx,
                    Path(folder),
                    batches,
                    in_fp32,
                    refused,
                    sums_in_fp32=sums_in_fp32,
                    in_7_bits=in_7_bits,
                )
        except OSError:
            raise
        except Exception as error:  # its errors have no common base class
            reason = str(error).partition("\n")[0]
            what = "".join(refused) or "this network"
            raise ValueError(
                f"ONNX Runtime cannot quantise {what}: {reason}; replace the layer, or leave int8 out by "
                f"precision=fp32"
            ) from error


def _quantised(
    onnx: bytes,
    folder: Path,
    batches: Iterable[Float32[ndarray, "..."]],
    in_fp32: Collection[str],
    refused: list[str],
    *,
    sums_in_fp32: bool,
    in_7_bits: bool,
) -> bytes:
    """The network in int8; `refused` gets the name of a layer whose weights are not finite."""
    import onnx as onnx_format  # noqa: PLC0415 - only where int8 is asked for
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static  # noqa: PLC0415 - loaded when needed
    from onnxruntime.quantization.shape_inference import quant_pre_process  # noqa: PLC0415 - loaded when needed

    exported, optimised, prepared, made = (
        folder / f"{name}.onnx" for name in ("given", "optimised", "prepared", "int8")
    )
    exported.write_bytes(onnx)
    _optimise(exported, optimised, "ORT_ENABLE_BASIC")
    # which until 1.31 drops what it optimised itself
    quant_pre_process(
        str(optimised), str(prepared), skip_optimization=True, skip_symbolic_shape=True
    )
    graph = onnx_format.load(prepared).graph
    refused.append(_not_finite(graph))
    kinds = {node.op_type for node in graph.node}
    quantize_static(
        prepared,
        made,
        _Calibration(graph.input[0].name, batches),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        reduce_range=in_7_bits,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        op_types_to_quantize=sorted(kinds - _SUMS) if sums_in_fp32 else None,
        nodes_to_exclude=_nodes_of(in_fp32, graph),
        extra_options={"MinimumRealRange": LEAST_RANGE},
    )
    return made.read_bytes()


def _optimise(exported: Path, optimised: Path, level: str) -> None:
    """Write a file as ONNX Runtime optimises it."""
    import onnxruntime  # noqa: PLC0415 - only where int8 is asked for

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.optimized_model_filepath = str(optimised)
    options.log_severity_level = 3
    # by its path: onnxruntime 1.30 fails on a model in memory with onnx 1.23.1
    onnxruntime.InferenceSession(exported, options, providers=["CPUExecutionProvider"])


def _not_finite(graph: Any) -> str:
    """The first operation with weights that are not finite: kind and layer; empty without one."""
    from onnx.numpy_helper import to_array  # noqa: PLC0415 - only where int8 is asked for

    broken = {each.name for each in graph.initializer if not np.isfinite(to_array(each)).all()}
    return next((_named(node) for node in graph.node if broken & {*node.input}), "")


def _nodes_of(layers: Collection[str], graph: Any) -> list[str]:
    """Names of the nodes of layers and of what reads them up to the next layers.

    An activation alone in 8 bits would have its input rounded, whose range is wider than that of its output.
    """
    names: list[str] = []
    written: set[str] = set()
    for node in graph.node:
        is_behind = node.op_type not in _HEAVY and bool(written & {*node.input})
        if _layer(node.name) in layers or is_behind:
            names.append(node.name)
            written |= {*node.output}
    return names


def _named(node: Any) -> str:
    return f"{node.op_type} ({_layer(node.name)})"


def _layer(name: str) -> str:
    """Layer of a node by torch's name, `a.0.b` of `/a/a.0/b/Conv`."""
    layer = ""
    for part in name.strip("/").split("/")[:-1]:
        layer = part if part.startswith(f"{layer}.") else f"{layer}.{part}".strip(".")
    return layer or name.strip("/")


def onnx_in_fp32(int8: bytes) -> list[str]:
    """Heavy operations of an int8 network that ONNX Runtime computes in fp32, as it has no other: kind and layer."""
    import onnx as onnx_format  # noqa: PLC0415 - only where int8 is asked for

    with tempfile.TemporaryDirectory() as folder:
        made, optimised = Path(folder) / "int8.onnx", Path(folder) / "optimised.onnx"
        made.write_bytes(int8)
        _optimise(made, optimised, "ORT_ENABLE_EXTENDED")
        nodes = onnx_format.load(optimised).graph.node
    return [_named(node) for node in nodes if node.op_type.removeprefix("Fused") in _HEAVY]


class _Calibration:
    """ONNX Runtime's `CalibrationDataReader`."""

    def __init__(self, name: str, batches: Iterable[Float32[ndarray, "..."]]) -> None:
        self._inputs = ({name: batch} for batch in batches)

    def get_next(self) -> dict[str, Float32[ndarray, "..."]] | None:
        """The next input, by name; None after the last."""
        return next(self._inputs, None)


@contextmanager
def _quiet_logging() -> Iterator[None]:
    """Silence the warnings that ONNX Runtime's quantisation gives to the root logger, in a block."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
