"""The lanes of an experiment: streams of a GPU, or of a slice of it, and cores of the CPU.

On a machine without a GPU one core with asynchronous launches stands in for the GPU, and another,
slowed down, for the CPU.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import TYPE_CHECKING, final

from torch import Tensor

from benchmarks.config import BenchConfig
from benchmarks.dispatch.prepared import DispatchedNetwork
from edgenas_core.machine.description import usable_cores
from edgenas_runtime.lanes.base import RealLane
from edgenas_runtime.lanes.cpu import CpuLane
from edgenas_runtime.lanes.executor import ServedNetwork, execute, measured_chain
from edgenas_runtime.lanes.report import makespan_ms
from edgenas_runtime.network.compiled import Compiled
from edgenas_runtime.network.engine import OnnxEngine
from edgenas_runtime.network.program import Program
from edgenas_runtime.scheduling.arrivals import closed
from edgenas_runtime.scheduling.chain import Chain
from edgenas_runtime.scheduling.policies.base import Placement, PlacementContext, Policy
from edgenas_runtime.scheduling.policies.rules import OneLane

if TYPE_CHECKING:
    from edgenas_core.inference.cuda.sm_slices import SmSlice
    from edgenas_runtime.lanes.gpu import GpuLane


@final
@dataclass(frozen=True)
class Groups:
    """Indices of the lanes of the GPU, or of its stand-in, and of the CPU."""

    gpu: tuple[int, ...]
    cpu: tuple[int, ...]


@final
@dataclass(frozen=True)
class HalfAndHalf(Policy):
    """Assigns every other network to the GPU, the rest to the CPU; within a group, lanes in turn."""

    groups: Groups

    def place(self, context: PlacementContext) -> Placement:
        """The lane for this job."""
        turn, side = divmod(context.job.network, 2)
        lanes = (self.groups.gpu, self.groups.cpu)[side]
        times_ms = context.predicted_ms
        lane = lanes[turn % len(lanes)]
        if math.isinf(times_ms[lane]):
            lane = min(range(len(times_ms)), key=times_ms.__getitem__)
        return Placement(lane, times_ms[lane])


@final
@dataclass(frozen=True)
class Lanes:
    """Open lanes, and their groups."""

    lanes: tuple[CpuLane | GpuLane, ...]
    groups: Groups
    part: SmSlice | None = None
    """Slice of the GPU, or None for the whole GPU."""

    def first_of_each(self) -> tuple[RealLane, RealLane]:
        """One lane of each group; the others of a group are equally fast."""
        return self.lanes[self.groups.gpu[0]], self.lanes[self.groups.cpu[0]]

    def compiled(self, program: Program, x: Tensor) -> Compiled:
        """Compile one network for all lanes."""
        return Compiled(program, x, [lane.engine for lane in self.lanes])

    def alone_ms(self, source: DispatchedNetwork, *, repeats: int) -> list[tuple[float, float]]:
        """Measure each job alone on one lane of the GPU and one of the CPU, ms.

        Scaled so that their sum is the time of an inference, with the gaps between jobs.
        """
        first = self.first_of_each()
        probe = Compiled(source.program, source.x, [lane.engine for lane in first])
        chain = measured_chain(source.name, probe, source.x, first, repeats=repeats)
        network = ServedNetwork(probe, source.x, chain)
        scales = []
        for lane in range(len(first)):
            policy = OneLane(lane)
            whole_ms = median(
                makespan_ms(execute([network], closed(1, repeats), first, policy)[0])
                for _ in range(3)
            )
            scales.append(whole_ms / repeats / sum(times[lane] for times in chain.predicted_ms))
        gpu, cpu = scales
        return [(on_gpu * gpu, on_cpu * cpu) for on_gpu, on_cpu in chain.predicted_ms]

    def chain(self, source: DispatchedNetwork, times_ms: Sequence[tuple[float, float]]) -> Chain:
        """The chain for a policy: the times alone, on every lane of each group."""
        return Chain(
            source.name,
            source.program.kinds,
            tuple(
                tuple(
                    on_gpu if lane in self.groups.gpu else on_cpu for lane in range(len(self.lanes))
                )
                for on_gpu, on_cpu in times_ms
            ),
        )


@cache
def _onnx() -> OnnxEngine:
    """One engine for all cores and steps, so that a network is exported to ONNX once."""
    return OnnxEngine()


@contextmanager
def opened_lanes(config: BenchConfig, sms: int | None) -> Iterator[Lanes]:
    """Open the configured lanes, and close them at the end of the block.

    The GPU is cut to `sms` multiprocessors unless that is None.

    Raises:
      ValueError: if there are too few cores, or the GPU cannot be sliced like this.
      RuntimeError: if there is no GPU.
    """
    cores = usable_cores()
    engine = _onnx()
    with ExitStack() as opened:
        lanes: list[CpuLane | GpuLane] = []
        part: SmSlice | None = None
        if config.on_gpu:
            from edgenas_core.inference.cuda.sm_slices import SmSlices  # noqa: PLC0415 - loaded when needed
            from edgenas_runtime.lanes.gpu import GpuLane  # noqa: PLC0415 - for those who have a GPU

            part = None if sms is None else opened.enter_context(SmSlices((sms,)))[0]
            lanes += [
                opened.enter_context(GpuLane(name=f"gpu/stream{i}", sms=part))
                for i in range(config.streams)
            ]
            count = max(1, len(cores) - 2) if config.cores is None else config.cores
            if count > len(cores):
                raise ValueError(f"cores={count}, but this process may use {len(cores)}")
            lanes += [  # the first core stays with the thread that issues
                opened.enter_context(CpuLane(core, engine=engine)) for core in cores[-count:]
            ]
            split = config.streams
        else:
            lanes += [
                opened.enter_context(
                    CpuLane(cores[0], name="fast", engine=engine, asynchronous=True)
                ),
                opened.enter_context(
                    CpuLane(cores[-1], name="slow", engine=engine, slowdown=config.throttle)
                ),
            ]
            split = 1
        groups = Groups(tuple(range(split)), tuple(range(split, len(lanes))))
        yield Lanes(tuple(lanes), groups, part)
