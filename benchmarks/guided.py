"""Claim: Bayesian optimisation on described architectures needs the fewest queries here.

    $ NAS_DATA=<tables> OMP_NUM_THREADS=1 python -m benchmarks.guided [unlimited] [limited] [help] [parts]
    $ NAS_DATA=<tables> OMP_NUM_THREADS=1 python -m benchmarks.guided defaults

CIFAR-100, searched and reported on test accuracy, in percent, defaults of conf/. They are held
against their alternatives on other devices and data sets by the second command. Queries are distinct
architectures evaluated, samples are all that were proposed. Intervals are bootstrap 95 % intervals
over seeds. results/guided.md holds the tables and what they say; without arguments the first command
makes all of its own.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np

from benchmarks.searching import (
    TOLERANCE,
    best_after,
    experiment_of,
    head,
    interval,
    queries_so_far,
    row,
    settings_of_searches,
    steps_of,
    to_the_optimum,
)
from common.files.keyed_table import data_folder, read_csv_table
from nas.spaces.nas_bench_201.plugin import SPACE

UNLIMITED = ("device=help-gold-6226", "T=100s")
GOLD = ("device=help-gold-6226", "T=11ms")
HELP_LIMITS = {
    "titan-rtx-256": (18, 21, 25),
    "gold-6226": (8, 11, 14),
    "pixel2": (14, 18, 22),
    "eyeriss": (5, 7, 9),
    "fpga": (4, 5, 6),
}
PARTS = {
    "all parts": (),
    "told rewards alone": ("rewards alone",),
    "neighbours of one of the best": ("controller.polish=1",),
    "one uniform candidate": ("controller.anywhere=1",),
    "fitted to 50 trials": ("controller.memory=50",),
    "batch of 4": ("controller.batch_size=4",),
    "batch of 16": ("controller.batch_size=16",),
}
ROW_SEEDS = 20
TRAINING_DEVICES = ("help-1080ti-1", "help-silver-4114", "help-samsung-s7", "help-pixel3")
ALTERNATIVES = (
    (),
    ("controller.random=4",),
    ("controller.random=20",),
    ("controller.polish=1",),
    ("controller.polish=20",),
    ("controller.anywhere=32",),
    ("controller.anywhere=2000",),
    ("controller.memory=200",),
)


class RewardsAlone:
    """A controller that learns the rewards, and neither accuracy nor costs."""

    def __init__(self, controller):
        self._controller = controller
        self.sample, self.diagnostics = controller.sample, controller.diagnostics

    def learn(self, trials, score):  # noqa: ARG002 - the reward is the objective
        """Learn from rewards in place of accuracies."""
        no_costs = np.empty((*trials.rewards.shape, 0))
        alone = replace(trials, accuracy=trials.rewards, ratios=no_costs)
        self._controller.learn(alone, lambda reward, _: reward)


class Searches:
    """What so many seeds sampled on a problem, until all found its optimum or spent the budget."""

    def __init__(self, seeds, budget, *overrides):
        alone = "rewards alone" in overrides
        overrides = [o for o in overrides if o != "rewards alone"]
        given = {o.split("=")[0] for o in overrides}
        defaults = ("reward=constrained", "controller=guided", "split=test")
        overrides += [o for o in defaults if o.split("=")[0] not in given]
        experiment = experiment_of(*overrides)
        known = experiment.problem.survey
        self.optimum = 100 * known.accuracy[known.optimum]
        self.limit_ms = experiment.problem.limit_ms
        each = [self._of_one(experiment, seed, budget, alone=alone) for seed in range(seeds)]
        longest = max(len(numbers) for numbers, _, _ in each)
        self.numbers, self.accuracy, self.latency_ms = (
            np.array([np.pad(row, (0, longest - len(row)), mode="edge") for row in rows])
            for rows in zip(*each, strict=True)
        )
        within = np.where(self.latency_ms <= self.limit_ms, self.accuracy, 0)
        self.best = np.maximum.accumulate(within, axis=1)
        self.spent = queries_so_far(self.numbers)

    def _of_one(self, experiment, seed, budget, *, alone):
        """Numbers, accuracy and latency of what one seed sampled, until it found the optimum."""
        found = []
        wrapped = RewardsAlone if alone else lambda controller: controller
        for step in steps_of(experiment, [seed], budget, wrapped):
            numbers, accuracy = SPACE.numbers(step.architectures[0]), 100 * step.accuracy[0]
            found.append((numbers, accuracy, step.latency_ms[0]))
            within = np.where(step.latency_ms[0] <= self.limit_ms, accuracy, 0)
            if within.max() >= self.optimum - TOLERANCE:
                break
        return [np.concatenate(arrays) for arrays in zip(*found, strict=True)]

    def after(self, queries):
        """Mean best feasible after so many queries, with its interval."""
        return interval(best_after(queries, self.best, self.spent))

    def queries_to_the_optimum(self, most):
        """Their median with its interval, or the share of seeds that get there."""
        return to_the_optimum(self.best, self.spent, self.optimum, most)

    def samples_to_the_optimum(self):
        """Their median."""
        there = self.best >= self.optimum - TOLERANCE
        cost = np.where(there.any(1), there.argmax(1) + 1, np.inf)
        return f"{np.median(cost):,.0f}"

    def found_within(self, queries):
        """How many seeds have the exact optimum after so many queries."""
        there = best_after(queries, self.best, self.spent) >= self.optimum - TOLERANCE
        return f"{there.sum()}/{len(there)}"


def unlimited():
    counts = (50, 100, 200, 500)
    head("no limit, 100 seeds", *(f"@{n} queries" for n in counts), "queries to 73.51", "samples")
    s = Searches(100, 1500, *UNLIMITED)
    means = map(s.after, counts)
    row("guided", *means, s.queries_to_the_optimum(500), s.samples_to_the_optimum())
    row("local search, reference", "72.64", "73.38", "73.51", "73.51", "65", "")


def limited():
    counts = (200, 500, 1000)
    head("gold-6226, 11 ms, 20 seeds", *(f"@{n} queries" for n in counts), "to 71.50", "samples")
    s = Searches(20, 5000, *GOLD)
    means = map(s.after, counts)
    row("guided", *means, s.queries_to_the_optimum(1000), s.samples_to_the_optimum())
    row("local search, reference", "71.11", "71.31", "71.43", "", "")


def help_rows():
    head(
        f"device, {ROW_SEEDS} seeds",
        "T",
        "optimum",
        "within 1,000 queries",
        "median queries",
        "samples",
    )
    for device, limits in HELP_LIMITS.items():
        for limit in limits:
            s = Searches(ROW_SEEDS, 6000, f"device=help-{device}", f"T={limit}ms")
            row(
                device,
                f"{limit} ms",
                f"{s.optimum:.2f}",
                s.found_within(1000),
                s.queries_to_the_optimum(1000),
                s.samples_to_the_optimum(),
            )


def parts():
    head(
        "20 seeds",
        *(f"no limit @{n}" for n in (50, 100)),
        "to 73.51",
        *(f"gold-6226, 11 ms @{n}" for n in (200, 500)),
        "found within 500",
    )
    for name, changes in PARTS.items():
        free = Searches(20, 600, *UNLIMITED, *changes)
        held = Searches(20, 700, *GOLD, *changes)
        row(
            name,
            *map(free.after, (50, 100)),
            free.queries_to_the_optimum(500),
            *map(held.after, (200, 500)),
            held.found_within(500),
        )


def training_problems():
    """Two data sets without a limit; four devices, with limits that 30 % and 80 % of cells meet."""
    for dataset in ("cifar10", "imagenet16"):
        yield (*UNLIMITED, f"dataset={dataset}")
    latencies = read_csv_table(data_folder() / "nb201_latency_ms.csv", SPACE)
    for device in TRAINING_DEVICES:
        for limit_ms in np.quantile(latencies.grid(device), [0.3, 0.8]):
            yield (f"device={device}", f"T={limit_ms:.3f}ms", "split=valid")


def defaults():
    head(
        "10 training problems, 5 seeds",
        *(f"gap @{n} queries" for n in (50, 100, 200, 400)),
        "found within 400",
        "geometric mean of the median queries, at most 800",
    )
    for changes in ALTERNATIVES:
        gaps, found, medians = [], [], []
        for problem in training_problems():
            s = Searches(5, 1200, *problem, *changes)
            at = [best_after(n, s.best, s.spent) for n in (50, 100, 200, 400)]
            gaps.append(s.optimum - np.mean(at, axis=1))
            there = s.best >= s.optimum - TOLERANCE
            cost = np.where(there.any(1), s.spent[np.arange(5), there.argmax(1)], np.inf)
            found.append((cost <= 400).mean())
            medians.append(min(np.median(cost), 800))
        row(
            " ".join(changes) or "the defaults",
            *(f"{gap:.2f}" for gap in np.mean(gaps, axis=0)),
            f"{np.mean(found):.0%}",
            f"{np.exp(np.log(medians).mean()):,.0f}",
        )


def main():
    tables = {
        "unlimited": unlimited,
        "limited": limited,
        "help": help_rows,
        "parts": parts,
    }
    with settings_of_searches():
        for name in sys.argv[1:] or tables:
            {**tables, "defaults": defaults}[name]()


if __name__ == "__main__":
    main()
