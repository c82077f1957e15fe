"""Permanent slices of a GPU from some of its groups of eight multiprocessors (SMs)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from edgenas_core.inference.cuda.sm_slices import GRAIN, SmSlice, load_driver, make_slice, split


@cache
def slice_of(numbers: tuple[int, ...], device: int = 0) -> SmSlice:
    """Return a permanent slice of some groups of eight SMs; slices may overlap.

    For work that is separated in time.

    Raises:
      ValueError: if the GPU has fewer groups.
      RuntimeError: if the driver fails, or the package cuda-bindings is not installed.
    """
    driver = load_driver(device)
    groups, rest = _groups(driver, device)
    return make_slice(driver, grouped(numbers, groups, rest), device)


def grouped(numbers: Sequence[int], groups: Sequence[Any], rest: Any) -> list[Any]:
    """Return the driver resources of a slice of some groups.

    A remainder of at least eight SMs is one more group: the 132 SMs of a Hopper GPU are 15 groups and
    12 SMs, hence 16 groups, the last of them larger. A smaller remainder belongs to the last group.

    Args:
      numbers: numbers of the groups, from 0.
      groups: resources of eight SMs each.
      rest: resource of the remainder, or None.

    Raises:
      ValueError: if there are fewer groups.
    """
    left = int(rest.sm.smCount) if rest is not None else 0
    there = [[group] for group in groups]
    if left >= GRAIN:
        there.append([rest])
    elif left:
        there[-1].append(rest)
    if max(numbers) >= len(there):
        raise ValueError(
            f"this GPU has {len(there)} groups of {GRAIN} SMs, numbered from 0; there is no {max(numbers)}"
        )
    return [part for number in sorted(numbers) for part in there[number]]


@cache
def _groups(driver: Any, device: int) -> tuple[list[Any], Any]:
    """Split once for all overlapping slices: a second split may number the groups differently."""
    return split(driver, device)
