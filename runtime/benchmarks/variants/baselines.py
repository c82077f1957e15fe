"""Strategies of searching one board: for all units together, and the baselines.

A strategy gives each seed an architecture, or several that are equally likely; -1 stands for none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from benchmarks.variants.boards import Board
from edgenas_core.types.kind import is_predicted
from nas.study.answers import Answers
from nas.study.evaluation.learning_curve import LearningCurve
from nas.study.evaluation.statistics import Interval, mean_interval
from nas.trials.survey import Survey

TOGETHER = "all together"
SHARED = "each unit with its share"  # of the samples; then the best is taken
RANDOM = "a unit at random"
BEST = "the best unit, if it were known"  # by its most accurate network within T
WORST = "the worst unit"
_TOLERANCE = 1e-9  # of accuracies, which are fractions


def alone(device: str) -> str:
    """Name of the strategy that searches for one unit."""
    return f"{device} alone"


@final
@dataclass(frozen=True)
class BaselineStrategy:
    """Result of searching a board in one way, over the seeds."""

    name: str
    fits: Interval  # share of the searches that find a network within T on some unit
    found: Interval | None  # test accuracy in percent of the networks found; None if nothing was
    gap: Interval | None  # points below the most accurate that fits anywhere, as searched on
    gain: Interval | None  # points of test accuracy of searching together over this


@final
@dataclass(frozen=True)
class Choosing:
    """Choice of the best unit for each architecture, over those that were measured on all units."""

    architectures: int
    quickest: tuple[float, ...]  # share of them that needs the least part of T on each unit
    fixed: str  # unit on which all of them together need the least part of T
    to_fixed: tuple[
        tuple[float, float, float], ...
    ]  # part on each unit over that: least, median, most
    saved: float  # mean share of the time on that unit that choosing saves
    saved_most: float


@final
@dataclass(frozen=True)
class BaselineSearch:
    """A board searched with every strategy."""

    board: Board
    optimum: tuple[float, ...]  # best accuracy within T of each unit, as searched on
    within: tuple[float, ...]  # share of the space within T of each unit
    within_any: float  # share within T of some unit
    strategies: tuple[BaselineStrategy, ...]
    choosing: Choosing | None  # None if nothing was measured on all units

    @property
    def best(self) -> tuple[str, ...]:
        """Unit that has the most accurate network of the board; several if they tie."""
        return tuple(
            unit.device
            for unit, accuracy in zip(self.board.units, self.optimum, strict=True)
            if accuracy >= max(self.optimum) - _TOLERANCE
        )

    @property
    def baselines(self) -> dict[str, str]:
        """Names of the strategies to compare with, by names that several boards have in common."""
        units = [unit.device for unit in self.board.units]
        best, worst = (
            alone(units[self.optimum.index(end)]) for end in (max(self.optimum), min(self.optimum))
        )
        return {BEST: best, WORST: worst, SHARED: SHARED, RANDOM: RANDOM}

    def strategy(self, name: str) -> BaselineStrategy:
        """The strategy of this name."""
        return next(strategy for strategy in self.strategies if strategy.name == name)


def found_by(
    board: Board, curves: Mapping[str, LearningCurve], samples: int | None = None
) -> dict[str, Int64[ndarray, "R outcomes"]]:
    """Networks that each strategy finds with this number of samples in total, or with all.

    A search does not know its number of samples, so a shorter one is the beginning of a longer one.
    `curves` are the searches for each unit, by `alone`, in the order of the board, then for all.
    """
    samples = samples or curves[TOGETHER].log.index.shape[1]
    whole = {name: curve.best_numbers(samples)[:, None] for name, curve in curves.items()}
    *single, together = whole
    share = samples // len(board.units)
    shares = np.stack([curves[name].best_numbers(share) for name in single], axis=1)
    accuracy = curves[together].answers.accuracy
    best = np.where(shares < 0, -np.inf, accuracy[shares]).argmax(1)
    return {
        **{name: whole[name] for name in single},
        RANDOM: np.concatenate([whole[name] for name in single], axis=1),
        SHARED: np.take_along_axis(shares, best[:, None], axis=1),
        together: whole[together],
    }


def searched(board: Board, curves: Mapping[str, LearningCurve]) -> BaselineSearch:
    """Results of every strategy with all samples."""
    chosen = found_by(board, curves)
    *single, together = curves
    surveys = [curves[name].whole for name in single]
    return BaselineSearch(
        board=board,
        optimum=tuple(_best_accuracy(survey) for survey in surveys),
        within=tuple(survey.feasible_share for survey in surveys),
        within_any=curves[together].whole.feasible_share,
        strategies=tuple(_strategy(name, curves, chosen) for name in chosen),
        choosing=_choosing(board, [curves[name].answers for name in single]),
    )


def _strategy(
    name: str,
    curves: Mapping[str, LearningCurve],
    found: Mapping[str, Int64[ndarray, "R outcomes"]],
) -> BaselineStrategy:
    numbers, survey, answers = found[name], curves[TOGETHER].whole, curves[TOGETHER].answers
    test = mean_test(numbers, answers)
    return BaselineStrategy(
        name=name,
        fits=mean_interval((numbers >= 0).mean(1)),
        found=known_interval(test),
        gap=known_interval(mean_gap(numbers, survey)),
        gain=None
        if name == TOGETHER
        else known_interval(mean_test(found[TOGETHER], answers) - test),
    )


def _best_accuracy(survey: Survey) -> float:
    if survey.optimum is None:
        raise ValueError("no architecture meets a limit of the board")
    return float(survey.accuracy[survey.optimum])


def mean_gap(numbers: Int64[ndarray, "R outcomes"], survey: Survey) -> Float64[ndarray, "R"]:
    """Mean points of each seed below the most accurate that fits; NaN if nothing was found."""
    below = _best_accuracy(survey) - survey.accuracy[numbers]
    return mean_known(np.where(numbers < 0, np.nan, 100 * below))


def mean_test(numbers: Int64[ndarray, "R outcomes"], answers: Answers) -> Float64[ndarray, "R"]:
    """Mean test accuracy of each seed in percent; NaN if nothing was found."""
    return mean_known(np.where(numbers < 0, np.nan, 100 * answers.accuracy_test[numbers]))


def mean_known(values: Float64[ndarray, "R n"]) -> Float64[ndarray, "R"]:
    """Mean of the known values of each row; NaN if there are none."""
    return np.asarray(np.ma.masked_invalid(values).mean(axis=1).filled(np.nan))


def known_interval(values: Float64[ndarray, "R"]) -> Interval | None:
    """Mean of the known values with its interval; None if there are none."""
    known = values[~np.isnan(values)]
    return mean_interval(known) if len(known) else None


def _choosing(board: Board, answers: Sequence[Answers]) -> Choosing | None:
    left_ms = np.array([unit.left_ms for unit in board.units])
    measured = ~np.stack([is_predicted(answer.latency_kind) for answer in answers], axis=1).any(1)
    if not measured.any():
        return None
    latency_ms = np.stack([answer.latency_ms for answer in answers], axis=1)[measured]
    part = latency_ms / left_ms
    fixed = int(part.sum(0).argmin())
    least = part.argmin(1)
    saved = 1 - part.min(1) / part[:, fixed]
    return Choosing(
        architectures=len(part),
        quickest=tuple(float((least == position).mean()) for position in range(len(answers))),
        fixed=board.units[fixed].device,
        to_fixed=tuple(
            (float(each.min()), float(np.median(each)), float(each.max()))
            for each in (part / part[:, fixed, None]).T
        ),
        saved=float(saved.mean()),
        saved_most=float(saved.max()),
    )
