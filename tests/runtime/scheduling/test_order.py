"""The order of waiting jobs in the simulator; `test_executor.py` tests it on a real lane."""

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.papers.simulator.simulator import simulate
from runtime.network.segment_kind import SegmentKind
from runtime.scheduling.chain import Chain, Lane, Request
from runtime.scheduling.metrics import deadline_misses
from runtime.scheduling.order import ServingOrder, insert
from runtime.scheduling.policies.rules import OneLane

CORE, STREAM = Lane("core"), Lane("stream", asynchronous=True)
NETS = [Chain(name, (SegmentKind.CONV,), ((4.0,),)) for name in "ABC"]
LATE_BUT_URGENT = (
    Request(0, 0.0, deadline_ms=90.0, priority=5),
    Request(1, 1.0, deadline_ms=60.0, priority=5),
    Request(2, 2.0, deadline_ms=8.0, priority=0),
)


def served(order, requests=LATE_BUT_URGENT, lane=CORE, chains=NETS):
    schedule = simulate(chains, requests, [lane], OneLane(), order=order)
    return [one.job.request for one in schedule.executed], schedule


def test_a_core_takes_the_most_urgent_of_the_jobs_that_wait():
    assert served(ServingOrder.FIRST_COME)[0] == [0, 1, 2]
    assert served(ServingOrder.PRIORITY)[0] == [0, 2, 1]  # what runs is not interrupted
    assert served(ServingOrder.DEADLINE)[0] == [0, 2, 1]


def test_the_earliest_deadline_first_meets_what_the_first_come_misses():
    assert deadline_misses(served(ServingOrder.FIRST_COME)[1]) == 1
    assert deadline_misses(served(ServingOrder.DEADLINE)[1]) == 0


def test_a_stream_takes_jobs_as_they_come():
    assert served(ServingOrder.PRIORITY, lane=STREAM)[0] == [0, 1, 2]


def test_requests_of_one_network_wait_in_order_on_any_lane():
    requests = [Request(0, r.arrival_ms, r.deadline_ms, r.priority) for r in LATE_BUT_URGENT]

    for lane in (CORE, STREAM):
        assert served(ServingOrder.FIRST_COME, requests, lane)[0] == [0, 1, 2]
        assert served(ServingOrder.PRIORITY, requests, lane)[0] == [0, 2, 1]
        assert served(ServingOrder.DEADLINE, requests, lane)[0] == [0, 2, 1]


def test_without_a_deadline_a_request_is_last():
    requests = [Request(0), Request(1, 1.0), Request(2, 2.0, deadline_ms=1e6)]

    assert served(ServingOrder.DEADLINE, requests)[0] == [0, 2, 1]


@given(st.lists(st.integers(0, 3)))
def test_a_queue_is_sorted_and_equals_stay_as_they_came(ranks):
    queue = deque()
    for item in enumerate(ranks):
        insert(queue, item, lambda item: item[1])

    assert [*queue] == sorted(enumerate(ranks), key=lambda item: item[1])
