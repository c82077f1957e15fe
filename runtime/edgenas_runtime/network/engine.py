"""Engines compile a segment into a job without arguments that works at fixed addresses.

A job reads the tensors that it was compiled with and writes its output in place. So a captured CUDA
graph, an ONNX Runtime session and eager torch are called alike, and a network can switch engines
between two segments.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Protocol, final, runtime_checkable
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from edgenas_core.inference.formats.onnx_export import onnx_bytes
from edgenas_core.inference.formats.onnx_session import OnnxSession
from edgenas_runtime.network.completion import Compute
from edgenas_runtime.network.program import Segment

CPU = torch.device("cpu")


@runtime_checkable
class Engine(Protocol):
    """Compiles segments into jobs."""

    device: torch.device
    """Device of the tensors and of the segments' weights."""

    @abstractmethod
    def for_network(self) -> Engine:
        """Return the engine for the segments of one network, whose jobs run in order, one at a time.

        Temporary memory may be shared between jobs of one network only: jobs of two networks
        alternate, and must not overwrite each other's outputs.
        """

    @abstractmethod
    def compile(
        self, segment: Segment, inputs: Sequence[Tensor], output: Tensor | None = None
    ) -> tuple[Compute, Tensor]:
        """Return a job that computes the segment, and the tensor that the job writes.

        The segment is run on the inputs once or a few times, which may change them. If its output is
        a view of an input, that view is returned with a job that does nothing.

        The inputs hold an example; the output is allocated by the engine if None.

        Raises:
          BaseException: whatever the segment raises; ValueError or RuntimeError if the engine
            cannot run it.
        """


@final
class EagerEngine(Engine):
    """Eager torch, on the CPU or on the current CUDA stream."""

    def __init__(self, device: torch.device = CPU) -> None:
        self.device = device

    def for_network(self) -> Engine:
        """Return itself: it has no memory of its own."""
        return self

    def compile(
        self, segment: Segment, inputs: Sequence[Tensor], output: Tensor | None = None
    ) -> tuple[Compute, Tensor]:
        """Return a job that computes the segment and copies its result to the output."""
        reads = tuple(inputs)
        result, altered = run_example(segment, reads)
        if is_view(result, reads):
            return (partial(_alter, segment, reads) if altered else no_op), result
        written = result.clone() if output is None else output.copy_(result)
        return partial(_overwrite, segment, reads, written), written


def _alter(segment: Segment, reads: tuple[Tensor, ...]) -> None:
    with torch.inference_mode():
        segment(*reads)


def _overwrite(segment: Segment, reads: tuple[Tensor, ...], written: Tensor) -> None:
    with torch.inference_mode():
        written.copy_(segment(*reads))


@final
class OnnxEngine(Engine):
    """ONNX Runtime on the caller's thread, with the GIL released.

    Its kernels round differently from torch's. Sessions live as long as their segments, and lanes
    with the same engine share them.
    """

    def __init__(self) -> None:
        self._sessions: WeakKeyDictionary[Segment, OnnxSession] = WeakKeyDictionary()

    device = CPU

    def for_network(self) -> Engine:
        """Return itself: sessions keep no data between two calls."""
        return self

    def compile(
        self, segment: Segment, inputs: Sequence[Tensor], output: Tensor | None = None
    ) -> tuple[Compute, Tensor]:
        """Return a session bound to the tensors' memory.

        Raises:
          RuntimeError: if torch cannot export the segment to ONNX.
          ValueError: if this ONNX Runtime cannot run it, or the segment changes its input, which
            ONNX cannot express.
        """
        reads = tuple(inputs)
        result, altered = run_example(segment, reads)
        if altered:
            raise ValueError(f"segment {segment.name} changes its input, which ONNX cannot express")
        if is_view(result, reads):
            return no_op, result
        if segment not in self._sessions:
            self._sessions[segment] = OnnxSession(onnx_bytes(segment.body, reads))
        session = self._sessions[segment]
        written = result.clone() if output is None else output.copy_(result)
        if all(tensor.is_contiguous() for tensor in (*reads, written)):
            return session.bound([tensor.numpy() for tensor in reads], written.numpy()), written
        return partial(_translate, session, reads, written), written


def _translate(session: OnnxSession, reads: tuple[Tensor, ...], written: Tensor) -> None:
    """Run a session on tensors that are not contiguous."""
    written.copy_(torch.from_numpy(session(*(tensor.contiguous().numpy() for tensor in reads))))


def no_op() -> None:
    """Job of a segment whose output is a view of its input."""


def run_example(segment: Segment, inputs: tuple[Tensor, ...]) -> tuple[Tensor, bool]:
    """Return the segment's output for these inputs, and whether it changed them."""
    versions = [tensor._version for tensor in inputs]  # noqa: SLF001 - torch has no public write counter
    with torch.inference_mode(mode=False), torch.no_grad():
        result = segment(*inputs)
    if result.is_cuda:
        torch.cuda.current_stream(result.device).synchronize()  # another stream may read it
    return result, versions != [tensor._version for tensor in inputs]  # noqa: SLF001 - torch has no public name for it


def is_view(result: Tensor, inputs: Sequence[Tensor]) -> bool:
    """Return whether the result shares the memory of an input."""
    place = result.untyped_storage().data_ptr()
    return any(place == tensor.untyped_storage().data_ptr() for tensor in inputs)
