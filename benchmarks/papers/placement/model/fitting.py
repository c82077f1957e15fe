"""Parameters of the model, fitted to measured overheads by non-negative relative least squares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray
from scipy.optimize import nnls

from benchmarks.papers.placement.model.parameters import Application, Hardware
from benchmarks.papers.placement.model.policy import MemoryPolicy

_LEAST_MS = 1e-3
"""Smallest overhead for a relative error, ms: twice the resolution of a GPU's events."""


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

    def of(policy: MemoryPolicy) -> tuple[list[Application], Float64[ndarray, " n"]]:
        own = [observation for observation in observations if observation.policy is policy]
        if not own:
            raise ValueError(f"nothing was observed of policy {policy.value}")
        return [one.application for one in own], np.array([one.overhead_ms for one in own])

    applications, ms = of(MemoryPolicy.DEVICE)
    copy_start, to_device, to_host = solved(
        [
            [application.copies, application.to_device_bytes, application.to_host_bytes]
            for application in applications
        ],
        ms,
    )
    applications, ms = of(MemoryPolicy.PINNED)
    start, reading, writing = solved(
        [
            [
                application.kernel_count,
                sum(
                    kernel.count * kernel.hit_rate * kernel.l2_accesses
                    for kernel in application.kernels
                ),
                sum(
                    kernel.count * kernel.hit_rate * kernel.l2_writes
                    for kernel in application.kernels
                ),
            ]
            for application in applications
        ],
        ms,
    )
    applications, ms = of(MemoryPolicy.MANAGED)
    mapping, flush_cpu, flush_gpu, returning = solved(
        [
            [
                sum(kernel.launched_dirty * kernel.nbytes for kernel in application.kernels),
                application.dirty_count,
                application.kernel_count,
                application.to_host_bytes,
            ]
            for application in applications
        ],
        ms,
    )
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


def solved(columns: Sequence[Sequence[float]], ms: Float64[ndarray, " n"]) -> list[float]:
    """Non-negative least squares of relative errors."""
    weights = 1 / np.maximum(np.abs(ms), _LEAST_MS)
    matrix = np.array(columns, dtype=np.float64) * weights[:, None]
    scale = np.maximum(np.abs(matrix).max(axis=0), 1e-300)
    solution, _ = nnls(matrix / scale, ms * weights)
    return [float(value) for value in solution / scale]
