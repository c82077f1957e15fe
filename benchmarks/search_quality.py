"""What one search finds, over 32 seeds: gap to the exact optimum, and when the policy settles.

    $ NAS_DATA=<tables> python benchmarks/search_quality.py

CIFAR-100, searched on validation accuracy with the defaults of conf/, 5,000 samples. The devices
took no part in choosing those defaults. Intervals are bootstrap 95 % intervals of the mean over
seeds; the gap is in points below the most accurate architecture that meets T.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from hydra import compose, initialize_config_module

from nas.config.build import build, register
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.trials.loop import search
from nas.trials.trajectory import sample_within_limit

PROBLEMS = (("jetson-nano/fp32/b1", "17ms"), ("help-raspi4", "17ms"), ("help-gold-6226", "11ms"))
SEARCHERS = (
    ("rnn", "proposed"),
    ("rnn", "mnasnet"),
    ("rnn", "constrained"),
    ("uniform", "constrained"),
)
SEEDS = 32
CHECKPOINTS = (500, 1000, 5000)


def trajectories(experiment, seeds):
    """Number, accuracy and latency of every sample of each seed, (R, budget)."""
    config = experiment.config
    controller = config.controller.build(SPACE, range(seeds))
    steps = search(
        controller,
        experiment.problem,
        budget=config.budget,
        batch_size=config.controller.batch_size,
    )
    found = [(SPACE.numbers(step.architectures), step.accuracy, step.latency_ms) for step in steps]
    return (np.concatenate(arrays, axis=1) for arrays in zip(*found, strict=True))


def interval(values):
    """Mean and its bootstrap 95 % interval, as text."""
    generator = np.random.default_rng(0)
    means = generator.choice(values, (10_000, len(values))).mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return f"{np.mean(values):.2f} [{low:.2f}, {high:.2f}]"


def main():
    register()
    heads = [f"gap @{n:,}" for n in CHECKPOINTS]
    print("| device | T | controller | reward |", " | ".join(heads), "| settled | at sample |")
    print("|" + "---|" * (6 + len(CHECKPOINTS)))
    with initialize_config_module("conf", version_base="1.3"):
        for (device, limit), (controller, reward) in product(PROBLEMS, SEARCHERS):
            overrides = [f"device={device}", f"T={limit}"]
            overrides += [f"controller={controller}", f"reward={reward}"]
            experiment = build(compose("search", overrides))
            problem = experiment.problem
            best = problem.survey.accuracy[problem.survey.optimum]
            _, accuracy, latency_ms = trajectories(experiment, SEEDS)
            within = np.where(latency_ms <= problem.limit_ms, accuracy, 0)
            gaps = [interval(100 * (best - within[:, :n].max(1))) for n in CHECKPOINTS]
            settled = [sample_within_limit(row, problem.limit_ms) for row in latency_ms]
            when = [n for n in settled if n is not None]
            median = f"{np.median(when):,.0f}" if when else "-"
            row = [device, limit, controller, reward, *gaps, f"{len(when)}/{SEEDS}", median]
            print("|", " | ".join(row), "|", flush=True)


if __name__ == "__main__":
    main()
