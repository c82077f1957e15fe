"""The searchers here beside public ones, each through its own API, in one run: queries and seconds.

    $ NAS_DATA=<tables> OMP_NUM_THREADS=1 python -m benchmarks.peers [searcher ...]
    $ NAS_DATA=<tables> OMP_NUM_THREADS=1 python -m benchmarks.peers front [searcher ...]

Two problems whose device, data set and limit chose no setting here, searched and reported on test
accuracy; T is the latency that so many of the architectures meet. One search after another in one
process on one thread, one architecture at a time. Theirs: Optuna's `study.optimize` (GP and TPE have the limit as
a constraint), pymoo's `minimize` (NSGA-II of 50 on accuracy and latency, the limit a constraint).
Ours: defaults of conf/.

Points below the exact optimum after so many queries (distinct architectures), mean over seeds with a bootstrap 95 %
interval; a search that ends before keeps its last best. Seconds of processor time of a whole search, median, and its
queries. results/which-searcher.md holds the tables.

`front`: CIFAR-100 test accuracy against the latency on help-gold-6226, 20 seeds. Share of the true front's hypervolume
after so many queries, in percent, down to the least accurate and up to the slowest architecture.
results/guided.md holds the table.
"""

from __future__ import annotations

import sys
import time
import warnings
from dataclasses import dataclass
from functools import cache

import numpy as np
import optuna
from pymoo.algorithms.moo.nsga2 import NSGA2
from pymoo.core.problem import Problem
from pymoo.indicators.hv import HV
from pymoo.operators.crossover.sbx import SBX
from pymoo.operators.mutation.pm import PM
from pymoo.operators.repair.rounding import RoundingRepair
from pymoo.operators.sampling.rnd import IntegerRandomSampling
from pymoo.optimize import minimize

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
)
from nas.spaces.nas_bench_201.plugin import SPACE

SEEDS = 10
PROBLEMS = (
    ("titan-x/b32", "imagenet16", 0.2),
    ("pixel-6a/litert/fp32/b1", "cifar10", 0.1),
)
QUERIES = (25, 50, 100, 200)
FRONT_SEEDS = 20
FRONT_QUERIES = (50, 100, 200, 300, 500)
FRONT_SAMPLES = 2000  # of others' NSGA-II
FRONT = ("device=help-gold-6226", "split=test", "objectives=[accuracy,latency]")


@dataclass(frozen=True)
class Tables:
    """What every search may ask, by official number."""

    accuracy: np.ndarray
    latency_ms: np.ndarray
    limit_ms: float | None  # None: there is no limit


def optuna_search(sampler, samples):
    def run(tables, seed, numbers):
        def objective(trial):
            choices = [trial.suggest_categorical(str(d), range(5)) for d in range(6)]
            number = int(SPACE.numbers(np.array(choices)))
            numbers.append(number)
            if tables.limit_ms is None:
                return tables.accuracy[number], tables.latency_ms[number]
            trial.set_constraint("latency", tables.latency_ms[number] - tables.limit_ms)
            return tables.accuracy[number]

        directions = ["maximize"] if tables.limit_ms else ["maximize", "minimize"]
        study = optuna.create_study(directions=directions, sampler=sampler(seed=seed))
        study.optimize(objective, n_trials=samples)

    return run


class Cells(Problem):
    """The space as pymoo sees it: integers, accuracy against latency, the limit a constraint."""

    def __init__(self, tables, numbers):
        limits = int(tables.limit_ms is not None)
        super().__init__(n_var=6, n_obj=2, n_ieq_constr=limits, xl=0, xu=4, vtype=int)
        self.tables, self.numbers = tables, numbers

    def _evaluate(self, x, out, *_args, **_kwargs):
        asked = SPACE.numbers(x.astype(np.int64))
        self.numbers.extend(asked.tolist())
        latency_ms = self.tables.latency_ms[asked]
        out["F"] = np.stack([-self.tables.accuracy[asked], latency_ms], axis=1)
        if self.tables.limit_ms is not None:
            out["G"] = (latency_ms - self.tables.limit_ms)[:, None]


def pymoo_nsga2(samples):
    def run(tables, seed, numbers):
        algorithm = NSGA2(
            pop_size=50,
            sampling=IntegerRandomSampling(),
            crossover=SBX(prob=1.0, eta=3.0, vtype=float, repair=RoundingRepair()),
            mutation=PM(prob=1.0, eta=3.0, vtype=float, repair=RoundingRepair()),
        )
        minimize(Cells(tables, numbers), algorithm, ("n_eval", samples), seed=seed)

    return run


@cache
def built(controller, device, dataset, limit):
    """Built once, so that no search is charged for it."""
    problem = [f"device={device}", f"dataset={dataset}", f"T={limit}", "split=test"]
    return experiment_of(*problem, "reward=constrained", f"controller={controller}")


