"""Claim: answers of embedded latency models are within the true limit as often as asked for.

    $ NAS_DATA=<folder> python -m benchmarks.confident_answers --seeds 20
    $ NAS_DATA=<folder> python -m benchmarks.confident_answers --seeds 20 --space mobilenet_v3
    $ NAS_DATA=<folder> python -m benchmarks.confident_answers --seeds 8 --reliability

Every architecture of each whole public table is predicted by a linear model that was fitted on no cell
of its function (five folds, drawn anew by each seed). The answer within a limit is the most accurate
network (CIFAR-100, validation, as measured; of MobileNetV3, as Once-for-All predicts) whose predicted
latency times exp(margin) is within it; the table says whether it truly is, and what accuracy is lost against
the true optimum. The columns of `no slack` take as T what the answer's prediction times exp(margin) is: so it
would be in a space so large that no part of T is left unused. A margin is a quantile of
the device's held-out residuals, of cells in other folds. The level of the quantile is chosen on the *other*
devices, so that 95 % of their answers are within: a device takes no part in its own calibration.
Plain margins are T times a constant.

Reliability: each answer, by every rule, has the level of the residuals' quantile that its own margin is. The share
of answers within T by level is fitted on half of the boards (every other one by name), not decreasing, for each space
alone, devices weighing the same; of 1,000 draws of boards with replacement the 5 % quantile counts, and of the spaces
the lower, rounded down to hundredths. Each half is judged by the curve of the other, in bands of .02 of what is said. `WITHIN` is the lower of both
curves: no device is promised more than devices of other boards keep. `--splits` repeats it with random halves.

It prints the tables of `benchmarks/results/confident-answers.md`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
from edgenas_mobilenet_v3.predictor import OfaAccuracyConfig
from edgenas_mobilenet_v3.space import IMAGENET, MobileNetV3
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from edgenas_core.files.keyed_table import data_folder, read_csv_table
from edgenas_core.types.architectures import Enumerable
from latency.devices.measured import measured_on
from latency.devices.registry import registered
from latency.models.confidence import QUANTILES, of_residuals
from latency.models.regression import features_timed, fit
from nas.accuracy.base import Split
from nas.spaces.base import SearchSpace
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import ACCURACY_TABLE
from nas.spaces.registry import space_named

LIMITS = np.linspace(0.1, 0.8, 8)  # shares of the architectures that are within
LEVELS = (0.5, 0.6, 0.7, 0.75, 0.8, 0.82, 0.84, 0.86, 0.88, 0.9, 0.92, 0.95, 0.975, 0.99)
PLAIN = (1.0, 0.95, 0.9)
FOLDS = 5
CONFIDENCES = (0.8, 0.9, 0.95, 0.975)
WHOLE = {"nas_bench_201": 15_000, "mobilenet_v3": 5000}  # networks of a table that counts as whole
FEWEST = {
    "nas_bench_201": 15_000,
    "mobilenet_v3": 500,
}  # networks of a table whose answers are judged
FEWEST_IN_BAND = 50
ALPHA = 0.05  # of the lower confidence bound


@final
@dataclass(frozen=True)
class AnswerOutcomes:
    """Answers of one device: by seed, rule and limit."""

    board: str
    is_whole: bool  # its table
    within: Bool[ndarray, "seeds rules limits"]
    tight: Bool[ndarray, "seeds rules limits"]  # within the answer's own prediction and margin
    lost: Float64[ndarray, "seeds rules limits"]  # points of accuracy below the true optimum
    level: Float64[ndarray, "seeds rules limits"]  # of the quantile that is the answer's own margin


def main() -> None:
    """Judge every device, then calibrate each on the others."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--space", choices=WHOLE, default="nas_bench_201")
    parser.add_argument("--reliability", action="store_true", help="of both spaces")
    parser.add_argument("--splits", type=int, default=20, help="random halves of the boards")
    arguments = parser.parse_args()
    seeds, space = arguments.seeds, space_named(arguments.space)
    if arguments.reliability:
        sys.stdout.write(
            reliability(
                {name: answers(space_named(name), seeds) for name in WHOLE}, arguments.splits
            )
        )
        return
    of_device = {
        device: outcomes for device, outcomes in answers(space, seeds).items() if outcomes.is_whole
    }
    within = np.array([outcome.within.mean((0, 2)) for outcome in of_device.values()])
    tight = np.array([outcome.tight.mean((0, 2)) for outcome in of_device.values()])
    lost = np.array([outcome.lost.mean((0, 2)) for outcome in of_device.values()])
    sys.stdout.write(f"{len(of_device)} devices, {len(LIMITS)} limits, {seeds} seeds\n\n")
    plain_lost = lost[:, 0].mean()
    sys.stdout.write(
        "| rule | beyond T | no slack | points more lost than without a margin |\n|---|---|---|---|\n"
    )
    for rule, share in enumerate(PLAIN):
        beyond = 1 - within[:, rule].mean()
        sys.stdout.write(
            f"| {share:g} T | {beyond:.1%} | {1 - tight[:, rule].mean():.1%} "
            f"| {lost[:, rule].mean() - plain_lost:.2f} |\n"
        )
    for level, rule in zip(LEVELS, range(len(PLAIN), within.shape[1]), strict=True):
        beyond = 1 - within[:, rule].mean()
        sys.stdout.write(
            f"| quantile {level:g} | {beyond:.1%} | {1 - tight[:, rule].mean():.1%} "
            f"| {lost[:, rule].mean() - plain_lost:.2f} |\n"
        )
    for title, inside in (("", within), ("no slack: ", tight)):
        sys.stdout.write(
            f"\n| {title}confidence | level | beyond T | points more lost | worst devices |\n"
            f"|---|---|---|---|---|\n"
        )
        for confidence in CONFIDENCES:
            sys.stdout.write(left_out(confidence, [*of_device], inside, lost))
    shipped = of_residuals(np.zeros(1))
    shipped = shipped if isinstance(space, Enumerable) else shipped.without_slack()
    sys.stdout.write("\n| as shipped | level | beyond T | no slack |\n|---|---|---|---|\n")
    for confidence in CONFIDENCES:
        level = shipped.level(confidence)
        shares = (
            1 - np.interp(level, LEVELS, inside.mean(0)[len(PLAIN) :]) for inside in (within, tight)
        )
        beyond = " | ".join(f"{share:.1%}" for share in shares)
        sys.stdout.write(f"| {confidence:g} | {level:.3f} | {beyond} |\n")


