"""The co-run scheduler against serial execution: on two real streams, or simulated."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, final

import torch

from runtime.bench.config import BenchConfig
from runtime.bench.driver import interleaved
from runtime.bench.results import Row, summary
from runtime.memory.corun import Round, makespan_ms, memory, rounds, task
from runtime.memory.guidelines import assigned
from runtime.memory.parameters import Application, Hardware
from runtime.memory.policy import MemoryPolicy
from runtime.memory.profiles import Profile
from runtime.memory.simulated import execution_stand_in_ms
from runtime.memory.workload import Passes, Use

if TYPE_CHECKING:
    from runtime.completion import Completion
    from runtime.gpu_lane import GpuLane
    from runtime.memory.buffers import GpuBuffer

_MB = 2**20
Tasks = tuple[tuple[Passes, int], ...]
"""Jobs and their bytes."""

_TASKS: Tasks = (
    *((Passes(Use.UPDATE, 1), 32 * _MB),) * 4,  # each byte once: copies cost more than the kernel
    *((Passes(Use.READ, 48), 16 * _MB),) * 4,  # each byte often: belongs on the device
)
_SIMULATED_TASKS: Tasks = (
    *((Passes(Use.UPDATE, 1), 32 * _MB),) * 4,
    *((Passes(Use.READ, 32), _MB // 16),) * 4,  # fits into what a board takes to map the others
)
_D, _M, _H = MemoryPolicy.DEVICE, MemoryPolicy.MANAGED, MemoryPolicy.PINNED


def compare(config: BenchConfig, profiles: Callable[[], list[Profile]]) -> Iterator[Row]:
    """Serial under D, serial under the assigned policies, co-run with M and with H."""
    for profile in profiles():
        if config.on_gpu:
            yield from _on_streams(config, profile)
        else:
            yield from _simulated(profile)


@final
@dataclass(frozen=True)
class _Plan:
    """What is released when, under which policies."""

    name: str
    policies: tuple[MemoryPolicy, ...]
    released: tuple[Round, ...]
    barrier: bool = True
    """Whether a round waits for the one before it; else both streams just run on."""

    @property
    def memory(self) -> Row:
        found = memory([one for together in self.released for one in together])
        return {
            "host_mb": round(found.host / _MB, 1),
            "device_mb": round(found.device / _MB, 1),
            "either_mb": round(found.either / _MB, 1),
            "total_mb": round(found.total / _MB, 1),
        }


def _applications(tasks: Tasks, execution_ms: dict[Passes, float]) -> list[Application]:
    applications = [job.application(nbytes, execution_ms[job]) for job, nbytes in tasks]
    return [replace(one, name=f"{i} {one.name}") for i, one in enumerate(applications)]


def _plans(applications: Sequence[Application], hardware: Hardware, *, on_bus: bool) -> list[_Plan]:
    """`on_bus`: whether the device waits for pinned memory across a bus, with its cores free."""

    def plan(name: str, decided: dict[str, MemoryPolicy], *, pairs: bool) -> _Plan:
        tasks = [
            task(one, decided[one.name], hardware, stalls_overlap=on_bus) for one in applications
        ]
        queue = sorted(tasks, key=lambda one: one.execution_ms)
        released = rounds(tasks) if pairs else [(one,) for one in queue]
        return _Plan(name, tuple(decided[one.name] for one in applications), tuple(released))

    all_device = {one.name: _D for one in applications}
    serial = plan("serial, all D", all_device, pairs=False)
    tasks = [one for (one,) in serial.released]
    side_by_side = tuple((tasks[i], tasks[len(tasks) - 1 - i]) for i in range(len(tasks) // 2))
    found = [
        serial,
        _Plan("two streams, all D", serial.policies, side_by_side, barrier=False),
    ]
    for policy in (_H, _M):
        decided = assigned(applications, hardware, among=(policy,))
        told = f"D and {policy.value}"
        if policy not in decided.values():  # to see what pairing would give nevertheless
            decided = {one.name: policy if one.kernel_count == 1 else _D for one in applications}
            told += " against guideline 1"
        found += [
            plan(f"serial, {told}", decided, pairs=False),
            plan(f"co-run, {told}", decided, pairs=True),
        ]
    return found


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
        **plan.memory,
    }


def _simulated(profile: Profile) -> Iterator[Row]:
    execution_ms = {job: execution_stand_in_ms(job, nbytes) for job, nbytes in _SIMULATED_TASKS}
    applications = _applications(_SIMULATED_TASKS, execution_ms)
    for plan in _plans(applications, profile.hardware, on_bus=False):
        if plan.barrier:
            yield _row(profile, plan, simulated=True)


def _on_streams(config: BenchConfig, profile: Profile) -> Iterator[Row]:
    from runtime.gpu_lane import GpuLane  # noqa: PLC0415 - for those who have a GPU
    from runtime.memory.buffers import GpuBuffer  # noqa: PLC0415 - likewise

    with ExitStack() as opened:
        lanes = tuple(
            opened.enter_context(GpuLane(name=f"gpu/stream{i}", spin=True)) for i in range(2)
        )
        execution_ms = {
            job: _resident_ms(job, nbytes, lanes[0], GpuBuffer) for job, nbytes in _TASKS
        }
        applications = _applications(_TASKS, execution_ms)
        plans = _plans(applications, profile.hardware, on_bus=True)
        result = torch.zeros((), device=lanes[0].stream.device)
        buffers: dict[tuple[str, MemoryPolicy], GpuBuffer] = {}
        launches: dict[tuple[str, MemoryPolicy], Callable[[], None]] = {}
        for plan in plans:
            for application, (job, nbytes), policy in zip(
                applications, _TASKS, plan.policies, strict=True
            ):
                key = application.name, policy
                if key not in buffers:
                    buffers[key] = GpuBuffer(policy, nbytes // 4, lanes[0].stream)
                    opened.callback(buffers[key].close)
                    launches[key] = buffers[key].launcher(
                        job.compute(result.clone()), returns=job.returns
                    )
        returns = {
            application.name: job.returns
            for application, (job, _) in zip(applications, _TASKS, strict=True)
        }
        variants = {
            plan.name: partial(_run, plan, lanes, launches, buffers, returns) for plan in plans
        }
        samples = interleaved(variants, config.repeats)
        for plan in plans:
            row = _row(profile, plan, simulated=False)
            taken = summary(samples[plan.name])
            if row["predicted_ms"] is not None:
                row["error"] = round(row["predicted_ms"] / taken["ms"] - 1, 4)
            yield {**row, **taken}


def _resident_ms(job: Passes, nbytes: int, lane: GpuLane, make: type[GpuBuffer]) -> float:
    buffer = make(_D, nbytes // 4, lane.stream)
    try:
        once = buffer.resident(job.compute(torch.zeros((), device=lane.stream.device)))
        return median(once() for _ in range(7))
    finally:
        buffer.close()


def _run(
    plan: _Plan,
    lanes: Sequence[GpuLane],
    launches: dict[tuple[str, MemoryPolicy], Callable[[], None]],
    buffers: dict[tuple[str, MemoryPolicy], GpuBuffer],
    returns: dict[str, bool],
) -> float:
    """From the first launch to the last result in the host's sight; milliseconds."""
    keys = [(one.name, one.policy) for released in plan.released for one in released]
    for key in keys:
        buffers[key].write()
    before = torch.cuda.current_stream()
    last: list[Completion | None] = [None, None]
    torch.cuda.synchronize()
    began_s = time.perf_counter()
    try:
        for released in plan.released:
            ends = [*last]
            for place, one in enumerate(released):
                other = last[1 - place] if plan.barrier else None
                ends[place] = lanes[place].launch(launches[one.name, one.policy], other)
            last = ends
        for completion in last:
            if completion is not None:
                completion.wait()
    finally:
        torch.cuda.set_stream(before)
    for key in keys:
        if returns[key[0]]:
            buffers[key].read()
    return 1e3 * (time.perf_counter() - began_s)
