"""Claim: the default policy gradient converges to the maximum of its reward, within the limit.

    $ NAS_DATA=<tables> python -m benchmarks.policy judge 32 judge.jsonl       # devices that chose nothing
    $ NAS_DATA=<tables> python -m benchmarks.policy ablation 8 ablation.jsonl  # without each of its parts
    $ NAS_DATA=<tables> python -m benchmarks.policy default 8 default.jsonl    # the search that names no reward

A run that was cut off goes on from its .jsonl, which holds each setting's measures; with other defaults,
begin another.

CIFAR-100, searched on validation accuracy, 5,000 samples, `controller=reinforce` with the defaults of
conf/ beside `rnn` (as published) and `uniform`. T is the latency that 10 % and 40 % of a device's
architectures meet. `arrived`: seeds where the reward of the policy's mode is within 0.003 of the
reward's own maximum over the space, with Wilson's 95 % interval. `gap`: points between the best
sample within T and the exact optimum; beside it the paired difference to uniform sampling with its
bootstrap 95 % interval (negative: better). `settled`: median samples until the mean latency of 100
samples stays within T. `default` has the gaps of `local_search`, which a search without a named reward
uses, on devices that no setting was chosen on. results/policy.md holds the tables.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
from scipy.stats import binomtest

from benchmarks.searching import (
    experiment_of,
    head,
    interval,
    row,
    settings_of_searches,
)
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.trials.loop import search
from nas.trials.statistics import sample_within_limit

JUDGES = (
    "jetson-nano/fp32/b1",
    "help-raspi4",
    "help-gold-6226",
    "help-titan-rtx-256",
    "help-pixel2",
    "help-fpga",
)
KEPT = (
    "help-pixel3",
    "help-titanx-32",
    "snapdragon-855-gpu/int8/b1",
    "snapdragon-675-dsp/int8/b1",
    "raspberry-pi-5/torch-mobile/fp32/b1",
    "jetson-tx2/tensorrt/fp32/b1",
)
"""Devices that no setting was chosen on."""

TUNING = ("help-1080ti-1", "help-silver-4114", "help-samsung-s7", "help-essential-ph-1")
SHARES = (0.1, 0.4)
SAMPLES = (500, 1000, 5000)
REWARDS = ("proposed", "mnasnet_hard", "constrained")
PARTS = {
    "all parts": {},
    "no neighbours of the best within T": {"neighbours": 0.0},
    "an elite of one": {"elite": 1},
    "a target of 0 for the entropy from the start": {"converged_at": 1e-9},
    "no control of the entropy": {"entropy_gain": 0.0},
    "a third of the entropy's gain": {"entropy_gain": 0.6},
    "updates of 100 trials": {"update_every": 100},
}
TOLERANCE = 0.003


def experiment(controller, reward, device, limit_ms):
    overrides = [f"controller={controller}", f"reward={reward}", f"device={device}"]
    return experiment_of(*overrides, f"T={limit_ms!r}ms")


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


class PolicyJournal:
    """Measures of each setting's searches, a line of a file each; what the file holds is not searched again."""

    def __init__(self, path):
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self._known = {tuple(key): measures for key, measures in map(json.loads, lines)}

    def measures(self, name, setting, seeds, part="all parts"):
        """The mode's gap in reward, the gap within T in points, and the samples until settled, of each seed."""
        key = (name, part, *setting, seeds)
        if key not in self._known:
            self._known[key] = measured(name, setting, seeds, PARTS[part])
            with self._path.open("a") as file:
                file.write(json.dumps([key, self._known[key]]) + "\n")
        return {name: np.array(values, float) for name, values in self._known[key].items()}