def answers(space: SearchSpace, seeds: int) -> dict[str, AnswerOutcomes]:
    """Outcomes of every device that is judged, by its id."""
    outcomes = {}
    for device in registered(space):
        measured = measured_on(space, device)
        is_judged = not isinstance(space, Enumerable) or "h200" not in device.id
        if measured is None or measured.count < FEWEST[space.name] or not is_judged:
            continue
        known = np.isfinite(measured.values_ms)
        rows = measured.architectures[known]
        within, tight, lost, level = judged(
            features_timed(space, device, rows),
            space.groups(rows),
            measured.values_ms[known],
            worth_of(space, rows),
            seeds,
        )
        is_whole = measured.count >= WHOLE[space.name]
        outcomes[device.id] = AnswerOutcomes(device.board, is_whole, within, tight, lost, level)
        sys.stderr.write(f"{device.id}\n")
    return outcomes


def reliability(devices: Mapping[str, Mapping[str, AnswerOutcomes]], splits: int) -> str:
    """The curve of `WITHIN`, and how the answers of each half of the boards keep the other half's."""
    boards = sorted({one.board for space in devices.values() for one in space.values()})
    first = set(boards[::2])
    curves = [curve(devices, first), curve(devices, {*boards} - first)]
    lines = [
        f"WITHIN = {tuple(np.minimum(*curves).tolist())}",
        "",
        "| devices left out of the fit | said, mean of a band | within T | answers |",
        "|---|---|---|---|",
    ]
    for title, said, within, count in kept_by_the_others(devices, first):
        lines.append(f"| {title} | {said:.3f} | {within:.3f} | {count:,} |")
    short, number = [], 0
    for seed in range(splits):
        half = {*np.random.default_rng(seed).permutation(boards)[::2].tolist()}
        for _, said, within, _ in kept_by_the_others(devices, half):
            number += 1
            short += [said - within] if within < said else []
    lines.append(
        f"\n{splits} random halves: {len(short)} of {number} bands fall short, by {max(short, default=0):.3f} "
        f"at most, {np.median(short or [0]):.3f} in the median\n"
    )
    return "\n".join(lines)


