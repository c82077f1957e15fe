"""Claim: `controller=guided` with two objectives finds the front with the fewest queries.

    $ NAS_DATA=<tables> OMP_NUM_THREADS=1 python -m benchmarks.front [searcher ...]

CIFAR-100 test accuracy against the latency on help-gold-6226, 20 seeds; theirs through their own
API, as in `peers.py`. Share of the true front's hypervolume after so many queries, in percent, down
to the least accurate and up to the slowest architecture: mean with a bootstrap 95 % interval over
seeds; seconds of processor time of a whole search. results/guided.md holds the table.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import optuna

from benchmarks.peers import SAMPLES, Tables, hypervolume, optuna_search, pymoo_nsga2
from benchmarks.searching import (
    experiment_of,
    head,
    interval,
    queries_so_far,
    row,
    settings_of_searches,
    steps_of,
)
from nas.spaces.nas_bench_201.plugin import SPACE

SEEDS = 20
QUERIES = (50, 100, 200, 300, 500)
BUDGETS = {"guided": 300, "nsga2": 1000}  # samples
WORDS = ("device=help-gold-6226", "split=test", "objectives=[accuracy,latency]")


def ours(name):
    def run(_tables, seed, numbers):
        for step in steps_of(experiment_of(*WORDS, f"controller={name}"), [seed], BUDGETS[name]):
            numbers.extend(SPACE.numbers(step.architectures[0]).tolist())

    return run


SEARCHERS = {
    "guided": ours("guided"),
    "nsga2": ours("nsga2"),
    "pymoo NSGA-II": pymoo_nsga2(SAMPLES),
    "Optuna NSGA-II": optuna_search(optuna.samplers.NSGAIISampler, SAMPLES),
}


def main():
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    head("searcher", *(f"@{count}" for count in QUERIES), "samples", "seconds")
    with settings_of_searches():
        known = experiment_of(*WORDS, "controller=guided").problem.survey
        tables = Tables(known.accuracy, known.latency_ms, None)
        for name in sys.argv[1:] or SEARCHERS:
            shares, seconds = [], []
            for seed in range(SEEDS):
                numbers, started = [], time.process_time()
                SEARCHERS[name](tables, seed, numbers)
                seconds.append(time.process_time() - started)
                asked = np.array(numbers)
                spent = queries_so_far(asked[None])[0]
                shares.append([hypervolume(tables, asked[spent <= count]) for count in QUERIES])
            cells = [
                interval(share) if len(numbers) >= count else "-"
                for count, share in zip(QUERIES, np.array(shares).T, strict=True)
            ]
            row(name, *cells, f"{len(numbers):,}", f"{np.median(seconds):.1f}")


if __name__ == "__main__":
    main()
