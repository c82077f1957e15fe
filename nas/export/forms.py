"""The forms of a network as files of a format and a precision: fp32, fp16 and int8 in ONNX and TFLite."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TypeAlias

import numpy as np
import onnx
import torch
from jaxtyping import Float32
from numpy import ndarray
from torch import nn

from edgenas_core.inference.formats.onnx_export import OPSET, onnx_bytes
from edgenas_core.inference.formats.onnx_quantisation import onnx_in_fp32, quantised
from edgenas_core.inference.formats.onnx_session import OnnxSession
from edgenas_core.inference.formats.tflite_export import (
    in_fp32,
    tflite_bytes,
    tflite_quantised,
    without_names,
)
from edgenas_core.types.errors import UserError
from nas.export.config import ExportConfig, ExportForm, ExportFormat, ExportPrecision
from nas.export.int8 import CALIBRATED_ON, Int8Onnx, Int8Source, calibration
from nas.export.latency import tflite_session
from nas.export.network import Session, half
from nas.export.subject import ExportSubject
from nas.fit.learners.data import has_classes

Inputs: TypeAlias = Float32[ndarray, "n c h w"]


def written_forms(
    network: nn.Module,
    subject: ExportSubject,
    config: ExportConfig,
    inputs: Inputs,
    source: Int8Source | None = None,
) -> tuple[dict[ExportForm, bytes], list[str], str]:
    """Contents of each file, notes on operations that run in fp32, and a text on layers that stay in fp32.

    The fp32 file of the first format is the first one.

    Raises:
      UserError: if a format cannot hold the network.
    """
    files: dict[ExportForm, bytes] = {}
    notes: list[str] = []
    mixed = ""
    for form in dict.fromkeys(each for each in config.formats if each is not ExportFormat.frigate):
        if form is ExportFormat.onnx:
            written, kept, mixed = _onnx_files(network, subject, config, inputs, source)
        else:
            written, kept = _tflite_files(network, subject, config, inputs, source)
        lacking = {
            ExportFormat.onnx: "ONNX Runtime has no int8 kernel",
            ExportFormat.tflite: "the quantiser, ai-edge-quantizer, has no int8",
        }
        notes += [
            f"network-int8.{form.value}: {lacking[form]} of {operation}, which runs in fp32; another layer may"
            for operation in dict.fromkeys(kept)
        ]
        files |= {ExportForm(precision, form): content for precision, content in written.items()}
    opset = opset_of(files, config.opset)
    if opset != config.opset:
        notes.append(
            f"opset={opset} instead of {config.opset}: an operator of the network needs it"
        )
    return files, notes, mixed


def opset_of(files: Mapping[ExportForm, bytes], asked: int) -> int:
    """Version of ONNX's operators in the ONNX file; that which was asked where there is none."""
    content = files.get(ExportForm(ExportPrecision.fp32))
    if content is None:
        return asked
    versions = onnx.load_from_string(content).opset_import
    return int(next(each.version for each in versions if not each.domain))


def session_of(form: ExportForm, content: bytes) -> Session:
    """Load a file in its runtime."""
    return OnnxSession(content) if form.format is ExportFormat.onnx else tflite_session(content)


def _onnx_files(
    network: nn.Module,
    subject: ExportSubject,
    config: ExportConfig,
    inputs: Inputs,
    source: Int8Source | None,
) -> tuple[dict[ExportPrecision, bytes], list[str], str]:
    """ONNX files, the operations that ONNX Runtime has in fp32 only, and a text on layers left in fp32."""
    batch_size = config.fixed_batch or 1
    example = torch.from_numpy(np.resize(inputs, (batch_size, *inputs.shape[1:])))
    written = partial(
        onnx_bytes,
        examples=[example],
        opset=config.opset,
        latest_opset=OPSET,
        dynamic_batch=config.fixed_batch is None,
    )
    try:
        fp32 = written(network)
        OnnxSession(fp32)
    except (RuntimeError, ValueError) as refused:
        raise UserError(f"opset={config.opset}: {refused}") from refused
    files, unknown, mixed = {ExportPrecision.fp32: fp32}, [], ""
    wanted = subject.precisions(config)
    if ExportPrecision.fp16 in wanted:
        files[ExportPrecision.fp16] = half(fp32)
    if ExportPrecision.int8 in wanted:
        try:
            if source is None:
                int8 = Int8Onnx(quantised(fp32, _calibration(subject, batch_size)))
            else:
                int8 = source.onnx(written, batch_size)
        except ValueError as refused:
            raise UserError(str(refused)) from refused
        files[ExportPrecision.int8], mixed = int8.content, _mixed_text(int8)
        unknown = [
            operation
            for operation in onnx_in_fp32(int8.content)
            if operation.partition("(")[2].rstrip(")") not in int8.in_fp32
        ]
    return files, unknown, mixed


def _tflite_files(
    network: nn.Module,
    subject: ExportSubject,
    config: ExportConfig,
    inputs: Inputs,
    source: Int8Source | None,
) -> tuple[dict[ExportPrecision, bytes], list[str]]:
    """TFLite files, of batch size 1 if `batch=dynamic`, and the operations that run in fp32 in the int8 file."""
    batch_size = config.fixed_batch or 1
    example = torch.from_numpy(np.resize(inputs, (batch_size, *inputs.shape[1:])))
    try:
        fp32 = tflite_bytes(network, example)
        files, kept = {ExportPrecision.fp32: without_names(fp32)}, []
        if ExportPrecision.int8 in subject.precisions(config):
            exact = fp32 if source is None else tflite_bytes(source.corrected, example)
            int8 = tflite_quantised(exact, _calibration(subject, batch_size))
            files[ExportPrecision.int8] = without_names(int8)
            kept = in_fp32(int8)
    except ValueError as refused:
        raise UserError(str(refused)) from refused
    return files, kept


def int8_source(network: nn.Module, subject: ExportSubject) -> Int8Source | None:
    """Source of int8 files; None if the data have no classes to evaluate them on."""
    images = subject.images
    if images is None or not subject.is_trained or not has_classes(images):
        return None
    return Int8Source(network, images, subject.side)


def _calibration(subject: ExportSubject, batch_size: int) -> Iterator[Inputs]:
    """Batches of training images; of noise for an untrained network without images."""
    if subject.images is None:
        if subject.is_trained:
            raise UserError(
                "int8 is calibrated on training images: name them with data=, or leave int8 out by "
                "precision=fp16"
            )
        yield noise(subject, batch_size)
        return
    yield from calibration(subject.images, subject.side, batch_size)


def calibration_text(subject: ExportSubject) -> str:
    """Images that int8 is calibrated on."""
    images = subject.images
    if images is None:
        return "noise: for its latency only"
    return f"{min(CALIBRATED_ON, len(images.train)):,} training images"


def _mixed_text(int8: Int8Onnx) -> str:
    """Sentence on the accuracy that layers in fp32 and 7-bit weights save; empty without them."""
    changes = [f"leaves {', '.join(int8.in_fp32)} in fp32"] if int8.in_fp32 else []
    if int8.in_7_bits:
        changes.append("has weights of 7 bits, whose products cannot saturate")
    if not changes:
        return ""
    all_int8, mixed = (100 * lost for lost in int8.lost)
    return (
        f"network-int8.onnx {' and '.join(changes)}: it loses {mixed:.2f} points of the validation images, "
        f"{all_int8:.2f} without that"
    )


def noise(subject: ExportSubject, count: int) -> Inputs:
    """Noise in the shape of `count` inputs of the network."""
    inputs: Inputs = subject.space.example_input(subject.architecture, subject.task, count).numpy()
    return inputs
