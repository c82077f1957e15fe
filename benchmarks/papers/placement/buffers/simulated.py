"""Buffers of a simulated device: the CPU computes, and the model predicts the time."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import torch

from benchmarks.papers.placement.buffers.gpu import Buffer
from benchmarks.papers.placement.model.overhead import overhead_ms
from benchmarks.papers.placement.model.parameters import SECTOR, Application, Hardware
from benchmarks.papers.placement.model.policy import MemoryPolicy
from benchmarks.papers.placement.model.workload import Compute, Passes


def execution_stand_in_ms(job: Passes, nbytes: int, hardware: Hardware) -> float:
    """Assumed execution time of a job's kernels, ms: by their accesses."""
    return job.reuse * (2 if job.returns else 1) * nbytes / SECTOR * hardware.l2_ms


@final
class SimulatedBuffer(Buffer):
    """A buffer whose results are computed, and whose times are predicted responses of an application."""

    def __init__(self, policy: MemoryPolicy, application: Application, hardware: Hardware) -> None:
        """Allocate the bytes of the application, filled with zeros."""
        self.policy, self._application, self._hardware = policy, application, hardware
        self.host = torch.zeros(application.nbytes // 4)

    def job(self, compute: Compute, *, returns: bool) -> Callable[[], float]:
        """Compute on the CPU, and return the predicted ms."""
        took_ms = self._application.execution_ms + overhead_ms(
            self.policy, self._application, self._hardware
        )

        def once() -> float:
            device = self.host.clone() if self.policy is MemoryPolicy.DEVICE else self.host
            compute(device)
            if returns:
                self.host.copy_(device)
            return took_ms

        return once

    def close(self) -> None:
        """Do nothing: no resource is held."""
