"""Lanes and the executor when jobs raise or hang."""

import gc
import os
import threading
import time
import weakref
from queue import SimpleQueue

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from edgenas_runtime.lanes.base import Began, Ended, RealLane
from edgenas_runtime.lanes.cpu import CpuLane
from edgenas_runtime.lanes.executor import ServedNetwork, execute, measured_chain
from edgenas_runtime.lanes.report import deadline_misses
from edgenas_runtime.network.decompose import Rule, decompose
from edgenas_runtime.network.program import NETWORK_INPUT, Program, Segment
from edgenas_runtime.network.segment_kind import SegmentKind
from edgenas_runtime.scheduling.arrivals import closed, periodic
from edgenas_runtime.scheduling.chain import Chain, Job
from edgenas_runtime.scheduling.dispatcher import Ticket
from edgenas_runtime.scheduling.policies.rules import ByNetwork, EarliestFinish, OneLane, QueueTime

ONE = torch.ones(1)


class Calls(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def network(*functions, lanes=1, predicted_ms=1.0):
    segments = tuple(
        Segment(str(i), SegmentKind.OTHER, Calls(function), (i - 1,), (1,), 4, 0, 0)
        for i, function in enumerate(functions)
    )
    assert segments[0].inputs == (NETWORK_INPUT,)
    times_ms = ((predicted_ms,) * lanes,) * len(segments)
    chain = Chain("net", (SegmentKind.OTHER,) * len(segments), times_ms)
    return ServedNetwork(Program(segments, len(segments) - 1), ONE, chain)


def double(x):
    return 2 * x


def fail(_):
    raise ValueError("the segment is broken")


@pytest.fixture
def hang():
    """Hangs until the test is over."""
    over = threading.Event()

    def wait(x):
        over.wait()
        return x

    yield wait
    over.set()


@pytest.fixture
def lane():
    with CpuLane(name="cpu") as lane:
        yield lane


@pytest.fixture
def two_lanes():
    with CpuLane(name="left") as left, CpuLane(name="right") as right:
        yield left, right


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("rule", [Rule.LAYER, Rule.FUSED, Rule.WHOLE])
@pytest.mark.parametrize("policy", [QueueTime(), ByNetwork()], ids=["queue_time", "by_network"])
def test_real_networks_on_two_lanes_compute_what_their_programs_do(
    networks, two_lanes, rule, policy
):
    served = []
    for name in ("nas_bench_201", "resnet18", "densenet121"):
        module, x = networks[name]
        program = decompose(module, x, rule)
        times_ms = tuple((1e-6 * s.flops, 2e-6 * s.flops) for s in program.segments)
        served.append(
            ServedNetwork(
                program, x, Chain(name, tuple(s.kind for s in program.segments), times_ms)
            )
        )

    schedule, results = execute(served, closed(3), two_lanes, policy)

    assert {one.lane for one in schedule.executed} == {0, 1}
    with torch.inference_mode():
        for one, result in zip(served, results, strict=True):
            assert torch.equal(result, one.program.run(one.x))


def test_ctrl_c_takes_back_what_waits_and_leaves_the_lanes_usable(lane):
    class Interrupted:
        def place(self, context):
            if context.job.request == 3:
                raise KeyboardInterrupt
            return OneLane().place(context)

    ran = []
    remembering = network(lambda x: (time.sleep(0.05), ran.append(1))[0] or x)

    with pytest.raises(KeyboardInterrupt):
        execute([remembering] * 4, closed(4), [lane], Interrupted())

    _, (result,) = execute([network(double)], closed(1), [lane], OneLane())
    assert result.item() == 2
    assert len(ran) <= 1


def test_arrivals_are_waited_for(lane):
    requests = periodic(0, 20.0, 3, deadline_ms=1e6)

    schedule, _ = execute([network(double)], requests, [lane], OneLane())

    for one, request in zip(schedule.executed, requests, strict=True):
        assert one.start_ms >= request.arrival_ms
    assert deadline_misses(schedule) == 0


def test_values_are_dropped_while_later_segments_run(lane):
    early = []
    alive = []

    def remember(x):
        y = 2 * x
        early.append(weakref.ref(y))
        return y

    def look(x):
        gc.collect()
        alive.append(early[0]() is not None)
        return x + 1

    execute([network(remember, look, look)], closed(1), [lane], OneLane())

    assert alive == [True, False]


def test_a_program_and_a_chain_of_other_lengths_are_refused():
    with pytest.raises(ValueError, match=r"\bnet\b.*\b1\b.*\b2\b"):
        ServedNetwork(network(double, double).program, ONE, network(double).chain)


def test_a_chain_for_other_lanes_is_refused(lane):
    with pytest.raises(ValueError, match=r"net .*2 lanes.* 1"):
        execute([network(double, lanes=2)], closed(1), [lane], OneLane())


def put(lane, compute):
    events = SimpleQueue()
    ticket = Ticket(Job(0, 0, 0), 0, None)
    lane.put(ticket, compute, events)
    return events


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="threads cannot be pinned here")
def test_a_lane_pins_its_own_thread_and_no_other():
    mine = os.sched_getaffinity(0)
    core = max(mine)
    found = []
    with CpuLane(core) as lane:
        events = put(lane, lambda: found.append((os.sched_getaffinity(0), torch.get_num_threads())))
        events.get(), events.get()

    assert found == [({core}, 1)]
    assert lane.lane.name == f"cpu{core}"
    assert os.sched_getaffinity(0) == mine


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="threads cannot be pinned here")
def test_a_core_that_the_process_may_not_use_is_refused():
    with pytest.raises(ValueError, match="core 4096"):
        CpuLane(4096)


