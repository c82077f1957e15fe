"""Networks prepared for the streams of one device."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, final

import torch
from torch import Tensor, nn

from edgenas_core.inference.backend import Device
from edgenas_runtime.lanes.cpu import CpuLane, check_core
from edgenas_runtime.network.compiled import Compiled
from edgenas_runtime.network.completion import Completion, Compute, HostCompletion
from edgenas_runtime.network.decompose import Rule, decompose
from edgenas_runtime.network.engine import EagerEngine, Engine, OnnxEngine
from edgenas_runtime.network.program import ActiveInference, Inference, Program
from edgenas_runtime.network.segment_kind import SegmentKind

if TYPE_CHECKING:
    from edgenas_core.inference.cuda.sm_slices import SmSlice


@final
@dataclass(frozen=True)
class DispatchedNetwork:
    """One network; it can be pickled if the class of its module can be imported."""

    name: str
    module: nn.Module
    x: Tensor
    """Input of every inference, on the device of the jobs."""
    rule: Rule = Rule.FUSED
    cells: tuple[type[nn.Module], ...] = ()

    @cached_property
    def program(self) -> Program:
        """The module cut into jobs; cached.

        Raises:
          BaseException: any error of `decompose`.
        """
        return decompose(self.module, self.x, self.rule, cells=self.cells)

    def __reduce__(self) -> tuple[type[DispatchedNetwork], tuple[object, ...]]:
        """Pickle without the program."""
        return DispatchedNetwork, (self.name, self.module, self.x, self.rule, self.cells)


@final
@dataclass(frozen=True)
class Setup:
    """Device and backend of networks."""

    device: Device = Device.cpu
    captured: bool = True
    """True for CUDA graphs on a GPU and ONNX Runtime on the CPU; False for eager torch."""
    cores: tuple[int, ...] = ()
    """Cores of the CPU; network k runs on core k modulo their number. Empty: not pinned."""
    sms: SmSlice | None = None
    """Slice of the GPU, or None for the whole GPU."""

    def core(self, network: int) -> int | None:
        """Core on which network k is computed or launched, or None."""
        return self.cores[network % len(self.cores)] if self.cores else None


class Stream(Protocol):
    """Runs jobs in the order of their launch."""

    engine: Engine
    """The engine that compiles jobs for this stream."""

    @abstractmethod
    def launch(self, compute: Compute) -> Completion:
        """Launch a job.

        Raises:
          BaseException: if it cannot be launched.
        """

    @abstractmethod
    def issue(self, compute: Compute) -> Completion | None:
        """Launch a job without timing it; returns a completion only if it can report an error."""

    @abstractmethod
    def renew_origin(self) -> None:
        """Reset the clock of the stream for a run."""

    @abstractmethod
    def close(self) -> bool:
        """Release the stream."""


@final
class InlineStream(Stream):
    """The calling thread as a stream: a job has ended when `launch` returns."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def launch(self, compute: Compute) -> Completion:
        """Run the job."""
        completion = HostCompletion()
        began_s = time.perf_counter()
        compute()
        completion.end(began_s, time.perf_counter(), None)
        return completion

    def issue(self, compute: Compute) -> None:
        """Run the job."""
        compute()

    def renew_origin(self) -> None:
        """Do nothing: times are read from the system clock."""

    def close(self) -> bool:
        """Do nothing: no resource is open."""
        return True


def open_stream(setup: Setup, network: int, *, inline: bool) -> Stream:
    """Open the stream of one network.

    `inline` is True if the launching thread waits for each inference, so that it can do the work of
    a CPU itself, or busy-wait for a GPU.

    Raises:
      ValueError: if the process may not use the network's core.
      RuntimeError: if there is no such device.
    """
    if setup.device is Device.cuda:
        from edgenas_runtime.lanes.gpu import GpuLane  # noqa: PLC0415 - for those who have a GPU

        return GpuLane(captured=setup.captured, spin=inline, sms=setup.sms)
    engine = OnnxEngine() if setup.captured else EagerEngine()
    core = setup.core(network)
    if inline:
        if core is not None:
            check_core(core)
        return InlineStream(engine)
    return CpuLane(core, name=f"stream{network}", engine=engine, asynchronous=True)


class Ready(Protocol):
    """One prepared network, or several that are launched as one."""

    count: int
    """Number of networks."""
    kinds: tuple[SegmentKind, ...]
    """Kinds of the jobs of an inference."""

    @abstractmethod
    def inference(self) -> Sequence[Compute]:
        """The jobs of the next inference; called when all jobs of the previous one are launched."""

    @property
    @abstractmethod
    def outputs(self) -> list[Tensor]:
        """Outputs of the latest inference of each network, after its end; on the CPU, copies.

        Raises:
          RuntimeError: if it did not run to its end.
        """


@final
class Prepared(Ready):
    """One network on its stream, warmed up."""

    def __init__(self, source: DispatchedNetwork, stream: Stream, *, captured: bool) -> None:
        """Cut the network, compile its jobs, and run it twice.

        Raises:
          BaseException: any error of `decompose` or `Compiled`.
        """
        engine = stream.engine
        program = source.program
        self.kinds = program.kinds
        self._captured = captured
        self._running: ActiveInference
        if captured:
            compiled = Compiled(program, source.x, [engine])
            self._running = compiled.start(source.x)
            loading = [self._running.job(i, 0) for i in range(len(program))]
            self._jobs = [compiled.job(i, 0) for i in range(len(program))]
        else:
            self._program = program.on(engine.device)
            self._x = source.x.to(engine.device)
            loading = [*self.inference()]
        for jobs in (loading, self.inference()):
            with torch.inference_mode():
                for job in jobs:
                    stream.launch(job).wait()

    count = 1

    def inference(self) -> Sequence[Compute]:
        """The jobs of the next inference."""
        if self._captured:
            return self._jobs
        self._running = Inference(self._program, self._x)
        return [self._running.job(i, 0) for i in range(len(self._program))]

    @property
    def outputs(self) -> list[Tensor]:
        """The output of the latest inference."""
        return [self._running.output.to("cpu", copy=True)]
