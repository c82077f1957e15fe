"""What the comparisons of searchers share: searches on tables, queries, intervals and rows."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
from hydra import compose, initialize_config_module

from nas.accuracy.other_tasks import taught
from nas.config.build import build, register
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.trials.loop import search

TOLERANCE = 1e-9


@contextmanager
def settings_of_searches():
    """Within it, `experiment_of` composes settings as the command line does."""
    register()
    with initialize_config_module("conf", version_base="1.3"):
        yield


def experiment_of(*overrides):
    """A search that is ready to run."""
    return build(compose("search", list(overrides)))


def steps_of(experiment, seeds, budget=None, *, is_taught=False):
    """The steps of so many searches beside each other, or of the seeds that are listed.

    `is_taught`: a controller that learns from the other tasks of the space is told of them.
    """
    config, task = experiment.config, experiment.problem.task
    choices = taught(SPACE, task) if is_taught and config.controller.is_taught else SPACE
    seeds = range(seeds) if isinstance(seeds, int) else seeds
    return search(
        config.controller.build(choices, seeds),
        experiment.problem,
        budget=budget or config.budget,
        batch_size=config.controller.batch_size,
    )


def trajectories(steps):
    """Number, accuracy and latency of every sample of each seed, (R, budget)."""
    samples = [
        (SPACE.numbers(step.architectures), step.accuracy, step.latency_ms) for step in steps
    ]
    return [np.concatenate(arrays, axis=1) for arrays in zip(*samples, strict=True)]


def queries_so_far(numbers):
    """How many distinct architectures each search has evaluated by each sample."""
    new = np.zeros(numbers.shape, int)
    for row, sequence in zip(new, numbers, strict=True):
        row[np.unique(sequence, return_index=True)[1]] = 1
    return new.cumsum(1)


def best_after(count, best, spent):
    """Best of each search when it has spent this many queries, or at its end."""
    last = [np.searchsorted(row, count, side="right") - 1 for row in spent]
    return best[np.arange(len(best)), last]


def to_the_optimum(best, spent, optimum, most):
    """Median queries to the optimum and its interval, or the share that finds it at all."""
    reached = best >= optimum - TOLERANCE
    cost = np.where(reached.any(1), spent[np.arange(len(best)), reached.argmax(1)], np.inf)
    share = (cost <= most).mean()
    if share <= 0.5:
        return f"{share:.0%} in {most:,}"
    draws = np.random.default_rng(0).choice(cost, (10_000, len(cost)))
    low, high = np.quantile(np.median(draws, axis=1), [0.025, 0.975], method="nearest")
    return f"{np.median(cost):,.0f} [{low:,.0f}, {high:,.0f}]"


def interval(values):
    """Mean and its bootstrap 95 % interval, as text."""
    means = np.random.default_rng(0).choice(values, (10_000, len(values))).mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return f"{np.mean(values):.2f} [{low:.2f}, {high:.2f}]"


def row(*cells):
    """Print a row of a Markdown table."""
    print("|", " | ".join(cells), "|", flush=True)


def head(*names):
    """Print the head of a Markdown table."""
    print()
    row(*names)
    print("|" + "---|" * len(names), flush=True)
