"""Properties of every schedule under any policy, on simulated and on real lanes."""

import math
from collections import Counter
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from benchmarks.bound import critical_path_ms, lower_bound_ms, total_work_ms
from benchmarks.simulator.simulator import simulate
from edgenas_runtime.lanes.cpu import CpuLane
from edgenas_runtime.lanes.executor import ServedNetwork, execute
from edgenas_runtime.lanes.report import makespan_ms
from edgenas_runtime.network.decompose import decompose
from edgenas_runtime.network.segment_kind import SegmentKind
from edgenas_runtime.scheduling.chain import Chain, Lane, Request
from edgenas_runtime.scheduling.policies.rules import ByNetwork, EarliestFinish, OneLane, QueueTime

TIMES_MS = st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0])
ROUNDING = 1 - 1e-9


def policies(lanes):
    sync_ms = st.lists(st.lists(TIMES_MS, min_size=lanes, max_size=lanes), min_size=lanes)
    return st.one_of(
        st.builds(QueueTime, TIMES_MS),
        st.builds(EarliestFinish, st.none() | sync_ms),
        st.builds(OneLane, st.integers(0, lanes - 1)),
        st.just(ByNetwork()),
    )


def chains(lanes, jobs=5):
    job = st.tuples(st.sampled_from(SegmentKind), st.tuples(*[TIMES_MS] * lanes))
    return st.lists(job, min_size=1, max_size=jobs).map(
        lambda jobs: Chain("net", tuple(kind for kind, _ in jobs), tuple(ms for _, ms in jobs))
    )


@st.composite
def workloads(draw, max_lanes=3, networks=4, jobs=5, requests=8):
    """Chains, requests and lanes."""
    lanes = draw(
        st.lists(st.builds(Lane, st.just("lane"), st.booleans()), min_size=1, max_size=max_lanes)
    )
    nets = draw(st.lists(chains(len(lanes), jobs), min_size=1, max_size=networks))
    request = st.builds(Request, st.integers(0, len(nets) - 1), TIMES_MS)
    return nets, draw(st.lists(request, max_size=requests)), lanes


@st.composite
def simulations(draw):
    nets, requests, lanes = draw(workloads())
    policy = draw(policies(len(lanes)))
    delays = draw(st.none() | st.lists(st.lists(TIMES_MS, min_size=3), min_size=3))
    return simulate(nets, requests, lanes, policy, sync_ms=delays)


def assert_lawful(schedule):
    assert_every_job_ran_once(schedule)
    assert_jobs_of_a_network_never_overlap_nor_overtake(schedule)
    assert_a_lane_runs_one_job_at_a_time(schedule)


def assert_every_job_ran_once(schedule):
    wanted = {
        (i, index)
        for i, request in enumerate(schedule.requests)
        for index in range(len(schedule.chains[request.network]))
    }
    assert Counter((one.job.request, one.job.index) for one in schedule.executed) == Counter(wanted)
    assert None not in schedule.completion_ms


def assert_jobs_of_a_network_never_overlap_nor_overtake(schedule):
    served = sorted(range(len(schedule.requests)), key=lambda i: schedule.requests[i].arrival_ms)
    turn = {request: place for place, request in enumerate(served)}
    for network in range(len(schedule.chains)):
        own = [one for one in schedule.executed if one.job.network == network]
        own.sort(key=lambda one: (turn[one.job.request], one.job.index))
        for before, after in pairwise(own):
            assert before.end_ms <= after.start_ms
        for one in own:
            assert one.start_ms >= schedule.requests[one.job.request].arrival_ms


def assert_a_lane_runs_one_job_at_a_time(schedule):
    for lane in range(len(schedule.lanes)):
        own = sorted(schedule.of_lane(lane), key=lambda one: (one.start_ms, one.end_ms))
        for before, after in pairwise(own):
            assert before.end_ms <= after.start_ms


@given(simulations())
def test_a_simulation_is_lawful(schedule):
    assert_lawful(schedule)


@given(simulations())
def test_no_simulation_beats_the_bound(schedule):
    bound_ms = lower_bound_ms(schedule.chains, schedule.requests)

    assert makespan_ms(schedule) >= bound_ms * ROUNDING


