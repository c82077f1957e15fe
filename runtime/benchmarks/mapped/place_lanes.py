"""Lanes for the places of a platform: cores of this machine, and multiprocessors of its GPU.

Nested places have separate lanes on the same units; the timetable keeps them apart in time.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, TypeVar, final

import torch

from benchmarks.mapped.variant import Variant, parse_variant
from edgenas_core.inference.backend import Device
from edgenas_core.machine.description import usable_cores
from edgenas_core.types.closeable import Closeable
from edgenas_runtime.lanes.cpu import CpuLane, check_core
from edgenas_runtime.mapping.model.platform_description import Place, Platform

if TYPE_CHECKING:
    from edgenas_runtime.lanes.gpu import GpuLane

_UNIT = re.compile(r"(core|sm)(\d+)")

_UNIT_NAMES = {Device.cpu: "core", Device.cuda: "sm"}

Made = TypeVar("Made")


@final
class PlaceLanes(Closeable):
    """Opens the lane of a place on first use; a context manager that closes all lanes."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._lanes: dict[object, CpuLane | GpuLane] = {}
        self._opened = ExitStack()

    def lane(
        self, variant: Variant, place: Place, *, of_its_own: object = None
    ) -> CpuLane | GpuLane:
        """Return the lane of a place, for variants of one device.

        `of_its_own` is the key of a separate lane on all cores or multiprocessors.

        Raises:
          ValueError: if this machine lacks the units, or cannot bind a network to them.
        """
        key = (variant.device, place if of_its_own is None else of_its_own)
        if key not in self._lanes:
            try:
                lane = self._opened_lane(variant, place, is_bound=of_its_own is None)
            except RuntimeError as error:
                raise ValueError(f"{self._platform.place_name(place)}: {error}") from error
            self._opened.enter_context(lane)
            self._lanes[key] = lane
        return self._lanes[key]

    def built(self, variant: Variant, place: Place | None, build: Callable[[], Made]) -> Made:
        """Call `build` in a thread on the cores of a place, so that thread pools made there stay there."""
        if variant.device is Device.cuda or place is None:
            return build()
        cores = self._cores(variant, place)
        with ThreadPoolExecutor(1, initializer=_bind, initargs=(cores,)) as thread:
            return thread.submit(build).result()

    def close(self) -> None:
        """Close all lanes."""
        self._lanes.clear()
        self._opened.close()

    def _opened_lane(self, variant: Variant, place: Place, *, is_bound: bool) -> CpuLane | GpuLane:
        name = self._platform.place_name(place)
        if variant.device is Device.cpu:
            cores = self._cores(variant, place)
            lane = CpuLane(name=name)
            if is_bound:
                lane.launch(partial(_bind, cores)).wait()
            return lane
        from benchmarks.mapped.gpu_groups import slice_of  # noqa: PLC0415 - loaded when needed
        from edgenas_runtime.lanes.gpu import GpuLane  # noqa: PLC0415 - needs a GPU

        groups = self._groups(variant, place)
        return GpuLane(name=name, sms=slice_of(groups) if is_bound and groups else None)

    def _cores(self, variant: Variant, place: Place) -> set[int]:
        there = usable_cores()
        numbers = self._numbers(variant, place)
        missing = [number for number in numbers if number >= len(there)]
        if missing:
            raise ValueError(
                f"the place {self._platform.place_name(place)} needs core{missing[0]}, this machine has "
                f"{_named('core', len(there))}"
            )
        cores = {there[number] for number in numbers}
        check_core(min(cores))
        return cores

    def _groups(self, variant: Variant, place: Place) -> tuple[int, ...]:
        """Return the indices of the groups of eight multiprocessors; empty for the whole GPU."""
        from edgenas_core.inference.cuda.sm_slices import GRAIN  # noqa: PLC0415 - needs a GPU

        name = self._platform.place_name(place)
        if not torch.cuda.is_available():
            raise ValueError(f"the place {name} is on a GPU, and torch finds no GPU here")
        there = int(torch.cuda.get_device_properties(0).multi_processor_count)
        if variant.share == there:
            return ()
        grain = unit_multiprocessors(self._platform, there)
        numbers = self._numbers(variant, place)
        if grain % GRAIN:
            raise ValueError(
                f"{name}: units of {grain} multiprocessors cannot be reserved, because a GPU is "
                f"divided by the {GRAIN}; profile shares that are multiples of {GRAIN}"
            )
        if (max(numbers) + 1) * grain > there:
            raise ValueError(
                f"the place {name} needs sm{max(numbers)}, this GPU has "
                f"{_named('sm', there // grain)} of {grain} multiprocessors each"
            )
        each = grain // GRAIN
        return tuple(number * each + i for number in numbers for i in range(each))

    def _numbers(self, variant: Variant, place: Place) -> list[int]:
        numbers = []
        for unit in sorted(place):
            match = _UNIT.fullmatch(unit)
            if match is None or match[1] != _UNIT_NAMES[variant.device]:
                raise ValueError(
                    f"{variant.name} cannot run on {unit}: units of this machine are named "
                    f"{_UNIT_NAMES[variant.device]}0, {_UNIT_NAMES[variant.device]}1 and so on, as "
                    "a profile of this machine describes them"
                )
            numbers.append(int(match[2]))
        return sorted(numbers)


def unit_multiprocessors(platform: Platform, there: int) -> int:
    """Return the number of multiprocessors of each GPU unit of a platform."""
    variants = {name: parse_variant(name) for name in platform.configurations}
    return min(
        variant.share // len(place)
        for name, variant in variants.items()
        if variant.device is Device.cuda and variant.share < there
        for place in platform.configurations[name]
    )


def _named(unit: str, count: int) -> str:
    return f"{unit}0" if count == 1 else f"{unit}0 to {unit}{count - 1}"


def _bind(cores: set[int]) -> None:
    """Pin this thread, and the threads that it starts."""
    os.sched_setaffinity(0, cores)
