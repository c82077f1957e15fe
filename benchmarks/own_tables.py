"""Claim: of answers from a user's own table, as many are within T as `confidence` says.

    $ NAS_DATA=<folder> python -m benchmarks.own_tables --seeds 20
    $ NAS_DATA=<folder> python -m benchmarks.own_tables --seeds 20 --space mobilenet_v3

Of each whole public table 60, 100, 200 or 500 networks are kept, as `nas.measure` draws them (canonical) or any
cells, and the rest is predicted as `latency=auto` does with a table of one's own. The answer within T is the most
accurate network (CIFAR-100, validation, as measured; of MobileNetV3 as Once-for-All predicts) that was measured within T
or whose prediction, with its margin, is. It counts as within T if its measured latency is. T is met by 10 to 80 % of
the networks. `points lost` is the accuracy below that of the true optimum.

Calibration: the factor is the least of `GRID` with which 95 % of the answers are within T for each size and draw,
and 90 % on each device, over the boards of one half (every other one by name); the devices of the other half judge it.
Bands: the share within T of *predicted* answers at every factor, by what is said of their own margin.
It prints the tables of `benchmarks/results/confident-answers.md`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from jaxtyping import Bool, Float64
from numpy import ndarray

from benchmarks.confident_answers import FEWEST_IN_BAND, LIMITS, WHOLE, chosen, worth_of
from edgenas_core.types.architectures import Enumerable
from latency.devices.measured import measured_on
from latency.devices.registry import registered
from latency.models.confidence import FACTORS, FACTORS_WITHOUT_SLACK
from latency.models.regression import fitted_model
from latency.sources.table import regression_fill
from nas.measure.plan import distinct
from nas.spaces.base import SearchSpace
from nas.spaces.registry import space_named

SIZES = (60, 100, 200, 500)
GRID = (0.5, 0.7, 0.85, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0)
LEAST_OF_A_DEVICE = 0.05  # below what is said
CONFIDENCE = 0.95


@final
@dataclass(frozen=True)
class TableAnswers:
    """Answers from one table of a user, by factor and limit."""

    device: str
    board: str
    size: int
    draw: str
    within: Bool[ndarray, "factors limits"]
    predicted: Bool[ndarray, "factors limits"]  # the answer's latency was not measured
    said: Float64[ndarray, "factors limits"]  # probability beside a predicted answer
    lost: Float64[ndarray, "factors limits"]


def main() -> None:
    """Answer from tables of every device, then judge what is said."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--space", choices=WHOLE, default="nas_bench_201")
    arguments = parser.parse_args()
    every = [*answers(space_named(arguments.space), arguments.seeds)]
    is_listed = isinstance(space_named(arguments.space), Enumerable)
    factors = FACTORS if is_listed else FACTORS_WITHOUT_SLACK
    sys.stdout.write(shipped(every, factors) + calibrated(every) + bands(every))


def answers(space: SearchSpace, seeds: int) -> Iterator[TableAnswers]:
    """Answers of every device with a whole table, size, draw and seed."""
    for device in registered(space):
        measured = measured_on(space, device)
        if measured is None or measured.count < WHOLE[space.name] or "h200" in device.id:
            continue
        known = np.isfinite(measured.values_ms)
        rows, truth = measured.architectures[known], measured.values_ms[known]
        worth, limits_ms = worth_of(space, rows), np.quantile(truth, LIMITS)
        best = np.array([worth[truth <= limit].max() for limit in limits_ms])
        pools = {"random": np.arange(len(rows))}
        if isinstance(space, Enumerable):
            pools["canonical"] = np.flatnonzero(np.isin(space.numbers(rows), distinct(space)))
        own = replace(device, once_per_network=False)
        for size in SIZES:
            for draw, pool in pools.items():
                for seed in range(seeds):
                    at = np.random.default_rng([seed, size]).permutation(pool)[:size]
                    table = replace(measured, architectures=rows[at], values_ms=truth[at])
                    fill = regression_fill(space, own, fitted_model(space, own, table))
                    predicted_ms = fill.predict(rows)
                    predicted_ms[at] = np.inf
                    timed_ms = np.full(len(rows), np.inf)
                    timed_ms[at] = truth[at]
                    uncertainty = fill.uncertainty
                    assert uncertainty is not None
                    uncertainty = (
                        uncertainty
                        if isinstance(space, Enumerable)
                        else uncertainty.without_slack()
                    )
                    assert uncertainty.spread is not None
                    # the best of the measured, and the best of the predicted by each factor
                    by_time = chosen(timed_ms, worth, limits_ms)
                    margins = np.array(GRID) * uncertainty.spread
                    by_model = np.array(
                        [chosen(predicted_ms * np.exp(one), worth, limits_ms) for one in margins]
                    )
                    fits = predicted_ms[by_model] * np.exp(margins)[:, None] <= limits_ms
                    timed = np.where(timed_ms[by_time] <= limits_ms, worth[by_time], -np.inf)
                    is_predicted = fits & (worth[by_model] > timed)
                    answer = np.where(is_predicted, by_model, by_time)
                    has_answer = is_predicted | np.isfinite(timed)
                    own_margin = np.log(limits_ms / predicted_ms[by_model])
                    yield TableAnswers(
                        device.id,
                        device.board,
                        size,
                        draw,
                        (truth[answer] <= limits_ms) | ~has_answer,
                        is_predicted,
                        np.vectorize(uncertainty.confidence)(own_margin),
                        np.where(has_answer, best - worth[answer], np.nan),
                    )
        sys.stderr.write(f"{device.id}\n")


