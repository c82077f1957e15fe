"""Parameters of the model, fitted to measured overheads by non-negative relative least squares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from benchmarks.placement.model.parameters import Application, Hardware
from benchmarks.placement.model.policy import MemoryPolicy
from benchmarks.relative_fit import relative_fit

_LEAST_MS = 1e-3
"""Smallest overhead for a relative error, ms: twice the resolution of a GPU's events."""


_COLUMNS: dict[MemoryPolicy, Callable[[Application], list[float]]] = {
    MemoryPolicy.DEVICE: lambda one: [one.copies, one.to_device_bytes, one.to_host_bytes],
    MemoryPolicy.PINNED: lambda one: [
        one.kernel_count,
        sum(kernel.count * kernel.hit_rate * kernel.l2_accesses for kernel in one.kernels),
        sum(kernel.count * kernel.hit_rate * kernel.l2_writes for kernel in one.kernels),
    ],
    MemoryPolicy.MANAGED: lambda one: [
        sum(kernel.launched_dirty * kernel.nbytes for kernel in one.kernels),
        one.dirty_count,
        one.kernel_count,
        one.to_host_bytes,
    ],
}
"""What the overhead under each policy is a sum of: the terms of equations 2, 8 and 3 to 5."""


@final
@dataclass(frozen=True)
class Observation:
    """Measured overhead of a policy for an application."""

    policy: MemoryPolicy
    application: Application
    overhead_ms: float


def fitted(
    observations: Sequence[Observation],
    *,
    pass_ms_per_access: float,
    first_touch_ms_per_byte: float,
) -> Hardware:
    """Fit all parameters of a discrete device.

    The observations need different bytes, directions and kernel counts; they do not contain l_L2
    and l_ini, which are given.

    Raises:
      ValueError: if a policy has no observation.
    """
    weights = {}
    for policy, columns_of in _COLUMNS.items():
        own = [observation for observation in observations if observation.policy is policy]
        if not own:
            raise ValueError(f"nothing was observed of policy {policy.value}")
        columns = np.array([columns_of(one.application) for one in own], np.float64)
        ms = np.array([one.overhead_ms for one in own])
        weights[policy] = relative_fit(columns, ms, _LEAST_MS)
    copy_start, to_device, to_host = weights[MemoryPolicy.DEVICE]
    start, reading, writing = weights[MemoryPolicy.PINNED]
    mapping, flush_cpu, flush_gpu, returning = weights[MemoryPolicy.MANAGED]
    return Hardware(
        copy_start_ms=copy_start,
        to_device_ms_per_byte=to_device,
        to_host_ms_per_byte=to_host,
        first_touch_ms_per_byte=first_touch_ms_per_byte,
        mapping_ms_per_byte=mapping,
        flush_cpu_ms=flush_cpu,
        flush_gpu_ms=flush_gpu,
        l2_ms=pass_ms_per_access,
        memory_ms=pass_ms_per_access + reading,
        pinned_mapping_ms_per_byte=0.0,
        pinned_start_ms=start,
        write_ms=pass_ms_per_access + writing,
        returning_ms_per_byte=returning,
    )
