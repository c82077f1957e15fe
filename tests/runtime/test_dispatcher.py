"""What a policy is told when something goes wrong."""

import math

from runtime.arrivals import closed
from runtime.chain import Chain, Lane
from runtime.dispatcher import Dispatcher
from runtime.kinds import Kind
from runtime.policies import EarliestFinish


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