def ours(name, samples):
    def run(tables, seed, numbers):
        limited = isinstance(tables, Limited)
        experiment = (
            built(name, *tables.problem) if limited else experiment_of(*FRONT, f"controller={name}")
        )
        for step in steps_of(experiment, [seed], samples):
            numbers.extend(SPACE.numbers(step.architectures[0]).tolist())

    return run


@dataclass(frozen=True)
class Limited(Tables):
    """The tables of a problem of `PROBLEMS`, and the settings that make it."""

    problem: tuple[str, str, str]


SEARCHERS = {  # name -> seeds, its search
    "Optuna GP": (4, optuna_search(optuna.samplers.GPSampler, 60)),
    "Optuna TPE": (SEEDS, optuna_search(optuna.samplers.TPESampler, 260)),
    "pymoo NSGA-II": (SEEDS, pymoo_nsga2(400)),
    "guided": (SEEDS, ours("guided", 200)),
    "local_search": (SEEDS, ours("local_search", 200)),
    "evolution": (SEEDS, ours("evolution", 400)),
    "reinforce": (SEEDS, ours("reinforce", 400)),
    "uniform": (SEEDS, ours("uniform", 220)),
}
FRONT_SEARCHERS = {
    "guided": ours("guided", 300),
    "nsga2": ours("nsga2", 1000),
    "pymoo NSGA-II": pymoo_nsga2(FRONT_SAMPLES),
    "Optuna NSGA-II": optuna_search(optuna.samplers.NSGAIISampler, FRONT_SAMPLES),
}


def timed_searches(run, tables, seeds):
    """Numbers of the samples of each seed, queries by each sample, and seconds of processor time."""
    for seed in range(seeds):
        numbers, began_s = [], time.process_time()
        run(tables, seed, numbers)
        seconds = time.process_time() - began_s
        yield np.array(numbers), queries_so_far(np.array([numbers]))[0], seconds


def hypervolume(tables, numbers):
    """Share of the true front's volume, up to the slowest and the least accurate cell."""
    points = np.stack([-tables.accuracy, tables.latency_ms], axis=1)
    low, high = points.min(0), points.max(0)
    scaled = (points - low) / (high - low)
    volume = HV(ref_point=np.ones(2))
    return 100 * volume(scaled[numbers]) / volume(scaled)


def problem_of(device, dataset, share):
    known = built("uniform", device, dataset, "100s").problem.survey
    limit = f"{np.quantile(known.latency_ms, share):.4g}ms"
    limit_ms = built("uniform", device, dataset, limit).problem.limit_ms
    return Limited(known.accuracy, known.latency_ms, limit_ms, (device, dataset, limit))


def report(tables, names):
    """Print a row for each searcher."""
    worth = np.where(tables.latency_ms <= tables.limit_ms, 100 * tables.accuracy, 0)
    print(f"\n{', '.join(tables.problem)}: optimum {worth.max():.2f}")
    columns = [f"@{n}" for n in QUERIES]
    head("searcher", "seeds", *columns, "found within 200", "queries", "seconds")
    for name in names:
        seeds, run = SEARCHERS[name]
        searches, spent, seconds = zip(*timed_searches(run, tables, seeds), strict=True)
        best = [np.maximum.accumulate(worth[numbers]) for numbers in searches]
        gaps = [
            [
                worth.max() - best_after(n, b[None], s[None])[0]
                for b, s in zip(best, spent, strict=True)
            ]
            for n in QUERIES
        ]
        asked = np.median([row[-1] for row in spent])
        cells = [
            interval(np.array(gap)) if asked >= 0.9 * n else "-"
            for n, gap in zip(QUERIES, gaps, strict=True)
        ]
        found = f"{np.sum(np.array(gaps[-1]) < TOLERANCE)}/{seeds}"
        row(name, str(seeds), *cells, found, f"{asked:.0f}", f"{np.median(seconds):.2f}")


def report_fronts(names):
    """Print a row for each searcher of the front."""
    head("searcher", *(f"@{count}" for count in FRONT_QUERIES), "samples", "seconds")
    survey = experiment_of(*FRONT, "controller=guided").problem.survey
    tables = Tables(survey.accuracy, survey.latency_ms, None)
    for name in names:
        searches = [*timed_searches(FRONT_SEARCHERS[name], tables, FRONT_SEEDS)]
        samples = len(searches[-1][0])
        shares = [
            [hypervolume(tables, numbers[spent <= count]) for numbers, spent, _ in searches]
            for count in FRONT_QUERIES
        ]
        cells = [
            interval(np.array(share)) if samples >= count else "-"
            for count, share in zip(FRONT_QUERIES, shares, strict=True)
        ]
        row(name, *cells, f"{samples:,}", f"{np.median([s for *_, s in searches]):.1f}")


def main():
    warnings.filterwarnings("ignore")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    words = sys.argv[1:]
    with settings_of_searches():
        if "front" in words:
            report_fronts([word for word in words if word != "front"] or FRONT_SEARCHERS)
            return
        for problem in PROBLEMS:
            report(problem_of(*problem), words or SEARCHERS)


if __name__ == "__main__":
    main()
