"""Run an ONNX network in ONNX Runtime, on one thread by default."""

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

from edgenas_core.files.safe_file import require_regular


class Provider(Enum):
    """Execution provider, with ONNX Runtime's names."""

    cpu = "CPUExecutionProvider"
    cuda = "CUDAExecutionProvider"
    tensorrt = "TensorrtExecutionProvider"


@final
class OnnxSession:
    """A loaded network; each call is one inference, with the GIL released.

    The default is the caller's thread only, because ONNX Runtime's thread pool ignores the CPU
    affinity of the caller.
    """

    def __init__(
        self, model: bytes | Path, *, threads: int = 1, provider: Provider = Provider.cpu
    ) -> None:
        """Load a network.

        Raises:
          ValueError: if this ONNX Runtime cannot run the network or does not have the provider.
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
            if isinstance(model, Path):
                require_regular(model)
            self._session = onnxruntime.InferenceSession(
                source, options, providers=[provider.value]
            )
        except Exception as error:  # its errors have no common base class
            name = "the bytes given" if isinstance(model, bytes) else str(model)
            raise ValueError(f"ONNX Runtime cannot load {name}: {error}") from error
        if self._session.get_providers()[0] != provider.value:
            # ONNX Runtime would fall back to the CPU, and its times would be taken for a GPU's.
            raise ValueError(
                f"ONNX Runtime has {provider.value} but cannot start it: a library or the device "
                f"is missing"
            )
        self._memory = "cpu" if provider is Provider.cpu else "cuda"
        self._names = [node.name for node in self._session.get_inputs()]

    def __call__(self, *inputs: Shaped[ndarray, "..."]) -> Shaped[ndarray, "..."]:
        """Return the first output for these inputs, given in the network's order."""
        outputs: Sequence[np.ndarray] = self._session.run(
            None, dict(zip(self._names, inputs, strict=True))
        )
        return outputs[0]

    def resident(self, *inputs: Shaped[ndarray, "..."]) -> Callable[[], object]:
        """Return a callable that runs one inference with inputs and output in the device's memory.

        A call copies nothing between host and device and blocks until the device has finished.
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
        binding.bind_ortvalue_output(output.name, buffer)  # else each call would allocate memory

        return _Resident(self._session, binding, values, buffer)

    def bound(
        self, inputs: Sequence[Shaped[ndarray, "..."]], output: Shaped[ndarray, "..."]
    ) -> Callable[[], None]:
        """Return a callable that runs one inference in place on these arrays, without copies.

        All arrays are contiguous; the inputs are in the network's order.
        """
        binding = self._session.io_binding()
        for name, array in zip(self._names, inputs, strict=True):
            binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
        (name,) = (node.name for node in self._session.get_outputs())
        binding.bind_output(name, "cpu", 0, output.dtype, output.shape, output.ctypes.data)
        return _Bound(self._session, binding, (*inputs, output))


@final
@dataclass(frozen=True)
class _Bound:
    session: Any
    binding: Any
    memory: tuple[Shaped[ndarray, "..."], ...]
    """Kept alive here; the binding holds addresses only."""

    def __call__(self) -> None:
        self.session.run_with_iobinding(self.binding)


@final
@dataclass(frozen=True)
class _Resident:
    """A session bound to values in the device's memory."""

    session: onnxruntime.InferenceSession
    binding: onnxruntime.IOBinding
    inputs: Sequence[onnxruntime.OrtValue]  # the binding holds addresses only
    output: onnxruntime.OrtValue

    def __call__(self) -> object:
        self.session.run_with_iobinding(self.binding)
        self.binding.synchronize_outputs()
        return self.output