def shipped(every: Sequence[TableAnswers], factors: Mapping[float, float]) -> str:
    """What is so of the confidences that are offered, by size and draw."""
    lines = [
        "| confidence | networks | draw | within T | worst devices | points lost |",
        "|---|---|---|---|---|---|",
    ]
    for confidence, factor in factors.items():
        for size, draw in sorted({(one.size, one.draw) for one in every}):
            some = [one for one in every if (one.size, one.draw) == (size, draw)]
            of_device = by_device(some, GRID.index(factor))
            worst = sorted(of_device, key=lambda name: of_device[name])[:3]
            lost = np.nanmean([one.lost[GRID.index(factor)] for one in some])
            names = ", ".join(f"{name} {of_device[name]:.1%}" for name in worst)
            mean = np.mean([*of_device.values()])
            lines.append(
                f"| {confidence:g} | {size} | {draw} | {mean:.1%} | {names} | {lost:.2f} |"
            )
    return "\n".join(lines) + "\n\n"


def by_device(some: Sequence[TableAnswers], factor: int) -> dict[str, float]:
    """Share of answers within T of each device; all have as many answers."""
    names = sorted({one.device for one in some})
    return {
        name: float(np.mean([one.within[factor] for one in some if one.device == name]))
        for name in names
    }


def calibrated(every: Sequence[TableAnswers]) -> str:
    """The factor that each half of the boards asks for, and how it does on the other half."""
    boards = sorted({one.board for one in every})
    lines = [
        f"| factor for {CONFIDENCE:g} from | of the other half: mean | worst device |",
        "|---|---|---|",
    ]
    for half in (boards[::2], boards[1::2]):
        known = [one for one in every if one.board in half]
        others = [one for one in every if one.board not in half]
        factor = next((each for each in range(len(GRID)) if holds(known, each)), len(GRID) - 1)
        left_out = by_device(others, factor)
        worst = min(left_out, key=lambda name: left_out[name])
        mean = np.mean([*left_out.values()])
        lines.append(
            f"| {len(half)} boards: {GRID[factor]:g} | {mean:.1%} | {worst} {left_out[worst]:.1%} |"
        )
    return "\n".join(lines) + "\n\n"


def holds(some: Sequence[TableAnswers], factor: int) -> bool:
    """Whether the confidence holds for each size and draw, and nearly on each device."""
    of_cell = [
        np.mean([one.within[factor] for one in some if (one.size, one.draw) == cell])
        for cell in {(one.size, one.draw) for one in some}
    ]
    least = CONFIDENCE - LEAST_OF_A_DEVICE
    return min(of_cell) >= CONFIDENCE and min(by_device(some, factor).values()) >= least


def bands(every: Sequence[TableAnswers]) -> str:
    """Predicted answers by what is said of them."""
    lines = [
        "| said | answers | within T | mean of devices | worst device |",
        "|---|---|---|---|---|",
    ]
    said = np.concatenate([one.said[one.predicted] for one in every])
    within = np.concatenate([one.within[one.predicted] for one in every])
    device = np.concatenate([np.full(one.predicted.sum(), one.device) for one in every])
    for share in np.unique(said):
        inside = said == share
        counted = [
            name
            for name in np.unique(device)
            if (inside & (device == name)).sum() >= FEWEST_IN_BAND
        ]
        each = {name: float(within[inside & (device == name)].mean()) for name in counted}
        if each:
            worst = min(each, key=lambda name: each[name])
            lines.append(
                f"| {share:.2f} | {inside.sum():,} | {within[inside].mean():.3f} "
                f"| {np.mean([*each.values()]):.3f} | {worst} {each[worst]:.3f} |"
            )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
