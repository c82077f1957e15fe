"""Claim: the default policy gradient converges to the maximum of its reward, within the limit.

    $ NAS_DATA=<tables> python benchmarks/policy.py judge 32     # six devices that chose nothing
    $ NAS_DATA=<tables> python benchmarks/policy.py ablation 8   # without each of its parts

CIFAR-100, searched on validation accuracy, 5,000 samples, `controller=reinforce` with the defaults of
conf/ beside `rnn` (as published) and `uniform`. T is the latency that 10 % and 40 % of a device's
architectures meet. `arrived`: seeds where the reward of the policy's mode is within 0.003 of the
reward's own maximum over the space, with Wilson's 95 % interval. `gap`: points between the best
sample within T and the exact optimum; beside it the paired difference to uniform sampling with its
bootstrap 95 % interval (negative: better). `settled`: median samples until the mean latency of 100
samples stays within T. results/policy.md holds the tables.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import product

import numpy as np
from hydra import compose, initialize_config_module
from search_quality import interval

from nas.config.build import build, register
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.trials.loop import search
from nas.trials.trajectory import sample_within_limit

JUDGES = (
    "jetson-nano/fp32/b1",
    "help-raspi4",
    "help-gold-6226",
    "help-titan-rtx-256",
    "help-pixel2",
    "help-fpga",
)
TUNING = ("help-1080ti-1", "help-silver-4114", "help-samsung-s7", "help-essential-ph-1")
SHARES = (0.1, 0.4)
REWARDS = ("proposed", "mnasnet_hard", "constrained")
PARTS = {
    "all parts": {},
    "no neighbours of the best within T": {"neighbours": 0.0},
    "an elite of one": {"elite": 1},
    "a constant target of the entropy's end": {"converged_at": 1e-9},
    "a third of the entropy's gain": {"entropy_gain": 0.6},
    "updates of 100 trials": {"update_every": 100},
}
TOLERANCE = 0.003


def experiment(controller, reward, device, limit_ms):
    overrides = [f"controller={controller}", f"reward={reward}", f"device={device}"]
    return build(compose("search", [*overrides, f"T={limit_ms!r}ms"]))


def latency_of_share(device, share):
    """Latency that this share of the device's architectures meets, ms."""
    oracle = experiment("uniform", "constrained", device, 1000.0).problem.oracle
    every = SPACE.architectures(np.arange(SPACE.size))
    return float(np.quantile(oracle.answer(every).ms, share))


def searched(config, problem, seeds):
    """Accuracy and latency of every sample of each seed, (R, budget), and the modes."""
    controller = config.build(SPACE, range(seeds))
    steps = list(search(controller, problem, budget=5000, batch_size=config.batch_size))
    joined = (
        np.concatenate([getattr(step, name) for step in steps], axis=1)
        for name in ("accuracy", "latency_ms")
    )
    return (*joined, controller.mode())


def gaps_within(accuracy, latency_ms, limit_ms, optimum):
    return 100 * (optimum - np.where(latency_ms <= limit_ms, accuracy, 0).max(1))


def mode_gaps(problem, mode):
    """Reward of each seed's mode below the maximum over the space."""
    every = problem.evaluate(SPACE.architectures(np.arange(SPACE.size)))
    return every.rewards.max() - problem.evaluate(mode).rewards


def settled_at(latency_ms, limit_ms):
    """Median over seeds; None where most of them do not settle."""
    samples = [sample_within_limit(row, limit_ms) for row in latency_ms]
    median = np.median([np.inf if n is None else n for n in samples])
    return None if np.isinf(median) else round(float(median))


def wilson(successes, trials, z=1.96):
    share = successes / trials
    middle = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z * np.sqrt(share * (1 - share) / trials + z * z / (4 * trials**2))
    half /= 1 + z * z / trials
    return f"{share:.0%} [{middle - half:.0%}, {middle + half:.0%}]"


def judge(devices, seeds):
    print(
        "| device | T, ms | reward | arrived: rnn | arrived: reinforce | mode's gap, median "
        "| gap: rnn | gap: reinforce | reinforce - uniform | settled: rnn | settled: reinforce |"
    )
    print("|" + "---|" * 11)
    arrived = {reward: [] for reward in REWARDS}
    for device, share in product(devices, SHARES):
        limit_ms = latency_of_share(device, share)
        random = experiment("uniform", "constrained", device, limit_ms)
        problem = random.problem
        optimum = problem.survey.accuracy[problem.survey.optimum]
        drawn = searched(replace(random.config.controller, batch_size=50), problem, seeds)
        uniform = gaps_within(*drawn[:2], limit_ms, optimum)
        for reward in REWARDS:
            found = {}
            for name in ("rnn", "reinforce"):
                made = experiment(name, reward, device, limit_ms)
                accuracy, latency_ms, mode = searched(made.config.controller, made.problem, seeds)
                missing = mode_gaps(made.problem, mode)
                found[name] = (
                    missing,
                    gaps_within(accuracy, latency_ms, limit_ms, optimum),
                    settled_at(latency_ms, limit_ms),
                )
            (old, old_gap, old_settled), (new, new_gap, new_settled) = found.values()
            arrived[reward].append(new <= TOLERANCE)
            cells = [
                *(device, f"{limit_ms:.2f}", reward),
                f"{(old <= TOLERANCE).mean():.0%}",
                wilson((new <= TOLERANCE).sum(), seeds),
                f"{np.median(new):.4f}",
                *(f"{old_gap.mean():.2f}", f"{new_gap.mean():.2f}", interval(new_gap - uniform)),
                *("never" if n is None else f"{n:,}" for n in (old_settled, new_settled)),
            ]
            print("|", " | ".join(cells), "|", flush=True)
    for reward, shares in arrived.items():
        every = np.concatenate(shares)
        print(f"\n{reward}: arrived in {wilson(every.sum(), len(every))} of {len(every)} searches")


def ablation(devices, seeds):
    print("| policy | arrived | gap within T, points | settled, median of settings |")
    print("|---|---|---|---|")
    for name, changes in PARTS.items():
        arrived, gaps, settled = [], [], []
        for device, share, reward in product(devices, SHARES, REWARDS):
            limit_ms = latency_of_share(device, share)
            made = experiment("reinforce", reward, device, limit_ms)
            problem = made.problem
            config = replace(made.config.controller, **changes)
            accuracy, latency_ms, mode = searched(config, problem, seeds)
            optimum = problem.survey.accuracy[problem.survey.optimum]
            arrived.append(mode_gaps(problem, mode) <= TOLERANCE)
            gaps.append(gaps_within(accuracy, latency_ms, limit_ms, optimum))
            settled.append(settled_at(latency_ms, limit_ms) or np.inf)
        every = np.concatenate(arrived)
        cells = wilson(every.sum(), len(every)), interval(np.concatenate(gaps))
        print(f"| {name} | {cells[0]} | {cells[1]} | {np.median(settled):,.0f} |", flush=True)


def main():
    register()
    run, devices = {"judge": (judge, JUDGES), "ablation": (ablation, TUNING)}[sys.argv[1]]
    with initialize_config_module("conf", version_base="1.3"):
        run(tuple(sys.argv[3:]) or devices, int(sys.argv[2]))


if __name__ == "__main__":
    main()
