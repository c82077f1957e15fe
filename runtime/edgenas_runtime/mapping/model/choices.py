"""The places that each network may be mapped to, without dominated ones.

Among configurations on the same units only the fastest is kept, and a place is dropped if a smaller
place within it is at least as fast. The result is one time for each network and place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from edgenas_runtime.mapping.model.platform_description import Place, Platform


@final
@dataclass(frozen=True)
class MappingChoices:
    """Times and units of each network at each place."""

    platform: Platform
    places: tuple[Place, ...]
    occupies: Bool[ndarray, "places units"]
    ms: Float64[ndarray, "networks places"]
    """Infinite where a network cannot run, or the place is dominated."""
    configuration: Int64[ndarray, "networks places"]
    """Index of the fastest configuration there."""


def mapping_choices(
    times_ms: Float64[ndarray, "networks configurations"],
    configurations: Sequence[str],
    platform: Platform,
) -> MappingChoices:
    """Build the choices; configurations that the platform lacks are skipped.

    Times are NaN where a network cannot run.
    """
    names = [name for name in configurations if name in platform.configurations]
    places = tuple(
        dict.fromkeys(place for name in names for place in platform.configurations[name])
    )
    occupies = np.array(
        [[unit in place for unit in platform.units] for place in places], bool
    ).reshape(len(places), len(platform.units))
    ms = np.full((len(times_ms), len(places)), np.inf)
    configuration = np.zeros(ms.shape, np.int64)
    for name in names:
        column = configurations.index(name)
        own_ms = np.where(np.isnan(times_ms[:, column]), np.inf, times_ms[:, column])
        for place in platform.configurations[name]:
            at = places.index(place)
            configuration[own_ms < ms[:, at], at] = column
            ms[:, at] = np.minimum(ms[:, at], own_ms)
    for at, wide in enumerate(places):
        for other, narrow in enumerate(places):
            if narrow < wide:
                ms[ms[:, other] <= ms[:, at], at] = np.inf
    return MappingChoices(platform, places, occupies, ms, configuration)


def interchangeable_units(platform: Platform, configurations: Sequence[str]) -> list[list[int]]:
    """Return groups of two or more units that can be swapped without changing the platform.

    Only single units are compared: sets of units that are interchangeable as a whole are not found.
    """
    places_of = {name: {*platform.configurations[name]} for name in configurations}
    of_unit = [
        [(name, place) for name, places in places_of.items() for place in places if unit in place]
        for unit in platform.units
    ]

    def replaceable(a: int, b: int) -> bool:
        unit, other = platform.units[a], platform.units[b]
        return all(
            place - {unit} | {other} in places_of[name]
            for name, place in of_unit[a]
            if other not in place
        )

    groups: list[list[int]] = []
    for unit in range(len(platform.units)):
        for group in groups:
            if replaceable(group[0], unit) and replaceable(unit, group[0]):
                group.append(unit)
                break
        else:
            groups.append([unit])
    return [group for group in groups if len(group) > 1]


def frame_loads(
    chosen: Int64[ndarray, " networks"], choices: MappingChoices
) -> Float64[ndarray, " units"]:
    """Return the milliseconds for which each unit is occupied."""
    loads_ms: Float64[ndarray, " units"]
    loads_ms = choices.ms[np.arange(len(chosen)), chosen] @ choices.occupies[chosen]
    return loads_ms
