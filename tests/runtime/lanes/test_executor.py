"""Lanes and the executor when jobs raise, hang or are removed."""

import gc
import math
import os
import threading
import time
import weakref
from concurrent.futures import CancelledError
from queue import SimpleQueue

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from runtime.lanes.base import Began, Ended, RealLane
from runtime.lanes.cpu import CpuLane
from runtime.lanes.executor import Control, LaneTimeoutError, Network, execute
from runtime.lanes.profile import measured_chain
from runtime.network.decompose import Rule, decompose
from runtime.network.program import NETWORK_INPUT, Program, Segment
from runtime.network.segment_kind import Kind
from runtime.scheduling.arrivals import closed, periodic
from runtime.scheduling.chain import Chain, Job, Request
from runtime.scheduling.dispatcher import Ticket
from runtime.scheduling.metrics import deadline_misses
from runtime.scheduling.order import Order
from runtime.scheduling.policies.base import Placement
from runtime.scheduling.policies.look_ahead import LookAhead
from runtime.scheduling.policies.rules import ByNetwork, EarliestFinish, OneLane, QueueTime

ONE = torch.ones(1)
HANG_S = 0.2


class Calls(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def network(*functions, lanes=1, predicted_ms=1.0):
    segments = tuple(
        Segment(str(i), Kind.OTHER, Calls(function), (i - 1,), (1,), 4, 0, 0)
        for i, function in enumerate(functions)
    )
    assert segments[0].inputs == (NETWORK_INPUT,)
    times_ms = ((predicted_ms,) * lanes,) * len(segments)
    chain = Chain("net", (Kind.OTHER,) * len(segments), times_ms)
    return Network(Program(segments, len(segments) - 1), ONE, chain)


def double(x):
    return 2 * x


def fail(_):
    raise ValueError("the segment is broken")


def leave(_):
    raise SystemExit


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
            Network(program, x, Chain(name, tuple(s.kind for s in program.segments), times_ms))
        )

    schedule, results = execute(served, closed(3), two_lanes, policy)

    assert {one.lane for one in schedule.executed} == {0, 1}
    with torch.inference_mode():
        for one, result in zip(served, results, strict=True):
            assert torch.equal(result, one.program.run(one.x))


def test_an_error_ends_its_request_and_nothing_else(lane):
    broken, sound = network(double, fail, double), network(double, double)

    schedule, results = execute([broken, sound], closed(2, 2), [lane], OneLane())

    assert [type(result) for result in results] == [ValueError, torch.Tensor] * 2
    assert results[1].item() == 4
    ran = [(one.job.request, one.job.index) for one in schedule.executed]
    assert sorted(ran) == [(0, 0), (1, 0), (1, 1), (2, 0), (3, 0), (3, 1)]
    assert schedule.completion_ms[0] is None


def test_a_lane_outlives_even_a_segment_that_exits(lane):
    _, results = execute([network(leave), network(double)], closed(2), [lane], OneLane())

    assert isinstance(results[0], SystemExit)
    assert results[1].item() == 2


def test_requests_of_a_hung_network_fail_and_the_others_move_to_another_lane(two_lanes, hang):
    stuck = network(hang, lanes=2)
    sound = network(double, double, lanes=2)
    # Even networks to the left, where network 0 hangs and 2 and 4 queue behind it.
    policy = ByNetwork()

    schedule, results = execute(
        [stuck, sound, sound, sound, sound], closed(5), two_lanes, policy, job_timeout_s=HANG_S
    )

    assert isinstance(results[0], LaneTimeoutError)
    assert "ran for more than 0.2 s on lane left" in str(results[0])
    assert [result.item() for result in results[1:]] == [4] * 4
    assert {one.lane for one in schedule.executed} == {1}


def test_without_a_lane_left_every_request_ends_with_the_reason(lane, hang):
    requests = [Request(0), Request(1), Request(1, 1e3 * HANG_S + 50)]

    schedule, results = execute(
        [network(hang), network(double)], requests, [lane], OneLane(), job_timeout_s=HANG_S
    )

    assert schedule.executed == ()
    assert all(isinstance(result, LaneTimeoutError) for result in results)
    assert "lane cpu was closed" in str(results[1])
    assert "lane cpu was closed" in str(results[2])


def test_a_job_that_ends_after_it_was_given_up_changes_nothing(two_lanes):
    release = threading.Event()

    def late(x):
        release.wait()
        return x

    def release_and_double(x):
        release.set()
        time.sleep(0.05)
        return 2 * x

    requests = [Request(0), Request(1, 1e3 * HANG_S + 100)]
    served = [network(late, double, lanes=2), network(release_and_double, double, lanes=2)]

    schedule, results = execute(served, requests, two_lanes, ByNetwork(), job_timeout_s=HANG_S)

    assert isinstance(results[0], LaneTimeoutError)
    assert results[1].item() == 4
    assert {one.job.request for one in schedule.executed} == {1}


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

    assert lane.withdraw() == ()
    _, (result,) = execute([network(double)], closed(1), [lane], OneLane())
    assert result.item() == 2
    assert len(ran) <= 1