def kept_by_the_others(
    devices: Mapping[str, Mapping[str, AnswerOutcomes]], first: set[str]
) -> Iterator[tuple[str, float, float, int]]:
    """Space, mean of what is said, share within T and number of answers of each band, judged by the other half."""
    every = {one.board for space in devices.values() for one in space.values()}
    by_half = ((first, curve(devices, every - first)), (every - first, curve(devices, first)))
    for name, outcomes in devices.items():
        for half, within_of in by_half:
            some = [one for one in outcomes.values() if one.board in half]
            level = np.concatenate([np.empty(0), *(one.level.ravel() for one in some)])
            within = np.concatenate([np.empty(0), *(one.within.ravel() for one in some)])
            promised = np.array([0.0, *within_of])[np.searchsorted(QUANTILES, level, side="right")]
            band = np.floor(promised / 0.02 + 1e-9)
            for number in np.unique(band[promised > 0]):
                inside = band == number
                if inside.sum() >= FEWEST_IN_BAND:
                    title = f"{name}, {len(some)} devices"
                    yield title, promised[inside].mean(), within[inside].mean(), int(inside.sum())


def curve(
    devices: Mapping[str, Mapping[str, AnswerOutcomes]], boards: set[str]
) -> Float64[ndarray, " levels"]:
    """Lower bound of the share of answers within T by the level of their own margin, not decreasing."""
    lower = []
    for outcomes in devices.values():
        of_board: dict[str, Float64[ndarray, "2 levels"]] = {}
        for outcome in outcomes.values():
            if outcome.board in boards:
                place = np.searchsorted(QUANTILES, outcome.level.ravel(), side="right")
                counts = [
                    np.bincount(place, weights, len(QUANTILES) + 1)[1:] / place.size
                    for weights in (outcome.within.ravel(), None)
                ]
                of_board[outcome.board] = of_board.get(outcome.board, 0) + np.array(counts)
        each = np.array([*of_board.values()])
        drawn = np.random.default_rng(0).integers(len(each), size=(1000, len(each)))
        within, count = each[drawn].sum(axis=1).transpose(1, 0, 2)
        share = np.where(count > 0, within / np.maximum(count, 1e-12), 1.0)
        isotonic = np.minimum.accumulate(share[:, ::-1], axis=1)[:, ::-1]
        lower.append(np.quantile(isotonic, ALPHA, axis=0))
    return np.floor(100 * np.min(lower, axis=0)) / 100


def worth_of(space: SearchSpace, rows: Int64[ndarray, "n D"]) -> Float64[ndarray, "n"]:
    """Accuracy of architectures, in points."""
    if isinstance(space, MobileNetV3):
        predictor = OfaAccuracyConfig().build(space, IMAGENET, Split.valid, epochs=0)
        return np.asarray(100 * predictor.answer(rows).fraction)
    table = read_csv_table(data_folder() / ACCURACY_TABLE.file, SPACE)
    return table.column("cifar100_valid")[SPACE.numbers(rows)]


