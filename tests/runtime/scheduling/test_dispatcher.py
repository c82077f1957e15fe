"""The input of a policy after requests arrived."""

from runtime.network.segment_kind import SegmentKind
from runtime.scheduling.chain import Chain, Lane, Request
from runtime.scheduling.dispatcher import Dispatcher
from runtime.scheduling.policies.base import PendingJobs
from runtime.scheduling.policies.rules import EarliestFinish


def test_pending_jobs_have_arrived_and_are_on_no_lane():
    pending = []

    class Looking:
        def place(self, context):
            pending.append(context.pending())
            return EarliestFinish().place(context)

    first, second, third = ((1.0, 9.0), (2.0, 9.0), (9.0, 3.0))
    chains = [Chain(name, (SegmentKind.CONV,) * 3, (first, second, third)) for name in "AB"]
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
