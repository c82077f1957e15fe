"""One board searched in every way: for one unit, for each with a share, for all together.

A way gives each seed an architecture, or several of which each is as likely; -1 stands for none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from nas.study.boards import Board
from nas.study.learning_curve import Course
from nas.study.statistics import Interval, mean_interval
from nas.study.tables import Tables
from nas.trials.survey import Landscape

TOGETHER = "all together"
SHARED = "each unit with its share"  # of the samples; then the best is taken
RANDOM = "a unit at random"
BEST = "the best unit, were it known"  # by its most accurate network within T
WORST = "the worst unit"
_TOLERANCE = 1e-9  # of accuracies, which are fractions


def alone(device: str) -> str:
    """What it is called to search for one unit."""
    return f"{device} alone"


@final
@dataclass(frozen=True)
class Way:
    """One way to search a board, over the seeds."""

    name: str
    samples: int  # in all
    fits: Interval  # share of the searches that find a network within T on some unit
    fits_on: tuple[float, ...]  # share whose network is within what that unit leaves
    found: Interval | None  # test accuracy in percent of the networks found; None: nothing
    gap: Interval | None  # points below the most accurate that fits anywhere, as searched on
    optimal: Interval  # share of the searches that find one as accurate as that
    gain: Interval | None  # points of test accuracy that searching together brings over this


@final
@dataclass(frozen=True)
class Choosing:
    """The best unit for each architecture, of the architectures that were measured on all units."""

    cells: int
    quickest: tuple[float, ...]  # share of them that needs the least part of T on that unit
    fixed: str  # the unit on which all of them together need the least part of T
    to_fixed: tuple[tuple[float, float, float], ...]  # part on each over that: least, median, most
    saved: float  # mean share of the time there that choosing saves
    saved_most: float


@final
@dataclass(frozen=True)
class Searched:
    """A board, searched in every way."""

    board: Board
    optimum: tuple[float, ...]  # of each unit: most accurate within what it leaves, as searched on
    within: tuple[float, ...]  # share of the space within what each leaves
    within_any: float
    ways: tuple[Way, ...]
    choosing: Choosing | None  # None where nothing was measured on all units

    @property
    def best(self) -> tuple[str, ...]:
        """The unit whose most accurate network is the board's; several that share it."""
        return tuple(
            unit.device
            for unit, accuracy in zip(self.board.units, self.optimum, strict=True)
            if accuracy >= max(self.optimum) - _TOLERANCE
        )

    @property
    def rivals(self) -> dict[str, str]:
        """What searching together is set against, by names that several boards have in common."""
        units = [unit.device for unit in self.board.units]
        best, worst = (
            alone(units[self.optimum.index(end)]) for end in (max(self.optimum), min(self.optimum))
        )
        return {BEST: best, WORST: worst, SHARED: SHARED, RANDOM: RANDOM}

    def way(self, name: str) -> Way:
        """The way of this name."""
        return next(way for way in self.ways if way.name == name)


def found_by(
    board: Board, courses: Mapping[str, Course], samples: int | None = None
) -> dict[str, Int64[ndarray, "R outcomes"]]:
    """What each way finds with so many samples in all, or with all there are.

    No search knows how many samples it has, so one of fewer is the beginning of one of more.
    `courses` are those for each unit, by `alone`, in the order of the board, and that for all.
    """
    samples = samples or courses[TOGETHER].trace.index.shape[1]
    whole = {name: course.found(samples)[:, None] for name, course in courses.items()}
    *single, together = whole
    share = samples // len(board.units)
    shares = np.stack([courses[name].found(share) for name in single], axis=1)
    accuracy = courses[together].landscape.accuracy
    best = np.where(shares < 0, -np.inf, accuracy[shares]).argmax(1)
    return {
        **{name: whole[name] for name in single},
        RANDOM: np.concatenate([whole[name] for name in single], axis=1),
        SHARED: np.take_along_axis(shares, best[:, None], axis=1),
        together: whole[together],
    }


