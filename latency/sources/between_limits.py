"""A scenario that was not measured, between measured ones: the same hogs held to other limits.

The slowdown of each architecture in the nearest of them is known; how it grows with the bandwidth
that the hogs take is a curve through the median slowdowns of all of them
(`runtime.contention.sensitivity`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from common.files.keyed_table import data_folder, latency_files, origin_beside
from common.types.errors import UserError
from common.types.kind import Kind
from common.types.task import Task
from latency.base import Space, every_architecture
from latency.devices.bundled import bundled_paths
from latency.devices.registry import SCENARIO_MARK, id_of_statistic
from latency.models.confidence import Uncertainty, of_residuals
from latency.sources.lookup import Table, TableLatency
from latency.sources.table import AutoLatencyConfig
from runtime.contention.isolation.bandwidth import GB, MB
from runtime.contention.isolation.isolation import Isolation
from runtime.contention.scenario import Scenario
from runtime.contention.sensitivity import LEAST_LEVELS, fit
from runtime.machine.timing import Statistic

_WAY_OUT = "measure it: python -m nas.measure board=... scenario=... networks=200"

_FURTHEST = 1.1  # of the largest bandwidth that was measured

_HOLDING = {one.value for one in Isolation}


@final
@dataclass(frozen=True)
class _Level:
    """A measured scenario: bandwidth taken by its hogs, and slowdown of each architecture."""

    device: str
    taken_gb_per_s: float
    slowdown: Float64[ndarray, "size"]


def simulated(
    device: str, scenario: Scenario, solo: Table, statistic: Statistic, task: Task
) -> Table:
    """Predict every latency; no prediction is needed if the limit is above the hogs' free bandwidth.

    Args:
      device: id of the device in the scenario.
      scenario: hogs held to a limit.
      solo: latencies alone.
      statistic: of all latencies.
      task: that the networks are for.

    Raises:
      UserError: if no scenario like it was measured, or the space cannot be listed.
    """
    limit = scenario.limit_mb_per_s
    unlimited = _unlimited(device, scenario, solo.space, statistic, task)
    if unlimited is not None:
        return unlimited
    # networks beside take a bandwidth without a limit, between which nothing can be drawn
    levels = (
        _levels(device, len(scenario.hogs), solo, statistic, task)
        if limit is not None and not scenario.beside and isinstance(solo, TableLatency)
        else []
    )
    if not levels or limit is None or not isinstance(solo, TableLatency):
        raise UserError(
            f"no latency of {device} is known: it was not measured, nor were the same hogs under "
            f"another limit; {_WAY_OUT}"
        )
    taken = limit * MB / GB * len(scenario.hogs)
    ratio = _slowdown(levels, taken)
    known = ", ".join(f"{one.device} at {one.taken_gb_per_s:.3g} GB/s" for one in levels)
    return replace(
        solo,
        device=id_of_statistic(device, statistic),
        source="corun",
        description=(
            f"simulated: {solo.device} alone, slowed as between {known}, at {taken:.3g} GB/s; every "
            f"latency is predicted"
        ),
        ms=solo.ms * ratio,
        kind=np.full(solo.space.size, Kind.slowdown, np.int8),
        warnings=(),
        uncertainty=_uncertainty(levels, solo),
    )


def _uncertainty(levels: list[_Level], solo: TableLatency) -> Uncertainty | None:
    """Uncertainty of each measured scenario drawn from the others; None if there are no two."""
    residuals = []
    for level in levels:
        others = [one for one in levels if one is not level]
        if not others or level.taken_gb_per_s > _FURTHEST * max(
            one.taken_gb_per_s for one in others
        ):
            continue
        predicted = _slowdown(others, level.taken_gb_per_s)
        residuals.append(np.log(level.slowdown / predicted))
    if not residuals:
        return None
    return of_residuals(np.concatenate(residuals)).and_of(solo.uncertainty)


def _unlimited(
    device: str, scenario: Scenario, space: Space, statistic: Statistic, task: Task
) -> Table | None:
    """The table of the same hogs without their limit, if none of them took more than the limit."""
    if scenario.limit_mb_per_s is None:
        return None
    name = f"{device.partition(SCENARIO_MARK)[0]}{scenario.unlimited.suffix}"
    path = {**bundled_paths(space), **latency_files(data_folder(), space)}.get(name)
    taken = [] if path is None else _taken_by_each_gb_per_s(path)
    limit = scenario.limit_mb_per_s * MB / GB
    if not taken or max(taken) > limit:
        return None
    table = AutoLatencyConfig(statistic).build(name, space, task)
    return replace(
        table,
        device=id_of_statistic(device, statistic),
        source="corun",
        description=(
            f"the limit of {limit:.3g} GB/s is above the {max(taken):.3g} that a hog takes without one, "
            f"so these are the latencies of {name}: {table.description}"
        ),
    )


def _slowdown(levels: list[_Level], taken: float) -> Float64[ndarray, "size"]:
    """Slowdown of each architecture while the hogs take `taken` GB/s."""
    nearest = min(levels, key=lambda one: abs(one.taken_gb_per_s - taken))
    return np.asarray(1 + (nearest.slowdown - 1) * _share(levels, taken, nearest))


def _share(levels: list[_Level], taken: float, nearest: _Level) -> float:
    """Share of the nearest level's slowdown at a bandwidth of `taken` GB/s."""
    stolen = np.array([0.0, *(one.taken_gb_per_s for one in levels)])
    if not taken <= stolen.max() * _FURTHEST:
        raise UserError(
            f"the most that was measured is {stolen.max():.3g} GB/s of the hogs, not {taken:.3g}; "
            f"{_WAY_OUT}"
        )
    if len(np.unique(stolen)) < LEAST_LEVELS:
        return taken / nearest.taken_gb_per_s
    slowdown = np.array([1.0, *(float(np.median(one.slowdown)) for one in levels)])
    curve = fit(stolen, slowdown)
    here, there = curve.slowdown(np.array([taken, nearest.taken_gb_per_s])) - 1
    return float(here / there) if there > 0 else 0.0


