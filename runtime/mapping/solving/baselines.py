"""Who decides where the networks of a frame run: the mapper, or what one would do without."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import numpy as np

from runtime.mapping.model.choices import Choices, frame_loads
from runtime.mapping.solving.program import Answer, solve
from runtime.mapping.solving.slack import longest_slack
from runtime.mapping.solving.timetable import Placed, Timetable, one_by_one, timetable


class Method(Enum):
    """The names of the ways."""

    mapped = "mapped"  # the mapper: the least sum of times that fits into the frame
    shortest = "shortest"  # the mapper, asked for the shortest frame
    greedy = "greedy"  # the longest network first, each where it ends first
    quickest = "quickest"  # each as it is quickest alone, where that is free first
    serial = "serial"  # each as it is quickest alone, one after another
    at_once = "at_once"  # each as it is quickest alone, all begun at once, nothing kept apart


def mapped(
    among: Choices, configurations: Sequence[str], *, frame_ms: float
) -> tuple[Answer, Timetable]:
    """What the mapper says of a frame; an empty timetable if it has none."""
    found = solve(among, frame_ms)
    if found.chosen is None:
        return found.answer, ()
    return found.answer, timetable(found.chosen, among, configurations)


def shortest(among: Choices, configurations: Sequence[str]) -> Timetable:
    """The mapping of the shortest frame, and among those the one with the least sum of times.

    As good as could be found in the solver's time: one more network that occupies all units is given
    as much as possible.
    """
    enough_ms = float(among.ms.min(1).sum())
    most = longest_slack(among, enough_ms, np.ones(len(among.platform.units), bool))
    if most.chosen is None:  # no time was left, but one after another they fit
        return serial(among, configurations)
    length_ms = float(frame_loads(most.chosen, among).max())
    best = solve(among, length_ms * (1 + 1e-9))
    return timetable(most.chosen if best.chosen is None else best.chosen, among, configurations)


def greedy(among: Choices, configurations: Sequence[str]) -> Timetable:
    """List scheduling: the network that takes longest at best comes first, each where it ends first."""
    free_ms = np.zeros(len(among.platform.units))
    order = []
    for i in np.argsort(-among.ms.min(1), kind="stable"):
        begins_ms = np.array([free_ms[units].max() for units in among.occupies])
        at = int(np.argmin(begins_ms + among.ms[i]))
        free_ms[among.occupies[at]] = begins_ms[at] + among.ms[i, at]
        order.append((int(i), at))
    return one_by_one(order, among, configurations)


def quickest(among: Choices, configurations: Sequence[str]) -> Timetable:
    """Each in the configuration that is quickest alone, at the one of its places that is free first."""
    free_ms = np.zeros(len(among.platform.units))
    order = []
    for i, own_ms in enumerate(among.ms):
        (equal,) = np.nonzero(own_ms <= own_ms.min())
        begins_ms = [float(free_ms[among.occupies[at]].max()) for at in equal]
        at = int(equal[int(np.argmin(begins_ms))])
        free_ms[among.occupies[at]] = min(begins_ms) + own_ms[at]
        order.append((i, at))
    return one_by_one(order, among, configurations)


def serial(among: Choices, configurations: Sequence[str]) -> Timetable:
    """Each in the configuration that is quickest alone, and alone indeed."""
    now_ms = 0.0
    found: list[Placed] = []
    for i, at in enumerate(among.ms.argmin(1)):
        end_ms = now_ms + float(among.ms[i, at])
        after = (len(found) - 1,) if found else ()
        name = configurations[int(among.configuration[i, at])]
        found.append(Placed(i, name, among.places[at], now_ms, end_ms, after))
        now_ms = end_ms
    return tuple(found)


def at_once(among: Choices, configurations: Sequence[str]) -> Timetable:
    """Each in the configuration that is quickest alone; planned as if they did not disturb each other."""
    return tuple(
        Placed(
            i,
            configurations[int(among.configuration[i, at])],
            among.places[at],
            0.0,
            float(among.ms[i, at]),
            is_exclusive=False,
        )
        for i, at in enumerate(among.ms.argmin(1))
    )
