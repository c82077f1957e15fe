"""Buffers of a device that is not there: the CPU computes, the model says what it would take."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import torch
from torch import Tensor

from runtime.experiments.placement.buffers.gpu import Buffer
from runtime.experiments.placement.model.overhead import overhead_ms
from runtime.experiments.placement.model.parameters import SECTOR, Application, Hardware
from runtime.experiments.placement.model.policy import Footprint, MemoryPolicy, footprint
from runtime.experiments.placement.model.workload import Compute, Passes

_BOARD_GB_PER_S = 50.0
"""That the source prints of the TX2: what passes over data on a board are taken to run at."""


def execution_stand_in_ms(job: Passes, nbytes: int, hardware: Hardware) -> float:
    """Of a job's kernels alone, where no device is there to ask: by accesses if those were measured."""
    if not hardware.is_discrete:
        return job.reuse * nbytes / (_BOARD_GB_PER_S * 1e6)
    return job.reuse * (2 if job.returns else 1) * nbytes / SECTOR * hardware.l2_ms


@final
class SimulatedBuffer(Buffer):
    """Results are real, times are predictions of an application's response."""

    def __init__(self, policy: MemoryPolicy, application: Application, hardware: Hardware) -> None:
        """Of the application's bytes, filled with zeros.

        Args:
          policy: where it would live.
          application: what its jobs are taken for, with the time of their kernels alone.
          hardware: of the device.
        """
        self._policy, self._application, self._hardware = policy, application, hardware
        self._host = torch.zeros(application.nbytes // 4)

    @property
    def policy(self) -> MemoryPolicy:
        """Where it would live."""
        return self._policy

    @property
    def is_simulated(self) -> bool:
        """It is."""
        return True

    @property
    def footprint(self) -> Footprint:
        """Bytes that it would take on the host and on the device."""
        return footprint(self._policy, self._application.nbytes)

    @property
    def host(self) -> Tensor:
        """As the host sees it."""
        return self._host

    def job(self, compute: Compute, *, returns: bool) -> Callable[[], float]:
        """Computes on the CPU and tells the model's time."""
        took_ms = self._application.execution_ms + overhead_ms(
            self._policy, self._application, self._hardware
        )

        def once() -> float:
            device = self._host.clone() if self._policy is MemoryPolicy.DEVICE else self._host
            compute(device)
            if returns:
                self._host.copy_(device)
            return took_ms

        return once

    def close(self) -> None:
        """Nothing is held."""
