"""An ONNX network in ONNX Runtime, on one thread unless more are asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, final

import numpy as np
import onnxruntime
from jaxtyping import Shaped
from numpy import ndarray


class Provider(Enum):
    """What computes; ONNX Runtime's own names."""

    cpu = "CPUExecutionProvider"
    cuda = "CUDAExecutionProvider"
    tensorrt = "TensorrtExecutionProvider"


@final
class OnnxSession:
    """Each call is one inference; Python's lock is free while it runs.

    Threads of ONNX Runtime's own pool ignore the affinity of the thread that calls, so that one
    thread, the caller's, is the default.
    """

    def __init__(
        self, model: bytes | Path, *, threads: int = 1, provider: Provider = Provider.cpu
    ) -> None:
        """Loads the network and plans its execution.

        Args:
          model: the file, or what is in it.
          threads: within one operation.
          provider: what computes.

        Raises:
          ValueError: if it is not an ONNX network that this ONNX Runtime can run, or the provider
            is not there.
        """
        available = onnxruntime.get_available_providers()
        if provider.value not in available:
            raise ValueError(
                f"this ONNX Runtime has no {provider.value}; it has {', '.join(available)}"
            )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        source = model if isinstance(model, bytes) else str(model)
        try:
            self._session = onnxruntime.InferenceSession(
                source, options, providers=[provider.value]
            )
        except Exception as error:  # its errors share no base class of their own
            name = "the bytes given" if isinstance(model, bytes) else str(model)
            raise ValueError(f"ONNX Runtime cannot load {name}: {error}") from error
        self._names = [one.name for one in self._session.get_inputs()]

    def __call__(self, *inputs: Shaped[ndarray, "..."]) -> Shaped[ndarray, "..."]:
        """The first output for these inputs, in the network's order."""
        outputs: Sequence[np.ndarray] = self._session.run(
            None, dict(zip(self._names, inputs, strict=True))
        )
        return outputs[0]

    def bound(
        self, inputs: Sequence[Shaped[ndarray, "..."]], output: Shaped[ndarray, "..."]
    ) -> Callable[[], None]:
        """One inference from memory to memory at each call, nothing being copied.

        Args:
          inputs: what to read, in the network's order.
          output: what to write; both contiguous, and kept as long as the call is.
        """
        binding = self._session.io_binding()
        for name, one in zip(self._names, inputs, strict=True):
            binding.bind_input(name, "cpu", 0, one.dtype, one.shape, one.ctypes.data)
        (name,) = (one.name for one in self._session.get_outputs())
        binding.bind_output(name, "cpu", 0, output.dtype, output.shape, output.ctypes.data)
        return _Bound(self._session, binding, (*inputs, output))


@final
@dataclass(frozen=True)
class _Bound:
    session: Any
    binding: Any
    memory: tuple[Shaped[ndarray, "..."], ...]
    """The binding knows addresses only; here the arrays are kept."""

    def __call__(self) -> None:
        self.session.run_with_iobinding(self.binding)
