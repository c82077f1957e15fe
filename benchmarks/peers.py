"""The searchers here beside public peers, each through its own API, in one run: quality and time.

    $ NAS_DATA=<tables> python benchmarks/peers.py

CIFAR-100, searched and reported on test accuracy, help-gold-6226, 20 seeds, one search after
another in one process on one thread. Every search asks the same tables, one architecture at a
time. Theirs: Optuna's `study.optimize`, pymoo's `minimize` with its operators for integers, and
the REINFORCE protocol of NAS-Bench-201 (Dong & Yang, ICLR 2020), written anew from the paper:
independent logits an edge, Adam, a moving baseline of momentum 0.9; in torch, as published.
Ours: the searchers of conf/ with their defaults, one replica.

Quality is the best seen after so many queries, mean over seeds with a bootstrap 95 % interval; a
query is an architecture that the search has not evaluated before. A search that ends before keeps
its last best. Seconds are those of a whole search, median with the smallest and the largest.
benchmarks/README.md holds the tables.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import optuna
import torch
from hydra import compose, initialize_config_module
from pymoo.algorithms.moo.nsga2 import NSGA2
from pymoo.core.problem import Problem
from pymoo.indicators.hv import HV
from pymoo.operators.crossover.sbx import SBX
from pymoo.operators.mutation.pm import PM
from pymoo.operators.repair.rounding import RoundingRepair
from pymoo.operators.sampling.rnd import IntegerRandomSampling
from pymoo.optimize import minimize
from search_quality import interval
from searchers import best_after, queries_so_far

from nas.config.build import build, register
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.trials.loop import search
from rewards.mnasnet import MnasReward

SEEDS = 20
QUERIES = (100, 200, 500, 1000)
BUDGET = 2000  # samples; TPE's model grows with every one of them, so it gets fewer
TPE_BUDGET = 700
LIMITS = ("1000s", "11ms")  # the first is none
PAIRS = (
    ("Optuna TPE", "tpe"),
    ("pymoo NSGA-II", "nsga2"),
    ("Optuna NSGA-II", "nsga2"),
    ("NAS-Bench-201 REINFORCE, lr 0.01", "rnn"),
    ("NAS-Bench-201 REINFORCE, lr 0.05", "rnn"),
    ("NAS-Bench-201 REINFORCE, lr 0.05", "local_search"),
)


@dataclass(frozen=True)
class Tables:
    """What every search may ask, by official number."""

    accuracy: np.ndarray
    latency_ms: np.ndarray
    limit_ms: float | None  # None: there is no limit


def optuna_tpe(tables, seed, numbers):
    def objective(trial):
        number = _suggested(trial)
        numbers.append(number)
        if tables.limit_ms is not None:
            trial.set_constraint("latency", tables.latency_ms[number] - tables.limit_ms)
        return tables.accuracy[number]

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    study.optimize(objective, n_trials=TPE_BUDGET)


def optuna_nsga2(tables, seed, numbers):
    def objective(trial):
        number = _suggested(trial)
        numbers.append(number)
        return tables.accuracy[number], tables.latency_ms[number]

    sampler = optuna.samplers.NSGAIISampler(seed=seed)
    study = optuna.create_study(directions=["maximize", "minimize"], sampler=sampler)
    study.optimize(objective, n_trials=BUDGET)


def _suggested(trial):
    choices = [trial.suggest_categorical(str(d), range(5)) for d in range(6)]
    return int(SPACE.numbers(np.array(choices)))


class Cells(Problem):
    """The space as pymoo sees it: integers, accuracy against latency."""

    def __init__(self, tables, numbers):
        super().__init__(n_var=6, n_obj=2, xl=0, xu=4, vtype=int)
        self.tables, self.numbers = tables, numbers

    def _evaluate(self, x, out, *_args, **_kwargs):
        asked = SPACE.numbers(x.astype(np.int64))
        self.numbers.extend(asked.tolist())
        out["F"] = np.stack([-self.tables.accuracy[asked], self.tables.latency_ms[asked]], axis=1)


def pymoo_nsga2(tables, seed, numbers):
    algorithm = NSGA2(
        pop_size=50,
        sampling=IntegerRandomSampling(),
        crossover=SBX(prob=1.0, eta=3.0, vtype=float, repair=RoundingRepair()),
        mutation=PM(prob=1.0, eta=3.0, vtype=float, repair=RoundingRepair()),
    )
    minimize(Cells(tables, numbers), algorithm, ("n_eval", BUDGET), seed=seed)


def reinforce(learning_rate):
    """The protocol: one architecture a step; rewarded by accuracy, or by MnasNet under a limit."""

    def run(tables, seed, numbers):
        torch.manual_seed(seed)
        logits = torch.nn.Parameter(1e-3 * torch.randn(6, 5))
        optimiser = torch.optim.Adam([logits], lr=learning_rate)
        total = weight = 0.0
        for _ in range(BUDGET):
            policy = torch.distributions.Categorical(logits=logits)
            choices = policy.sample()
            number = int(SPACE.numbers(choices.numpy()))
            numbers.append(number)
            reward = float(tables.accuracy[number])
            if tables.limit_ms is not None:
                reward = MnasReward(tables.limit_ms)(reward, float(tables.latency_ms[number]))
            total, weight = 0.9 * total + reward, 0.9 * weight + 1
            loss = -(policy.log_prob(choices) * (reward - total / weight)).sum()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()

    return run


@cache
def experiment_of(limit, controller):
    """Built once, so that no search is charged for it."""
    overrides = ["device=help-gold-6226", f"T={limit}", "reward=constrained", "split=test"]
    return build(compose("search", [*overrides, f"controller={controller}"]))


def ours(name):
    def run(tables, seed, numbers):
        limit = LIMITS[0] if tables.limit_ms is None else f"{tables.limit_ms:g}ms"
        experiment = experiment_of(limit, name)
        config = experiment.config
        for step in search(
            config.controller.build(SPACE, [seed]),
            experiment.problem,
            budget=TPE_BUDGET if name == "tpe" else BUDGET,
            batch_size=config.controller.batch_size,
        ):
            numbers.extend(SPACE.numbers(step.architectures[0]).tolist())

    return run


THEIRS: dict[str, Callable] = {
    "Optuna TPE": optuna_tpe,
    "Optuna NSGA-II": optuna_nsga2,
    "pymoo NSGA-II": pymoo_nsga2,
    "NAS-Bench-201 REINFORCE, lr 0.01": reinforce(0.01),
    "NAS-Bench-201 REINFORCE, lr 0.05": reinforce(0.05),
}
OURS = {name: ours(name) for name in ("tpe", "nsga2", "rnn", "evolution", "local_search")}


def one_search(run, tables, seed):
    numbers, started = [], time.perf_counter()
    run(tables, seed, numbers)
    return np.array(numbers), time.perf_counter() - started


def hypervolume(tables, numbers):
    """Share of the true front's volume, up to the slowest and the least accurate cell."""
    points = np.stack([-tables.accuracy, tables.latency_ms], axis=1)
    low, high = points.min(0), points.max(0)
    scaled = (points - low) / (high - low)
    volume = HV(ref_point=np.ones(2))
    return 100 * volume(scaled[numbers]) / volume(scaled)


