"""The source's runtime scheduler: an EDF queue whose head is paired with a kernel of another policy.

The deadline of a task is its execution time, so that the shortest is first. While a kernel under M or H
maps its pages, the device is idle, and a kernel under D that fits into that time runs (figure 6). All
functions here are pure; the experiment runs the same rounds on real streams.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from benchmarks.placement.model.overhead import (
    cache_loss_ms,
    device_ms,
    overhead_ms,
    pinned_mapping_ms,
)
from benchmarks.placement.model.overhead import mapping_ms as managed_mapping_ms
from benchmarks.placement.model.parameters import Application, Hardware
from benchmarks.placement.model.policy import Footprint, MemoryPolicy, footprint, together


@final
@dataclass(frozen=True)
class CorunTask:
    """An application under its policy, as the scheduler sees it; times in ms."""

    name: str
    policy: MemoryPolicy
    execution_ms: float
    """Execution time of its kernels alone, which is its deadline."""
    before_ms: float = 0.0
    """Under D: copy to the device, by a copy engine."""
    idle_ms: float = 0.0
    """Under M and H: idle time in which other kernels can run."""
    flush_ms: float = 0.0
    """Under M and H: overhead that cannot be overlapped."""
    after_ms: float = 0.0
    """Under D: copy back to the host."""
    bus_ms: float = 0.0
    """Time on the bus to the device, which tasks share."""
    nbytes: int = 0

    @property
    def busy_ms(self) -> float:
        """Time in which it occupies the device."""
        return self.flush_ms + self.execution_ms

    @property
    def alone_ms(self) -> float:
        """Response time without other tasks."""
        return self.before_ms + self.idle_ms + self.busy_ms + self.after_ms


Round = tuple[CorunTask, ...]
"""One task, or two that start together; the next round starts when both have ended."""


def task(
    application: Application,
    policy: MemoryPolicy,
    hardware: Hardware,
    *,
    stalls_overlap: bool = False,
) -> CorunTask:
    """Compute the times of an application by the model.

    `stalls_overlap` is True if other kernels run while it waits for pinned memory. The source
    counts T_c as lost, and so it is where its kernels fill the device with threads that wait; not
    if they keep to a slice of its multiprocessors.
    """
    total_ms = overhead_ms(policy, application, hardware)
    idle_ms = before_ms = after_ms = stalls_ms = 0.0
    match policy:
        case MemoryPolicy.DEVICE:
            back = _copies_back_only(application)
            after_ms = device_ms(back, hardware)
            before_ms = total_ms - after_ms
        case MemoryPolicy.MANAGED:
            idle_ms = managed_mapping_ms(application, hardware)
        case MemoryPolicy.PINNED:
            idle_ms = pinned_mapping_ms(application, hardware)
            stalls_ms = cache_loss_ms(application, hardware)
            if stalls_overlap:
                idle_ms += stalls_ms
    return CorunTask(
        application.name,
        policy,
        execution_ms=application.execution_ms,
        before_ms=before_ms,
        idle_ms=idle_ms,
        flush_ms=total_ms - before_ms - idle_ms - after_ms,
        after_ms=after_ms,
        bus_ms=before_ms + stalls_ms,
        nbytes=application.nbytes,
    )


def _copies_back_only(application: Application) -> Application:
    """The application with only its copies back: half of the copies, all bytes to the host."""
    return Application(
        application.name,
        0.0,
        application.to_host_bytes,
        (),
        copies=application.copies // 2 if application.to_host_bytes else 0,
        first_touch=application.first_touch,
    )


def can_pair(task: CorunTask, other: CorunTask) -> bool:
    """The source's two criteria: one task is under D, and it fits into the idle time of the other."""
    if (task.policy is MemoryPolicy.DEVICE) == (other.policy is MemoryPolicy.DEVICE):
        return False
    of_device, waits = (task, other) if task.policy is MemoryPolicy.DEVICE else (other, task)
    return of_device.execution_ms <= waits.idle_ms


def rounds(tasks: Sequence[CorunTask]) -> list[Round]:
    """Rounds of the queue: its head, and the first task behind it with which it can be paired."""
    queue = sorted(tasks, key=lambda task: task.execution_ms)
    released: list[Round] = []
    while queue:
        head = queue.pop(0)
        mate = next((one for one in queue if can_pair(head, one)), None)
        if mate is None:
            released.append((head,))
        else:
            queue.remove(mate)
            released.append((head, mate))
    return released


def round_ms(released: Round) -> float:
    """Duration of a round, ms: copies and mapping overlap, kernels are serial, as in figure 6.

    Two tasks that need the bus take at least the sum of their times on it.
    """
    if len(released) == 1:
        return released[0].alone_ms
    device_free_ms = ended_ms = 0.0
    for task in sorted(released, key=lambda task: task.before_ms + task.idle_ms):
        begins_ms = max(device_free_ms, task.before_ms + task.idle_ms)
        device_free_ms = begins_ms + task.busy_ms
        ended_ms = max(ended_ms, device_free_ms + task.after_ms)
    return max(ended_ms, sum(task.bus_ms for task in released))


def makespan_ms(released: Sequence[Round]) -> float:
    """Total time of successive rounds, ms."""
    return sum(map(round_ms, released))


def memory(tasks: Sequence[CorunTask]) -> Footprint:
    """Memory of all tasks: their buffers exist from the first round to the last."""
    return together(footprint(task.policy, task.nbytes) for task in tasks)
