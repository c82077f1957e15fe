"""What it costs to search for one situation and run in another: devices that differ in nothing else.

Devices are of one family if their ids differ only in the situation behind the bar and in the statistic
behind the @: who limits the tail is in another situation than who limits the median. Of a search in
situation A, what counts is the network it found: its most accurate within T. In situation B that network
may miss T, and is then of no use; or it meets T, and then there may have been a better one, which a
search in B finds.

Where latencies are predicted, two situations differ no more than the model says. So all of it is told
once more of the architectures alone that were measured in both, without a search.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from latency.devices.registry import SITUATED, solo_id
from latency.models.noise import noise_of
from latency.models.order import Order, compare
from latency.models.slowdown import FEWEST_CELLS, kendall_tau
from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from nas.study.learning_curve import Course
from nas.study.plan import Cell
from nas.study.results import Results
from nas.study.statistics import Interval, mean_interval
from nas.trials.survey import Landscape

_ALONE = "alone"


@final
@dataclass(frozen=True)
class Chosen:
    """A network that was chosen by what is known of another situation."""

    share_of_t: float  # its latency where it runs, over T
    lost: float  # points of accuracy below the best there, as searched on; negative only where it misses T


@final
@dataclass(frozen=True)
class Misplaced:
    """Searched in one situation, run in another; over the seeds."""

    searched: str
    runs: str
    missed: Interval  # share of the networks found that miss T where they run
    beyond: float  # median of their latency over T, of those that miss it; NaN if none does
    lost: Interval | None  # points of test accuracy to those found where they run; None: all miss T
    measured: Chosen | None  # best of the cells measured in both, no search; None: none is within T


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
    scaled: (
        Chosen | None
    )  # the best alone within T over the median slowdown; None: none is within T
    order: Order | None  # of the cells measured in both; None: too few of them, or alone itself
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
            f"{board_of(cell.device)}, T = {cell.limit_ms:g} ms, reward={cell.reward}, "
            f"controller={cell.controller}"
        )

    @property
    def sentence(self) -> str:
        """The finding, in numbers."""
        others = [one for one in self.situations if one.device != self.cell.device]
        changed = sum(not one.same_optimum for one in others)
        told = (
            f"{self.title}: the most accurate network within T is another than {self.alone} in {changed} of "
            f"{len(others)} situations"
        )
        alone = [one for one in self.misplaced if one.searched == name_of(self.cell.device)]
        away = [one for one in alone if one.runs != one.searched]
        if away:
            missed = ", ".join(f"{one.missed.middle:.0%} {in_words(one.runs)}" for one in away)
            told += (
                f"; of the networks found {in_words(alone[0].searched)}, T is missed by {missed}"
            )
        return f"{told}{self._order_told}."

    @property
    def _order_told(self) -> str:
        """Whether the order changes, by the measured cells."""
        known = [one for one in self.situations if one.order is not None]
        judged = [one for one in known if one.order is not None and one.order.changes is not None]
        if not judged:
            return ""
        changed = [one.name for one in judged if one.order is not None and one.order.changes]
        where = f": {', '.join(changed)}" if changed else ""
        return (
            f". On the cells measured both ways, the order by latency differs from that {self.alone} by "
            f"more than the noise of repeats in {len(changed)} of {len(judged)} situations{where}"
        )

    @property
    def alone(self) -> str:
        """In words, in which situation the others are compared with."""
        return in_words(name_of(self.cell.device))


def name_of(device: str) -> str:
    """What a situation is called: what its id says, or alone; and the statistic, if not the median."""
    situated, _, statistic = device.partition("@")
    name = situated.partition(SITUATED)[2] or _ALONE
    return f"{name}, {statistic}" if statistic else name


def in_words(name: str) -> str:
    """A situation of this name as the end of a sentence: alone, or in it."""
    return name if name.startswith(_ALONE) else f"in {name}"


def board_of(device: str) -> str:
    """What devices of a family have in common."""
    return solo_id(device.partition("@")[0])


def families(results: Results) -> Iterator[Family]:
    """Every board that the study searched in two situations or more, with the defaults."""
    groups: dict[tuple[str, str, str, float], list[Cell]] = {}
    for cell in results.values:
        if not cell.settings:
            key = (board_of(cell.device), cell.reward, cell.controller, cell.limit_ms)
            groups.setdefault(key, []).append(cell)
    for cells in groups.values():
        if len(cells) > 1:
            yield _family(cells, results)


def _family(cells: list[Cell], results: Results) -> Family:
    first = min(cells, key=lambda cell: (SITUATED in cell.device, "@" in cell.device))
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
    both = _measured(courses[cell]) & _measured(courses[first])
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
        order=None
        if cell is first or both.sum() < FEWEST_CELLS
        else _order(cell, first, courses, both),
        predicted_share=float(courses[cell].latency_predicted.mean()),
        found=mean_interval(test) if len(test) else None,
    )


def _measured(course: Course) -> Bool[ndarray, "15625"]:
    return np.asarray(~course.latency_predicted)


def _order(
    cell: Cell, first: Cell, courses: Mapping[Cell, Course], both: Bool[ndarray, "15625"]
) -> Order:
    here, alone = courses[cell].landscape, courses[first].landscape
    noises = noise_of(first.device), noise_of(cell.device)
    known = None if noises[0] is None or noises[1] is None else (noises[0], noises[1])
    return compare(alone.latency_ms[both], here.latency_ms[both], here.accuracy[both], known)


def _scaled(here: Landscape, alone: Landscape, ratio: float) -> Chosen | None:
    return _chosen(replace(alone, limit_ms=here.limit_ms / ratio).optimum, here)


def _chosen(chosen: int | None, here: Landscape) -> Chosen | None:
    best = here.optimum
    if chosen is None or best is None:
        return None
    lost = 100 * float(here.accuracy[best] - here.accuracy[chosen])
    return Chosen(float(here.latency_ms[chosen]) / here.limit_ms, lost)


def _of_measured(searched: Course, runs: Course) -> Chosen | None:
    """The best of the cells measured in both where it was chosen, run in the other."""
    both = _measured(searched) & _measured(runs)
    there, here = (
        replace(one.landscape, latency_ms=np.where(both, one.landscape.latency_ms, np.nan))
        for one in (searched, runs)
    )
    return _chosen(there.optimum, here)


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
        measured=_of_measured(courses[searched], course),
    )
