"""Parameters of the overhead model: table III of the source, for a device and an application.

Times are in milliseconds, sizes in bytes. The docstring of each parameter begins with its symbol.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import final

SECTOR = 32
"""Bytes of one access to the GPU's L2 cache."""


@final
@dataclass(frozen=True)
class Hardware:
    """Parameters of a device: those that table III obtains by benchmarking.

    The last three extend the source; with their defaults the model is the source's.
    """

    copy_start_ms: float
    """Tr_ini, for each copy."""
    to_device_ms_per_byte: float
    """l_hd"""
    to_host_ms_per_byte: float
    """l_dh"""
    first_touch_ms_per_byte: float
    """l_ini, for host memory that has not been written yet. Table III gives it in ms, but equation 2
    multiplies it by bytes."""
    mapping_ms_per_byte: float
    """l_mapping"""
    flush_cpu_ms: float
    """Ca_cpu"""
    flush_gpu_ms: float
    """Ca_gpu"""
    l2_ms: float
    """l_L2, for one access."""
    memory_ms: float
    """l_mem, for one access."""
    pinned_mapping_ms_per_byte: float
    """l_mapping of pinned memory. A discrete GPU maps it at allocation: 0."""
    pinned_start_ms: float = 0.0
    """Start-up time of each kernel that reads pinned memory: one round trip on the bus."""
    write_ms: float | None = None
    """l_mem of a write access; None if equal. A bus carries both directions at once."""
    returning_ms_per_byte: float = 0.0
    """Time per byte of managed pages that the host touches again: on a discrete GPU they return over
    the bus. The left side of equation 4, for which the source takes the bound N_k * Ca_gpu."""

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
          ValueError: if one is negative or not finite.
        """
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and not (isinstance(value, int | float) and 0 <= value < math.inf):
                raise ValueError(f"{field.name}={value} must be a time of 0 or more")


@final
@dataclass(frozen=True)
class Kernel:
    """Kernels of one kind of an application, from profiling."""

    nbytes: float
    """S_i, bytes that it accesses."""
    count: int = 1
    """Number of launches."""
    dirty: int | None = None
    """Number of launches after the host has written their data; None for all."""
    l2_accesses: float = 0.0
    """N_L2, or its reads if writes are counted separately."""
    l2_writes: float = 0.0
    """Writes of N_L2."""
    hit_rate: float = 1.0
    """tau, under policy D."""
    hidden: bool = False
    """True if its parallelism hides the latency of memory: first case of equation 7."""

    @property
    def launched_dirty(self) -> int:
        """Number of launches that count in N_c."""
        return self.count if self.dirty is None else self.dirty


@final
@dataclass(frozen=True)
class Application:
    """A program with one policy for all its buffers."""

    name: str
    to_device_bytes: float
    """B_hd"""
    to_host_bytes: float
    """B_dh"""
    kernels: tuple[Kernel, ...]
    copies: int = 2
    """N_m"""
    first_touch: bool = False
    """True if results go to memory that the host has not written yet."""
    execution_ms: float = 0.0
    """Execution time of the kernels alone, with data on the device."""
    nbytes: int = 0
    """Bytes of the buffers that CPU and GPU share, which determine the footprint."""

    @property
    def kernel_count(self) -> int:
        """N_k, over all kinds."""
        return sum(kernel.count for kernel in self.kernels)

    @property
    def dirty_count(self) -> int:
        """N_c, over all kinds."""
        return sum(kernel.launched_dirty for kernel in self.kernels)
