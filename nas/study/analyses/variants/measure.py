"""Architecture and unit chosen together, against a search for one unit at a time.

A board has several units, each with time left of its own (`nas.study.boards`). Whoever knows which
unit has the better network searches for that one. Whoever does not can give each unit a share of the
samples and take the best, draw a unit, or search with `t_eff` for all at once. The networks that may
run on some unit are those of all units together, so the best of them is the best unit's: searching
together can save not knowing, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from nas.study.analyses.variants.baselines import (
    BEST,
    RANDOM,
    SHARED,
    TOGETHER,
    Searched,
    alone,
    found_by,
    known_interval,
    mean_gap,
    mean_known,
    mean_test,
    searched,
)
from nas.study.boards import Board
from nas.study.learning_curve import Course
from nas.study.measures import CHECKPOINTS
from nas.study.plan import Cell
from nas.study.results import Results
from nas.study.statistics import LEVEL, Interval


@final
@dataclass(frozen=True)
class After:
    """Searches of several boards, each cut off after so many samples in all; means over the boards."""

    samples: int
    fits: Mapping[str, float]  # share of the searches that have a network within T somewhere
    gaps: Mapping[str, Interval]  # to the most accurate that fits, points, of those that have
    gains: Mapping[str, Interval]  # of searching together, points of test accuracy, where both have


@final
@dataclass(frozen=True)
class Variants:
    """Boards of the same units, which leave different times."""

    devices: tuple[str, ...]
    reward: str
    controller: str
    boards: tuple[Searched, ...]
    after: tuple[After, ...]  # the last of them after all samples
    predicted: tuple[float, ...]  # share of each unit's latencies

    @property
    def title(self) -> str:
        """Its units."""
        return " or ".join(self.devices)

    @property
    def best(self) -> dict[str, int]:
        """On how many boards each unit has the most accurate network; a tie counts for each."""
        return {device: sum(device in one.best for one in self.boards) for device in self.devices}

    @property
    def has_intervals(self) -> bool:
        """Whether there are enough seeds."""
        return any(gain.bounds for gain in self.after[-1].gains.values())

    def decided(self, rival: str) -> tuple[int, int] | None:
        """On how many boards searching together is ahead of this beyond its interval, and behind.

        None where there are no intervals.
        """
        gains = [one.way(one.rivals[rival]).gain for one in self.boards]
        bounds = [gain.bounds for gain in gains if gain and gain.bounds]
        if not bounds:
            return None
        return sum(low > 0 for low, _ in bounds), sum(high < 0 for _, high in bounds)

    @property
    def by_chance(self) -> float:
        """On how many boards the interval would lie beside the truth, of as many intervals."""
        return (1 - LEVEL) * len(self.boards)

    @property
    def sentence(self) -> str:
        """The finding, in numbers."""
        last = self.after[-1]
        gains = ", ".join(
            f"{signed(last.gains[name])} over {name}"
            for name in (RANDOM, SHARED, BEST)
            if name in last.gains
        )
        count = len(self.boards)
        return (
            f"{self.title}, {count} board{'s' if count > 1 else ''}, reward={self.reward}, "
            f"controller={self.controller}: after {last.samples:,} samples, points of test accuracy "
            f"that searching for all units together brings: {gains}."
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
    courses = [_courses(board, reward, controller, results) for board in boards]
    found = [searched(board, own) for board, own in zip(boards, courses, strict=True)]
    units, budget = boards[0].units, results.config.budget
    counts = [count for count in CHECKPOINTS if len(units) <= count < budget]
    return Variants(
        devices=tuple(unit.device for unit in units),
        reward=reward,
        controller=controller,
        boards=tuple(found),
        after=tuple(_after(samples, found, courses) for samples in [*counts, budget]),
        predicted=tuple(float(results.tables.predicted[unit.device].mean()) for unit in units),
    )


def _after(
    samples: int, boards: Sequence[Searched], courses: Sequence[Mapping[str, Course]]
) -> After:
    gaps: dict[str, list[Float64[ndarray, "R"]]] = {}
    gains: dict[str, list[Float64[ndarray, "R"]]] = {}
    fits: dict[str, list[float]] = {}
    for one, own in zip(boards, courses, strict=True):
        together = own[TOGETHER]
        found = found_by(one.board, own, samples)
        test = {name: mean_test(which, together.tables) for name, which in found.items()}
        for title, name in {TOGETHER: TOGETHER, **one.rivals}.items():
            fits.setdefault(title, []).append(float((found[name] >= 0).mean()))
            gaps.setdefault(title, []).append(mean_gap(found[name], together.landscape))
            if name != TOGETHER:
                gains.setdefault(title, []).append(test[TOGETHER] - test[name])
    return After(
        samples,
        {title: float(np.mean(shares)) for title, shares in fits.items()},
        _means(gaps),
        _means(gains),
    )


def _means(
    values: Mapping[str, Sequence[Float64[ndarray, "R"]]],
) -> dict[str, Interval]:
    """Mean over the boards for each seed, then over the seeds, where anything is known."""
    means = {
        title: known_interval(mean_known(np.stack(each, axis=1))) for title, each in values.items()
    }
    return {title: mean for title, mean in means.items() if mean}


def _courses(board: Board, reward: str, controller: str, results: Results) -> dict[str, Course]:
    """The searches for each unit, in their order, and for all together, the last."""
    found = {
        alone(unit.device): results.courses[Cell(reward, controller, unit.device, unit.left_ms)]
        for unit in board.units
    }
    cell = Cell(reward, controller, board.device, board.limit_ms)
    return {**found, TOGETHER: results.courses[cell]}


def signed(interval: Interval) -> str:
    """A difference with its interval, if it has one, for readers."""
    middle, *bounds = (
        f"{round(value, 2) + 0.0:+.2f}"  # no minus before a zero
        for value in (interval.middle, *(interval.bounds or ()))
    )
    return f"{middle} [{', '.join(bounds)}]" if bounds else middle
