"""A torch module as an ONNX file, the form in which networks travel to other runtimes and boards."""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

OPSET = 17
"""Runs on TensorRT 8.6 and newer and on every ONNX Runtime since 1.12."""


def onnx_bytes(module: nn.Module, examples: Sequence[Tensor], *, opset: int = OPSET) -> bytes:
    """The module in evaluation mode as ONNX, with the shapes of its example inputs.

    Inputs are called input_0, input_1 and so on, the one output is called output. Operations whose
    result nothing uses are left out.

    Raises:
      RuntimeError: if torch cannot express the module in ONNX (its messages are of many classes).
    """
    names = [f"input_{i}" for i in range(len(examples))]
    exporter = logging.getLogger("torch.onnx")
    level = exporter.level
    exporter.setLevel(logging.ERROR)
    try:
        with (
            warnings.catch_warnings(),
            torch.inference_mode(),
            tempfile.TemporaryDirectory() as folder,
        ):
            warnings.simplefilter("ignore")  # of its age; this is why it is chosen:
            # the exporter by tracing takes a fifth of the time of its successor, which counts where
            # thousands of networks are measured.
            file = Path(folder) / "network.onnx"
            torch.onnx.export(
                module.eval(),
                tuple(examples),
                file,
                dynamo=False,
                opset_version=opset,
                input_names=names,
                output_names=["output"],
            )
            return file.read_bytes()
    except Exception as error:
        reason = str(error).partition("\n")[0]  # a dump of the graph may follow
        raise RuntimeError(f"torch cannot write this network as ONNX: {reason}") from error
    finally:
        exporter.setLevel(level)
