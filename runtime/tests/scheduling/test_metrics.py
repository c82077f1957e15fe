"""Metrics of a schedule small enough to check by eye."""

import math

import pytest

from edgenas_runtime.lanes.report import (
    LatencyPercentiles,
    deadline_misses,
    latencies_ms,
    latency,
    makespan_ms,
)
from edgenas_runtime.network.segment_kind import SegmentKind
from edgenas_runtime.scheduling.arrivals import closed, periodic
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


def test_the_makespan_counts_from_the_first_arrival():
    assert makespan_ms(SCHEDULE) == 10


def test_latencies_are_of_completed_requests():
    assert latencies_ms(SCHEDULE, 0).tolist() == [4, 8]
    assert latency(SCHEDULE, 0) == LatencyPercentiles(6.0, pytest.approx(7.96), 8.0)
    assert latency(SCHEDULE, 1) == LatencyPercentiles(6.0, 6.0, 6.0)


def test_a_deadline_is_missed_by_being_late_or_never_done():
    assert deadline_misses(SCHEDULE) == 2  # request 1 by 3 ms, and request 3


def test_nothing_run_measures_nothing():
    assert makespan_ms(NOTHING) == deadline_misses(NOTHING) == 0
    assert math.isnan(latency(NOTHING, 0).p99_ms)


def test_a_closed_set_asks_every_network_at_once():
    assert closed(2, 2) == (Request(0), Request(1), Request(0), Request(1))


def test_a_periodic_network_is_due_before_its_next_frame():
    assert periodic(3, 10, 2) == (Request(3, 0, 10), Request(3, 10, 10))
    assert periodic(0, 10, 1, deadline_ms=4) == (Request(0, 0, 4),)
