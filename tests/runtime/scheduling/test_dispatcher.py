"""What a policy is told when something goes wrong."""

import math

from runtime.network.segment_kind import Kind
from runtime.scheduling.arrivals import closed
from runtime.scheduling.chain import Chain, Lane, Request
from runtime.scheduling.dispatcher import Dispatcher
from runtime.scheduling.policies.base import Outlook
from runtime.scheduling.policies.rules import ByKind, EarliestFinish


class Remembering:
    def __init__(self):
        self.told = []

    def place(self, situation):
        self.told.append(situation)
        return EarliestFinish().place(situation)


def test_a_job_given_back_is_placed_anew_as_if_it_had_never_been_put():
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
    assert policy.told[1].previous_lane == policy.told[2].previous_lane == 0
    assert policy.told[2].predicted_ms == (math.inf, 2)
    assert policy.told[2].backlog_ms == (0, 0)


def test_a_job_whose_only_lane_is_lost_goes_there_to_fail_whatever_the_policy():
    chain = Chain("net", (Kind.CONV,), ((math.inf, 2.0),))
    lanes = [Lane("left"), Lane("right")]
    for policy in (EarliestFinish(), ByKind({}, otherwise=0)):
        dispatcher = Dispatcher([chain], closed(1), lanes, policy)
        dispatcher.lost(1)
        assert dispatcher.arrived(0, 0.0).lane == 1


def test_the_outlook_is_what_has_come_and_is_on_no_lane():
    outlooks = []

    class Looking:
        def place(self, situation):
            outlooks.append(situation.outlook())
            return EarliestFinish().place(situation)

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

    # Requests 1 and 2 have come, though nobody has said so; request 3 has not.
    assert outlooks[0] == (Outlook(whole, None, 0.0), Outlook(whole * 2, None, 0.0))
    assert outlooks[1][0] == Outlook(whole * 2, None, 0.0)
    assert outlooks[1][1] == Outlook(whole[1:], 0, 1.0)
    # B's first job waited for A's and ends a millisecond after now, being first on the lane.
    assert outlooks[2] == (Outlook(whole[1:], 0, 0.0), Outlook(whole[1:] + whole, 0, 1.0))