def test_arrivals_are_waited_for(lane):
    requests = periodic(0, 20.0, 3, deadline_ms=1e6)

    schedule, _ = execute([network(double)], requests, [lane], OneLane())

    for one, request in zip(schedule.executed, requests, strict=True):
        assert one.start_ms >= request.arrival_ms
    assert deadline_misses(schedule) == 0


def test_no_request_is_an_empty_schedule(lane):
    schedule, results = execute([network(double)], [], [lane], OneLane())

    assert schedule.executed == results == ()


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
    with pytest.raises(ValueError, match=r"net has 1 jobs .*2 segments"):
        Network(network(double, double).program, ONE, network(double).chain)


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


def test_a_lane_that_would_be_faster_than_its_core_is_refused():
    with pytest.raises(ValueError, match=r"slowdown=0\.5"):
        CpuLane(slowdown=0.5)


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
    with pytest.raises(RuntimeError, match="lane cpu is closed"):
        put(lane, lambda: None)


def test_closing_a_lane_that_hangs_says_so(hang):
    lane = CpuLane()
    put(lane, lambda: hang(None)).get()

    assert not lane.close(wait_s=0.01)


def test_measured_times_are_of_each_lane(two_lanes):
    program = network(double, lambda x: (time.sleep(0.002), x)[1]).program

    chain = measured_chain("net", program, ONE, two_lanes, repeats=3)

    assert chain.kinds == (Kind.OTHER, Kind.OTHER)
    assert all(times_ms >= 2 for times_ms in chain.predicted_ms[1])
    assert all(times_ms > 0 for times_ms in chain.predicted_ms[0])


def test_measuring_a_broken_program_raises_its_error(lane):
    with pytest.raises(ValueError, match="the segment is broken"):
        measured_chain("net", network(fail).program, ONE, [lane], repeats=1)


def test_measured_networks_are_shared_out_by_the_earliest_finish(two_lanes):
    def work(x):
        time.sleep(0.005)
        return x

    program = network(work, work).program
    chain = measured_chain("net", program, ONE, two_lanes, repeats=2)

    schedule, _ = execute(
        [Network(program, ONE, chain)] * 4, closed(4), two_lanes, EarliestFinish()
    )

    assert {one.lane for one in schedule.executed} == {0, 1}


@pytest.mark.parametrize(
    ("order", "served"),
    [(Order.FIRST_COME, "blm"), (Order.PRIORITY, "bml"), (Order.DEADLINE, "bml")],
)
def test_a_core_takes_the_most_urgent_of_the_jobs_that_wait(lane, order, served):
    ran = []

    def remember(name, wait_s=0.0):
        return network(lambda x: (time.sleep(wait_s), ran.append(name))[0] or x)

    networks = [remember("b", 0.1), remember("l"), remember("m")]
    requests = [Request(0), Request(1, 10, 1e6, priority=1), Request(2, 20, 1e5)]

    execute(networks, requests, [lane], OneLane(), order=order)

    assert "".join(ran) == served


def test_the_watchdog_sees_a_job_that_overtook(lane, hang):
    slow = network(lambda x: (time.sleep(0.1), x)[1])
    requests = [Request(0), Request(1, 10, priority=1), Request(2, 20)]

    _, results = execute(
        [slow, network(double), network(hang)],
        requests,
        [lane],
        OneLane(),
        job_timeout_s=2 * HANG_S,
        order=Order.PRIORITY,
    )

    assert "ran for more than 0.4 s on lane cpu" in str(results[2])
    assert "lane cpu was closed" in str(results[1])
    assert results[0].item() == 1


@pytest.fixture(params=[False, True], ids=["core", "stream"])
def either_lane(request):
    with CpuLane(name="either", asynchronous=request.param) as lane:
        yield lane


def test_a_network_removed_while_it_runs_is_served_no_further(either_lane):
    control = Control()
    began = []

    def remove(x):
        control.remove(0)
        time.sleep(0.05)
        return x

    def remember(x):
        began.append(1)
        return x

    unwanted = network(remove, *[lambda x: (time.sleep(0.01), x)[1]] * 8, remember)
    networks = [unwanted, network(double, double)]

    schedule, results = execute(
        networks, [*closed(2, 3), Request(0, 60.0)], [either_lane], OneLane(), control=control
    )

    assert [type(result) for result in results] == [CancelledError, torch.Tensor] * 3 + [
        CancelledError
    ]
    assert "network 0 was removed" in str(results[0])
    assert {result.item() for result in results[1::2]} == {4}
    assert {one.job.request for one in schedule.executed if one.job.network == 0} <= {0}
    assert either_lane.lane.asynchronous or not began  # a launched job runs to completion


