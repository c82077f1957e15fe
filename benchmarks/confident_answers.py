"""Claim: answers of embedded latency models are within the true limit as often as asked for.

    $ NAS_DATA=<folder> python benchmarks/confident_answers.py --seeds 20

Every architecture of each whole public table is predicted by a linear model that was fitted on no cell
of its function (five folds, drawn anew by each seed). The answer within a limit is the most accurate
network (CIFAR-100, validation, as measured) whose predicted latency times exp(margin) is within it; the
table says whether it truly is, and what accuracy is lost against the true optimum. A margin is a quantile of
the device's held-out residuals, of cells in other folds. The level of the quantile is chosen on the *other*
devices, so that 95 % of their answers are within: a device takes no part in its own calibration.
Plain margins are T times a constant.

It prints the tables of `benchmarks/results/confident-answers.md`.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from latency.devices.measured import measured_on
from latency.devices.registry import Device, registered
from latency.models.regression import features_timed, fit
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import ACCURACY_TABLE
from runtime.shell.files.keyed_table import data_folder, read_csv_table

LIMITS = np.linspace(0.1, 0.8, 8)  # shares of the architectures that are within
LEVELS = (0.5, 0.6, 0.7, 0.75, 0.8, 0.82, 0.84, 0.86, 0.88, 0.9, 0.92, 0.95, 0.975)
PLAIN = (1.0, 0.95, 0.9)
FOLDS = 5
CONFIDENCES = (0.8, 0.9, 0.95, 0.975)
FEWEST = 15_000  # cells of a table that counts as whole


@final
@dataclass(frozen=True)
class Outcomes:
    """Answers of one device: by seed, rule and limit."""

    within: Bool[ndarray, "seeds rules limits"]
    lost: Float64[ndarray, "seeds rules limits"]  # points of accuracy below the true optimum


def main() -> None:
    """Judge every device, then calibrate each on the others."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    seeds = parser.parse_args().seeds
    table = read_csv_table(data_folder() / ACCURACY_TABLE.file, SPACE)
    accuracy = table.column("cifar100_valid")
    found = {}
    for device in registered(SPACE):
        measured = measured_on(SPACE, device)
        if measured is not None and measured.count >= FEWEST and "h200" not in device.id:
            found[device.id] = judged(device, measured.values_ms, accuracy, seeds)
    within = np.array([one.within.mean((0, 2)) for one in found.values()])
    lost = np.array([one.lost.mean((0, 2)) for one in found.values()])
    sys.stdout.write(f"{len(found)} devices, {len(LIMITS)} limits, {seeds} seeds\n\n")
    plain_lost = lost[:, 0].mean()
    sys.stdout.write(
        "| rule | beyond T | points more lost than without a margin |\n|---|---|---|\n"
    )
    for rule, share in enumerate(PLAIN):
        beyond = 1 - within[:, rule].mean()
        sys.stdout.write(
            f"| {share:g} T | {beyond:.1%} | {lost[:, rule].mean() - plain_lost:.2f} |\n"
        )
    for level, rule in zip(LEVELS, range(len(PLAIN), within.shape[1]), strict=True):
        beyond = 1 - within[:, rule].mean()
        sys.stdout.write(
            f"| quantile {level:g} | {beyond:.1%} | {lost[:, rule].mean() - plain_lost:.2f} |\n"
        )
    sys.stdout.write(
        "\n| confidence | level | beyond T | points more lost | worst devices |\n|---|---|---|---|---|\n"
    )
    for confidence in CONFIDENCES:
        sys.stdout.write(left_out(confidence, [*found], within, lost))


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
    device: Device,
    latency_ms: Float64[ndarray, "size"],
    accuracy: Float64[ndarray, "size"],
    seeds: int,
) -> Outcomes:
    """Answers of one device by every rule, from predictions of held-out cells."""
    known = np.flatnonzero(np.isfinite(latency_ms))
    rows = SPACE.architectures(known)
    features = features_timed(SPACE, device, rows)
    names, group = np.unique(SPACE.groups(rows), return_inverse=True)
    truth, worth = latency_ms[known], accuracy[known]
    limits_ms = np.quantile(truth, LIMITS)
    best = np.array([worth[truth <= limit].max() for limit in limits_ms])
    within, lost = [], []
    for seed in range(seeds):
        fold = np.random.default_rng(seed).permutation(len(names))[group] % FOLDS
        predicted = np.empty_like(truth)
        for out in (fold == number for number in range(FOLDS)):
            predicted[out] = fit(features[~out], truth[~out]).predict_ms(features[out])
        residual = np.log(truth / predicted)
        rules = [predicted / share for share in PLAIN]
        uppers = np.empty((len(LEVELS), len(truth)))
        for out in (fold == number for number in range(FOLDS)):
            margins = np.maximum(np.quantile(residual[~out], LEVELS), 0)
            uppers[:, out] = predicted[out] * np.exp(margins)[:, None]
        answers = np.array([chosen(upper, worth, limits_ms) for upper in (*rules, *uppers)])
        within.append(truth[answers] <= limits_ms)
        lost.append(best - worth[answers])
    return Outcomes(np.array(within), np.array(lost))


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