def left_out(
    confidence: float,
    names: list[str],
    within: Float64[ndarray, "devices rules"],
    lost: Float64[ndarray, "devices rules"],
) -> str:
    """One row: each device at the level that the others ask for."""
    own_within, own_lost, levels = [], [], []
    for device in range(len(names)):
        others = np.delete(within[:, len(PLAIN) :], device, axis=0).mean(0)
        level = level_of(confidence, others)
        levels.append(level)
        own_within.append(np.interp(level, LEVELS, within[device, len(PLAIN) :]))
        own_lost.append(np.interp(level, LEVELS, lost[device, len(PLAIN) :]))
    beyond = 1 - np.array(own_within)
    worst = ", ".join(f"{names[i]} {beyond[i]:.0%}" for i in np.argsort(-beyond)[:4])
    more = np.mean(own_lost) - lost[:, 0].mean()
    return (
        f"| {confidence:g} | {min(levels):.3f} to {max(levels):.3f} | {beyond.mean():.1%} | {more:.2f} "
        f"| {worst} |\n"
    )


def level_of(confidence: float, within: Float64[ndarray, " levels"]) -> float:
    """The level at which this share of the answers is within T."""
    return float(np.interp(confidence, np.maximum.accumulate(within), LEVELS))


def judged(
    features: Float64[ndarray, "n F"],
    groups: Int64[ndarray, "n"],
    truth: Float64[ndarray, "n"],
    worth: Float64[ndarray, "n"],
    seeds: int,
) -> tuple[ndarray, ndarray, ndarray, ndarray]:
    """Fields of `AnswerOutcomes`, by every rule, from predictions of held-out cells."""
    names, group = np.unique(groups, return_inverse=True)
    limits_ms = np.quantile(truth, LIMITS)
    best = np.array([worth[truth <= limit].max() for limit in limits_ms])
    within, tight, lost, level = [], [], [], []
    for seed in range(seeds):
        fold = np.random.default_rng(seed).permutation(len(names))[group] % FOLDS
        predicted = np.empty_like(truth)
        for out in (fold == number for number in range(FOLDS)):
            predicted[out] = fit(features[~out], truth[~out]).predict_ms(features[out])
        residual = np.log(truth / predicted)
        rules = [predicted / share for share in PLAIN]
        uppers = np.empty((len(LEVELS), len(truth)))
        uncertainties = [of_residuals(residual[fold != number]) for number in range(FOLDS)]
        for out in (fold == number for number in range(FOLDS)):
            margins = np.maximum(np.quantile(residual[~out], LEVELS), 0)
            uppers[:, out] = predicted[out] * np.exp(margins)[:, None]
        every = np.array([*rules, *uppers])
        answers = np.array([chosen(upper, worth, limits_ms) for upper in every])
        within.append(truth[answers] <= limits_ms)
        tight.append(truth[answers] <= np.take_along_axis(every, answers, axis=1))
        lost.append(best - worth[answers])
        own = np.log(limits_ms / predicted[answers])
        level.append(
            [
                [uncertainties[fold[at]].level_of(margin) for at, margin in zip(*pair, strict=True)]
                for pair in zip(answers, own, strict=True)
            ]
        )
    return np.array(within), np.array(tight), np.array(lost), np.array(level)


def chosen(
    upper_ms: Float64[ndarray, " n"],
    worth: Float64[ndarray, " n"],
    limits_ms: Float64[ndarray, " l"],
) -> Int64[ndarray, " l"]:
    """The network of most worth within each limit; the fastest where none is."""
    order = np.argsort(upper_ms, kind="stable")
    best = np.maximum.accumulate(worth[order])
    at = np.maximum.accumulate(np.where(worth[order] == best, np.arange(len(order)), 0))
    places = np.searchsorted(upper_ms[order], limits_ms, side="right") - 1
    return np.asarray(order[at[np.maximum(places, 0)]])


if __name__ == "__main__":
    main()
