"""Metrics of a schedule small enough to check by eye."""

import math

import pytest

from benchmarks.schedule_metrics import finish_spread_ms, overlap, utilisation
from edgenas_runtime.network.segment_kind import SegmentKind
from edgenas_runtime.scheduling.chain import Chain, Job, Lane, Request
from edgenas_runtime.scheduling.schedule import Executed, Schedule

A, B = (Chain(name, (SegmentKind.CONV,), ((1.0, 1.0),)) for name in "AB")
SCHEDULE = Schedule(
    chains=(A, B),
    lanes=(Lane("cpu"), Lane("gpu", asynchronous=True)),
    requests=(Request(0, 2.0, 5.0), Request(1, 2.0, 3.0), Request(0, 4.0), Request(1, 4.0, 100.0)),
    executed=(
        Executed(Job(0, 0, 0), 0, 2.0, 6.0),
        Executed(Job(1, 1, 0), 1, 3.0, 8.0),
        Executed(Job(2, 0, 0), 0, 6.0, 12.0),
    ),
)
"""Request 3 never completed."""
NOTHING = Schedule((A,), (Lane("cpu"),), (), ())


def test_the_spread_is_between_networks():
    assert finish_spread_ms(SCHEDULE) == 12 - 8
    assert finish_spread_ms(NOTHING) == 0


def test_utilisation_is_the_busy_share_of_each_bin():
    assert utilisation(SCHEDULE, bin_ms=4).tolist() == [[0.5, 1, 1], [0.25, 1, 0]]
    assert utilisation(NOTHING, 1.0).shape == (1, 0)
    with pytest.raises(ValueError, match="bin_ms=0"):
        utilisation(SCHEDULE, 0)


def test_overlap_is_the_share_saved_of_what_can_be_saved():
    assert overlap(20.0, 20.0, 12.0) == 0
    assert overlap(20.0, 14.0, 12.0) == 0.75
    assert overlap(20.0, 12.0, 12.0) == 1
    assert overlap(20.0, 24.0, 12.0) == -0.5  # side by side can also lose
    assert math.isnan(overlap(12.0, 12.0, 12.0))
