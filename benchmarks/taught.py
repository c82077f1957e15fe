"""Claim: what other data sets teach brings `guided` to the optimum of the one left out in fewer queries.

    $ NAS_DATA=<tables> OMP_NUM_THREADS=1 python -m benchmarks.taught 100 20

Each data set of NAS-Bench-201 is left out in turn: it is searched and reported on test accuracy, and what is expected of
an architecture comes from the validation accuracies of the other two. So many seeds (the first number) without a
limit, and (the second) on CIFAR-100 within limits that 5, 10 and 40 % of the architectures of a device meet. Median queries to
the optimum with bootstrap 95 % intervals, with what others teach and without, the same seeds.
"""

from __future__ import annotations

import sys

import numpy as np

from benchmarks.policy import latency_of_share
from benchmarks.searching import (
    TOLERANCE,
    experiment_of,
    head,
    row,
    settings_of_searches,
    steps_of,
)

DEVICES = ("help-gold-6226", "help-fpga", "help-titan-rtx-256")
BUDGET = 300


def queries(experiment, seeds, *, is_taught):
    """Queries to the optimum within T of each seed, each searched until it has it; infinite if BUDGET is too few."""
    known, limit_ms = experiment.problem.survey, experiment.problem.limit_ms
    optimum = known.accuracy[known.optimum]
    costs = np.full(seeds, np.inf)
    for seed in range(seeds):
        for number, step in enumerate(steps_of(experiment, [seed], is_taught=is_taught), 1):
            if ((step.latency_ms <= limit_ms) & (step.accuracy >= optimum - TOLERANCE)).any():
                costs[seed] = number
                break
    return costs


def median(costs):
    """Median and its bootstrap 95 % interval, as text."""
    medians = np.median(np.random.default_rng(0).choice(costs, (10_000, len(costs))), axis=1)
    low, high = np.quantile(medians, [0.025, 0.975], method="nearest")
    return f"{np.median(costs):,.0f} [{low:,.0f}, {high:,.0f}]"


def compare(dataset, limit, experiment, seeds):
    """A row of the table: with and without other data sets, and the seeds that need more with them."""
    taught, alone = (queries(experiment, seeds, is_taught=is_taught) for is_taught in (True, False))
    row(dataset, limit, str(seeds), median(taught), median(alone), str((taught > alone).sum()))


def main():
    without_limit, within = map(int, sys.argv[1:3])
    common = ["controller=guided", "reward=constrained", "split=test", f"budget={BUDGET}"]
    head("data set", "limit", "seeds", "queries: taught", "not taught", "seeds that need more")
    with settings_of_searches():
        for dataset in ("cifar10", "cifar100", "imagenet16"):
            experiment = experiment_of(
                *common, "device=help-gold-6226", f"dataset={dataset}", "T=100s"
            )
            compare(dataset, "none", experiment, without_limit)
        for device in DEVICES:
            for share in (0.05, 0.1, 0.4):
                limit_ms = latency_of_share(device, share)
                experiment = experiment_of(
                    *common, f"device={device}", "dataset=cifar100", f"T={limit_ms!r}ms"
                )
                compare("cifar100", f"{device}, {share:.0%}", experiment, within)


if __name__ == "__main__":
    main()
