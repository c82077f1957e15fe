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
        if self._session.get_providers()[0] != provider.value:
            # ONNX Runtime would go on without it, and a processor's times pass for a GPU's.
            raise ValueError(
                f"ONNX Runtime has {provider.value} but cannot start it: a library or the device "
                f"is missing"
            )
        self._memory = "cpu" if provider is Provider.cpu else "cuda"
        self._names = [one.name for one in self._session.get_inputs()]

    def __call__(self, *inputs: Shaped[ndarray, "..."]) -> Shaped[ndarray, "..."]:
        """The first output for these inputs, in the network's order."""
        outputs: Sequence[np.ndarray] = self._session.run(
            None, dict(zip(self._names, inputs, strict=True))
        )
        return outputs[0]

    def resident(self, *inputs: Shaped[ndarray, "..."]) -> Callable[[], object]:
        """One inference to call, with these inputs in the device's memory and the output kept there.

        No call copies anything between host and device; each ends when the device has finished.
        """
        binding = self._session.io_binding()
        values = [
            onnxruntime.OrtValue.ortvalue_from_numpy(array, self._memory, 0) for array in inputs
        ]
        for name, value in zip(self._names, values, strict=True):
            binding.bind_ortvalue_input(name, value)
        (output,) = self._session.get_outputs()
        binding.bind_output(output.name, self._memory)
        self._session.run_with_iobinding(binding)
        (buffer,) = binding.get_outputs()
        binding.bind_ortvalue_output(output.name, buffer)  # else each call would take memory

        return _Resident(self._session, binding, values, buffer)

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


@final
@dataclass(frozen=True)
class _Resident:
    """A session and what it reads and writes; a value on the processor is its array's memory."""

    session: onnxruntime.InferenceSession
    binding: onnxruntime.IOBinding
    inputs: Sequence[onnxruntime.OrtValue]  # the binding knows their addresses and owns nothing
    output: onnxruntime.OrtValue

    def __call__(self) -> object:
        self.session.run_with_iobinding(self.binding)
        self.binding.synchronize_outputs()
        return self.output
