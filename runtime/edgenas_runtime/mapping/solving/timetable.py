"""Timetables: the networks of one frame, each with its place and time.

A network begins when all units of its place are free, in the timetable's order, not at a clock time.
So a timetable is an order, and its times follow from the timing table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from jaxtyping import Int64
from numpy import ndarray

from edgenas_runtime.mapping.model.choices import MappingChoices
from edgenas_runtime.mapping.model.platform_description import Place


@final
@dataclass(frozen=True)
class Placed:
    """One network of a frame."""

    network: int
    """Index of the network."""
    configuration: str
    place: Place
    start_ms: float
    end_ms: float
    after: tuple[int, ...] = ()
    """Indices in the timetable of the entries that must end before it begins."""
    is_exclusive: bool = True
    """Whether it has its place to itself while it runs; False if it may run anywhere."""


Timetable = tuple[Placed, ...]
"""Sorted by start."""


def timetable(
    chosen: Int64[ndarray, " networks"], choices: MappingChoices, configurations: Sequence[str]
) -> Timetable:
    """Return the timetable of a mapping: widest gangs first, so that the units of each become free together."""
    widest_first = sorted(range(len(chosen)), key=lambda i: -int(choices.occupies[chosen[i]].sum()))
    return one_by_one([(i, int(chosen[i])) for i in widest_first], choices, configurations)


def one_by_one(
    order: Sequence[tuple[int, int]], choices: MappingChoices, configurations: Sequence[str]
) -> Timetable:
    """Schedule (network, place) pairs in order, each as soon as its units are free."""
    free_ms = np.zeros(len(choices.platform.units))
    last = np.full(len(free_ms), -1)
    placed: list[Placed] = []
    for i, at in order:
        units = choices.occupies[at]
        start_ms = float(free_ms[units].max())
        end_ms = start_ms + float(choices.ms[i, at])
        after = tuple(sorted({int(entry) for entry in last[units]} - {-1}))
        free_ms[units], last[units] = end_ms, len(placed)
        name = configurations[int(choices.configuration[i, at])]
        placed.append(Placed(i, name, choices.places[at], start_ms, end_ms, after))
    return _by_begin(placed)


def _by_begin(placed: Sequence[Placed]) -> Timetable:
    """Sort by start; ties by decreasing length, because one thread starts them all."""
    order = sorted(range(len(placed)), key=lambda k: (placed[k].start_ms, -placed[k].end_ms))
    now_at = {k: at for at, k in enumerate(order)}
    return tuple(
        replace(placed[k], after=tuple(sorted(now_at[before] for before in placed[k].after)))
        for k in order
    )
