"""Export a torch module to ONNX, the exchange format for other runtimes and boards."""

from __future__ import annotations

import logging
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import final

import torch
from torch import Tensor, nn

from edgenas_core.files.atomic_file import naming
from edgenas_core.inference.formats.tracing import tracing
from edgenas_core.inference.outputs import tensors_of

OPSET = 17
"""Supported by TensorRT 8.6 and newer and by ONNX Runtime 1.12 and newer."""


def onnx_bytes(
    module: nn.Module,
    examples: Sequence[Tensor],
    *,
    opset: int = OPSET,
    latest_opset: int | None = None,
    dynamic_batch: bool = False,
) -> bytes:
    """Return the module in evaluation mode as ONNX, with the shapes of its example inputs.

    Inputs are named input_0, input_1 and so on, the output is named output. Operations whose result
    is unused are left out.

    Args:
      module: to export.
      examples: its inputs.
      opset: version of ONNX's operators.
      latest_opset: version up to which `opset` is raised where an operator of the module needs it, as
        attention needs 14; None: it is not raised.
      dynamic_batch: whether the first dimension of inputs and output is free.

    Raises:
      OSError: if the temporary folder cannot be written, as when the disk is full.
      RuntimeError: if torch cannot export the module (its own errors are of many classes), or its
        operations depend on the values of its input.
    """
    graphs: list[object] = []
    try:
        # the tracing exporter takes a fifth of the time of its successor: thousands are measured
        with tracing(module, examples), _quiet(graphs):
            return _exported(module, tuple(examples), opset, dynamic_batch=dynamic_batch)
    except OSError:
        raise
    except Exception as error:
        needed = re.search(r"added in version (\d+)", str(error))
        if needed and opset < int(needed[1]) <= (latest_opset or 0):
            return onnx_bytes(module, examples, opset=int(needed[1]), dynamic_batch=dynamic_batch)
        raise RuntimeError(
            f"torch cannot export this network to ONNX: {_reason(error, graphs)}"
        ) from error


def _exported(
    module: nn.Module, examples: tuple[Tensor, ...], opset: int, *, dynamic_batch: bool
) -> bytes:
    if not _has_plain_outputs(module.eval()(*(each.clone() for each in examples))):
        module = _Tensors(module)
    names = [f"input_{number}" for number in range(len(examples))]
    axes = {name: {0: "batch"} for name in [*names, "output"]} if dynamic_batch else None
    with tempfile.TemporaryDirectory() as folder, naming(Path(folder)):
        file = Path(folder) / "network.onnx"
        torch.onnx.export(
            module.eval(),
            examples,
            file,
            dynamo=False,
            opset_version=opset,
            input_names=names,
            output_names=["output"],
            dynamic_axes=axes,
        )
        return file.read_bytes()


def _has_plain_outputs(outputs: object) -> bool:
    """Whether outputs are tensors, or tuples, lists and dictionaries of them, which torch's exporter knows."""
    if isinstance(outputs, dict):
        return all(map(_has_plain_outputs, outputs.values()))
    if isinstance(outputs, tuple | list) and not hasattr(outputs, "_fields"):
        return all(map(_has_plain_outputs, outputs))
    return isinstance(outputs, Tensor)


@final
class _Tensors(nn.Module):
    """The tensors of a network's outputs, such as the fields of a dataclass that hold one."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        tensors = tensors_of(self.network(*inputs))
        return tensors[0] if len(tensors) == 1 else tuple(tensors)


def _reason(error: Exception, graphs: Sequence[object]) -> str:
    """What could not be exported, and the line of the network that computes it."""
    reason = str(error).partition("\n")[0]  # a dump of the graph may follow
    operator = re.search(r"operator '([\w:]+)'", reason)
    if operator is None:
        return reason
    dumped = "\n".join(map(str, graphs))
    line = re.search(rf"{operator[1]}\(.*# (\S+?:\d+)", dumped)
    where = f" (at {line[1]})" if line else ""
    return f"{reason}{where}; replace the layer"


@contextmanager
def _quiet(graphs: list[object]) -> Iterator[None]:
    """Silence the exporter, and export attention as operations that ONNX has.

    The graph of a failed export, which torch prints whatever its log level, is added to `graphs`.
    """
    exporter = logging.getLogger("torch.onnx")
    level, fast = exporter.level, torch.backends.mha.get_fastpath_enabled()
    exporter.setLevel(logging.ERROR)
    torch.backends.mha.set_fastpath_enabled(False)  # one operation, which ONNX does not have
    log = torch._C._jit_onnx_log  # noqa: SLF001 - torch has no other way
    torch._C._jit_onnx_log = lambda *logged: graphs.extend(logged)  # noqa: SLF001 - torch has no public name for it
    try:
        yield
    finally:
        torch._C._jit_onnx_log = log  # noqa: SLF001 - torch has no public name for it
        torch.backends.mha.set_fastpath_enabled(fast)
        exporter.setLevel(level)