def searched(board: Board, courses: Mapping[str, Course]) -> Searched:
    """Every way with all samples."""
    found = found_by(board, courses)
    *single, together = courses
    spaces = [courses[name].landscape for name in single]
    return Searched(
        board=board,
        optimum=tuple(_best_accuracy(space) for space in spaces),
        within=tuple(space.feasible_share for space in spaces),
        within_any=courses[together].landscape.feasible_share,
        ways=tuple(_way(name, board, courses[together], found) for name in found),
        choosing=_choosing(board, courses[together].tables),
    )


def _way(
    name: str,
    board: Board,
    course: Course,
    found: Mapping[str, Int64[ndarray, "R outcomes"]],
) -> Way:
    numbers, space, tables = found[name], course.landscape, course.tables
    below = _best_accuracy(space) - np.where(numbers < 0, -np.inf, space.accuracy[numbers])
    on = [tables.latency_ms[unit.device][numbers] <= unit.left_ms for unit in board.units]
    test = mean_test(numbers, tables)
    budget = course.trace.index.shape[1]
    return Way(
        name=name,
        samples=budget,
        fits=mean_interval((numbers >= 0).mean(1)),
        fits_on=tuple(float((within & (numbers >= 0)).mean()) for within in on),
        found=known_interval(test),
        gap=known_interval(mean_gap(numbers, space)),
        optimal=mean_interval((below <= _TOLERANCE).mean(1)),
        gain=None
        if name == TOGETHER
        else known_interval(mean_test(found[TOGETHER], tables) - test),
    )


def _best_accuracy(space: Landscape) -> float:
    if space.optimum is None:
        raise ValueError("no architecture meets a limit of the board")
    return float(space.accuracy[space.optimum])


def mean_gap(numbers: Int64[ndarray, "R outcomes"], space: Landscape) -> Float64[ndarray, "R"]:
    """Points below the most accurate that fits, the mean of a seed's outcomes; NaN where none is."""
    below = _best_accuracy(space) - space.accuracy[numbers]
    return mean_known(np.where(numbers < 0, np.nan, 100 * below))


def mean_test(numbers: Int64[ndarray, "R outcomes"], tables: Tables) -> Float64[ndarray, "R"]:
    """Test accuracy in percent, the mean of a seed's outcomes; NaN where nothing is found."""
    return mean_known(np.where(numbers < 0, np.nan, 100 * tables.accuracy_test[numbers]))


def mean_known(values: Float64[ndarray, "R n"]) -> Float64[ndarray, "R"]:
    """Mean of what is known of each row; NaN where nothing is."""
    known = ~np.isnan(values)
    count = known.sum(1)
    total = np.where(known, values, 0.0).sum(1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def known_interval(values: Float64[ndarray, "R"]) -> Interval | None:
    """Mean of what is known, and its interval; None where nothing is."""
    known = values[~np.isnan(values)]
    return mean_interval(known) if len(known) else None


def _choosing(board: Board, tables: Tables) -> Choosing | None:
    devices = [unit.device for unit in board.units]
    left_ms = np.array([unit.left_ms for unit in board.units])
    measured = ~np.stack([tables.predicted[name] for name in devices], axis=1).any(1)
    if not measured.any():
        return None
    latency_ms = np.stack([tables.latency_ms[name] for name in devices], axis=1)[measured]
    part = latency_ms / left_ms
    fixed = int(part.sum(0).argmin())
    least = part.argmin(1)
    saved = 1 - part.min(1) / part[:, fixed]
    return Choosing(
        cells=len(part),
        quickest=tuple(float((least == position).mean()) for position in range(len(devices))),
        fixed=devices[fixed],
        to_fixed=tuple(
            (float(each.min()), float(np.median(each)), float(each.max()))
            for each in (part / part[:, fixed, None]).T
        ),
        saved=float(saved.mean()),
        saved_most=float(saved.max()),
    )
