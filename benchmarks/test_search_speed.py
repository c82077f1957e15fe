"""Claims: a search costs what its controller costs, and the controller costs little.

    $ NAS_DATA=<tables> make bench ONLY=search_speed

1. 5,000 samples with the LSTM at batch 1 take at most 4 s on one core.
2. 64 replicas sample at 10,000 architectures/s or more.
3. From the start of the process to the first sample on disk it takes less than 3 s.
4. The tables load in less than 0.2 s.
5. 64 replicas x 5,000 samples of any searcher that is no policy gradient take less than 15 s.

benchmarks/results/performance.md holds the recorded figures, which-searcher.md there those of claim 5.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from controller.evolution import EvolutionConfig
from controller.exhaustive import ExhaustiveConfig
from controller.local_search import LocalSearchConfig
from controller.policy.rnn import RnnConfig
from controller.uniform import UniformConfig
from edgenas_core.files.keyed_table import data_folder, parse_csv_table, read_csv_table
from edgenas_core.types.kind import Kind
from latency.base import Latencies, every_architecture
from nas.accuracy.base import Accuracies
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.trials.loop import search
from nas.trials.problem import RewardedProblem
from rewards.constrained import ConstrainedReward
from rewards.proposed import ProposedReward

SAMPLES = 5000
ROUNDS = 5
SETTINGS = {"lr": 0.003, "entropy_weight": 0.0}


@pytest.fixture(autouse=True)
def one_core():
    """This process on one core, torch on one thread."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    torch.set_num_threads(1)
    yield
    os.sched_setaffinity(0, before)


def grid(column):
    """A column of a table, indexed by the choices of an architecture."""
    table = np.empty(SPACE.num_choices)
    table[tuple(every_architecture(SPACE).T)] = column
    return table


@pytest.fixture
def tables():
    """CIFAR-100 accuracy and the latency of a Raspberry Pi 4, synthetic where there is no data."""
    if (data_folder() / SPACE.accuracy_table.file).is_file():
        accuracy = read_csv_table(data_folder() / SPACE.accuracy_table.file, SPACE).column(
            "cifar100_valid"
        )
        latency = read_csv_table(data_folder() / "nb201_latency_ms.csv", SPACE)
        return grid(accuracy / 100), grid(latency.column("help-raspi4"))
    generator = np.random.default_rng(0)
    return generator.random(SPACE.num_choices), 40 * generator.random(SPACE.num_choices)


class Lookup:
    """Accuracy or latency from an array, without the checks of the real sources."""

    def __init__(self, table, answers):
        self.table = table
        self.answers = answers

    def answer(self, architectures):
        """Entry of each architecture, as measured."""
        values = self.table[tuple(np.moveaxis(architectures, -1, 0))]
        return self.answers(values, np.full(values.shape, Kind.measured, np.int8))


def problem_of(tables, reward):
    """The search for the architecture of the highest reward."""
    accuracy, oracle = map(Lookup, tables, (Accuracies, Latencies))
    task = SPACE.tasks[SPACE.default_task]
    return RewardedProblem(SPACE, task, accuracy, oracle, reward.target_ms, reward=reward)


def test_five_thousand_samples_of_the_lstm_at_batch_1(benchmark, tables):
    problem = problem_of(tables, ProposedReward(17.0))

    def run():
        controller = RnnConfig(batch_size=1, **SETTINGS).build(SPACE, [0])
        for _ in search(controller, problem, budget=SAMPLES, batch_size=1):
            pass

    benchmark.pedantic(run, rounds=ROUNDS, warmup_rounds=1)


@pytest.mark.parametrize(
    "config",
    [UniformConfig(), ExhaustiveConfig(), EvolutionConfig(50), LocalSearchConfig()],
    ids=["uniform", "exhaustive", "evolution", "local_search"],
)
def test_sixty_four_replicas_of_a_whole_search(benchmark, tables, config):
    problem = problem_of(tables, ConstrainedReward(17.0))
    batch_size = config.batch_size

    def run():
        controller = config.build(SPACE, range(64))
        for _ in search(controller, problem, budget=SAMPLES, batch_size=batch_size):
            pass

    benchmark.pedantic(run, rounds=ROUNDS)


@pytest.mark.parametrize("batch_size", [1, 4])
def test_sixty_four_replicas_of_a_hundred_steps(benchmark, tables, batch_size):
    problem = problem_of(tables, ProposedReward(17.0))
    budget = 100 * batch_size

    def run():
        config = RnnConfig(batch_size=batch_size, **SETTINGS)
        controller = config.build(SPACE, range(64))
        for _ in search(controller, problem, budget=budget, batch_size=batch_size):
            pass

    benchmark.extra_info["samples"] = 64 * budget
    benchmark.pedantic(run, rounds=ROUNDS, warmup_rounds=1)


def test_start_of_the_process_to_the_first_sample_on_disk(benchmark, tmp_path):
    def run():
        command = [sys.executable, "-m", "nas.search", f"out={tmp_path}", "budget=1000000000"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            known = set(tmp_path.rglob("journal.jsonl"))
            while not any(
                b"told" in p.read_bytes() for p in set(tmp_path.rglob("journal.jsonl")) - known
            ):
                time.sleep(0.005)
            process.kill()

    benchmark.pedantic(run, rounds=ROUNDS, warmup_rounds=1)


def test_loading_the_tables(benchmark):
    paths = sorted(data_folder().glob("nb201_*.csv"))
    if not paths:
        pytest.skip("no tables to load")

    benchmark.pedantic(
        lambda: [parse_csv_table(p, SPACE) for p in paths], rounds=20, warmup_rounds=1
    )
