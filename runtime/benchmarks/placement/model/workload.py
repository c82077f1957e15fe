"""Kernels with known use of a buffer: passes that read it, or read and write it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import final

import torch
from torch import Tensor

from benchmarks.placement.model.parameters import SECTOR, Application, Hardware, Kernel

Compute = Callable[[Tensor], None]
"""The work of a job on the buffer as the device sees it."""


class Use(Enum):
    """Use of each byte in a pass."""

    READ = "read"  # the largest element, into a scalar: nothing goes back
    UPDATE = "update"  # adds 1 in place: all of it goes back


@final
@dataclass(frozen=True)
class Passes:
    """A job: the same kernel over the whole buffer, repeated."""

    use: Use
    reuse: int

    def compute(self, result: Tensor) -> Compute:
        """The work of the job.

        The largest element, which is exact in any order, goes to the scalar `result`.
        """
        if self.use is Use.READ:

            def read(buffer: Tensor) -> None:
                for _ in range(self.reuse):
                    torch.amax(buffer, 0, out=result)

            return read

        def update(buffer: Tensor) -> None:
            for _ in range(self.reuse):
                buffer.add_(1.0)

        return update

    @property
    def returns(self) -> bool:
        """True if the host needs the buffer back."""
        return self.use is Use.UPDATE

    def application(self, nbytes: int, execution_ms: float = 0.0) -> Application:
        """The job as the model sees it.

        The host writes the data before the job, so only the first pass finds caches dirty. Under H
        every access crosses to the host, whether it would have hit a cache or not: across a bus,
        where a miss is dearer than under D too, `tau` is 1.
        """
        accesses = nbytes / SECTOR
        writes = accesses if self.returns else 0.0
        return Application(
            f"{self.use.value} x{self.reuse}",
            to_device_bytes=nbytes,
            to_host_bytes=nbytes if self.returns else 0,
            kernels=(
                Kernel(nbytes, l2_accesses=accesses, l2_writes=writes),
                Kernel(0.0, count=self.reuse - 1, dirty=0, l2_accesses=accesses, l2_writes=writes),
            ),
            copies=2 if self.returns else 1,
            execution_ms=execution_ms,
            nbytes=nbytes,
        )


def execution_stand_in_ms(job: Passes, nbytes: int, hardware: Hardware) -> float:
    """Assumed execution time of a job's kernels, ms: by their accesses."""
    return job.reuse * (2 if job.returns else 1) * nbytes / SECTOR * hardware.l2_ms
