"""Decisions computed by hand.

QueueTime is figure 4-5 of the co-scheduling source; its cases follow the figure's text line by line.
"""

import math

import pytest

from benchmarks.simulator.simulator import simulate
from edgenas_runtime.lanes.report import makespan_ms
from edgenas_runtime.network.segment_kind import SegmentKind
from edgenas_runtime.scheduling.arrivals import closed
from edgenas_runtime.scheduling.chain import Chain, Job, Lane
from edgenas_runtime.scheduling.policies.base import Placement, PlacementContext, Policy
from edgenas_runtime.scheduling.policies.rules import (
    POLICIES,
    ByNetwork,
    EarliestFinish,
    OneLane,
    QueueTime,
)

CPU, GPU = 0, 1
LANES = (Lane("cpu"), Lane("gpu", asynchronous=True))
SYNC_MS = ((0.0, 0.0), (1.0, 0.0))
"""A millisecond from the GPU to the CPU."""


def context(predicted_ms, queue_ms=(0.0, 0.0), *, lanes=LANES, previous=None, **known):
    facts = {
        "job": Job(0, 0, 0),
        "kind": SegmentKind.CONV,
        "backlog_ms": queue_ms,
        "ready_ms": 0.0,
    }
    return PlacementContext(
        lanes=lanes,
        predicted_ms=predicted_ms,
        queue_ms=queue_ms,
        previous_lane=previous,
        **(facts | known),
    )


@pytest.mark.parametrize(
    ("predicted_ms", "queue_ms", "previous", "placed"),
    [
        ((5, 2), (0, 0), None, Placement(GPU, 2)),  # 0 + 2 >= 0 + 5 is false
        ((2, 5), (0, 0), None, Placement(CPU, 2)),
        ((3, 3), (0, 0), None, Placement(CPU, 3)),  # equal: >= holds
        ((5, 2), (0, 4), None, Placement(CPU, 5)),  # 4 + 2 >= 0 + 5
        ((5, 2), (0, 3), None, Placement(CPU, 5)),  # 3 + 2 >= 0 + 5, equal again
        ((5, 2), (0, 3), GPU, Placement(GPU, 2)),  # T_c = 5 + 1: 3 + 2 >= 0 + 6 is false
        ((5, 2), (0, 4), GPU, Placement(CPU, 6)),  # the charge includes T_s
        ((5, 2), (0, 3), CPU, Placement(CPU, 5)),  # no T_s after the CPU
        ((5, math.inf), (90, 0), None, Placement(CPU, 5)),  # the GPU cannot run it
    ],
)
def test_figure_4_5_picks_by_queue_times(predicted_ms, queue_ms, previous, placed):
    assert QueueTime(sync_ms=1).place(context(predicted_ms, queue_ms, previous=previous)) == placed


def test_among_equals_the_cpu_wins_wherever_it_stands():
    assert QueueTime().place(context((3, 3), lanes=LANES[::-1])) == Placement(1, 3)


def test_figure_4_5_on_two_networks_of_three_jobs():
    chains = [Chain(name, (SegmentKind.CONV,) * 3, ((4.0, 3.0),) * 3) for name in "AB"]

    schedule = simulate(chains, closed(2), LANES, QueueTime(sync_ms=1), sync_ms=SYNC_MS)

    # QTime before each decision (cpu, gpu), in the order of the decisions:
    # A0 (0, 0): 0+3 >= 0+4 no, gpu.    B0 (0, 3): 3+3 >= 0+4 yes, cpu.
    # A1 (4, 3): 3+3 >= 4+4+1 no, gpu.  B0 taken: cpu 0.
    # A2 (0, 6): 6+3 >= 0+4+1 yes, cpu: queued behind B0, QTime 5.
    # 3 ms: A0 done, gpu 3.  4 ms: B1 (5, 3): 3+3 >= 5+4 no, gpu.  A2 taken, waits for A1: cpu 0.
    # B2 (0, 6): 6+3 >= 0+4+1 yes, cpu: the running A2 does not count, as in the figure.
    ran = {(e.job.network, e.job.index): (e.lane, e.start_ms, e.end_ms) for e in schedule.executed}
    assert ran == {
        (0, 0): (GPU, 0, 3),
        (1, 0): (CPU, 0, 4),
        (0, 1): (GPU, 3, 6),
        (0, 2): (CPU, 6, 11),
        (1, 1): (GPU, 6, 9),
        (1, 2): (CPU, 11, 16),
    }


def test_the_earliest_finish_counts_the_running_job_too():
    chains = [Chain(name, (SegmentKind.CONV,) * 3, ((4.0, 3.0),) * 3) for name in "AB"]

    schedule = simulate(chains, closed(2), LANES, EarliestFinish(SYNC_MS), sync_ms=SYNC_MS)

    assert makespan_ms(schedule) < 16


def test_the_earliest_finish_adds_backlog_delay_and_time():
    policy = EarliestFinish(SYNC_MS)

    assert policy.place(context((2, 2), (3.0, 4.0))) == Placement(CPU, 2)
    assert policy.place(context((2, 2), (3.0, 3.5), previous=GPU)) == Placement(GPU, 2)
    assert policy.place(context((2, 2), (3.0, 4.5), previous=GPU)) == Placement(CPU, 3)


def test_the_earliest_finish_knows_that_a_job_cannot_begin_before_the_one_before_it_ends():
    idle_or_here = context((2, 3), (0.0, 6.0), previous=GPU, ready_ms=6.0)

    assert EarliestFinish(((0, 0), (2, 0))).place(idle_or_here) == Placement(GPU, 3)


def test_three_lanes_share_by_the_same_rule():
    lanes = (*LANES, Lane("gpu2", asynchronous=True))

    assert QueueTime().place(context((9, 4, 4), (0, 3, 2), lanes=lanes)) == Placement(2, 4)
    assert QueueTime().place(context((6, 4, 4), (0, 2, 2), lanes=lanes)) == Placement(CPU, 6)


def test_half_the_networks_each():
    lanes = [ByNetwork().place(context((1, 1), job=Job(9, n, 0))).lane for n in range(4)]

    assert lanes == [CPU, GPU, CPU, GPU]


def test_a_fixed_lane_that_cannot_run_a_job_passes_it_on():
    on_the_gpu = context((5, math.inf), job=Job(9, 1, 0))

    assert ByNetwork().place(on_the_gpu) == Placement(CPU, 5)


def test_one_lane_gets_everything():
    assert OneLane(GPU).place(context((0, 9), (0, 99))) == Placement(GPU, 9)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("earliest_finish", EarliestFinish),
        ("queue_time", QueueTime),
        ("by_network", ByNetwork),
        ("one_lane", OneLane),
    ],
)
def test_every_policy_has_a_name_and_the_interface(name, kind):
    policy = POLICIES[name]()

    assert type(policy) is kind
    assert isinstance(policy, Policy)