def test_a_network_removed_when_it_has_been_served_keeps_its_results(lane):
    control = Control()
    last = network(lambda x: (control.remove(0), x)[1])

    _, results = execute(
        [network(double), last], [Request(0), Request(1, 50.0)], [lane], OneLane(), control=control
    )

    assert [result.item() for result in results] == [2, 1]


def test_a_network_removed_before_it_is_asked_for_is_never_begun(lane):
    control = Control()
    control.remove(0)

    schedule, results = execute(
        [network(double)], [Request(0, 10.0)], [lane], OneLane(), control=control
    )

    assert isinstance(results[0], CancelledError)
    assert schedule.executed == ()


@pytest.fixture
def stream():
    with CpuLane(name="stream", asynchronous=True) as stream:
        yield stream


def test_a_lane_that_launches_is_given_up_with_what_it_was_given(stream, lane, hang):
    stuck, sound = network(hang, double, lanes=2), network(double, double, lanes=2)
    requests = [Request(0), Request(1), Request(2), Request(1), Request(2)]

    schedule, results = execute(
        [stuck, sound, sound],  # the third network is on the stream too, behind the first
        requests,
        [stream, lane],
        ByNetwork(),
        job_timeout_s=HANG_S,
    )

    assert "ran for more than 0.2 s on lane stream" in str(results[0])
    assert isinstance(results[2], LaneTimeoutError)
    assert "lane stream was closed" in str(results[2])
    assert [results[i].item() for i in (1, 3, 4)] == [4, 4, 4]
    assert {one.lane for one in schedule.executed} == {1}


def test_a_returned_job_waits_for_the_one_before_it_on_any_lane(two_lanes, stream, hang):
    # Network 1's second job waits behind network 0's, which hangs, and its first ran elsewhere.
    lanes = {(0, 0): 0, (1, 0): 1, (1, 1): 0}

    class There:
        def place(self, context):
            wanted = lanes[context.job.network, context.job.index]
            lost = math.isinf(context.predicted_ms[wanted])
            return Placement(2 if lost else wanted, 1.0)

    _, results = execute(
        [network(hang, lanes=3), network(double, double, lanes=3)],
        closed(2),
        [*two_lanes, stream],
        There(),
        job_timeout_s=HANG_S,
    )

    assert isinstance(results[0], LaneTimeoutError)
    assert results[1].item() == 4


LANES = st.lists(st.booleans(), min_size=1, max_size=3)
"""By lane whether it is asynchronous."""
POLICIES = [QueueTime(), EarliestFinish(), LookAhead(), ByNetwork()]


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
            assert str(result) == "the segment is broken"  # not what the jobs behind it raised
    ran = [one.job for one in schedule.executed]
    assert len(set(ran)) == len(ran)
    assert all(lane.withdraw() == () for lane in lanes)
    assert all(lane.close() for lane in lanes)


@given(LANES, st.sampled_from(POLICIES), st.data())
@settings(max_examples=25)
def test_removing_networks_leaves_all_others_served(asynchronous, policy, data):
    lanes = [CpuLane(name=f"lane{i}", asynchronous=one) for i, one in enumerate(asynchronous)]
    count = data.draw(st.integers(1, 4))
    removals = data.draw(st.lists(st.tuples(st.integers(0, 20), st.integers(0, count - 1))))
    control = Control()
    ran = []

    def work(x):
        ran.append(1)
        for after, which in removals:
            if after == len(ran):
                control.remove(which)
        return 2 * x

    networks = [network(*[work] * 3, lanes=len(lanes)) for _ in range(count)]

    _, results = execute(networks, closed(count, 3), lanes, policy, control=control)

    removed = {which for _, which in removals}
    for i, result in enumerate(results):
        if i % count in removed and isinstance(result, CancelledError):
            continue
        assert result.item() == 8
    assert all(lane.close() for lane in lanes)


@given(LANES, st.sampled_from(POLICIES), st.data())
@settings(max_examples=8, deadline=None)
def test_every_request_ends_even_if_jobs_hang(asynchronous, policy, data):
    over = threading.Event()
    lanes = [CpuLane(name=f"lane{i}", asynchronous=one) for i, one in enumerate(asynchronous)]
    hangs = data.draw(st.lists(st.booleans(), min_size=1, max_size=4))

    def wait(x):
        over.wait()
        return x

    networks = [network(double, wait if one else double, lanes=len(lanes)) for one in hangs]
    try:
        schedule, results = execute(
            networks, closed(len(hangs), 2), lanes, policy, job_timeout_s=HANG_S
        )
    finally:
        over.set()
        ended = [lane.close() for lane in lanes]

    assert all(ended)
    for i, result in enumerate(results):
        if hangs[i % len(hangs)] or (any(hangs) and not isinstance(result, torch.Tensor)):
            assert isinstance(result, LaneTimeoutError)  # hung, or lost with the lane
        else:
            assert result.item() == 4
    for i, end_ms in enumerate(schedule.completion_ms):
        assert (end_ms is not None) == isinstance(results[i], torch.Tensor)
