"""How the defaults in conf/controller/rnn.yaml were chosen: a grid over devices, rewards and seeds.

    $ NAS_DATA=<tables> python benchmarks/controller_defaults.py

Score: gap in accuracy (points, CIFAR-100 validation) between the best sample within T and the
exact optimum, after 1,000 and 5,000 samples, mean over 4 of HELP's training devices x 2 rewards
x 20 seeds; T is the latency that 30 % of the device's architectures meet. Beside it, the share of
searches whose mean latency settles within T. results/controller-defaults.md holds the table and the choice.
"""

from __future__ import annotations

import sys
from itertools import product
from types import SimpleNamespace

import numpy as np

from common.files.keyed_table import data_folder, read_csv_table
from controller.policy.rnn import RnnConfig
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from nas.trials.trajectory import sample_within_limit
from rewards.constrained import ConstrainedReward
from rewards.proposed import ProposedReward

DEVICES = ("help-1080ti-1", "help-silver-4114", "help-samsung-s7", "help-pixel3")
REWARDS = (ProposedReward, ConstrainedReward)
SEEDS = range(20)
BUDGET = 5000
NAMES = ("hidden_size", "batch_size", "lr", "entropy_weight")
GRID = (
    *product((32,), (16, 4, 1), (0.0005, 0.001, 0.002), (0.0, 0.003, 0.01)),
    *product((16, 64), (16,), (0.001,), (0.003,)),  # other sizes of what is best above
)


def samples_of(config, accuracy, latency_ms, reward):
    """Accuracy and latency of every sample, (R, BUDGET)."""
    controller = config.build(SPACE, SEEDS)
    found = []
    for _ in range(BUDGET // config.batch_size):
        architectures = controller.sample(config.batch_size)
        where = tuple(np.moveaxis(architectures, -1, 0))
        found.append((accuracy[where], latency_ms[where]))
        ratios = (found[-1][1] / reward.target_ms)[..., None]
        rewards = reward(*found[-1])
        trials = SimpleNamespace(
            architectures=architectures,
            accuracy=found[-1][0],
            ratios=ratios,
            rewards=rewards,
            failed=np.zeros(rewards.shape, bool),
        )
        controller.learn(trials, reward.of_ratios)
    return (np.concatenate(rows, axis=1) for rows in zip(*found, strict=True))


def gaps(accuracy, latency_ms, limit_ms, optimum):
    """Points below the optimum after 1,000 and 5,000 samples, and the share that settles."""
    within = np.where(latency_ms <= limit_ms, accuracy, 0)
    settled = [sample_within_limit(row, limit_ms) is not None for row in latency_ms]
    return [
        *(100 * (optimum - within[:, :n].max(1)).mean() for n in (1000, 5000)),
        np.mean(settled),
    ]


def grid(column):
    """A column of a table, indexed by the choices of an architecture."""
    found = np.empty(NAS_BENCH_201.num_choices)
    found[tuple(NAS_BENCH_201.rows.T)] = column
    return found


def main():
    accuracy = (
        grid(
            read_csv_table(data_folder() / SPACE.accuracy_table.file, SPACE).column(
                "cifar100_valid"
            )
        )
        / 100
    )
    latencies = read_csv_table(data_folder() / "nb201_latency_ms.csv", SPACE)
    print("|", " | ".join(NAMES), "| gap @1,000 | gap @5,000 | settled within T |")
    print("|" + "---|" * (len(NAMES) + 3))
    for values in GRID:
        config = RnnConfig(baseline_decay=0.95, **dict(zip(NAMES, values, strict=True)))
        scores = []
        for device, reward in product(DEVICES, REWARDS):
            latency_ms = grid(latencies.column(device))
            limit_ms = float(np.quantile(latency_ms, 0.3))
            optimum = accuracy[latency_ms <= limit_ms].max()
            found = samples_of(config, accuracy, latency_ms, reward(limit_ms))
            scores.append(gaps(*found, limit_ms, optimum))
        first, last, settled = np.mean(scores, axis=0)
        row = " | ".join(f"{value:g}" for value in values)
        print(f"| {row} | {first:.3f} | {last:.3f} | {settled:.0%} |")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
