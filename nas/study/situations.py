"""What it costs to search for one situation and run in another: devices that differ in nothing else.

Devices are of one family if their ids differ only behind the bar (`latency.devices.solo_id`). Of a
search in situation A, what counts is the network it found: its most accurate within T. In situation
B that network may miss T, and is then of no use; or it meets T, and then there may have been a
better one, which a search in B finds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from latency.devices import SITUATED, solo_id
from latency.slowdown import kendall_tau
from nas.landscape import Landscape
from nas.search_space import NAS_BENCH_201
from nas.study.course import Course
from nas.study.plan import Cell
from nas.study.results import Results
from nas.study.statistics import Interval, mean_interval


@final
@dataclass(frozen=True)
class Misplaced:
    """Searched in one situation, run in another; over the seeds."""

    searched: str
    runs: str
    missed: Interval  # share of the networks found that miss T where they run
    beyond: float  # median of their latency over T, of those that miss it; NaN if none does
    lost: Interval | None  # points of test accuracy to those found where they run; None: all miss T


@final
@dataclass(frozen=True)
class Scaled:
    """The best network alone within T over the median slowdown: what one factor would choose."""

    share_of_t: float  # its latency in the situation, over T
    lost: float  # points of accuracy below the best in the situation, as searched on; negative only where it misses T


@final
@dataclass(frozen=True)
class Surroundings:
    """A situation of a family, and what the whole space is like in it."""

    device: str
    name: str
    feasible_share: float
    optimum: str | None  # the most accurate cell within T
    optimum_accuracy: float  # on the split that is searched on, a fraction; NaN if none is within T
    same_optimum: bool  # as alone
    median_ratio: float  # latency over that alone
    kendall_tau: float  # of the latency to that alone
    scaled: Scaled | None  # None where no network is within T
    predicted_share: float  # of the latencies
    found: Interval | None  # test accuracy in percent of what the searches found; None: nothing


@final
@dataclass(frozen=True)
class Family:
    """One board in several situations: the same reward, controller and limit."""

    cell: Cell  # alone, or the first
    situations: tuple[Surroundings, ...]
    misplaced: tuple[Misplaced, ...]

    @property
    def title(self) -> str:
        """What all of it has in common."""
        cell = self.cell
        return (
            f"{solo_id(cell.device)}, T = {cell.limit_ms:g} ms, reward={cell.reward}, "
            f"controller={cell.controller}"
        )

    @property
    def sentence(self) -> str:
        """The finding, in numbers."""
        others = [one for one in self.situations if one.device != self.cell.device]
        changed = sum(not one.same_optimum for one in others)
        told = (
            f"{self.title}: the most accurate network within T is another than alone in {changed} of "
            f"{len(others)} situations"
        )
        alone = [one for one in self.misplaced if one.searched == name_of(self.cell.device)]
        away = [one for one in alone if one.runs != one.searched]
        if away:
            missed = ", ".join(f"{one.missed.middle:.0%} in {one.runs}" for one in away)
            told += f"; of the networks found for {alone[0].searched}, T is missed by {missed}"
        return f"{told}."


def name_of(device: str) -> str:
    """What a situation is called: what its id says, or solo."""
    return device.partition(SITUATED)[2] or "solo"


def families(results: Results) -> Iterator[Family]:
    """Every board that the study searched in two situations or more, with the defaults."""
    groups: dict[tuple[str, str, str, float], list[Cell]] = {}
    for cell in results.values:
        if not cell.settings:
            key = (solo_id(cell.device), cell.reward, cell.controller, cell.limit_ms)
            groups.setdefault(key, []).append(cell)
    for cells in groups.values():
        if len(cells) > 1:
            yield _family(cells, results)


def _family(cells: list[Cell], results: Results) -> Family:
    first = next((cell for cell in cells if SITUATED not in cell.device), cells[0])
    ordered = [first, *(cell for cell in cells if cell is not first)]
    courses = {cell: results.courses[cell] for cell in ordered}
    found = {cell: course.found() for cell, course in courses.items()}
    return Family(
        first,
        tuple(_surroundings(cell, first, courses, found[cell]) for cell in ordered),
        tuple(_misplaced(a, b, courses, found) for a, b in product(ordered, ordered)),
    )


def _surroundings(
    cell: Cell, first: Cell, courses: Mapping[Cell, Course], found: Int64[ndarray, " R"]
) -> Surroundings:
    here, alone = courses[cell].landscape, courses[first].landscape
    test = 100 * courses[cell].tables.accuracy_test[found[found >= 0]]
    best = here.optimum
    ratio = float(np.median(here.latency_ms / alone.latency_ms))
    return Surroundings(
        device=cell.device,
        name=name_of(cell.device),
        feasible_share=here.feasible_share,
        optimum=None if best is None else NAS_BENCH_201.strings[best],
        optimum_accuracy=float("nan") if best is None else float(here.accuracy[best]),
        same_optimum=best == alone.optimum,
        median_ratio=ratio,
        kendall_tau=kendall_tau(alone.latency_ms, here.latency_ms),
        scaled=_scaled(here, alone, ratio),
        predicted_share=float(courses[cell].latency_predicted.mean()),
        found=mean_interval(test) if len(test) else None,
    )


def _scaled(here: Landscape, alone: Landscape, ratio: float) -> Scaled | None:
    chosen = replace(alone, limit_ms=here.limit_ms / ratio).optimum
    best = here.optimum
    if chosen is None or best is None:
        return None
    lost = 100 * float(here.accuracy[best] - here.accuracy[chosen])
    return Scaled(float(here.latency_ms[chosen]) / here.limit_ms, lost)


def _misplaced(
    searched: Cell,
    runs: Cell,
    courses: Mapping[Cell, Course],
    found: Mapping[Cell, Int64[ndarray, " R"]],
) -> Misplaced:
    course, taken, ideal = courses[runs], found[searched], found[runs]
    latency_ms: Float64[ndarray, " R"] = np.where(
        taken < 0, np.inf, course.landscape.latency_ms[taken]
    )
    misses = latency_ms > course.landscape.limit_ms
    known = ~misses & (ideal >= 0)
    test = 100 * course.tables.accuracy_test
    late = latency_ms[misses & np.isfinite(latency_ms)] / course.landscape.limit_ms
    return Misplaced(
        searched=name_of(searched.device),
        runs=name_of(runs.device),
        missed=mean_interval(misses.astype(float)),
        beyond=float(np.median(late)) if len(late) else float("nan"),
        lost=mean_interval(test[ideal[known]] - test[taken[known]]) if known.any() else None,
    )
