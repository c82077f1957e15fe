"""How a lane computes a segment: in memory that stays where it is, called without arguments.

A job made by any engine reads the tensors it was made for and writes the one it gave, in place. So
a captured CUDA graph, a session of ONNX Runtime and plain torch are called alike, and one network
can go from one to another between two segments.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Protocol, final, runtime_checkable
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from runtime.network.completion import Compute
from runtime.network.formats.onnx_export import onnx_bytes
from runtime.network.formats.onnx_session import OnnxSession
from runtime.network.program import Segment

CPU = torch.device("cpu")


@runtime_checkable
class Engine(Protocol):
    """Makes jobs of segments."""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """Where the tensors and the segments' weights must be."""

    @abstractmethod
    def for_network(self) -> Engine:
        """For the segments of one network, whose jobs run one at a time and in their order.

        Only between such jobs may an engine share memory: jobs of two networks take turns, and what
        one wrote for its successor must outlive jobs of the other.
        """

    @abstractmethod
    def captured(
        self, segment: Segment, inputs: Sequence[Tensor], output: Tensor | None = None
    ) -> tuple[Compute, Tensor]:
        """A job that computes the segment, and the tensor that it will write.

        The inputs hold an example; the segment is run on it, once or a few times, and they may be
        changed by that. A segment whose result is a view of an input gives that view, and a job
        that does nothing.

        Args:
          segment: with its weights on the engine's device.
          inputs: what the job will read, each time at the same place.
          output: what it is to write; None if the engine may choose.

        Raises:
          BaseException: whatever the segment raises; ValueError or RuntimeError if the engine
            cannot run it.
        """


@final
class EagerEngine(Engine):
    """Torch, operation by operation, on the CPU or on a stream that is made current."""

    def __init__(self, device: torch.device = CPU) -> None:
        self._device = device

    @property
    def device(self) -> torch.device:
        """Where the tensors and the segments' weights must be."""
        return self._device

    def for_network(self) -> Engine:
        """Itself: it keeps no memory."""
        return self

    def captured(
        self, segment: Segment, inputs: Sequence[Tensor], output: Tensor | None = None
    ) -> tuple[Compute, Tensor]:
        """A job that computes the segment and copies its result to its place."""
        reads = tuple(inputs)
        result, altered = tried(segment, reads)
        if is_view(result, reads):
            return (partial(_alter, segment, reads) if altered else nothing), result
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
    """ONNX Runtime on one thread of the CPU, the caller's; Python's lock is free meanwhile.

    It changes rounding: its kernels are others than torch's. Sessions are kept as long as their
    segments, so that lanes with one engine share them.
    """

    def __init__(self) -> None:
        self._sessions: WeakKeyDictionary[Segment, OnnxSession] = WeakKeyDictionary()

    @property
    def device(self) -> torch.device:
        """The CPU."""
        return CPU

    def for_network(self) -> Engine:
        """Itself: its sessions keep no memory between two calls."""
        return self

    def captured(
        self, segment: Segment, inputs: Sequence[Tensor], output: Tensor | None = None
    ) -> tuple[Compute, Tensor]:
        """A session bound to the tensors' memory.

        Raises:
          RuntimeError: if torch cannot express the segment in ONNX.
          ValueError: if this ONNX Runtime cannot run it, or the segment changes its input, which
            ONNX cannot.
        """
        reads = tuple(inputs)
        result, altered = tried(segment, reads)
        if altered:
            raise ValueError(f"segment {segment.name} changes its input, which ONNX cannot")
        if is_view(result, reads):
            return nothing, result
        if segment not in self._sessions:
            self._sessions[segment] = OnnxSession(onnx_bytes(segment.body, reads))
        session = self._sessions[segment]
        written = result.clone() if output is None else output.copy_(result)
        if all(one.is_contiguous() for one in (*reads, written)):
            return session.bound([one.numpy() for one in reads], written.numpy()), written
        return partial(_translate, session, reads, written), written


def _translate(session: OnnxSession, reads: tuple[Tensor, ...], written: Tensor) -> None:
    """For tensors that do not lie in memory as ONNX Runtime wants them."""
    written.copy_(torch.from_numpy(session(*(one.contiguous().numpy() for one in reads))))


def nothing() -> None:
    """The job of a segment that only looks at its input in another way."""


def tried(segment: Segment, inputs: tuple[Tensor, ...]) -> tuple[Tensor, bool]:
    """What the segment gives for these inputs, and whether it wrote to them."""
    versions = [one._version for one in inputs]  # noqa: SLF001 - torch has no other way to ask
    with torch.inference_mode(mode=False), torch.no_grad():
        result = segment(*inputs)
    if result.is_cuda:
        torch.cuda.current_stream(result.device).synchronize()  # it may be read on another
    return result, versions != [one._version for one in inputs]  # noqa: SLF001


def is_view(result: Tensor, inputs: Sequence[Tensor]) -> bool:
    """Whether the result lies in the memory of an input."""
    place = result.untyped_storage().data_ptr()
    return any(place == one.untyped_storage().data_ptr() for one in inputs)