def measured(name, setting, seeds, changes):
    device, share, reward = setting
    limit_ms = latency_of_share(device, share)
    made = experiment(name, reward, device, limit_ms)
    problem, config = made.problem, made.config.controller
    for constant, value in changes.items():
        setattr(config, constant, value)
    if name == "uniform":
        config = replace(config, batch_size=50)  # which changes the speed alone
    accuracy, latency_ms, mode = searched(config, problem, seeds)
    every = problem.evaluate(SPACE.architectures(np.arange(SPACE.size)))
    best = every.rewards.argmax()
    missed = [] if mode is None else every.rewards.max() - problem.evaluate(mode).rewards
    within = np.maximum.accumulate(np.where(latency_ms <= limit_ms, accuracy, 0), axis=1)
    optimum = problem.survey.accuracy[problem.survey.optimum]
    gaps = 100 * (optimum - within)
    return {
        "limit_ms": limit_ms,
        "ratio": every.latency_ms[best] / limit_ms,  # of the reward's maximum
        "missed": list(missed),
        "gap": gaps[:, -1].tolist(),
        "gaps": gaps[:, np.array(SAMPLES) - 1].tolist(),
        "settled": [sample_within_limit(row, limit_ms) for row in latency_ms],
    }


def settled_at(settled):
    """Median over seeds as text; a seed that does not settle is NaN."""
    median = np.median(np.where(np.isnan(settled), np.inf, settled))
    return "never" if np.isinf(median) else f"{median:,.0f}"


def wilson(successes, trials):
    of = binomtest(int(successes), trials).proportion_ci(method="wilson")
    return f"{successes / trials:.0%} [{of.low:.0%}, {of.high:.0%}]"


def judge(journal, devices, seeds):
    head(
        *("device", "T, ms", "reward", "its maximum, share of T", "arrived: rnn"),
        *("arrived: reinforce", "mode's gap, median", "gap: rnn", "gap: reinforce"),
        *("reinforce - uniform", "settled: rnn", "settled: reinforce"),
    )
    for device, share, reward in product(devices, SHARES, REWARDS):
        uniform = journal.measures("uniform", (device, share, "constrained"), seeds)
        setting = device, share, reward
        old, new = (journal.measures(name, setting, seeds) for name in ("rnn", "reinforce"))
        cells = [
            *(device, f"{new['limit_ms']:.2f}", reward, f"{new['ratio']:.3f}"),
            f"{(old['missed'] <= TOLERANCE).mean():.0%}",
            wilson((new["missed"] <= TOLERANCE).sum(), seeds),
            f"{np.median(new['missed']):.4f}",
            *(f"{old['gap'].mean():.2f}", f"{new['gap'].mean():.2f}"),
            interval(new["gap"] - uniform["gap"]),
            *(settled_at(old["settled"]), settled_at(new["settled"])),
        ]
        row(*cells)


def ablation(journal, devices, seeds):
    head("policy", "arrived", "gap within T, points", "settled, share of seeds", "sooner settled")
    for part in PARTS:
        measured = [
            journal.measures("reinforce", setting, seeds, part)
            for setting in product(devices, SHARES, REWARDS)
        ]
        missed, gap, settled = (
            np.concatenate([measures[name] for measures in measured])
            for name in ("missed", "gap", "settled")
        )
        cells = [
            wilson((missed <= TOLERANCE).sum(), len(missed)),
            interval(gap),
            f"{np.isfinite(settled).mean():.0%}",
            settled_at(settled),
        ]
        row(part, *cells)


def default(journal, devices, seeds):
    """The gap of the search that names no reward, after so many samples."""
    head("device", "T, ms", *(f"gap after {samples:,}" for samples in SAMPLES))
    every = []
    for device, share in product(devices, SHARES):
        measured = journal.measures("local_search", (device, share, "constrained"), seeds)
        every.append(measured["gaps"])
        row(device, f"{measured['limit_ms']:.2f}", *map(interval, every[-1].T))
    row("mean", "", *map(interval, np.concatenate(every).T))


def main():
    run, devices = {
        "judge": (judge, JUDGES),
        "ablation": (ablation, TUNING),
        "default": (default, KEPT),
    }[sys.argv[1]]
    journal = PolicyJournal(Path(sys.argv[3]))
    with settings_of_searches():
        run(journal, tuple(sys.argv[4:]) or devices, int(sys.argv[2]))


if __name__ == "__main__":
    main()
