"""Architecture and unit chosen together, compared with a search for one unit at a time.

A board has several units, each with a time limit of its own (`benchmarks.variants.boards`). If it is known which
unit has the best network, a search for that unit is enough. Otherwise each unit may get a share of the
samples and the best network is taken, a unit may be drawn at random, or one search with `t_eff` covers
all units. The best network of all units together is that of the best unit, so searching together can
only make up for not knowing it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from benchmarks.variants.baselines import (
    BEST,
    RANDOM,
    SHARED,
    TOGETHER,
    BaselineSearch,
    alone,
    found_by,
    known_interval,
    mean_gap,
    mean_known,
    mean_test,
    searched,
)
from benchmarks.variants.boards import Board, BoardLatencyConfig
from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import is_predicted
from nas.study.evaluation.learning_curve import LearningCurve
from nas.study.evaluation.measures import CHECKPOINTS
from nas.study.evaluation.results import Results
from nas.study.evaluation.statistics import LEVEL, Interval
from nas.study.plan import Plan, Setting


@final
@dataclass(frozen=True)
class After:
    """Means over the boards, with each strategy cut off after a number of samples."""

    samples: int
    fits: Mapping[str, float]  # share of the searches that have a network within T somewhere
    gaps: Mapping[str, Interval]  # points below the most accurate that fits, of those that have one
    gains: Mapping[
        str, Interval
    ]  # points of test accuracy of searching together, where both have one


@final
@dataclass(frozen=True)
class Variants:
    """Boards of the same units with different limits."""

    devices: tuple[str, ...]
    reward: str
    controller: str
    boards: tuple[BaselineSearch, ...]
    after: tuple[After, ...]  # the last is after all samples
    predicted: tuple[float, ...]  # share of the latencies of each unit

    @property
    def title(self) -> str:
        """The units."""
        return " or ".join(self.devices)

    @property
    def best(self) -> dict[str, int]:
        """Number of boards on which each unit has the most accurate network; a tie counts for each."""
        return {
            device: sum(device in board.best for board in self.boards) for device in self.devices
        }

    @property
    def has_intervals(self) -> bool:
        """Whether there are enough seeds for intervals."""
        return any(gain.bounds for gain in self.after[-1].gains.values())

    def decided(self, baseline: str) -> tuple[int, int] | None:
        """Numbers of boards on which the interval of the gain is above 0, and below 0.

        None if there are no intervals.
        """
        gains = [board.strategy(board.baselines[baseline]).gain for board in self.boards]
        bounds = [gain.bounds for gain in gains if gain and gain.bounds]
        if not bounds:
            return None
        return sum(low > 0 for low, _ in bounds), sum(high < 0 for _, high in bounds)

    @property
    def by_chance(self) -> float:
        """Number of boards whose interval is expected to miss the true gain."""
        return (1 - LEVEL) * len(self.boards)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The finding, in numbers."""
        last = self.after[-1]
        gains = ", ".join(
            f"{signed(last.gains[name])} over {name}"
            for name in (RANDOM, SHARED, BEST)
            if name in last.gains
        )
        count = len(self.boards)
        text = (
            f"{self.title}, {count} board{'s' if count > 1 else ''}, reward={self.reward}, "
            f"controller={self.controller}: gain of searching for all units together, in points of "
            f"test accuracy after {last.samples:,} samples: {gains}."
        )
        return (text,)


def applies(plan: Plan) -> bool:
    """Whether the study searches boards of several units.

    Raises:
      UserError: if the budget gives a unit of a board no sample, or the optimum is not known.
    """
    if not isinstance(plan.config.latency, BoardLatencyConfig) or not plan.config.latency.boards:
        return False
    if plan.why_not_exact:
        raise UserError(
            f"latency=boards needs answers about the whole space, but {plan.why_not_exact}"
        )
    most = max(len(board.units) for board in plan.config.latency.boards_of(plan.space))
    if plan.config.budget < most:
        raise UserError(
            f"budget={plan.config.budget} is less than one sample for each of the {most} devices of a "
            f"board; raise budget"
        )
    return True


def variants(results: Results) -> list[Variants]:
    """The boards of the study, grouped by their units, with the default settings."""
    groups: dict[tuple[str, ...], list[Board]] = {}
    assert isinstance(results.config.latency, BoardLatencyConfig)
    for board in results.config.latency.boards_of(results.space):
        groups.setdefault(tuple(unit.device for unit in board.units), []).append(board)
    kinds = dict.fromkeys(
        (value.reward, value.controller) for value in results.values if not value.overrides
    )
    return [
        _variants(boards, reward, controller, results)
        for boards, (reward, controller) in product(groups.values(), kinds)
    ]


def _variants(boards: list[Board], reward: str, controller: str, results: Results) -> Variants:
    curves = [_curves(board, reward, controller, results) for board in boards]
    on_boards = [searched(board, curve) for board, curve in zip(boards, curves, strict=True)]
    units, budget = boards[0].units, results.config.budget
    counts = [count for count in CHECKPOINTS if len(units) <= count < budget]
    return Variants(
        devices=tuple(unit.device for unit in units),
        reward=reward,
        controller=controller,
        boards=tuple(on_boards),
        after=tuple(_after(samples, on_boards, curves) for samples in [*counts, budget]),
        predicted=tuple(
            float(is_predicted(curves[0][alone(unit.device)].answers.latency_kind).mean())
            for unit in units
        ),
    )


def _after(
    samples: int, boards: Sequence[BaselineSearch], curves: Sequence[Mapping[str, LearningCurve]]
) -> After:
    gaps: dict[str, list[Float64[ndarray, "R"]]] = {}
    gains: dict[str, list[Float64[ndarray, "R"]]] = {}
    fits: dict[str, list[float]] = {}
    for board, curve in zip(boards, curves, strict=True):
        together = curve[TOGETHER]
        chosen = found_by(board.board, curve, samples)
        test = {name: mean_test(which, together.answers) for name, which in chosen.items()}
        for title, name in {TOGETHER: TOGETHER, **board.baselines}.items():
            fits.setdefault(title, []).append(float((chosen[name] >= 0).mean()))
            gaps.setdefault(title, []).append(mean_gap(chosen[name], together.whole))
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
        title: known_interval(mean_known(np.stack(value, axis=1)))
        for title, value in values.items()
    }
    return {title: mean for title, mean in means.items() if mean}


def _curves(
    board: Board, reward: str, controller: str, results: Results
) -> dict[str, LearningCurve]:
    """Searches for each unit, in their order, then for all together."""
    curves = {
        alone(unit.device): results.curves[Setting(reward, controller, unit.device, unit.left_ms)]
        for unit in board.units
    }
    setting = Setting(reward, controller, board.device, board.limit_ms)
    return {**curves, TOGETHER: results.curves[setting]}


def signed(interval: Interval) -> str:
    """A difference in text, with its interval if it has one."""
    middle, *bounds = (
        f"{round(value, 2) + 0.0:+.2f}"  # no minus before a zero
        for value in (interval.middle, *(interval.bounds or ()))
    )
    return f"{middle} [{', '.join(bounds)}]" if bounds else middle
