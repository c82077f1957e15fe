"""Architecture and unit chosen together, against a search for one unit at a time.

A board has several units, each with time left of its own (`nas.study.boards`). Whoever knows which
unit has the better network searches for that one. Whoever does not can give each unit a share of the
samples and take the best, draw a unit, or search with `t_eff` for all at once. The networks that may
run on some unit are those of all units together, so the best of them is the best unit's: searching
together can save not knowing, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from nas.landscape import Landscape
from nas.study.boards import Board
from nas.study.course import Course
from nas.study.plan import Cell
from nas.study.results import Results
from nas.study.statistics import Interval, mean_interval
from nas.study.tables import Tables

TOGETHER = "all units together"
SHARED = "each unit with its share of the samples, then the best"
RANDOM = "a unit at random"
BEST = "the unit with the best network, were it known"
WORST = "the unit with the worst best network"
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
    def rivals(self) -> dict[str, Way]:
        """What searching together is set against, by names that several boards have in common."""
        units = [unit.device for unit in self.board.units]
        best, worst = (
            alone(units[self.optimum.index(end)]) for end in (max(self.optimum), min(self.optimum))
        )
        named = {BEST: best, WORST: worst, SHARED: SHARED, RANDOM: RANDOM}
        return {title: self.way(name) for title, name in named.items()}

    def way(self, name: str) -> Way:
        """The way of this name."""
        return next(way for way in self.ways if way.name == name)


@final
@dataclass(frozen=True)
class Variants:
    """Boards of the same units, which leave different times."""

    devices: tuple[str, ...]
    reward: str
    controller: str
    boards: tuple[Searched, ...]
    gains: Mapping[
        str, Interval
    ]  # of searching together, mean over boards, points of test accuracy
    predicted: tuple[float, ...]  # share of each unit's latencies

    @property
    def title(self) -> str:
        """What all of them have in common."""
        return f"{' or '.join(self.devices)}, reward={self.reward}, controller={self.controller}"

    @property
    def sentence(self) -> str:
        """The finding, in numbers."""
        count = len(self.boards)
        ahead = ", ".join(
            f"{device} on {sum(device in one.best for one in self.boards)}"
            for device in self.devices
        )
        gains = "; ".join(f"over {name}: {_signed(gain)}" for name, gain in self.gains.items())
        return (
            f"{self.title}: the most accurate network that fits runs on {ahead} of {count} boards "
            f"(on several where they tie). Points of test accuracy that searching together brings, "
            f"mean over the boards: {gains}."
        )


def variants(results: Results) -> Iterator[Variants]:
    """The study's boards, those of the same units together, with the default settings."""
    groups: dict[tuple[str, ...], list[Board]] = {}
    for board in results.boards:
        groups.setdefault(tuple(unit.device for unit in board.units), []).append(board)
    kinds = dict.fromkeys(
        (cell.reward, cell.controller) for cell in results.values if not cell.settings
    )
    for boards, (reward, controller) in product(groups.values(), kinds):
        yield _variants(boards, reward, controller, results)


def _variants(boards: list[Board], reward: str, controller: str, results: Results) -> Variants:
    searched: list[Searched] = []
    gains: dict[str, list[Float64[ndarray, "R"]]] = {}
    for board in boards:
        courses = _courses(board, reward, controller, results)
        found = _found(board, courses)
        one = _searched(board, courses, found)
        searched.append(one)
        test = {name: _mean_test(numbers, results.tables) for name, numbers in found.items()}
        for title, way in one.rivals.items():
            gains.setdefault(title, []).append(test[TOGETHER] - test[way.name])
    units = boards[0].units
    return Variants(
        devices=tuple(unit.device for unit in units),
        reward=reward,
        controller=controller,
        boards=tuple(searched),
        gains={name: gain for name, each in gains.items() if (gain := _over_boards(each))},
        predicted=tuple(float(results.tables.predicted[unit.device].mean()) for unit in units),
    )


def _courses(board: Board, reward: str, controller: str, results: Results) -> dict[str, Course]:
    """The searches for each unit, in their order, and for all together, the last."""
    found = {
        alone(unit.device): results.courses[Cell(reward, controller, unit.device, unit.left_ms)]
        for unit in board.units
    }
    cell = Cell(reward, controller, board.device, board.limit_ms)
    return {**found, TOGETHER: results.courses[cell]}


def _found(board: Board, courses: Mapping[str, Course]) -> dict[str, Int64[ndarray, "R outcomes"]]:
    """The architectures that each way finds, by seed; of several outcomes each is as likely."""
    whole = {name: course.found()[:, None] for name, course in courses.items()}
    *single, together = whole
    samples = courses[together].trace.index.shape[1] // len(board.units)
    shares = np.stack([courses[name].found(samples) for name in single], axis=1)
    accuracy = courses[together].landscape.accuracy
    best = np.where(shares < 0, -np.inf, accuracy[shares]).argmax(1)
    return {
        **{name: whole[name] for name in single},
        RANDOM: np.concatenate([whole[name] for name in single], axis=1),
        SHARED: np.take_along_axis(shares, best[:, None], axis=1),
        together: whole[together],
    }


def _searched(
    board: Board,
    courses: Mapping[str, Course],
    found: Mapping[str, Int64[ndarray, "R outcomes"]],
) -> Searched:
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
    test = _mean_test(numbers, tables)
    budget = course.trace.index.shape[1]
    return Way(
        name=name,
        samples=budget,
        fits=mean_interval((numbers >= 0).mean(1)),
        fits_on=tuple(float((within & (numbers >= 0)).mean()) for within in on),
        found=_known_interval(test),
        gap=_known_interval(_mean_known(np.where(numbers < 0, np.nan, 100 * below))),
        optimal=mean_interval((below <= _TOLERANCE).mean(1)),
        gain=None
        if name == TOGETHER
        else _known_interval(_mean_test(found[TOGETHER], tables) - test),
    )


def _best_accuracy(space: Landscape) -> float:
    if space.optimum is None:
        raise ValueError("no architecture meets a limit of the board")
    return float(space.accuracy[space.optimum])


def _mean_test(numbers: Int64[ndarray, "R outcomes"], tables: Tables) -> Float64[ndarray, "R"]:
    """Test accuracy in percent, the mean of a seed's outcomes; NaN where nothing is found."""
    return _mean_known(np.where(numbers < 0, np.nan, 100 * tables.accuracy_test[numbers]))


def _mean_known(values: Float64[ndarray, "R n"]) -> Float64[ndarray, "R"]:
    known = ~np.isnan(values)
    count = known.sum(1)
    total = np.where(known, values, 0.0).sum(1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _known_interval(values: Float64[ndarray, "R"]) -> Interval | None:
    known = values[~np.isnan(values)]
    return mean_interval(known) if len(known) else None


def _over_boards(gains: list[Float64[ndarray, "R"]]) -> Interval | None:
    """Mean over the boards for each seed, then over the seeds."""
    return _known_interval(_mean_known(np.stack(gains, axis=1)))


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
        saved=float(saved.mean()),
        saved_most=float(saved.max()),
    )


def _signed(interval: Interval) -> str:
    return f"{interval.middle:+.2f} [{interval.low:+.2f}, {interval.high:+.2f}]"