def _levels(
    device: str, hogs: int, solo: TableLatency, statistic: Statistic, task: Task
) -> list[_Level]:
    """Measured scenarios of the same hogs on the same device, whatever limits them."""
    space = solo.space
    found = []
    for name, path in {**latency_files(data_folder(), space), **bundled_paths(space)}.items():
        if SCENARIO_MARK in name and "@" not in name and _unheld(name) == _unheld(device):
            taken = _limit_gb_per_s(name, hogs) or sum(_taken_by_each_gb_per_s(path))
            if taken:
                table = AutoLatencyConfig(statistic).build(name, space, task)
                slowdown = table.answer(every_architecture(space)).ms / solo.ms
                found.append(_Level(name, taken, slowdown))
    return found


def _unheld(device: str) -> tuple[str, tuple[str, ...]]:
    """A device and the words of its scenario, without those of limits."""
    alone, _, scenario = device.partition(SCENARIO_MARK)
    words = (word for word in scenario.split("+") if word not in _HOLDING)
    return alone, tuple(word for word in words if not word.startswith("limit:"))


def _limit_gb_per_s(device: str, hogs: int) -> float | None:
    """Bandwidth that the hogs may take while the network runs (a lock allows more between two runs)."""
    words = device.partition(SCENARIO_MARK)[2].split("+")
    limits = [float(word.removeprefix("limit:")) for word in words if word.startswith("limit:")]
    return limits[0] * MB / GB * hogs if limits else None


def _taken_by_each_gb_per_s(table: Path) -> list[float]:
    """Bandwidth that each process beside took, from the table's origin; [] if it is not stored."""
    try:
        return [float(each) for each in origin_beside(table)["taken_by_each_beside_gb_per_s"]]
    except (KeyError, TypeError, ValueError):
        return []
