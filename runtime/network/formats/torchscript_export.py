"""Export a torch module to TorchScript, for boards with torch but no ONNX runtime."""

from __future__ import annotations

import io
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from runtime.network.formats.tracing import tracing


def torchscript_bytes(module: nn.Module, examples: Sequence[Tensor]) -> bytes:
    """Return the module in evaluation mode, traced with its example inputs and frozen.

    Raises:
      ValueError: if the module's operations depend on the values of its input.
    """
    with tracing(module, examples):  # torch 1.10 of JetPack 4.6 reads nothing newer
        traced: torch.jit.ScriptModule = torch.jit.trace(module.eval(), tuple(examples))
        content = io.BytesIO()
        torch.jit.save(torch.jit.freeze(traced), content)
    return content.getvalue()
