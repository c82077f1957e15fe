"""What the overhead model needs to know: table III of the source, of a device and of an application.

Times are milliseconds, sizes bytes. Names are words; each says the symbol it stands for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import final

SECTOR = 32
"""Bytes that one access of the GPU's L2 cache moves."""


@final
@dataclass(frozen=True)
class Hardware:
    """Of a device: what table III has from benchmarking.

    The last four are not the source's; with their defaults the model is the source's.
    """

    copy_start_ms: float
    """Tr_ini, of each copy."""
    to_device_ms_per_byte: float
    """l_hd"""
    to_host_ms_per_byte: float
    """l_dh"""
    first_touch_ms_per_byte: float
    """l_ini, of memory of the host that nobody has written yet. Table III gives it in ms, but
    equation 2 multiplies it by bytes."""
    mapping_ms_per_byte: float
    """l_mapping"""
    flush_cpu_ms: float
    """Ca_cpu"""
    flush_gpu_ms: float
    """Ca_gpu"""
    l2_ms: float
    """l_L2, of one access."""
    memory_ms: float
    """l_mem, of one access."""
    pinned_mapping_ms_per_byte: float | None = None
    """l_mapping of pinned memory; None for the same. A discrete GPU maps it at allocation: 0."""
    pinned_start_ms: float = 0.0
    """Of each kernel that reads pinned memory: a bus has a round trip that no bandwidth shortens."""
    write_ms: float | None = None
    """Of one access that writes, as l_mem; None for the same. A bus carries both ways at once."""
    returning_ms_per_byte: float = 0.0
    """Of managed pages that the host touches again: on a discrete GPU they come back over the bus.
    The left side of equation 4, of which the source takes the bound N_k * Ca_gpu."""

    def __post_init__(self) -> None:
        """Checks the numbers.

        Raises:
          ValueError: if one is negative or no number.
        """
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and not (isinstance(value, int | float) and 0 <= value < math.inf):
                raise ValueError(f"{field.name}={value} must be a time of 0 or more")

    @property
    def is_discrete(self) -> bool:
        """Whether a bus lies between host and device."""
        return self.pinned_mapping_ms_per_byte is not None

    @property
    def pinned_mapping(self) -> float:
        """Of pinned memory, a byte."""
        own = self.pinned_mapping_ms_per_byte
        return self.mapping_ms_per_byte if own is None else own


@final
@dataclass(frozen=True)
class Kernel:
    """Of an application: kernels of a kind, from profiling."""

    nbytes: float
    """S_i, data that it accesses."""
    count: int = 1
    """How many of them there are."""
    dirty: int | None = None
    """How many are launched after the host has written their data; None: all."""
    l2_accesses: float = 0.0
    """N_L2; of a kernel whose writes are told apart, its reads."""
    l2_writes: float = 0.0
    """The rest of N_L2."""
    hit_rate: float = 1.0
    """tau, under policy D."""
    hidden: bool = False
    """Whether its parallelism hides the latency of memory: equation 7's first case."""

    @property
    def launched_dirty(self) -> int:
        """How many of them count in N_c."""
        return self.count if self.dirty is None else self.dirty


@final
@dataclass(frozen=True)
class Application:
    """What runs as a whole, and whose policy is one."""

    name: str
    to_device_bytes: float
    """B_hd"""
    to_host_bytes: float
    """B_dh"""
    kernels: tuple[Kernel, ...]
    copies: int = 2
    """N_m"""
    first_touch: bool = False
    """Whether results go to memory that the host has not written yet."""
    execution_ms: float = 0.0
    """Of the kernels alone, their data at the device."""
    nbytes: int = 0
    """Of the buffers that CPU and GPU share; the footprint is that of them."""

    @property
    def kernel_count(self) -> int:
        """N_k, of all kinds."""
        return sum(kernel.count for kernel in self.kernels)

    @property
    def dirty_count(self) -> int:
        """N_c, of all kinds."""
        return sum(kernel.launched_dirty for kernel in self.kernels)
