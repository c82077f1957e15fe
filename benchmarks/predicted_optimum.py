"""Claim: how far a predicted optimum of NAS-Bench-201 is below the true one.

    $ NAS_DATA=<folder> python -m benchmarks.predicted_optimum

For each device with a whole public table, data set, and limit (met by 10 to 80 % of the architectures) the
answer of the embedded predictors with `confidence=0.95`, and the best of the same limit by the tables. Both
are judged by the tables: validation accuracy after 200 epochs, measured latency. Latencies are predicted by
a model of the device itself, accuracies by the surrogate or taken from the table.
It prints the table of `benchmarks/results/confident-answers.md`.
"""

from __future__ import annotations

import sys
from functools import cache
from itertools import product

import numpy as np

from benchmarks.confident_answers import LIMITS, WHOLE
from latency.devices.measured import measured_on
from latency.devices.registry import registered
from latency.sources.table import RegressionLatencyConfig
from nas.accuracy.base import Split
from nas.accuracy.table import SurrogateAccuracyConfig, TableAccuracyConfig
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.trials.problem import SearchProblem


def main() -> None:
    """Print the gaps of every source of accuracies."""
    sys.stdout.write(
        "| accuracy | data set | mean gap, points | median | 90 % quantile | cells better, median | truly within T | answers |\n"
        "|---|---|---|---|---|---|---|---|\n"
    )
    sources = {"surrogate": SurrogateAccuracyConfig(), "table": TableAccuracyConfig()}
    for (name, config), task in product(sources.items(), SPACE.tasks.values()):
        rows = np.array([row for device in devices() for row in answers(*device, config, task)])
        gaps, better, within = rows.T
        sys.stdout.write(
            f"| {name} | {task.name} | {gaps.mean():.2f} | {np.median(gaps):.2f} "
            f"| {np.quantile(gaps, 0.9):.2f} | {np.median(better):.0f} | {within.mean():.1%} | {len(rows)} |\n"
        )


@cache
def devices():
    """Public devices with a whole table and an embedded model."""
    tables = {device: measured_on(SPACE, device) for device in registered(SPACE)}
    return [
        (device, measured.values_ms)
        for device, measured in tables.items()
        if measured and measured.count >= WHOLE[SPACE.name] and "h200" not in device.id
    ]


def answers(device, truth_ms, config, task):
    """Gap in points, number of better cells within T, and whether the answer truly is, of each limit."""
    oracle = RegressionLatencyConfig().build(device.id, SPACE, task)
    accuracy = config.build(SPACE, task, Split.valid, 200)
    table = TableAccuracyConfig().build(SPACE, task, Split.valid, 200)
    points = 100 * table.answer(SPACE.architectures(np.arange(SPACE.size))).fraction
    for limit_ms in np.nanquantile(truth_ms, LIMITS):
        answer = SearchProblem(SPACE, task, accuracy, oracle, limit_ms).survey.optimum
        if answer is not None:
            gaps = points[truth_ms <= limit_ms] - points[answer]
            yield gaps.max(), (gaps > 0).sum(), truth_ms[answer] <= limit_ms


if __name__ == "__main__":
    main()
