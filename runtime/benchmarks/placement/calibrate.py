"""Calibration of the parameters of a device: the same job under each policy, in turns."""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timezone
from statistics import median
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from benchmarks.placement.buffers.gpu import GpuBuffer
from benchmarks.placement.model.fitting import Observation, fitted
from benchmarks.placement.model.parameters import SECTOR
from benchmarks.placement.model.policy import MemoryPolicy
from benchmarks.placement.model.profiles import Profile
from benchmarks.placement.model.workload import Passes, Use
from benchmarks.relative_fit import relative_fit
from edgenas_core.machine.description import machine_facts

SIZES = tuple(4**power * 1024 for power in range(2, 9))
"""Sizes in bytes: 16 KB, 64 KB and so on to 64 MB."""

_REUSES = (1, 4)


def calibrate(
    stream: torch.cuda.Stream, *, repeats: int = 7, sizes: Sequence[int] = SIZES
) -> Profile:
    """Measure the parameters of the stream's device; takes some seconds.

    Raises:
      RuntimeError: if the device has too little memory, or cuda-bindings is not installed.
    """
    began_s = time.perf_counter()
    observations, passes, samples = [], [], []
    for nbytes in sizes:
        for job, medians in _measured(nbytes, stream, repeats):
            passes.append((job, nbytes, medians["resident"]))
            application = job.application(nbytes)
            for policy in MemoryPolicy:
                overhead_ms = medians[policy.value] - medians["resident"]
                observations.append(Observation(policy, application, overhead_ms))
            samples.append({"use": job.use.value, "reuse": job.reuse, "bytes": nbytes, **medians})
    hardware = fitted(
        observations,
        pass_ms_per_access=_ms_per_access(passes),
        first_touch_ms_per_byte=first_touch_ms_per_byte(),
    )
    name = torch.cuda.get_device_name(stream.device)
    provenance: dict[str, Any] = {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "seconds": round(time.perf_counter() - began_s, 1),
        "repeats": repeats,
        "statistic": "median of jobs in turns, by the GPU's events",
        "machine": machine_facts(0, gpu=True),
        "samples_ms": samples,
    }
    return Profile(name, hardware, provenance)


def _measured(
    nbytes: int, stream: torch.cuda.Stream, repeats: int
) -> Iterator[tuple[Passes, dict[str, float]]]:
    with ExitStack() as opened:
        buffers = placed(nbytes, stream, opened)
        for use in Use:
            for reuse in _REUSES:
                job = Passes(use, reuse)
                variants = buffers.runs(job)
                taken: dict[str, list[float]] = {name: [] for name in variants}
                for turn in range(repeats + 2):
                    for name, once in variants.items():
                        took_ms = once()
                        if turn >= 2:  # the first are to warm up
                            taken[name].append(took_ms)
                yield job, {name: median(ms) for name, ms in taken.items()}


def placed(nbytes: int, stream: torch.cuda.Stream, opened: ExitStack) -> PlacedBuffers:
    """Allocate a buffer under each policy.

    Raises:
      ValueError: if that exceeds the limit of managed memory.
      RuntimeError: if the memory cannot be allocated.
    """
    buffers = {}
    for policy in MemoryPolicy:
        buffers[policy] = GpuBuffer(policy, nbytes // 4, stream)
        opened.callback(buffers[policy].close)
    return PlacedBuffers(buffers, torch.zeros((), device=stream.device))


@final
@dataclass(frozen=True)
class PlacedBuffers:
    """One buffer under each policy, and the scalar that receives the largest element."""

    buffers: dict[MemoryPolicy, GpuBuffer]
    result: Tensor

    def runs(self, job: Passes) -> dict[str, Callable[[], float]]:
        """Timed launches of the job by policy, and of its kernels alone as `resident`; buffers are zeroed."""
        compute = job.compute(self.result)
        launches = {
            policy.value: buffer.job(compute, returns=job.returns)
            for policy, buffer in self.buffers.items()
        }
        return {**launches, "resident": self.buffers[MemoryPolicy.DEVICE].resident(compute)}

    def check(self, job: Passes, calls: int) -> None:
        """Check that every pass of that many calls has reached the host.

        Raises:
          RuntimeError: if one has not.
        """
        expected = float(job.reuse * calls) if job.returns else 0.0
        for policy, buffer in self.buffers.items():
            low, high = buffer.host.aminmax()
            if float(low) != expected or float(high) != expected:
                raise RuntimeError(
                    f"policy {policy.value} left {float(low)} to {float(high)}, not {expected}"
                )


def _ms_per_access(passes: Sequence[tuple[Passes, int, float]]) -> float:
    """l_L2: slope of the time of a pass over its sectors; most of these passes hit the cache."""
    columns = [
        [job.reuse, job.reuse * (2 if job.returns else 1) * nbytes / SECTOR]
        for job, nbytes, _ in passes
    ]
    return relative_fit(np.array(columns, np.float64), np.array([ms for *_, ms in passes]), 1e-3)[1]


def first_touch_ms_per_byte(nbytes: int = 2**25) -> float:
    """l_ini: time of writing fresh host memory minus that of writing it again, per byte."""
    differences = []
    for _ in range(3):
        # asked of the system: an allocator may give what has been written before
        fresh = np.frombuffer(mmap.mmap(-1, nbytes), dtype=np.uint8)
        taken = []
        for _ in range(2):
            began_s = time.perf_counter()
            fresh[::4096] = 1
            taken.append(1e3 * (time.perf_counter() - began_s))
        differences.append(taken[0] - taken[1])
    return max(0.0, median(differences) / nbytes)
