"""Methods that decide where the networks of a frame run: the mapper and its baselines."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import numpy as np

from edgenas_runtime.mapping.model.choices import MappingChoices, frame_loads
from edgenas_runtime.mapping.solving.program import Feasibility, solve
from edgenas_runtime.mapping.solving.slack import (
    Placed,
    Timetable,
    longest_slack,
    one_by_one,
    timetable,
)


class Method(Enum):
    """The methods, as `ways=` names them."""

    mapped = "mapped"  # the mapper: minimum sum of times that fits into the frame
    shortest = "shortest"  # the mapper with the shortest frame as objective
    greedy = "greedy"  # longest network first, each where it ends first
    quickest = "quickest"  # each in its fastest configuration, at the place that is free first
    serial = "serial"  # each in its fastest configuration, one after another
    at_once = "at_once"  # each in its fastest configuration, all started together, sharing units


def mapped(
    choices: MappingChoices, configurations: Sequence[str], *, frame_ms: float
) -> tuple[Feasibility, Timetable]:
    """Return the mapper's answer and timetable, which is empty without a mapping."""
    mapping = solve(choices, frame_ms)
    if mapping.chosen is None:
        return mapping.answer, ()
    return mapping.answer, timetable(mapping.chosen, choices, configurations)


def shortest(choices: MappingChoices, configurations: Sequence[str]) -> Timetable:
    """Return the mapping of the shortest frame, and among those the one with the least sum of times.

    It maximises the slack of an extra network that occupies all units, within the solver's time limit.
    """
    enough_ms = float(choices.ms.min(1).sum())
    most = longest_slack(choices, enough_ms, np.ones(len(choices.platform.units), bool))
    if most.chosen is None:  # the time limit was reached; one after another they always fit
        return serial(choices, configurations)
    length_ms = float(frame_loads(most.chosen, choices).max())
    best = solve(choices, length_ms * (1 + 1e-9))
    return timetable(most.chosen if best.chosen is None else best.chosen, choices, configurations)


def greedy(choices: MappingChoices, configurations: Sequence[str]) -> Timetable:
    """List scheduling: networks by decreasing minimum time, each where it ends first."""
    free_ms = np.zeros(len(choices.platform.units))
    order = []
    for i in np.argsort(-choices.ms.min(1), kind="stable"):
        begins_ms = np.array([free_ms[units].max() for units in choices.occupies])
        at = int(np.argmin(begins_ms + choices.ms[i]))
        free_ms[choices.occupies[at]] = begins_ms[at] + choices.ms[i, at]
        order.append((int(i), at))
    return one_by_one(order, choices, configurations)


def quickest(choices: MappingChoices, configurations: Sequence[str]) -> Timetable:
    """Put each network in its fastest configuration, at the place that is free first."""
    free_ms = np.zeros(len(choices.platform.units))
    order = []
    for i, own_ms in enumerate(choices.ms):
        (equal,) = np.nonzero(own_ms <= own_ms.min())
        begins_ms = [float(free_ms[choices.occupies[at]].max()) for at in equal]
        at = int(equal[int(np.argmin(begins_ms))])
        free_ms[choices.occupies[at]] = min(begins_ms) + own_ms[at]
        order.append((i, at))
    return one_by_one(order, choices, configurations)


def serial(choices: MappingChoices, configurations: Sequence[str]) -> Timetable:
    """Put each network in its fastest configuration, one after another."""
    now_ms = 0.0
    placed: list[Placed] = []
    for i, at in enumerate(choices.ms.argmin(1)):
        end_ms = now_ms + float(choices.ms[i, at])
        after = (len(placed) - 1,) if placed else ()
        name = configurations[int(choices.configuration[i, at])]
        placed.append(Placed(i, name, choices.places[at], now_ms, end_ms, after))
        now_ms = end_ms
    return tuple(placed)


def at_once(choices: MappingChoices, configurations: Sequence[str]) -> Timetable:
    """Start all networks together in their fastest configurations; times ignore interference."""
    return tuple(
        Placed(
            i,
            configurations[int(choices.configuration[i, at])],
            choices.places[at],
            0.0,
            float(choices.ms[i, at]),
            is_exclusive=False,
        )
        for i, at in enumerate(choices.ms.argmin(1))
    )
