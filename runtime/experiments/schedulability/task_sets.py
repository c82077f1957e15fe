"""Random sets of networks of a given total utilisation.

The source says only "a mechanism similar to UUniFast". This one was calibrated to its average numbers of
instances: network types are drawn at random and added, unless the sum on the reference configuration
would exceed the threshold; two rejected draws in a row end the set. A set that ends more than one step
below the threshold is discarded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from runtime.mapping.model.timing_table import TimingTable

OVERSHOOTS = 2
"""Rejected draws in a row after which a set is complete; calibrated."""


@final
@dataclass(frozen=True)
class TaskSets:
    """Sets of up to n networks."""

    size: Int64[ndarray, " sets"]
    """Number of networks of each set."""
    ms: Float64[ndarray, "sets n configurations"]
    """Execution times, ms; nan where a network cannot run, 0 after the last network of a set."""


def task_sets(
    table: TimingTable,
    reference: str,
    *,
    limit_ms: float,
    slack_ms: float,
    count: int,
    generator: np.random.Generator,
) -> TaskSets:
    """Draw sets whose times on the reference sum to at most the limit.

    Times are uniform from the minimum to the maximum of a network. A sum is at most `slack_ms`
    below the limit, which is the threshold times the frame.
    """
    column = table.configurations.index(reference)
    least, most = table.ms[:, :, 0], table.ms[:, :, 2]
    drawn: list[list[Float64[ndarray, " configurations"]]] = []
    while len(drawn) < count:
        own: list[Float64[ndarray, " configurations"]] = []
        left_ms, overshoots = limit_ms, 0
        while overshoots < OVERSHOOTS:
            kind = int(generator.integers(len(table.networks)))
            times_ms = least[kind] + (most[kind] - least[kind]) * generator.random(least.shape[1])
            if times_ms[column] > left_ms:
                overshoots += 1
                continue
            own.append(times_ms)
            left_ms -= times_ms[column]
            overshoots = 0
        if left_ms <= slack_ms:
            drawn.append(own)
    size = np.array([len(own) for own in drawn], np.int64)
    ms = np.zeros((count, int(size.max()), len(table.configurations)))
    for i, own in enumerate(drawn):
        ms[i, : len(own)] = own
    return TaskSets(size, ms)
