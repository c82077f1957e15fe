"""The input of a policy after a job was returned, a lane was lost or requests arrived."""

import math

from runtime.network.segment_kind import Kind
from runtime.scheduling.arrivals import closed
from runtime.scheduling.chain import Chain, Lane, Request
from runtime.scheduling.dispatcher import Dispatcher
from runtime.scheduling.policies.base import PendingJobs
from runtime.scheduling.policies.rules import ByKind, EarliestFinish


class Remembering:
    def __init__(self):
        self.contexts = []

    def place(self, context):
        self.contexts.append(context)
        return EarliestFinish().place(context)


def test_a_returned_job_is_placed_again_as_if_it_had_never_been_put():
    policy = Remembering()
    chain = Chain("net", (Kind.CONV,) * 2, ((1.0, 2.0), (1.0, 2.0)))
    dispatcher = Dispatcher([chain], closed(1), [Lane("left"), Lane("right")], policy)
    first = dispatcher.arrived(0, 0.0)
    dispatcher.taken(first, 0.0)
    second = dispatcher.ended(first, 1.0)

    dispatcher.lost(0)
    again = dispatcher.returned(second, 3.0)

    assert (second.lane, again.lane) == (0, 1)
    assert again.job == second.job
    assert policy.contexts[1].previous_lane == policy.contexts[2].previous_lane == 0
    assert policy.contexts[2].predicted_ms == (math.inf, 2)
    assert policy.contexts[2].backlog_ms == (0, 0)


def test_a_job_whose_only_lane_is_lost_fails_there_under_any_policy():
    chain = Chain("net", (Kind.CONV,), ((math.inf, 2.0),))
    lanes = [Lane("left"), Lane("right")]
    for policy in (EarliestFinish(), ByKind({}, otherwise=0)):
        dispatcher = Dispatcher([chain], closed(1), lanes, policy)
        dispatcher.lost(1)
        assert dispatcher.arrived(0, 0.0).lane == 1


def test_pending_jobs_have_arrived_and_are_on_no_lane():
    pending = []

    class Looking:
        def place(self, context):
            pending.append(context.pending())
            return EarliestFinish().place(context)

    first, second, third = ((1.0, 9.0), (2.0, 9.0), (9.0, 3.0))
    chains = [Chain(name, (Kind.CONV,) * 3, (first, second, third)) for name in "AB"]
    requests = [Request(0), Request(1), Request(1), Request(0, 5.0)]
    lanes = [Lane("left"), Lane("right")]
    dispatcher = Dispatcher(chains, requests, lanes, Looking())
    whole = ((True, first), (False, second), (False, third))

    ticket = dispatcher.arrived(0, 0.0)
    dispatcher.taken(ticket, 0.0)
    dispatcher.arrived(1, 0.0)
    dispatcher.arrived(2, 0.0)
    dispatcher.ended(ticket, 1.5)

    # Requests 1 and 2 have arrived but are not reported yet; request 3 has not arrived.
    assert pending[0] == (PendingJobs(whole, None, 0.0), PendingJobs(whole * 2, None, 0.0))
    assert pending[1][0] == PendingJobs(whole * 2, None, 0.0)
    assert pending[1][1] == PendingJobs(whole[1:], 0, 1.0)
    # B's first job waited for A's and ends a millisecond after now, being first on the lane.
    assert pending[2] == (PendingJobs(whole[1:], 0, 0.0), PendingJobs(whole[1:] + whole, 0, 1.0))
