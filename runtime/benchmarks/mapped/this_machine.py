"""This machine as a platform: its units, and the places of each variant of a timing table.

Variants with n CPU threads run on groups of n neighbouring cores. The units of the GPU are groups of
as many multiprocessors as its smallest share in the table.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from benchmarks.mapped.variant import Variant
from edgenas_core.inference.backend import Device
from edgenas_core.machine.description import usable_cores
from edgenas_runtime.mapping.model.platform_description import Place, Platform

_WORDS = {Device.cpu: "cores", Device.cuda: "multiprocessors of a GPU"}


def this_machine(variants: Sequence[Variant]) -> Platform:
    """Describe the units of this machine that the given variants need.

    Raises:
      ValueError: if a variant needs more than this machine has.
    """
    multiprocessors = 0
    if torch.cuda.is_available():
        multiprocessors = int(torch.cuda.get_device_properties(0).multi_processor_count)
    return machine_with(variants, len(usable_cores()), multiprocessors)


def machine_with(variants: Sequence[Variant], cores: int, multiprocessors: int) -> Platform:
    """Describe a machine with the given cores and multiprocessors, as far as the variants need it.

    Raises:
      ValueError: if a variant needs more, or the shares of the GPU do not nest.
    """
    units: list[str] = []
    places: dict[str, tuple[Place, ...]] = {}
    for device, there, unit in (
        (Device.cpu, cores, "core"),
        (Device.cuda, multiprocessors, "sm"),
    ):
        on_device = [variant for variant in variants if variant.device is device]
        for variant in on_device:
            if variant.share > there:
                raise ValueError(
                    f"{variant.name} needs {variant.share} {_WORDS[device]}, this machine has {there}"
                )
        if not on_device:
            continue
        grain = 1 if device is Device.cpu else min(variant.share for variant in on_device)
        groups = [f"{unit}{i}" for i in range(there // grain)]
        units += groups
        for variant in on_device:
            places[variant.name] = _places(groups, -(-variant.share // grain))
    return Platform("this machine", tuple(units), places)


def _places(groups: Sequence[str], size: int) -> tuple[Place, ...]:
    """Return disjoint runs of neighbouring groups from the first; a remainder stays unused."""
    size = min(size, len(groups))  # the last group is larger if the grain leaves a remainder
    starts = range(0, len(groups) - size + 1, size)
    return tuple(frozenset(groups[start : start + size]) for start in starts)