def report(tables):
    """Print the rows of one problem; returns regret at 500 queries and seconds, by searcher."""
    within = tables.latency_ms <= (np.inf if tables.limit_ms is None else tables.limit_ms)
    worth = np.where(within, 100 * tables.accuracy, 0)
    heads = " | ".join(f"@{n:,}" for n in QUERIES)
    print(f"| searcher | by | samples | queries | {heads} | hypervolume @500 | @1,000 | seconds |")
    print("|" + "---|" * (7 + len(QUERIES)))
    found = {}
    for group, searchers in (("theirs", THEIRS), ("ours", OURS)):
        for name, run in searchers.items():
            one_search(run, tables, SEEDS)  # warms up
            runs = [one_search(run, tables, seed) for seed in range(SEEDS)]
            numbers = np.array([asked for asked, _ in runs])
            seconds = np.array([s for _, s in runs])
            spent = queries_so_far(numbers)
            best = np.maximum.accumulate(worth[numbers], axis=1)
            cells = [interval(best_after(n, best, spent)) for n in QUERIES]
            for count in (500, 1000):
                seen = [row[s <= count] for row, s in zip(numbers, spent, strict=True)]
                cells.append(interval(np.array([hypervolume(tables, row) for row in seen])))
            time_s = f"{np.median(seconds):.2f}, {seconds.min():.2f} to {seconds.max():.2f}"
            head = [name, group, f"{numbers.shape[1]:,}", f"{spent[:, -1].mean():,.0f}"]
            print("|", " | ".join([*head, *cells, time_s]), "|", flush=True)
            regret = worth.max() - best_after(500, best, spent)
            found[name] = regret, 1000 * seconds / numbers.shape[1]
    return found


def compare(found):
    """Print theirs, ours and their ratio."""
    generator = np.random.default_rng(0)
    print("\n| theirs | ours | points below the optimum @500: theirs, ours, difference |", end="")
    print(" ms a sample: theirs, ours, ratio |\n|---|---|---|---|")
    for theirs, mine in PAIRS:
        (their_regret, their_ms), (our_regret, our_ms) = found[theirs], found[mine]
        means = [
            generator.choice(regret, (10_000, SEEDS)).mean(1)
            for regret in (their_regret, our_regret)
        ]
        low, high = np.quantile(means[0] - means[1], [0.025, 0.975])
        gap = their_regret.mean() - our_regret.mean()
        quality = f"{their_regret.mean():.2f}, {our_regret.mean():.2f}, {gap:+.2f} "
        quality += f"[{low:+.2f}, {high:+.2f}]"
        both = np.median(their_ms), np.median(our_ms)
        times = f"{both[0]:.2f}, {both[1]:.2f}, {both[0] / both[1]:.1f}"
        print(f"| {theirs} | {mine} | {quality} | {times} |")


def main():
    torch.set_num_threads(1)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    register()
    with initialize_config_module("conf", version_base="1.3"):
        for limit in LIMITS:
            space = experiment_of(limit, "uniform").problem.survey
            limit_ms = None if limit == LIMITS[0] else space.limit_ms
            print(f"\n### {'No limit' if limit_ms is None else f'T = {limit_ms:g} ms'}\n")
            compare(report(Tables(space.accuracy, space.latency_ms, limit_ms)))


if __name__ == "__main__":
    main()