@given(workloads(), policies(1))
def test_one_lane_is_never_idle_while_there_is_work(workload, policy):
    nets, requests, _ = workload
    first_lane = [
        Chain(net.name, net.kinds, tuple(t[:1] for t in net.predicted_ms)) for net in nets
    ]
    at_once = [Request(request.network) for request in requests]

    schedule = simulate(first_lane, at_once, [Lane("cpu")], policy)

    work_ms = total_work_ms(first_lane, at_once)
    assert makespan_ms(schedule) == pytest.approx(work_ms)


@given(workloads(), st.floats(0.1, 10))
def test_the_bound_scales_with_the_times(workload, factor):
    nets, requests, _ = workload
    scaled = [
        Chain(n.name, n.kinds, tuple(tuple(factor * t for t in row) for row in n.predicted_ms))
        for n in nets
    ]

    assert total_work_ms(scaled, requests) == pytest.approx(
        factor * total_work_ms(nets, requests), abs=1e-12
    )


def test_the_work_bound_is_the_divisible_optimum():
    uneven = Chain("net", (SegmentKind.CONV,) * 2, ((1.0, 3.0), (4.0, 2.0)))
    cpu_only = Chain("net", (SegmentKind.SOFTMAX,), ((5.0, math.inf),))

    # Job 0 on lane 0, 3/4 of job 1 and a quarter: 1 + 4/6 = 2 * 5/6.
    assert total_work_ms([uneven], [Request(0)]) == pytest.approx(10 / 6, rel=0.01)
    assert total_work_ms([cpu_only], [Request(0)] * 2) == pytest.approx(10, rel=0.01)
    assert critical_path_ms([uneven], [Request(0)]) == 3
    assert critical_path_ms([uneven], [Request(0, 1.0), Request(0, 3.0)]) == 6
    assert lower_bound_ms([uneven], []) == 0


@pytest.fixture(scope="module")
def cpu_lanes():
    with CpuLane(name="fast") as fast, CpuLane(name="slow", slowdown=1.5) as slow:
        yield fast, slow


@pytest.fixture(scope="module")
def mixed_lanes():
    with CpuLane(name="core") as core, CpuLane(name="stream", asynchronous=True) as stream:
        yield core, stream


@pytest.fixture(scope="module")
def programs():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        modules = [
            nn.Sequential(*[nn.Linear(8, 8) for _ in range(length)]).eval() for length in (1, 3, 5)
        ]
    x = torch.ones(1, 8)
    return [(decompose(module, x), x, module(x)) for module in modules]


@given(st.data())
@settings(max_examples=25)
def test_real_lanes_are_lawful_and_compute_what_the_modules_do(cpu_lanes, programs, data):
    assert_real_lanes_are_lawful(data, cpu_lanes, programs)


@given(st.data())
@settings(max_examples=25)
def test_a_core_and_a_lane_that_launches_are_lawful_too(mixed_lanes, programs, data):
    assert_real_lanes_are_lawful(data, mixed_lanes, programs)


def assert_real_lanes_are_lawful(data, lanes, programs):
    networks = []
    for program, x, _ in programs:
        times = data.draw(
            st.tuples(*[st.tuples(TIMES_MS, TIMES_MS)] * len(program)), label="predicted"
        )
        kinds = tuple(segment.kind for segment in program.segments)
        networks.append(ServedNetwork(program, x, Chain("net", kinds, times)))
    request = st.builds(Request, st.integers(0, 2), TIMES_MS)
    requests = data.draw(st.lists(request, max_size=8), label="requests")
    policy = data.draw(policies(2), label="policy")

    schedule, results = execute(networks, requests, lanes, policy)

    assert_lawful(schedule)
    for served, result in zip(requests, results, strict=True):
        assert torch.equal(result, programs[served.network][2])
    assert makespan_ms(schedule) >= observed_bound_ms(schedule) * ROUNDING


def observed_bound_ms(schedule):
    """No lane can have done its work, and no network its jobs, in less than their time."""
    took_ms = Counter()
    for one in schedule.executed:
        took_ms["lane", one.lane] += one.end_ms - one.start_ms
        took_ms["network", one.job.network] += one.end_ms - one.start_ms
    return max(took_ms.values(), default=0.0)
