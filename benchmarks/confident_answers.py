"""Claim: answers of embedded latency models are within the true limit as often as asked for.

    $ NAS_DATA=<folder> python -m benchmarks.confident_answers --seeds 20
    $ NAS_DATA=<folder> python -m benchmarks.confident_answers --seeds 20 --space mobilenet_v3

Every architecture of each whole public table is predicted by a linear model that was fitted on no cell
of its function (five folds, drawn anew by each seed). The answer within a limit is the most accurate
network (CIFAR-100, validation, as measured; of MobileNetV3, as Once-for-All predicts) whose predicted
latency times exp(margin) is within it; the table says whether it truly is, and what accuracy is lost against
the true optimum. The columns of `no slack` take as T what the answer's prediction times exp(margin) is: so it
would be in a space so large that no part of T is left unused. A margin is a quantile of
the device's held-out residuals, of cells in other folds. The level of the quantile is chosen on the *other*
devices, so that 95 % of their answers are within: a device takes no part in its own calibration.
Plain margins are T times a constant.

Reliability: each answer, by every rule, is said to be within T with a probability of its own margin, and of those
of a band of .02 the table says how many are. The probabilities were calibrated on HELP's devices of
MobileNetV3, without NAS-Bench-201's and our own of MobileNetV3, and lowered where a band of any fell short.

It prints the tables of `benchmarks/results/confident-answers.md`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from common.files.keyed_table import data_folder, read_csv_table
from common.types.architectures import Enumerable
from latency.devices.measured import measured_on
from latency.devices.registry import registered
from latency.models.confidence import of_residuals
from latency.models.regression import features_timed, fit
from nas.accuracy.base import Split
from nas.spaces.base import SearchSpace
from nas.spaces.mobilenet_v3.predictor import OfaAccuracyConfig
from nas.spaces.mobilenet_v3.space import IMAGENET, MobileNetV3
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


@final
@dataclass(frozen=True)
class AnswerOutcomes:
    """Answers of one device: by seed, rule and limit."""

    within: Bool[ndarray, "seeds rules limits"]
    tight: Bool[ndarray, "seeds rules limits"]  # within the answer's own prediction and margin
    lost: Float64[ndarray, "seeds rules limits"]  # points of accuracy below the true optimum
    said: Float64[
        ndarray, "seeds rules limits"
    ]  # probability to be within T, by the answer's own margin


def main() -> None:
    """Judge every device, then calibrate each on the others."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--space", choices=WHOLE, default="nas_bench_201")
    arguments = parser.parse_args()
    seeds, space = arguments.seeds, space_named(arguments.space)
    judged_on: dict[str, AnswerOutcomes] = {}
    found: dict[str, AnswerOutcomes] = {}  # those with whole tables
    for device in registered(space):
        measured = measured_on(space, device)
        is_judged = not isinstance(space, Enumerable) or "h200" not in device.id
        if measured is None or measured.count < FEWEST[space.name] or not is_judged:
            continue
        known = np.isfinite(measured.values_ms)
        rows = measured.architectures[known]
        judged_on[device.id] = judged(
            features_timed(space, device, rows),
            space.groups(rows),
            measured.values_ms[known],
            worth_of(space, rows),
            seeds,
        )
        if measured.count >= WHOLE[space.name]:
            found[device.id] = judged_on[device.id]
        sys.stderr.write(f"{device.id}\n")
    within = np.array([one.within.mean((0, 2)) for one in found.values()])
    tight = np.array([one.tight.mean((0, 2)) for one in found.values()])
    lost = np.array([one.lost.mean((0, 2)) for one in found.values()])
    sys.stdout.write(f"{len(found)} devices, {len(LIMITS)} limits, {seeds} seeds\n\n")
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
            sys.stdout.write(left_out(confidence, [*found], inside, lost))
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
    others = [outcomes for device, outcomes in judged_on.items() if device not in found]
    sys.stdout.write(
        f"\nwhole tables\n{reliability([*found.values()])}\nothers\n{reliability(others)}"
    )


def reliability(outcomes: Sequence[AnswerOutcomes]) -> str:
    """A row for each band of .02 that holds enough answers: how many there are, and how many within T."""
    said = np.concatenate([np.empty(0), *(one.said.ravel() for one in outcomes)])
    within = np.concatenate([np.empty(0), *(one.within.ravel() for one in outcomes)])
    band = np.floor(said / 0.02 + 1e-9)
    rows = ["| said, mean of a band | within T | answers |\n|---|---|---|\n"]
    for number in np.unique(band[said > 0]):
        inside = band == number
        if inside.sum() >= FEWEST_IN_BAND:
            rows.append(
                f"| {said[inside].mean():.3f} | {within[inside].mean():.3f} | {inside.sum():,} |\n"
            )
    return "".join(rows)


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
) -> AnswerOutcomes:
    """Answers of one device by every rule, from predictions of held-out cells."""
    names, group = np.unique(groups, return_inverse=True)
    limits_ms = np.quantile(truth, LIMITS)
    best = np.array([worth[truth <= limit].max() for limit in limits_ms])
    within, tight, lost, said = [], [], [], []
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
        said.append(
            [
                [
                    uncertainties[fold[at]].confidence(margin)
                    for at, margin in zip(*pair, strict=True)
                ]
                for pair in zip(answers, own, strict=True)
            ]
        )
    return AnswerOutcomes(np.array(within), np.array(tight), np.array(lost), np.array(said))


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