def test_a_lane_computes_without_gradients(lane):
    learning = nn.Linear(1, 1).eval()

    _, (result,) = execute([network(learning)], closed(1), [lane], OneLane())

    assert not result.requires_grad


def test_a_lane_says_when_a_job_began_and_ended(lane):
    assert isinstance(lane, RealLane)
    events = put(lane, lambda: None)

    began, ended = events.get(), events.get()

    assert isinstance(began, Began)
    assert isinstance(ended, Ended)
    assert began.at_s == ended.began_s <= ended.ended_s
    assert ended.error is None


def test_a_throttled_lane_takes_longer_by_its_factor():
    with CpuLane(slowdown=3) as lane:
        events = put(lane, lambda: time.sleep(0.01))
        events.get()
        ended = events.get()

    assert ended.ended_s - ended.began_s >= 0.03


def test_a_closed_lane_has_ended_and_refuses_jobs():
    lane = CpuLane()

    assert lane.close()
    assert not any(thread is lane._thread for thread in threading.enumerate())
    with pytest.raises(RuntimeError, match="cpu"):
        put(lane, lambda: None)


def test_closing_a_lane_that_hangs_says_so(hang):
    lane = CpuLane()
    put(lane, lambda: hang(None)).get()

    assert not lane.close(wait_s=0.01)


def test_measured_times_are_of_each_lane(two_lanes):
    program = network(double, lambda x: (time.sleep(0.002), x)[1]).program

    chain = measured_chain("net", program, ONE, two_lanes, repeats=3)

    assert chain.kinds == (SegmentKind.OTHER, SegmentKind.OTHER)
    assert all(times_ms >= 2 for times_ms in chain.predicted_ms[1])
    assert all(times_ms > 0 for times_ms in chain.predicted_ms[0])


LANES = st.lists(st.booleans(), min_size=1, max_size=3)
"""By lane whether it is asynchronous."""
POLICIES = [QueueTime(), EarliestFinish(), ByNetwork()]


@given(LANES, st.sampled_from(POLICIES), st.data())
@settings(max_examples=25)
def test_an_error_fails_only_requests_of_its_network(asynchronous, policy, data):
    lanes = [CpuLane(name=f"lane{i}", asynchronous=one) for i, one in enumerate(asynchronous)]
    broken = data.draw(st.lists(st.sampled_from([None, 0, 1, 2]), min_size=1, max_size=4))
    networks = [
        network(*[fail if i == at else double for i in range(3)], lanes=len(lanes)) for at in broken
    ]

    schedule, results = execute(networks, closed(len(broken), 2), lanes, policy)

    for i, result in enumerate(results):
        if broken[i % len(broken)] is None:
            assert result.item() == 8
        else:
            assert "broken" in str(result)  # not what the jobs behind it raised
    ran = [one.job for one in schedule.executed]
    assert len(set(ran)) == len(ran)
    assert all(lane.close() for lane in lanes)
