"""The schedulability study: scenario by scenario, threshold by threshold, spread over processes.

What is computed is kept in `<out>/cells`, so that an interrupted study continues. The same seed gives the
same sets, whatever the number of processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from joblib import Memory, Parallel, delayed

from benchmarks.config import BenchConfig
from benchmarks.results import Row
from benchmarks.schedulability.scenarios import SCENARIOS, THRESHOLDS, schedulability
from benchmarks.steps import ExperimentStep


def steps(config: BenchConfig) -> list[ExperimentStep]:
    """The whole study as one step.

    Raises:
      ValueError: if a scenario or threshold is unknown.
    """
    study = config.studying
    _require_some_of(study.scenarios, [*SCENARIOS], "scenarios")
    _require_some_of(study.thresholds, [*THRESHOLDS], "thresholds")
    return [ExperimentStep("study", partial(_rows, config))]


def _require_some_of(chosen: list[Any], allowed: list[Any], name: str) -> None:
    if not chosen or any(one not in allowed for one in chosen):
        raise ValueError(f"studying.{name}={chosen} must be some of {', '.join(map(str, allowed))}")


def _rows(config: BenchConfig) -> Iterator[Row]:
    study = config.studying
    computed = Memory(Path(config.out) / "cells", verbose=0).cache(_shares)
    every = product(study.thresholds, study.scenarios)
    shares = Parallel(n_jobs=study.workers, return_as="generator")(
        delayed(computed)(scenario, threshold, study.sets, study.seed, study.time_limit_s)
        for threshold, scenario in every
    )
    for rows in shares:
        yield from rows


def _shares(
    scenario: str, threshold: float, sets: int, seed: int, time_limit_s: float
) -> list[Row]:
    """One row for each column of the scenario's table."""
    shares = schedulability(
        SCENARIOS[scenario], threshold, count=sets, seed=seed, time_limit_s=time_limit_s
    )
    return [
        {"scenario": scenario, "threshold": threshold, "simulated": True, **asdict(share)}
        for share in shares
    ]
