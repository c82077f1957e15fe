"""The networks of a frame as a timetable, and what is left of it for one more network.

What is left at a place is the longest time of one more network there for which all still fit, the
others moving out of its way. It is the limit T of a search for that network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from runtime.mapping.model.choices import Choices, choices, frame_loads, interchangeable_units
from runtime.mapping.model.platform_description import Place, Platform
from runtime.mapping.solving.bounds import bisected_slack
from runtime.mapping.solving.program import Answer, Solution, maximise_slack, solve
from runtime.mapping.solving.timetable import timetable


@final
@dataclass(frozen=True)
class Run:
    """One network of the timetable."""

    network: str
    configuration: str
    place: str
    start_ms: float
    end_ms: float


@final
@dataclass(frozen=True)
class Slack:
    """What one more network may take."""

    places: tuple[str, ...]
    """Where; any of them, as they are alike."""
    configurations: tuple[str, ...]
    """Which occupy such a place."""
    ms: float
    """0 where the others leave nothing; the longest found, if the search for more was given up."""
    most_ms: float
    """More than `ms` only then."""
    timetable: tuple[Run, ...]
    """Of the others, with room for it."""


@final
@dataclass(frozen=True)
class FrameAnalysis:
    """Networks on a platform."""

    answer: Answer
    timetable: tuple[Run, ...]
    """The one with the least sum of times, in the order of the networks; empty if none is known."""
    left: tuple[Slack, ...]
    why: str = ""
    """What makes a mapping impossible."""


def analyse_frame(
    networks: Sequence[str],
    times_ms: Float64[ndarray, "networks configurations"],
    configurations: Sequence[str],
    platform: Platform,
    *,
    frame_ms: float,
) -> FrameAnalysis:
    """Maps networks, and asks what is left.

    Args:
      networks: their names.
      times_ms: nan where a network cannot run.
      configurations: of the columns; those that the platform has not are not used, and those that
        only the platform has may serve the network more.
      platform: its units.
      frame_ms: in which each network runs once.

    Raises:
      ValueError: if a network has no configuration of this platform.
    """
    among = choices(times_ms, configurations, platform)
    check_networks(networks, among)
    found = solve(among, frame_ms)
    if found.chosen is None:
        is_none = found.answer is Answer.infeasible
        why = _infeasibility(networks, among, frame_ms) if is_none else ""
        return FrameAnalysis(found.answer, (), (), why)
    return FrameAnalysis(
        found.answer,
        _timetable(networks, found.chosen, among, configurations),
        tuple(
            _left(networks, same, among, configurations, frame_ms)
            for same in _places_alike(platform)
        ),
    )


def check_networks(networks: Sequence[str], among: Choices) -> None:
    """Refuses networks that run nowhere.

    Raises:
      ValueError: naming the first of them.
    """
    for name, own_ms in zip(networks, among.ms, strict=True):
        if not np.isfinite(own_ms).any():
            raise ValueError(
                f"{name} runs in no configuration of {among.platform.name}, which has "
                f"{', '.join(among.platform.configurations)}"
            )


def longest_slack(among: Choices, frame_ms: float, place: Bool[ndarray, " units"]) -> Solution:
    """Execution long one more network could take at a place; where the solver has no time left, quickly."""
    found = maximise_slack(among, frame_ms, place)
    if found.answer is Answer.unknown or found.bound_ms > found.slack_ms:
        slack_ms, chosen = bisected_slack(among, frame_ms, place)
        bound_ms = frame_ms if found.answer is Answer.unknown else found.bound_ms
        if chosen is not None and slack_ms > found.slack_ms:
            found = Solution(Answer.feasible, chosen, slack_ms, bound_ms)
    return found


def _left(
    networks: Sequence[str],
    same: Sequence[Place],
    among: Choices,
    configurations: Sequence[str],
    frame_ms: float,
) -> Slack:
    platform = among.platform
    place = np.array([unit in same[0] for unit in platform.units])
    found = longest_slack(among, frame_ms, place)
    timetable: tuple[Run, ...] = ()
    if found.chosen is not None:
        timetable = _timetable(networks, found.chosen, among, configurations)
    return Slack(
        tuple(platform.place_name(one) for one in same),
        tuple(name for name, own in platform.configurations.items() if same[0] in own),
        found.slack_ms,
        frame_ms if found.answer is Answer.unknown else found.bound_ms,
        timetable,
    )


def _places_alike(platform: Platform) -> list[list[Place]]:
    """Every place, with those beside it that differ from it by the names of units only."""
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
    among: Choices,
    configurations: Sequence[str],
) -> tuple[Run, ...]:
    """In the order of the networks."""
    runs = {
        one.network: Run(
            networks[one.network],
            one.configuration,
            among.platform.place_name(one.place),
            one.start_ms,
            one.end_ms,
        )
        for one in timetable(chosen, among, configurations)
    }
    return tuple(runs[i] for i in range(len(chosen)))


def _infeasibility(networks: Sequence[str], among: Choices, frame_ms: float) -> str:
    """A network that is longer than the frame; else units that are too full if each is quickest.

    Args:
      networks: their names; there is no mapping of them.
      among: their places.
      frame_ms: the frame.
    """
    least_ms = among.ms.min(1)
    longest = int(least_ms.argmax())
    if least_ms[longest] > frame_ms:
        return f"{networks[longest]} takes {least_ms[longest]:.2f} ms at least"
    loads_ms = frame_loads(among.ms.argmin(1), among)
    full = [
        f"{unit} for {ms:.2f} ms"
        for unit, ms in zip(among.platform.units, loads_ms, strict=True)
        if ms > frame_ms
    ]
    return f"each as it is quickest, they occupy {', '.join(full)}, and no other choice fits"
