"""The co-run scheduler against serial execution, on two streams or simulated."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, final

import torch

from benchmarks.config import BenchConfig
from benchmarks.placement.model.corun import (
    CorunTask,
    Round,
    makespan_ms,
    memory,
    rounds,
    task,
)
from benchmarks.placement.model.guidelines import assigned
from benchmarks.placement.model.parameters import Application, Hardware
from benchmarks.placement.model.policy import MemoryPolicy
from benchmarks.placement.model.profiles import Profile
from benchmarks.placement.model.workload import Passes, Use, execution_stand_in_ms
from benchmarks.results import Row, summary
from benchmarks.steps import interleaved

if TYPE_CHECKING:
    from benchmarks.placement.buffers.gpu import GpuBuffer
    from edgenas_runtime.lanes.gpu import GpuLane
    from edgenas_runtime.network.completion import Completion

_MB = 2**20
Tasks = tuple[tuple[Passes, int], ...]
"""Jobs and their sizes in bytes."""

_TASKS: Tasks = (
    *((Passes(Use.UPDATE, 1), 32 * _MB),) * 4,  # each byte once: copies cost more than the kernel
    *((Passes(Use.READ, 48), 16 * _MB),) * 4,  # each byte often: belongs on the device
)
_D, _M, _H = MemoryPolicy.DEVICE, MemoryPolicy.MANAGED, MemoryPolicy.PINNED


def compare(config: BenchConfig, profiles: Callable[[], list[Profile]]) -> Iterator[Row]:
    """Serial under D, serial under the assigned policies, co-run with M and with H."""
    for profile in profiles():
        if config.on_gpu:
            yield from _on_streams(config, profile)
        else:
            yield from _simulated(profile)


_SLICE = 16
"""Multiprocessors of the slice for jobs on pinned memory, so that others need not wait for them."""


@final
@dataclass(frozen=True)
class _Plan:
    """Rounds of a schedule, and the policies of its tasks."""

    name: str
    policies: tuple[MemoryPolicy, ...]
    released: tuple[Round, ...]
    barrier: bool = True
    """True if a round waits for the previous one; False if both streams run on."""
    sliced: bool = False
    """True if jobs under M or H run on a slice of the device, and jobs under D on the rest."""

    @property
    def total_mb(self) -> float:
        """Memory of all tasks, on the host and on the device."""
        tasks = [one for together in self.released for one in together]
        return round(memory(tasks).total / _MB, 1)

    def lane(self, task: CorunTask, place: int) -> int:
        """Lane of a task, by its place in its round."""
        return int(task.policy is not _D) if self.sliced else place


def _applications(tasks: Tasks, execution_ms: dict[Passes, float]) -> list[Application]:
    applications = [job.application(nbytes, execution_ms[job]) for job, nbytes in tasks]
    return [
        replace(application, name=f"{i} {application.name}")
        for i, application in enumerate(applications)
    ]


def _plans(applications: Sequence[Application], hardware: Hardware) -> Iterator[_Plan]:
    """Serial and paired plans, under D alone, and under D with H or M by guideline 1 or by our choice."""

    def tasks(decided: dict[str, MemoryPolicy], *, stalls_overlap: bool = False) -> list[CorunTask]:
        return [
            task(application, decided[application.name], hardware, stalls_overlap=stalls_overlap)
            for application in applications
        ]

    def plan(name: str, decided: dict[str, MemoryPolicy], released: list[Round]) -> _Plan:
        policies = tuple(decided[application.name] for application in applications)
        return _Plan(name, policies, tuple(released))

    all_device = {application.name: _D for application in applications}
    queue = sorted(tasks(all_device), key=lambda task: task.execution_ms)
    yield plan("serial, all D", all_device, [(one,) for one in queue])
    opposite = [(queue[i], queue[-1 - i]) for i in range(len(queue) // 2)]
    yield replace(plan("two streams, all D", all_device, [*opposite]), barrier=False)
    for policy in (_H, _M):
        decided = assigned(applications, hardware, among=(policy,))
        label = f"D and {policy.value}"
        if policy not in decided.values():  # to see what pairing would give nevertheless
            decided = {
                application.name: policy if application.kernel_count == 1 else _D
                for application in applications
            }
            label += " against guideline 1"
        alone = sorted(tasks(decided), key=lambda task: task.execution_ms)
        yield plan(f"serial, {label}", decided, [(one,) for one in alone])
        if policy is _M:
            yield plan(f"co-run, {label}", decided, rounds(tasks(decided)))
            continue
        pairs = rounds(tasks(decided, stalls_overlap=True))
        by_name = {one.name: one for one in alone}
        stalled = [tuple(by_name[one.name] for one in together) for together in pairs]
        yield plan(f"co-run, {label}", decided, stalled)
        on_slice = plan(f"co-run, {label}, H on {_SLICE} SMs", decided, pairs)
        yield replace(on_slice, sliced=True)


def _row(profile: Profile, plan: _Plan, *, simulated: bool) -> Row:
    return {
        "part": "corun",
        "profile": profile.name,
        "simulated": simulated,
        "plan": plan.name,
        "policies": "".join(policy.value for policy in plan.policies),
        "rounds": len(plan.released),
        "pairs": sum(len(one) == 2 for one in plan.released),
        "predicted_ms": round(makespan_ms(plan.released), 4) if plan.barrier else None,
        "total_mb": plan.total_mb,
    }


def _simulated(profile: Profile) -> Iterator[Row]:
    hardware = profile.hardware
    execution_ms = {job: execution_stand_in_ms(job, nbytes, hardware) for job, nbytes in _TASKS}
    for plan in _plans(_applications(_TASKS, execution_ms), hardware):
        if plan.barrier:
            yield _row(profile, plan, simulated=True)


def _on_streams(config: BenchConfig, profile: Profile) -> Iterator[Row]:
    from edgenas_core.inference.cuda.sm_slices import SmSlices  # noqa: PLC0415 - loaded when needed
    from edgenas_runtime.lanes.gpu import GpuLane  # noqa: PLC0415 - for those who have a GPU

    total = torch.cuda.get_device_properties(0).multi_processor_count
    with ExitStack() as opened:
        few, most = opened.enter_context(SmSlices((_SLICE, total - _SLICE)))
        whole = [opened.enter_context(GpuLane(spin=True)) for _ in range(2)]
        sliced = [opened.enter_context(GpuLane(sms=one, spin=True)) for one in (most, few)]
        execution_ms = {job: _resident_ms(job, nbytes, whole[0]) for job, nbytes in _TASKS}
        applications = _applications(_TASKS, execution_ms)
        plans = [*_plans(applications, profile.hardware)]
        ready = _ReadyCorun(
            dict(zip((application.name for application in applications), _TASKS, strict=True))
        )
        opened.callback(ready.close)
        variants = {
            plan.name: ready.variant(plan, sliced if plan.sliced else whole) for plan in plans
        }
        samples = interleaved(variants, config.repeats)
        for plan in plans:
            row = _row(profile, plan, simulated=False)
            taken = summary(samples[plan.name])
            if row["predicted_ms"] is not None:
                row["error_of_model"] = round(row["predicted_ms"] / taken["ms"] - 1, 4)
            yield {**row, **taken}


def _resident_ms(job: Passes, nbytes: int, lane: GpuLane) -> float:
    from benchmarks.placement.buffers.gpu import GpuBuffer  # noqa: PLC0415 - for those who have a GPU

    buffer = GpuBuffer(_D, nbytes // 4, lane.stream)
    try:
        once = buffer.resident(job.compute(torch.zeros((), device=lane.stream.device)))
        return median(once() for _ in range(7))
    finally:
        buffer.close()


@final
class _ReadyCorun:
    """Buffers of all tasks under the policies of the plans, and their jobs on each lane."""

    def __init__(self, tasks: dict[str, tuple[Passes, int]]) -> None:
        self._tasks = tasks
        self._buffers: dict[tuple[str, MemoryPolicy], GpuBuffer] = {}

    def variant(self, plan: _Plan, lanes: Sequence[GpuLane]) -> Callable[[], float]:
        """Run a plan on two lanes; returns ms from the first launch to the last visible result."""
        launches = [
            [(lane, self._launch(one, lanes[lane])) for lane, one in self._placed(plan, together)]
            for together in plan.released
        ]
        used = [self._buffer(one, lanes[0]) for together in plan.released for one in together]
        back = [
            self._buffer(one, lanes[0])
            for together in plan.released
            for one in together
            if self._tasks[one.name][0].returns
        ]

        def once() -> float:
            for buffer in used:
                buffer.write()
            torch.cuda.synchronize()
            began_s = time.perf_counter()
            _launched(launches, lanes, barrier=plan.barrier)
            for buffer in back:
                buffer.read()
            return 1e3 * (time.perf_counter() - began_s)

        return once

    def _placed(self, plan: _Plan, together: Round) -> list[tuple[int, CorunTask]]:
        return [(plan.lane(one, place), one) for place, one in enumerate(together)]

    def _buffer(self, task: CorunTask, lane: GpuLane) -> GpuBuffer:
        from benchmarks.placement.buffers.gpu import GpuBuffer  # noqa: PLC0415 - for those who have a GPU

        key = task.name, task.policy
        if key not in self._buffers:
            self._buffers[key] = GpuBuffer(task.policy, self._tasks[task.name][1] // 4, lane.stream)
        return self._buffers[key]

    def _launch(self, task: CorunTask, lane: GpuLane) -> Callable[[], None]:
        job, _ = self._tasks[task.name]
        compute = job.compute(torch.zeros((), device=lane.stream.device))
        return self._buffer(task, lane).launcher(compute, returns=job.returns, stream=lane.stream)

    def close(self) -> None:
        """Free all buffers."""
        for buffer in self._buffers.values():
            buffer.close()


def _launched(
    launches: Sequence[Sequence[tuple[int, Callable[[], None]]]],
    lanes: Sequence[GpuLane],
    *,
    barrier: bool,
) -> None:
    """Run round after round on two lanes until both are idle."""
    before = torch.cuda.current_stream()
    last: list[Completion | None] = [None, None]
    try:
        for together in launches:
            ends = [*last]
            for lane, launch in together:
                ends[lane] = lanes[lane].launch(launch, last[1 - lane] if barrier else None)
            last = ends
        for completion in last:
            if completion is not None:
                completion.wait()
    finally:
        torch.cuda.set_stream(before)
