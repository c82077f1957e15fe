"""Claim: the searchers are as strong as their papers' methods are on these tables.

    $ NAS_DATA=<tables> python -m benchmarks.searchers [searcher ...]

CIFAR-100, searched and reported on test accuracy, 100 seeds (20 for tpe, which takes 5 ms a sample; as many
as the reference had for guided, which takes 11), defaults of conf/. Mean of the best seen so far, in percent, with bootstrap 95 % intervals over seeds. A query is an architecture that
the search has not evaluated before; a sample is any architecture it proposes. A search that stops
proposing new ones keeps its last best in the columns that follow; a column is left out where its
budget of samples could not reach so many queries.

The reference is an independent implementation of the same methods, measured on the same tables.
Beside each of its means stands the chance that a mean over as many seeds of ours is at least
that. results/which-searcher.md and results/guided.md hold the tables and what they say.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

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
    trajectories,
)

SEEDS = 100
BUDGET = 8000  # samples; uniform sampling needs some 6,000 of them for 5,000 queries
TPE_SEEDS = 20
TPE_BUDGET = 700
GUIDED_BUDGET = 1500


@dataclass(frozen=True)
class Problem:
    """What is searched, what is reported, and what the reference found there."""

    name: str
    limit: str
    queries: tuple[int, ...]
    reference_seeds: int
    reference: dict[str, tuple[float | None, ...]]  # searcher -> mean after each of `queries`
    reference_median: dict[str, str] = field(default_factory=dict)


PROBLEMS = (
    Problem(
        "CIFAR-100 without a limit",
        "100s",
        (50, 100, 200, 500, 1000, 5000),
        100,
        {
            "uniform": (71.05, 71.47, 72.00, 72.54, 72.85, 73.35),
            "evolution": (71.16, 72.70, 73.41, 73.49, 73.51, 73.51),
            "local_search": (72.64, 73.38, 73.51, 73.51, 73.51, 73.51),
        },
        {"uniform": "36 % in 5,000", "evolution": "146", "local_search": "65"},
    ),
    Problem(
        "CIFAR-100 on help-gold-6226 within 11 ms, best feasible",
        "11ms",
        (200, 500, 1000, 5000),
        20,
        {
            "uniform": (70.55, 70.75, 70.89, 71.33),
            "evolution": (70.80, 71.16, 71.28, 71.41),
            "local_search": (71.11, 71.31, 71.43, 71.50),
            "nsga2": (None, 71.03, None, None),  # Optuna's own NSGA-II
            "tpe": (None, 70.75, None, None),
        },
    ),
)
SEARCHERS = ("uniform", "exhaustive", "evolution", "local_search", "rnn", "nsga2", "tpe")


def chance(values, mean, seeds):
    """Chance that a mean over so many seeds, rounded as the reference is, reaches the reference."""
    draws = np.random.default_rng(0).choice(values, (10_000, seeds)).mean(1)
    return (np.round(draws, 2) >= mean).mean()


def until_found(experiment, seeds, optimum):
    """The steps of a search, until every seed has sampled the optimum."""
    has_found = np.zeros(seeds, bool)
    for step in steps_of(experiment, seeds):
        yield step
        within = np.where(step.latency_ms <= experiment.problem.limit_ms, 100 * step.accuracy, 0)
        has_found |= within.max(1) >= optimum - TOLERANCE
        if has_found.all():
            return


def report(problem, searcher, experiment, seeds):
    known = experiment.problem.survey
    optimum = 100 * known.accuracy[known.optimum]
    budget = experiment.config.budget
    numbers, accuracy, latency_ms = (
        np.pad(values, ((0, 0), (0, budget - values.shape[1])), mode="edge")
        for values in trajectories(until_found(experiment, seeds, optimum))
    )
    feasible = latency_ms <= experiment.problem.limit_ms
    best = np.maximum.accumulate(np.where(feasible, 100 * accuracy, 0), axis=1)
    spent = queries_so_far(numbers)
    columns = [n for n in problem.queries if n <= budget]
    by_query = [best_after(n, best, spent) for n in columns]
    most = columns[-1]
    median = to_the_optimum(best, spent, optimum, most)
    rows = [
        [searcher, "queries", *map(interval, by_query), median],
        [
            "",
            "samples",
            *(f"{best[:, n - 1].mean():.2f}" for n in columns),
            f"{spent[:, most - 1].mean():,.0f} queries in {most:,}",
        ],
    ]
    if searcher in problem.reference:
        means = problem.reference[searcher]
        chances = [
            ""
            if mean is None
            else f"{mean:.2f} ({chance(values, mean, problem.reference_seeds):.0%})"
            for mean, values in zip(means, by_query, strict=False)
        ]
        rows.append(["", "reference", *chances, problem.reference_median.get(searcher, "")])
    left_out = [""] * (len(problem.queries) - len(columns))
    for cells in rows:
        row(*cells[:-1], *left_out, cells[-1])


def main():
    with settings_of_searches():
        for problem in PROBLEMS:
            print(f"\n{problem.name}")
            head(
                "searcher", "axis", *(f"@{n:,}" for n in problem.queries), "queries to the optimum"
            )
            for searcher in sys.argv[1:] or SEARCHERS:
                overrides = ["device=help-gold-6226", f"T={problem.limit}", "reward=constrained"]
                seeds, budget = {
                    "tpe": (TPE_SEEDS, TPE_BUDGET),
                    "guided": (problem.reference_seeds, GUIDED_BUDGET),
                }.get(searcher, (SEEDS, BUDGET))
                overrides += ["split=test", f"budget={budget}", f"controller={searcher}"]
                report(problem, searcher, experiment_of(*overrides), seeds)


if __name__ == "__main__":
    main()
