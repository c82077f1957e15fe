"""Decisions of looking ahead, computed by hand."""

import math

import pytest

from benchmarks.papers.optimum.look_ahead import LookAhead
from runtime.network.segment_kind import SegmentKind
from runtime.scheduling.chain import Job, Lane
from runtime.scheduling.policies.base import PendingJobs, Placement, PlacementContext
from runtime.scheduling.policies.rules import EarliestFinish

CPU, GPU = 0, 1
LANES = (Lane("cpu"), Lane("gpu", asynchronous=True))


def ahead(first, *others, queue_ms=(0.0, 0.0), previous=None):
    """A context with pending jobs of its own network and of others."""
    own = PendingJobs(first, previous, 0.0)
    return PlacementContext(
        job=Job(0, 0, 0),
        kind=SegmentKind.CONV,
        lanes=LANES,
        predicted_ms=first[0][1],
        queue_ms=queue_ms,
        backlog_ms=queue_ms,
        previous_lane=previous,
        ready_ms=0.0,
        pending=lambda: (own, *others),
    )


def test_looking_ahead_leaves_the_lane_to_the_network_that_needs_it():
    needs_the_gpu = PendingJobs(((True, (20.0, 4.0)),), None, 0.0)
    now = ahead(((True, (5.0, 4.0)),), needs_the_gpu)

    # To the GPU: done at 4, and the other at 8. To the CPU: done at 5, and the other at 4.
    assert EarliestFinish().place(now) == Placement(GPU, 4)
    assert LookAhead(depth=1).place(now) == Placement(CPU, 5)


def test_looking_ahead_counts_delays_and_what_is_on_the_lanes():
    rest = ((False, (2.0, 4.0)), (False, (2.0, 4.0)))
    policy = LookAhead(((0.0, 0.0), (5.0, 0.0)), depth=2)

    assert policy.place(ahead(rest, previous=CPU)) == Placement(CPU, 2)
    assert policy.place(ahead(rest, previous=GPU)) == Placement(GPU, 4)
    assert policy.place(ahead(rest, previous=GPU, queue_ms=(0.0, 9.0))) == Placement(CPU, 7)


def test_a_job_without_a_lane_elsewhere_does_not_blind_looking_ahead():
    lost = PendingJobs(((True, (math.inf, math.inf)),), None, 0.0)

    assert LookAhead().place(ahead(((True, (math.inf, 2.0)),), lost)) == Placement(GPU, 2)


@pytest.mark.parametrize(("depth", "horizon"), [(0, 4), (5, 4)])
def test_looking_ahead_by_nothing_is_refused(depth, horizon):
    with pytest.raises(ValueError, match=f"depth={depth} .*horizon={horizon}"):
        LookAhead(depth=depth, horizon=horizon)
