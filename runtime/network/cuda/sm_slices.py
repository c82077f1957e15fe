"""A GPU cut into smaller ones: green contexts, each with multiprocessors (SMs) of its own.

They keep each other off their SMs, not off the memory's bandwidth. On devices since Hopper the
driver deals SMs out by the eight; what is left over goes to the last slice.

A slice that is closed is not destroyed but kept for whoever cuts the GPU alike: memory remembers the
streams it was used on, and torch ends the process when it frees some whose stream is gone. Nothing is
lost by that, for the SMs of an idle slice serve everyone else.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import TracebackType
from typing import Any, final

import torch

from runtime.network.cuda.stream_pool import StreamPool

GRAIN = 8
"""SMs that are dealt out together."""


@final
class SmSlice:
    """Some of a GPU's SMs."""

    def __init__(self, driver: Any, context: Any, count: int, device: int) -> None:
        """Takes over a green context; made by `SmSlices`."""
        self._driver = driver
        self._context = context
        self._device = device
        self.streams = StreamPool(self._made)
        """Whose kernels run on these SMs only."""
        self.count = count
        """Its SMs."""

    def stream(self, *, priority: int = 0) -> torch.cuda.Stream:
        """One of its streams, until the slice is closed."""
        return self.streams.take(priority)

    def _made(self, priority: int) -> torch.cuda.Stream:
        flags = int(self._driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
        made = checked(self._driver.cuGreenCtxStreamCreate(self._context, flags, priority))
        return torch.cuda.ExternalStream(int(made), device=f"cuda:{self._device}")


_SPARE: dict[tuple[int, tuple[int, ...]], list[list[SmSlice]]] = {}
"""Slices closed, by GPU and numbers of SMs."""


@final
class SmSlices:
    """Disjoint slices of one GPU; a context manager that closes them."""

    def __init__(self, counts: Sequence[int], device: int = 0) -> None:
        """Cuts the GPU.

        Args:
          counts: SMs of each slice, multiples of 8; of the last, if it takes all that is left,
            any number.
          device: which GPU.

        Raises:
          ValueError: if the GPU cannot be cut like this.
          RuntimeError: if the driver refuses, or the package cuda-bindings is not installed.
        """
        driver = _driver(device)
        spare = _SPARE.setdefault((device, tuple(counts)), [])
        self._spare = spare
        self.slices = spare.pop() if spare else _cut(driver, counts, device)

    def close(self) -> None:
        """Waits for the slices' streams, and makes the GPU whole."""
        slices, self.slices = self.slices, []
        for one in slices:
            one.streams.reclaim()
        if slices:
            self._spare.append(slices)

    def __enter__(self) -> list[SmSlice]:
        return self.slices

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


@cache
def slice_of(numbers: tuple[int, ...], device: int = 0) -> SmSlice:
    """The SMs of some groups of eight, for good; slices of the same groups share their SMs.

    For work that is kept apart by its order in time.

    Args:
      numbers: of the groups, as `grouped` counts them.
      device: which GPU.

    Raises:
      ValueError: if the GPU has not so many.
      RuntimeError: if the driver refuses, or the package cuda-bindings is not installed.
    """
    driver = _driver(device)
    groups, rest = _groups(driver, device)
    return _slice(driver, grouped(numbers, groups, rest), device)


def grouped(numbers: Sequence[int], groups: Sequence[Any], rest: Any) -> list[Any]:
    """What a slice of some groups consists of.

    What is left over is one more group if it has eight SMs at least: 132 SMs of a Hopper are 15 groups
    and 12 SMs, hence 16 groups of which the last is larger. Fewer go with the last group.

    Args:
      numbers: of the groups, from 0 on.
      groups: of eight SMs each.
      rest: what is left over, or None.

    Raises:
      ValueError: if there are not so many groups.
    """
    left = int(rest.sm.smCount) if rest is not None else 0
    there = [[group] for group in groups]
    if left >= GRAIN:
        there.append([rest])
    elif left:
        there[-1].append(rest)
    if max(numbers) >= len(there):
        raise ValueError(
            f"this GPU has {len(there)} groups of {GRAIN} SMs, not one of the number {max(numbers)}"
        )
    return [part for number in sorted(numbers) for part in there[number]]


def _driver(device: int) -> Any:
    """CUDA's driver, with torch's context made, in which slices live."""
    try:
        from cuda.bindings import driver  # noqa: PLC0415 - only who cuts a GPU needs it
    except ImportError as error:
        raise RuntimeError(
            "slices of a GPU need the package cuda-bindings, of the CUDA version of torch"
        ) from error
    torch.zeros(1, device=f"cuda:{device}")
    return driver


def _cut(driver: Any, counts: Sequence[int], device: int) -> list[SmSlice]:
    groups, rest = _split(driver, device)
    return [_slice(driver, parts, device) for parts in _dealt(counts, groups, rest)]


@cache
def _groups(driver: Any, device: int) -> tuple[list[Any], Any]:
    """One split for all slices that may share SMs: of another the numbers might mean others."""
    return _split(driver, device)


def _split(driver: Any, device: int) -> tuple[list[Any], Any]:
    """Groups of eight, and what is left over."""
    gpu = checked(driver.cuDeviceGet(device))
    sm = driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM
    whole = checked(driver.cuDeviceGetDevResource(gpu, sm))
    _, most, _ = checked(driver.cuDevSmResourceSplitByCount(0, whole, 0, GRAIN))
    groups, dealt, rest = checked(driver.cuDevSmResourceSplitByCount(int(most), whole, 0, GRAIN))
    return list(groups)[: int(dealt)], rest


def _slice(driver: Any, parts: list[Any], device: int) -> SmSlice:
    gpu = checked(driver.cuDeviceGet(device))
    sm = driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM
    descriptor = checked(driver.cuDevResourceGenerateDesc(parts, len(parts)))
    flag = driver.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM
    context = checked(driver.cuGreenCtxCreate(descriptor, gpu, int(flag)))
    count = int(checked(driver.cuGreenCtxGetDevResource(context, sm)).sm.smCount)
    return SmSlice(driver, context, count, device)


def _dealt(counts: Sequence[int], groups: list[Any], rest: Any) -> list[list[Any]]:
    """The parts of each slice."""
    left = int(rest.sm.smCount) if rest is not None else 0
    total = sum(int(group.sm.smCount) for group in groups) + left
    dealt, free = [], list(groups)
    for count in counts:
        parts: list[Any] = []
        while free and sum(int(part.sm.smCount) for part in parts) + GRAIN <= count:
            parts.append(free.pop(0))
        have = sum(int(part.sm.smCount) for part in parts)
        if have < count and not free and have + left == count:
            parts.append(rest)
            left = 0
            have = count
        if have != count or not parts:
            raise ValueError(
                f"slices of {list(counts)} SMs cannot be cut of {total}: give multiples of {GRAIN}, "
                "and the last may take all that is left"
            )
        dealt.append(parts)
    return dealt


def checked(result: tuple[Any, ...]) -> Any:
    """What a call of the driver gives, without its status.

    Raises:
      RuntimeError: if the status is an error.
    """
    status, *values = result
    if int(status) != 0:
        raise RuntimeError(f"the CUDA driver says {status.name}")
    return values[0] if len(values) == 1 else tuple(values)
