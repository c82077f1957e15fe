"""The timetable of a frame, and the slack for one more network.

The slack of a place is the longest time of one more network there for which all networks still fit,
where the others may move. It is the limit T of a search for that network.

A timetable holds the networks of one frame, each with its place and time. A network begins when all units of
its place are free, in the timetable's order, not at a clock time. So a timetable is an order, and its times
follow from the timing table.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from edgenas_runtime.mapping.model.choices import (
    MappingChoices,
    frame_loads,
    interchangeable_units,
    mapping_choices,
)
from edgenas_runtime.mapping.model.platform_description import Place, Platform
from edgenas_runtime.mapping.solving.program import (
    TIME_LIMIT_S,
    Feasibility,
    Solution,
    maximise_slack,
    solve,
)


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


_ALL_PLACES_S = 60.0
"""Time limit of the slack of all places together."""


@final
@dataclass(frozen=True)
class TimetableEntry:
    """One entry of the timetable."""

    network: str
    configuration: str
    place: str
    start_ms: float
    end_ms: float


@final
@dataclass(frozen=True)
class Slack:
    """Slack for one more network at one place, or any of several interchangeable places."""

    places: tuple[str, ...]
    """Names of the interchangeable places."""
    configurations: tuple[str, ...]
    """Configurations that occupy such a place."""
    ms: float
    """The slack; 0 if there is none; the longest found if the solver's time limit was reached."""
    most_ms: float
    """Upper bound; larger than `ms` only if the time limit was reached."""
    timetable: tuple[TimetableEntry, ...]
    """Timetable of the other networks that leaves this slack."""


@final
@dataclass(frozen=True)
class FrameAnalysis:
    """Mapping of the networks of a frame, and the slack of each place."""

    answer: Feasibility
    timetable: tuple[TimetableEntry, ...]
    """Timetable with the least sum of times found, in the order of the networks; empty if none is known."""
    slack: tuple[Slack, ...]
    infeasibility: str = ""
    """Reason why there is no mapping; empty if there is one or it is unknown."""
    places: int = 0
    """Number of different places; larger than the length of `slack` if Ctrl-C ended the analysis."""


def analyse_frame(
    networks: Sequence[str],
    times_ms: Float64[ndarray, "networks configurations"],
    configurations: Sequence[str],
    platform: Platform,
    *,
    frame_ms: float,
    watched: Callable[[Sequence[list[Place]]], Iterable[list[Place]]] = iter,
) -> FrameAnalysis:
    """Map the networks and compute the slack of each place; Ctrl-C ends that, and what was found is kept.

    `watched` shows the progress over the places. After a minute the slack of the rest is what the
    known mappings leave, with the frame as its bound.

    Times are NaN where a network cannot run. Configurations that the platform lacks are ignored,
    and those that only the platform has may serve the additional network.

    Raises:
      ValueError: if a network has no configuration of this platform.
    """
    choices = mapping_choices(times_ms, configurations, platform)
    check_networks(networks, choices)
    solution = solve(choices, frame_ms)
    if solution.chosen is None:
        is_none = solution.answer is Feasibility.infeasible
        reason = _infeasibility(networks, choices, frame_ms) if is_none else ""
        return FrameAnalysis(solution.answer, (), (), reason)
    places, slack, mappings = _places_alike(platform), list[Slack](), [solution.chosen]
    ends_s = time.monotonic() + _ALL_PLACES_S
    with suppress(KeyboardInterrupt):
        for same in watched(places):
            place = np.array([unit in same[0] for unit in platform.units])
            share_s = (ends_s - time.monotonic()) / (len(places) - len(slack)) / 2
            longest = longest_slack(choices, frame_ms, place, mappings, min(share_s, TIME_LIMIT_S))
            timetable: tuple[TimetableEntry, ...] = ()
            if longest.chosen is not None:
                mappings.append(longest.chosen)
                timetable = _timetable(networks, longest.chosen, choices, configurations)
            slack.append(_slack(same, longest, timetable, platform, frame_ms))
    return FrameAnalysis(
        solution.answer,
        _timetable(networks, solution.chosen, choices, configurations),
        tuple(slack),
        places=len(places),
    )


