"""Networks made ready to be issued to streams of one device."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, final

import torch
from torch import Tensor, nn

from runtime.lanes.cpu import CpuLane, check_core
from runtime.network.backend import Device
from runtime.network.compiled import Compiled
from runtime.network.completion import Completion, Compute, HostCompletion
from runtime.network.decompose import Rule, decompose
from runtime.network.engine import EagerEngine, Engine, OnnxEngine
from runtime.network.program import ActiveInference, Inference, Program
from runtime.network.segment_kind import Kind

if TYPE_CHECKING:
    from runtime.network.cuda.sm_slices import SmSlice


@final
@dataclass(frozen=True)
class Source:
    """One network; it can be pickled, if its module's class can be imported."""

    name: str
    module: nn.Module
    x: Tensor
    """The input of every inference; where the jobs run, it lies ready."""
    rule: Rule = Rule.FUSED
    cells: tuple[type[nn.Module], ...] = ()

    @cached_property
    def program(self) -> Program:
        """The module cut, once for all who prepare it.

        Raises:
          BaseException: what `decompose` raises.
        """
        return decompose(self.module, self.x, self.rule, cells=self.cells)

    def __reduce__(self) -> tuple[type[Source], tuple[object, ...]]:
        """Travels without its program."""
        return Source, (self.name, self.module, self.x, self.rule, self.cells)


@final
@dataclass(frozen=True)
class Setup:
    """Where networks run, and how."""

    device: Device = Device.cpu
    captured: bool = True
    """CUDA graphs on a GPU, sessions of ONNX Runtime on the CPU; else eager torch."""
    cores: tuple[int, ...] = ()
    """Of the CPU; network k runs on the (k modulo their number)th. None given: not pinned."""
    sms: SmSlice | None = None
    """The multiprocessors of the GPU that take part; None for all."""

    def core(self, network: int) -> int | None:
        """Which core computes a network, or launches it."""
        return self.cores[network % len(self.cores)] if self.cores else None


class Stream(Protocol):
    """Runs jobs in the order in which they are launched."""

    @property
    @abstractmethod
    def engine(self) -> Engine:
        """What makes jobs for it."""

    @abstractmethod
    def launch(self, compute: Compute) -> Completion:
        """Launches a job.

        Raises:
          BaseException: if it cannot be launched.
        """

    @abstractmethod
    def issue(self, compute: Compute) -> Completion | None:
        """As `launch`, where nobody needs to know the times; errors only if it tells them."""

    @abstractmethod
    def renew_origin(self) -> None:
        """Prepares the stream's clock for a run."""

    @abstractmethod
    def close(self) -> bool:
        """Launches nothing more."""


@final
class InlineStream(Stream):
    """The calling thread itself: a job has ended when it has been launched."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def engine(self) -> Engine:
        """What makes jobs for it."""
        return self._engine

    def launch(self, compute: Compute) -> Completion:
        """Runs the job."""
        completion = HostCompletion()
        began_s = time.perf_counter()
        compute()
        completion.end(began_s, time.perf_counter(), None)
        return completion

    def issue(self, compute: Compute) -> None:
        """Runs the job."""
        compute()

    def renew_origin(self) -> None:
        """Its clock is the computer's."""

    def close(self) -> bool:
        """Nothing is open."""
        return True


def open_stream(setup: Setup, network: int, *, inline: bool) -> Stream:
    """A stream for one network.

    Args:
      setup: where.
      network: its number.
      inline: whether the thread that launches waits for each inference, and so may do a CPU's work
        itself, and keep its core busy until a GPU has done it.

    Raises:
      ValueError: if the process may not use the network's core.
      RuntimeError: if there is no such device.
    """
    if setup.device is Device.cuda:
        from runtime.lanes.gpu import GpuLane  # noqa: PLC0415 - for those who have a GPU

        return GpuLane(captured=setup.captured, spin=inline, sms=setup.sms)
    engine = OnnxEngine() if setup.captured else EagerEngine()
    core = setup.core(network)
    if inline:
        if core is not None:
            check_core(core)
        return InlineStream(engine)
    return CpuLane(core, name=f"stream{network}", engine=engine, asynchronous=True)


class Ready(Protocol):
    """One network, or several that are issued as one, ready on their streams."""

    @property
    @abstractmethod
    def count(self) -> int:
        """Networks."""

    @property
    @abstractmethod
    def kinds(self) -> tuple[Kind, ...]:
        """Of each job of an inference."""

    @abstractmethod
    def inference(self) -> Sequence[Compute]:
        """The jobs of one more inference, once those of the one before have been launched."""

    @property
    @abstractmethod
    def outputs(self) -> list[Tensor]:
        """Of each network's latest inference, once it has ended; on the CPU, the caller's own.

        Raises:
          RuntimeError: if it did not run to its end.
        """


@final
class Prepared(Ready):
    """A network on its stream, warmed up."""

    def __init__(self, source: Source, stream: Stream, *, captured: bool) -> None:
        """Cuts it, makes its jobs and runs it twice.

        Raises:
          BaseException: what `decompose` and `Compiled` raise.
        """
        engine = stream.engine
        program = source.program
        self._kinds = program.kinds
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

    @property
    def count(self) -> int:
        """One."""
        return 1

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Of each job."""
        return self._kinds

    def inference(self) -> Sequence[Compute]:
        """The jobs of one more inference."""
        if self._captured:
            return self._jobs
        self._running = Inference(self._program, self._x)
        return [self._running.job(i, 0) for i in range(len(self._program))]

    @property
    def outputs(self) -> list[Tensor]:
        """The latest inference's one output."""
        return [self._running.output.to("cpu", copy=True)]
