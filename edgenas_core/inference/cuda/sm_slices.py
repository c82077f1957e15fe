"""Slices of a GPU: green contexts, each with its own streaming multiprocessors (SMs).

Slices do not share SMs, but they share memory bandwidth. Since Hopper the driver allots SMs in groups
of eight; the remainder goes to the last slice.

A closed slice is kept for the next identical partition instead of being destroyed: freed memory refers
to the streams that used it, and torch aborts the process if such a stream is gone. An idle slice costs
nothing, since its SMs serve all other work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import torch

from edgenas_core.inference.cuda.stream_pool import StreamPool

GRAIN = 8
"""Number of SMs that the driver allots together."""


@final
class SmSlice:
    """A green context with some of a GPU's SMs."""

    def __init__(self, driver: Any, context: Any, count: int, device: int) -> None:
        """Take over a green context; created by `SmSlices`."""
        self._driver = driver
        self._context = context
        self._device = device
        self.streams = StreamPool(self._made)
        """Streams whose kernels run on these SMs only."""
        self.count = count
        """Number of SMs."""

    def stream(self, *, priority: int = 0) -> torch.cuda.Stream:
        """Return one of its streams, valid until the slice is closed."""
        return self.streams.take(priority)

    def _made(self, priority: int) -> torch.cuda.Stream:
        flags = int(self._driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
        made = checked(self._driver.cuGreenCtxStreamCreate(self._context, flags, priority))
        return torch.cuda.ExternalStream(int(made), device=f"cuda:{self._device}")


_SPARE: dict[tuple[int, tuple[int, ...]], list[list[SmSlice]]] = {}
"""Closed slices, by GPU and numbers of SMs."""


@final
class SmSlices:
    """Disjoint slices of one GPU; a context manager."""

    def __init__(self, counts: Sequence[int], device: int = 0) -> None:
        """Partition the GPU.

        Args:
          counts: number of SMs of each slice, multiples of 8; the last slice may instead take all
            the remaining SMs.
          device: index of the GPU.

        Raises:
          ValueError: if the GPU cannot be partitioned like this.
          RuntimeError: if the driver fails, or the package cuda-bindings is not installed.
        """
        driver = load_driver(device)
        spare = _SPARE.setdefault((device, tuple(counts)), [])
        self._spare = spare
        self.slices = spare.pop() if spare else _cut(driver, counts, device)

    def close(self) -> None:
        """Wait for the slices' streams and release the slices."""
        slices, self.slices = self.slices, []
        for part in slices:
            part.streams.reclaim()
        if slices:
            self._spare.append(slices)

    def __enter__(self) -> list[SmSlice]:
        return self.slices

    def __exit__(self, *_: object) -> None:
        self.close()


def load_driver(device: int) -> Any:
    """Return the CUDA driver after creating torch's context, which slices need."""
    try:
        from cuda.bindings import driver  # noqa: PLC0415 - optional dependency
    except ImportError as error:
        raise RuntimeError(
            "slices of a GPU need the package cuda-bindings, of the CUDA version of torch"
        ) from error
    torch.zeros(1, device=f"cuda:{device}")
    return driver


def _cut(driver: Any, counts: Sequence[int], device: int) -> list[SmSlice]:
    groups, remainder = split(driver, device)
    return [make_slice(driver, parts, device) for parts in _dealt(counts, groups, remainder)]


def split(driver: Any, device: int) -> tuple[list[Any], Any]:
    """Return the groups of eight SMs and the remainder."""
    gpu = checked(driver.cuDeviceGet(device))
    sm = driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM
    whole = checked(driver.cuDeviceGetDevResource(gpu, sm))
    _, most, _ = checked(driver.cuDevSmResourceSplitByCount(0, whole, 0, GRAIN))
    groups, dealt, remainder = checked(
        driver.cuDevSmResourceSplitByCount(int(most), whole, 0, GRAIN)
    )
    return list(groups)[: int(dealt)], remainder


def make_slice(driver: Any, parts: list[Any], device: int) -> SmSlice:
    """Return a green context on these driver resources."""
    gpu = checked(driver.cuDeviceGet(device))
    sm = driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM
    descriptor = checked(driver.cuDevResourceGenerateDesc(parts, len(parts)))
    flag = driver.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM
    context = checked(driver.cuGreenCtxCreate(descriptor, gpu, int(flag)))
    count = int(checked(driver.cuGreenCtxGetDevResource(context, sm)).sm.smCount)
    return SmSlice(driver, context, count, device)


def _dealt(counts: Sequence[int], groups: list[Any], remainder: Any) -> list[list[Any]]:
    """Return the resources of each slice."""
    left = int(remainder.sm.smCount) if remainder is not None else 0
    total = sum(int(group.sm.smCount) for group in groups) + left
    dealt, free = [], list(groups)
    for count in counts:
        parts: list[Any] = []
        while free and sum(int(part.sm.smCount) for part in parts) + GRAIN <= count:
            parts.append(free.pop(0))
        have = sum(int(part.sm.smCount) for part in parts)
        if have < count and not free and have + left == count:
            parts.append(remainder)
            left = 0
            have = count
        if have != count or not parts:
            raise ValueError(
                f"slices of {list(counts)} SMs cannot be cut from {total}: use multiples of {GRAIN}; "
                "the last slice may take all remaining SMs"
            )
        dealt.append(parts)
    return dealt


def checked(result: tuple[Any, ...]) -> Any:
    """Return the result of a driver call without its status.

    Raises:
      RuntimeError: if the status is an error.
    """
    status, *values = result
    if int(status) != 0:
        raise RuntimeError(f"the CUDA driver returned {status.name}")
    return values[0] if len(values) == 1 else tuple(values)
