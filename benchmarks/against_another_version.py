"""Claim: the redesign kept the speed of a search: within 5 % of version 0.1.0.

    $ git worktree add ../old f78f7f7
    $ NAS_DATA=<tables> python -m benchmarks.against_another_version ../old . 15

Each round runs both checkouts, in an order drawn anew, each in processes of its own on one core. It
prints the median of each and the median of the ratios of a round, with the range that holds the
middle half of them. benchmarks/results/performance.md holds what was recorded.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

RNN = (
    "controller=rnn",
    "controller.batch_size=1",
    "reward=proposed",
    "T=17ms",
    "device=help-raspi4",
)

REPLICAS = """
import sys, time
import numpy as np
from rewards.proposed import ProposedReward
SETTINGS = dict(lr=0.003, hidden_size=32, baseline_decay=0.95, entropy_weight=0.0)
try:
    from controller.policy.rnn import RnnConfig
    from latency.sources.table import TableLatencyConfig
    from nas.accuracy.base import Split
    from nas.accuracy.table import TableAccuracyConfig
    from nas.spaces.nas_bench_201.plugin import SPACE
    from nas.trials.loop import search
    from nas.trials.problem import SearchProblem
    task = SPACE.tasks["cifar100"]
    accuracy = TableAccuracyConfig().build(SPACE, task, Split.auto, 200)
    oracle = TableLatencyConfig().build("help-raspi4", SPACE, task)
    reward = ProposedReward(target_ms=17.0)
    parts = (SearchProblem(SPACE, task, accuracy, oracle, reward, 17.0),)
    choices = SPACE
except ImportError:
    from controller.rnn import RnnConfig
    from nas.accuracy.base import Dataset, Split
    from nas.accuracy.table import TableAccuracyConfig
    from nas.latency_sources import TableLatencyConfig
    from nas.search import search
    accuracy = TableAccuracyConfig().build(Dataset.cifar100, Split.auto, 200)
    oracle = TableLatencyConfig().build("help-raspi4", Dataset.cifar100)
    parts = (accuracy, oracle, ProposedReward(target_ms=17.0))
    choices = (5,) * 6
controller = RnnConfig(batch_size=1, **SETTINGS).build(choices, range(64))
begun = time.perf_counter()
for _ in search(controller, *parts, budget=300, batch_size=1):
    pass
print(time.perf_counter() - begun)
"""


def environment(checkout):
    own = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    own.pop("PYTHONDONTWRITEBYTECODE", None)  # the one with more files would be compiled each time
    return own


def five_thousand_samples(checkout, scratch):
    """Seconds of the loop with all that is written, at batch 1."""
    command = [sys.executable, "-m", "nas.search", *RNN, "budget=5000", f"runs={scratch}"]
    subprocess.run(
        command, cwd=checkout, env=environment(checkout), check=True, capture_output=True
    )
    (summary,) = scratch.rglob("summary.json")
    return json.loads(summary.read_text())["seconds"]


def sixty_four_replicas(checkout, _scratch):
    """Seconds of 300 steps of 64 searches."""
    done = subprocess.run(
        [sys.executable, "-c", REPLICAS],
        cwd=checkout,
        env=environment(checkout),
        check=True,
        capture_output=True,
        text=True,
    )
    return float(done.stdout)


def start_to_first_sample(checkout, scratch):
    """Seconds from the start of the process to the first answer on disk."""
    command = [sys.executable, "-m", "nas.search", *RNN, "budget=1000000", f"runs={scratch}"]
    begun = time.perf_counter()
    with subprocess.Popen(
        command, cwd=checkout, env=environment(checkout), stdout=subprocess.DEVNULL
    ) as process:
        while not any(
            path.read_bytes().count(b"\n") >= 2 + (path.suffix == ".jsonl")
            for name in ("samples.csv", "journal.jsonl")
            for path in scratch.rglob(name)
        ):
            time.sleep(0.002)
        took_s = time.perf_counter() - begun
        process.kill()
    return took_s


def main():
    checkouts, rounds = [Path(text).resolve() for text in sys.argv[1:3]], int(sys.argv[3])
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    generator = np.random.default_rng(0)
    print("| what | old, s | new, s | new / old, median [middle half] |\n|---|---|---|---|")
    for what in (five_thousand_samples, sixty_four_replicas, start_to_first_sample):
        taken_s = np.empty((rounds + 1, 2))
        for row in taken_s:
            for which in generator.permutation(2):
                scratch = Path(tempfile.mkdtemp())
                row[which] = what(checkouts[which], scratch)
                shutil.rmtree(scratch)
        taken_s = taken_s[1:]  # the first round fills the caches
        low, middle, high = np.quantile(taken_s[:, 1] / taken_s[:, 0], [0.25, 0.5, 0.75])
        old_s, new_s = np.median(taken_s, axis=0)
        name = what.__name__.replace("_", " ")
        print(
            f"| {name} | {old_s:.3f} | {new_s:.3f} | {middle:.3f} [{low:.3f}, {high:.3f}] |",
            flush=True,
        )


if __name__ == "__main__":
    main()
