"""The simulator's clock, on schedules computed by hand."""

import math

import pytest

from benchmarks.simulator.simulator import simulate
from edgenas_runtime.lanes.report import latencies_ms, makespan_ms
from edgenas_runtime.network.segment_kind import SegmentKind
from edgenas_runtime.scheduling.arrivals import closed, periodic
from edgenas_runtime.scheduling.chain import Chain, Lane, Request
from edgenas_runtime.scheduling.policies.base import Placement
from edgenas_runtime.scheduling.policies.rules import ByNetwork, EarliestFinish, OneLane

CPUS = (Lane("cpu0"), Lane("cpu1"))
CPU_GPU = (Lane("cpu"), Lane("gpu", asynchronous=True))


class ConvolutionsOnTheGpu:
    """Other jobs on the CPU."""

    def place(self, context):
        lane = int(context.kind is SegmentKind.CONV)
        return Placement(lane, context.predicted_ms[lane])


CONV_GPU = ConvolutionsOnTheGpu()


def chain(*times_ms, kinds=None):
    return Chain("net", kinds or (SegmentKind.CONV,) * len(times_ms), times_ms)


def spans(schedule):
    return [
        (execution.lane, execution.start_ms, execution.end_ms) for execution in schedule.executed
    ]


def test_one_lane_runs_networks_in_turn_a_job_at_a_time():
    schedule = simulate(
        [chain((1,), (2,)), chain((10,), (20,))], closed(2), [Lane("cpu")], OneLane()
    )

    assert [(execution.job.network, execution.job.index) for execution in schedule.executed] == [
        (0, 0),
        (1, 0),
        (0, 1),
        (1, 1),
    ]
    assert makespan_ms(schedule) == 33


def test_two_lanes_work_at_once():
    schedule = simulate([chain((3, 9)), chain((9, 4))], closed(2), CPUS, ByNetwork())

    assert spans(schedule) == [(0, 0, 3), (1, 0, 4)]


def test_a_job_waits_for_its_request_to_arrive():
    schedule = simulate([chain((3,))], [Request(0, 5.0)], [Lane("cpu")], OneLane())

    assert spans(schedule) == [(0, 5, 8)]
    assert makespan_ms(schedule) == 3


def test_requests_of_a_network_are_served_one_after_another():
    schedule = simulate([chain((3, 3), (3, 3))], periodic(0, 4, 3), CPUS, EarliestFinish())

    assert [execution.job.request for execution in schedule.executed] == [0, 0, 1, 1, 2, 2]
    assert latencies_ms(schedule, 0).tolist() == [6, 8, 10]


def test_jobs_are_launched_ahead_on_an_asynchronous_lane():
    placed_at_ms = []

    class Watching:
        def place(self, context):
            placed_at_ms.append(sum(context.queue_ms))
            return Placement(0, context.predicted_ms[0])

    gpu = [Lane("gpu", asynchronous=True)]
    schedule = simulate([chain((2,), (2,), (2,))], closed(1), gpu, Watching())

    assert placed_at_ms == [0, 2, 4]  # nothing had ended
    assert spans(schedule) == [(0, 0, 2), (0, 2, 4), (0, 4, 6)]


def test_a_worker_that_waits_for_the_gpu_holds_its_lane():
    first = chain((9, 5), (2, 9), kinds=(SegmentKind.CONV, SegmentKind.POOL))
    other = chain((1, 9), kinds=(SegmentKind.POOL,))

    schedule = simulate([first, other], [Request(0), Request(1, 1.0)], CPU_GPU, CONV_GPU)

    assert spans(schedule) == [(1, 0, 5), (0, 5, 7), (0, 7, 8)]


def test_changing_lanes_costs_what_the_table_says():
    kinds = (SegmentKind.POOL, SegmentKind.CONV, SegmentKind.POOL)
    crossing = chain((1, 9), (9, 2), (1, 9), kinds=kinds)

    schedule = simulate([crossing], closed(1), CPU_GPU, CONV_GPU, sync_ms=((0, 3), (5, 0)))

    assert spans(schedule) == [(0, 0, 1), (1, 1, 6), (0, 6, 12)]


def test_jobs_take_their_actual_time_while_policies_know_the_predicted():
    def slow_first(_, lane):
        return 10.0 if lane == 0 else 3.0

    schedule = simulate([chain((1, 2))], closed(1), CPUS, EarliestFinish(), actual_ms=slow_first)

    assert spans(schedule) == [(0, 0, 10)]


def test_no_request_is_an_empty_schedule():
    assert simulate([chain((1,))], [], [Lane("cpu")], OneLane()).executed == ()


def test_a_lane_that_cannot_run_a_job_is_an_error_of_the_policy():
    with pytest.raises(ValueError, match=r"OneLane\(lane=1\).*cpu1"):
        simulate([chain((1, math.inf))], closed(1), CPUS, OneLane(1))


@pytest.mark.parametrize(
    ("chains", "requests", "message"),
    [
        ([chain((1,))], closed(1), "net .* 1 lanes.* 2"),
        ([chain((1, 1))], [Request(3)], "network 3.* 1 networks"),
        ([chain((1, 1))], [Request(0, -1.0)], "arrival_ms=-1.0"),
    ],
)
def test_what_does_not_fit_together_is_refused(chains, requests, message):
    with pytest.raises(ValueError, match=message):
        simulate(chains, requests, CPUS, OneLane())


@pytest.mark.parametrize(
    ("kinds", "times", "message"),
    [
        ((), (), "net has 0"),
        ((SegmentKind.CONV,), ((1,), (2,)), "net has 1.* 2"),
        ((SegmentKind.CONV,), ((-1,),), r"conv.*\(-1,\)"),
        ((SegmentKind.CONV,), ((math.nan,),), "nan"),
        ((SegmentKind.CONV,), ((math.inf, math.inf),), "inf"),
    ],
)
def test_invalid_times_are_refused(kinds, times, message):
    with pytest.raises(ValueError, match=message):
        Chain("net", kinds, times)
