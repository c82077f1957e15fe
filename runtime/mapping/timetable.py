"""The networks of one frame, each with its place and time: from a mapping, and as who has none would.

A network begins when all units of its place are free, in the timetable's order; nobody waits for the
clock. So a timetable is an order, and its times are what the table of times makes of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from runtime.mapping.choices import Choices, choices, frame_loads
from runtime.mapping.platform_description import Place, Platform
from runtime.mapping.program import Answer, most_left, solve


class Way(Enum):
    """Who decides where a network of the frame runs."""

    mapped = "mapped"  # the mapper: the least sum of times that fits into the frame
    shortest = "shortest"  # the mapper, asked for the shortest frame
    quickest = "quickest"  # each as it is quickest alone, where that is free first
    serial = "serial"  # each as it is quickest alone, one after another
    at_once = "at_once"  # each as it is quickest alone, all begun at once, nothing kept apart


@final
@dataclass(frozen=True)
class Placed:
    """One network of a frame."""

    network: int
    """Its index."""
    configuration: str
    place: Place
    start_ms: float
    end_ms: float
    after: tuple[int, ...] = ()
    """Those before it in the timetable that must have ended, by their index there."""
    is_apart: bool = True
    """Whether its place is its own while it runs; else it has only the name of one."""


Timetable = tuple[Placed, ...]
"""In the order of begin."""


def planned_ms(timetable: Timetable) -> float:
    """Its length, by the table of times."""
    return max(placed.end_ms for placed in timetable)


def without_margin(timetable: Timetable, margin: float) -> Timetable:
    """The same with the times of the table, of one whose times were made longer by the margin."""
    part = 1 / (1 + margin)
    return tuple(
        replace(one, start_ms=part * one.start_ms, end_ms=part * one.end_ms) for one in timetable
    )


def is_same(one: Timetable, other: Timetable) -> bool:
    """Whether they are one order of the same networks on the same places."""

    def order(table: Timetable) -> list[tuple[object, ...]]:
        return [
            (each.network, each.configuration, each.place, each.after, each.is_apart)
            for each in table
        ]

    return order(one) == order(other)


def timetable(
    chosen: Int64[ndarray, " networks"], among: Choices, configurations: Sequence[str]
) -> Timetable:
    """Of a mapping: the widest gangs first, so that the units of each are free at once."""
    widest_first = sorted(range(len(chosen)), key=lambda i: -int(among.occupies[chosen[i]].sum()))
    return _one_by_one([(i, int(chosen[i])) for i in widest_first], among, configurations)


def mapped(
    times_ms: Float64[ndarray, "networks configurations"],
    configurations: Sequence[str],
    platform: Platform,
    *,
    frame_ms: float,
) -> tuple[Answer, Timetable]:
    """What the mapper says of a frame; an empty timetable if it has none."""
    among = choices(times_ms, configurations, platform)
    found = solve(among, frame_ms)
    if found.chosen is None:
        return found.answer, ()
    return found.answer, timetable(found.chosen, among, configurations)


def shortest(
    times_ms: Float64[ndarray, "networks configurations"],
    configurations: Sequence[str],
    platform: Platform,
) -> Timetable:
    """The mapping of the shortest frame, and among those the one with the least sum of times.

    As good as could be found in the solver's time: one more network that occupies all units is given
    as much as possible.
    """
    among = choices(times_ms, configurations, platform)
    enough_ms = float(among.ms.min(1).sum())
    most = most_left(among, enough_ms, np.ones(len(platform.units), bool))
    if most.chosen is None:  # no time was left: all one after another fit for certain
        return serial(times_ms, configurations, platform)
    length_ms = float(frame_loads(most.chosen, among).max())
    best = solve(among, length_ms * (1 + 1e-9))
    return timetable(most.chosen if best.chosen is None else best.chosen, among, configurations)


def quickest(
    times_ms: Float64[ndarray, "networks configurations"],
    configurations: Sequence[str],
    platform: Platform,
) -> Timetable:
    """Each in the configuration that is quickest alone, at the one of its places that is free first."""
    among = choices(times_ms, configurations, platform)
    free_ms = np.zeros(len(platform.units))
    order = []
    for i, own_ms in enumerate(among.ms):
        (equal,) = np.nonzero(own_ms <= own_ms.min())
        begins_ms = [float(free_ms[among.occupies[at]].max()) for at in equal]
        at = int(equal[int(np.argmin(begins_ms))])
        free_ms[among.occupies[at]] = min(begins_ms) + own_ms[at]
        order.append((i, at))
    return _one_by_one(order, among, configurations)


def serial(
    times_ms: Float64[ndarray, "networks configurations"],
    configurations: Sequence[str],
    platform: Platform,
) -> Timetable:
    """Each in the configuration that is quickest alone, and alone indeed."""
    among = choices(times_ms, configurations, platform)
    now_ms = 0.0
    found: list[Placed] = []
    for i, at in enumerate(among.ms.argmin(1)):
        end_ms = now_ms + float(among.ms[i, at])
        after = (len(found) - 1,) if found else ()
        name = configurations[int(among.configuration[i, at])]
        found.append(Placed(i, name, among.places[at], now_ms, end_ms, after))
        now_ms = end_ms
    return tuple(found)


def at_once(
    times_ms: Float64[ndarray, "networks configurations"],
    configurations: Sequence[str],
    platform: Platform,
) -> Timetable:
    """Each in the configuration that is quickest alone; planned as if they did not disturb each other."""
    among = choices(times_ms, configurations, platform)
    return tuple(
        Placed(
            i,
            configurations[int(among.configuration[i, at])],
            among.places[at],
            0.0,
            float(among.ms[i, at]),
            is_apart=False,
        )
        for i, at in enumerate(among.ms.argmin(1))
    )


def _one_by_one(
    order: Sequence[tuple[int, int]], among: Choices, configurations: Sequence[str]
) -> Timetable:
    """Networks with their places, each as soon as its units are free."""
    free_ms = np.zeros(len(among.platform.units))
    last = np.full(len(free_ms), -1)
    found: list[Placed] = []
    for i, at in order:
        units = among.occupies[at]
        start_ms = float(free_ms[units].max())
        end_ms = start_ms + float(among.ms[i, at])
        after = tuple(sorted({int(one) for one in last[units]} - {-1}))
        free_ms[units], last[units] = end_ms, len(found)
        name = configurations[int(among.configuration[i, at])]
        found.append(Placed(i, name, among.places[at], start_ms, end_ms, after))
    return tuple(found)
