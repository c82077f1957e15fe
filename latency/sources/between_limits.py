"""A situation that was not measured, between others that were: the same hogs held to other limits.

How much slower each architecture is in the nearest of them is known; how that grows with what the
hogs take is a curve through the median slowdowns of all of them (`runtime.contention.sensitivity`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from latency.devices.bundled import shipped_paths
from latency.devices.registry import SITUATED, id_of_statistic
from latency.sources.table import TableLatency
from latency.sources.table_source import AutoLatencyConfig, by_architecture
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from runtime.contention.isolation.bandwidth import GB, MB
from runtime.contention.isolation.isolation import Isolation
from runtime.contention.scenario import Scenario
from runtime.contention.sensitivity import LEAST_LEVELS, fit
from runtime.machine.timing import Statistic
from runtime.network.task import Task
from runtime.shell.errors import UserError
from runtime.shell.keyed_table import data_folder, latency_files, origin_beside

_WAY_OUT = "measure it: python -m nas.measure board=... scenario=... networks=200"

_HOLDING = {one.value for one in Isolation}


@final
@dataclass(frozen=True)
class _Level:
    """A situation that was measured: what its hogs took, and how much slower each cell is."""

    device: str
    taken_gb_per_s: float
    slowdown: Float64[ndarray, "15625"]


def simulated(
    device: str, scenario: Scenario, solo: TableLatency, statistic: Statistic, task: Task
) -> TableLatency:
    """Every latency predicted, unless the limit is above what the hogs take without one.

    Args:
      device: id of the device in the scenario.
      scenario: hogs held to a limit.
      solo: latencies alone.
      statistic: of all of them.
      task: that the networks are for.

    Raises:
      UserError: if no situation like it was measured.
    """
    limit = scenario.limit_mb_per_s
    unlimited = _unlimited(device, scenario, statistic, task)
    if unlimited is not None:
        return unlimited
    # what networks beside take has no limit to count with
    between = limit is not None and not scenario.beside
    levels = _levels(device, len(scenario.hogs), solo, statistic, task) if between else []
    if not levels or limit is None:
        raise UserError(
            f"nothing is known of {device}: it was not measured, nor were the same hogs under another "
            f"limit; {_WAY_OUT}"
        )
    taken = limit * MB / GB * len(scenario.hogs)
    nearest = min(levels, key=lambda one: abs(one.taken_gb_per_s - taken))
    share = _share(levels, taken, nearest)
    ratio = 1 + (nearest.slowdown - 1) * share
    told = ", ".join(f"{one.device} at {one.taken_gb_per_s:.3g} GB/s" for one in levels)
    return TableLatency(
        device=id_of_statistic(device, statistic),
        source="corun",
        description=(
            f"simulated: {solo.device} alone, slowed as between {told}, at {taken:.3g} GB/s; every "
            f"latency is predicted"
        ),
        table_ms=by_architecture(solo.latency_ms(NAS_BENCH_201.rows) * ratio),
        is_predicted=by_architecture(np.ones(NAS_BENCH_201.size, bool)),
    )


def _unlimited(
    device: str, scenario: Scenario, statistic: Statistic, task: Task
) -> TableLatency | None:
    """The table of the same hogs without their limit, where none of them took more than that."""
    if scenario.limit_mb_per_s is None:
        return None
    name = f"{device.partition(SITUATED)[0]}{scenario.unlimited.suffix}"
    path = {**shipped_paths(), **latency_files(data_folder(), SPACE)}.get(name)
    taken = [] if path is None else _taken_by_each_gb_per_s(path)
    limit = scenario.limit_mb_per_s * MB / GB
    if not taken or max(taken) > limit:
        return None
    table = AutoLatencyConfig(statistic).build(name, task)
    return replace(
        table,
        device=id_of_statistic(device, statistic),
        source="corun",
        description=(
            f"the limit of {limit:.3g} GB/s is above the {max(taken):.3g} that a hog takes without one, "
            f"so this is {name}: {table.description}"
        ),
    )


def _share(levels: list[_Level], taken: float, nearest: _Level) -> float:
    """Of the nearest level's slowdown, at so many GB/s."""
    stolen = np.array([0.0, *(one.taken_gb_per_s for one in levels)])
    if not taken <= stolen.max() * 1.1:
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
    """Of the same hogs and the same all else, whatever held them."""
    architectures = NAS_BENCH_201.rows
    solo_ms = solo.latency_ms(architectures)
    found = []
    for name, path in {**latency_files(data_folder(), SPACE), **shipped_paths()}.items():
        if SITUATED in name and "@" not in name and _unheld(name) == _unheld(device):
            taken = _limit_gb_per_s(name, hogs) or sum(_taken_by_each_gb_per_s(path))
            if taken:
                table = AutoLatencyConfig(statistic).build(name, task)
                found.append(_Level(name, taken, table.latency_ms(architectures) / solo_ms))
    return found


def _unheld(device: str) -> tuple[str, tuple[str, ...]]:
    """A device and what goes on beside, without what holds it back."""
    alone, _, situation = device.partition(SITUATED)
    said = (word for word in situation.split("+") if word not in _HOLDING)
    return alone, tuple(word for word in said if not word.startswith("limit:"))


def _limit_gb_per_s(device: str, hogs: int) -> float | None:
    """What so many hogs may take while the network runs; between two runs a lock lets them take more."""
    words = device.partition(SITUATED)[2].split("+")
    limits = [float(word.removeprefix("limit:")) for word in words if word.startswith("limit:")]
    return limits[0] * MB / GB * hogs if limits else None


def _taken_by_each_gb_per_s(table: Path) -> list[float]:
    """What each that ran beside took, by the table's origin; nothing if it does not say."""
    try:
        return [float(each) for each in origin_beside(table)["taken_by_each_beside_gb_per_s"]]
    except (KeyError, TypeError, ValueError):
        return []