def check_networks(networks: Sequence[str], choices: MappingChoices) -> None:
    """Check that every network can run in some configuration.

    Raises:
      ValueError: naming the first that cannot.
    """
    for name, own_ms in zip(networks, choices.ms, strict=True):
        if not np.isfinite(own_ms).any():
            raise ValueError(
                f"{name} cannot run in any configuration of {choices.platform.name}: "
                f"{', '.join(choices.platform.configurations)}"
            )


def longest_slack(
    choices: MappingChoices,
    frame_ms: float,
    place: Bool[ndarray, " units"],
    mappings: Sequence[Int64[ndarray, " networks"]] = (),
    time_limit_s: float = TIME_LIMIT_S,
) -> Solution:
    """Return the largest slack at a place; the best known after the solver's time limit.

    `mappings` are mappings that fit: the slack is at least what they leave.
    """
    longest = Solution(Feasibility.unknown, bound_ms=frame_ms)
    for chosen in mappings:
        slack_ms = max(0.0, float(frame_ms - frame_loads(chosen, choices)[place].max()))
        if longest.chosen is None or slack_ms > longest.slack_ms:
            longest = Solution(Feasibility.feasible, chosen, slack_ms, frame_ms)
    if longest.slack_ms < frame_ms and time_limit_s > 0:
        solved = maximise_slack(choices, frame_ms, place, time_limit_s=time_limit_s)
        bound_ms = frame_ms if solved.answer is Feasibility.unknown else solved.bound_ms
        best = (
            max(solved, longest, key=lambda solution: solution.slack_ms)
            if longest.chosen is not None
            else solved
        )
        longest = replace(best, bound_ms=bound_ms)
    return longest


def _slack(
    same: Sequence[Place],
    longest: Solution,
    timetable: tuple[TimetableEntry, ...],
    platform: Platform,
    frame_ms: float,
) -> Slack:
    return Slack(
        tuple(platform.place_name(place) for place in same),
        tuple(name for name, places in platform.configurations.items() if same[0] in places),
        longest.slack_ms,
        frame_ms if longest.answer is Feasibility.unknown else longest.bound_ms,
        timetable,
    )


def _places_alike(platform: Platform) -> list[list[Place]]:
    """Group the places that differ by the names of interchangeable units only."""
    names = [*platform.configurations]
    group_of = {unit: unit for unit in platform.units}
    for group in interchangeable_units(platform, names):
        group_of |= {platform.units[unit]: platform.units[group[0]] for unit in group}
    alike: dict[tuple[str, ...], list[Place]] = {}
    for place in dict.fromkeys(place for name in names for place in platform.configurations[name]):
        alike.setdefault(tuple(sorted(group_of[unit] for unit in place)), []).append(place)
    return [*alike.values()]


def _timetable(
    networks: Sequence[str],
    chosen: Int64[ndarray, " networks"],
    choices: MappingChoices,
    configurations: Sequence[str],
) -> tuple[TimetableEntry, ...]:
    """Return the timetable of a mapping, in the order of the networks."""
    runs = {
        entry.network: TimetableEntry(
            networks[entry.network],
            entry.configuration,
            choices.platform.place_name(entry.place),
            entry.start_ms,
            entry.end_ms,
        )
        for entry in timetable(chosen, choices, configurations)
    }
    return tuple(runs[i] for i in range(len(chosen)))


def _infeasibility(networks: Sequence[str], choices: MappingChoices, frame_ms: float) -> str:
    """Name a network that is longer than the frame, else the units that are overloaded."""
    least_ms = choices.ms.min(1)
    longest = int(least_ms.argmax())
    if least_ms[longest] > frame_ms:
        return f"{networks[longest]} takes at least {least_ms[longest]:.2f} ms"
    loads_ms = frame_loads(choices.ms.argmin(1), choices)
    full = [
        f"{unit} for {ms:.2f} ms"
        for unit, ms in zip(choices.platform.units, loads_ms, strict=True)
        if ms > frame_ms
    ]
    return (
        f"in their fastest configurations they occupy {', '.join(full)}, and no other mapping fits"
    )
