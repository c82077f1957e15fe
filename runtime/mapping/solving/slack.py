"""The timetable of a frame, and the slack for one more network.

The slack of a place is the longest time of one more network there for which all networks still fit,
where the others may move. It is the limit T of a search for that network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from runtime.mapping.model.choices import (
    Choices,
    frame_loads,
    interchangeable_units,
    mapping_choices,
)
from runtime.mapping.model.platform_description import Place, Platform
from runtime.mapping.solving.bounds import bisected_slack
from runtime.mapping.solving.program import Answer, Solution, maximise_slack, solve
from runtime.mapping.solving.timetable import timetable


@final
@dataclass(frozen=True)
class Run:
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
    timetable: tuple[Run, ...]
    """Timetable of the other networks that leaves this slack."""


@final
@dataclass(frozen=True)
class FrameAnalysis:
    """Mapping of the networks of a frame, and the slack of each place."""

    answer: Answer
    timetable: tuple[Run, ...]
    """Timetable with the least sum of times, in the order of the networks; empty if none is known."""
    slack: tuple[Slack, ...]
    infeasibility: str = ""
    """Reason why there is no mapping; empty if there is one or it is unknown."""


def analyse_frame(
    networks: Sequence[str],
    times_ms: Float64[ndarray, "networks configurations"],
    configurations: Sequence[str],
    platform: Platform,
    *,
    frame_ms: float,
) -> FrameAnalysis:
    """Map the networks and compute the slack of each place.

    Times are NaN where a network cannot run. Configurations that the platform lacks are ignored,
    and those that only the platform has may serve the additional network.

    Raises:
      ValueError: if a network has no configuration of this platform.
    """
    choices = mapping_choices(times_ms, configurations, platform)
    check_networks(networks, choices)
    found = solve(choices, frame_ms)
    if found.chosen is None:
        is_none = found.answer is Answer.infeasible
        reason = _infeasibility(networks, choices, frame_ms) if is_none else ""
        return FrameAnalysis(found.answer, (), (), reason)
    return FrameAnalysis(
        found.answer,
        _timetable(networks, found.chosen, choices, configurations),
        tuple(
            _slack(networks, same, choices, configurations, frame_ms)
            for same in _places_alike(platform)
        ),
    )


def check_networks(networks: Sequence[str], choices: Choices) -> None:
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


def longest_slack(choices: Choices, frame_ms: float, place: Bool[ndarray, " units"]) -> Solution:
    """Return the largest slack at a place; after the solver's time limit, by bisection if larger."""
    found = maximise_slack(choices, frame_ms, place)
    if found.answer is Answer.unknown or found.bound_ms > found.slack_ms:
        slack_ms, chosen = bisected_slack(choices, frame_ms, place)
        bound_ms = frame_ms if found.answer is Answer.unknown else found.bound_ms
        if chosen is not None and slack_ms > found.slack_ms:
            found = Solution(Answer.feasible, chosen, slack_ms, bound_ms)
    return found


def _slack(
    networks: Sequence[str],
    same: Sequence[Place],
    choices: Choices,
    configurations: Sequence[str],
    frame_ms: float,
) -> Slack:
    platform = choices.platform
    place = np.array([unit in same[0] for unit in platform.units])
    found = longest_slack(choices, frame_ms, place)
    timetable: tuple[Run, ...] = ()
    if found.chosen is not None:
        timetable = _timetable(networks, found.chosen, choices, configurations)
    return Slack(
        tuple(platform.place_name(one) for one in same),
        tuple(name for name, own in platform.configurations.items() if same[0] in own),
        found.slack_ms,
        frame_ms if found.answer is Answer.unknown else found.bound_ms,
        timetable,
    )


def _places_alike(platform: Platform) -> list[list[Place]]:
    """Group the places that differ by the names of interchangeable units only."""
    names = [*platform.configurations]
    group_of = {unit: unit for unit in platform.units}
    for group in interchangeable_units(platform, names):
        group_of |= {platform.units[unit]: platform.units[group[0]] for unit in group}
    found: dict[tuple[str, ...], list[Place]] = {}
    for place in dict.fromkeys(place for name in names for place in platform.configurations[name]):
        found.setdefault(tuple(sorted(group_of[unit] for unit in place)), []).append(place)
    return [*found.values()]


def _timetable(
    networks: Sequence[str],
    chosen: Int64[ndarray, " networks"],
    choices: Choices,
    configurations: Sequence[str],
) -> tuple[Run, ...]:
    """Return the timetable of a mapping, in the order of the networks."""
    runs = {
        one.network: Run(
            networks[one.network],
            one.configuration,
            choices.platform.place_name(one.place),
            one.start_ms,
            one.end_ms,
        )
        for one in timetable(chosen, choices, configurations)
    }
    return tuple(runs[i] for i in range(len(chosen)))


def _infeasibility(networks: Sequence[str], choices: Choices, frame_ms: float) -> str:
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
