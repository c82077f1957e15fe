"""What cannot be is refused in one line, where it comes in."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from runtime.lanes.cpu import CpuLane
from runtime.lanes.executor import Control, Network, execute
from runtime.lanes.profile import measured_chain
from runtime.network.decompose import decompose
from runtime.network.segment_kind import Kind
from runtime.scheduling.arrivals import closed, periodic, poisson
from runtime.scheduling.chain import Chain, Lane, Request
from runtime.scheduling.metrics import slowdowns, utilisation
from runtime.scheduling.policies.rules import ByKind, OneLane, QueueTime
from runtime.scheduling.simulator import simulate

CHAINS = [Chain("net", (Kind.CONV,), ((1.0, 2.0),))]
LANES = (Lane("a"), Lane("b"))
RANDOM = np.random.default_rng(0)


def simulated(request=None, policy=None):
    return simulate(CHAINS, [request or Request(0)], LANES, policy or OneLane())


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: closed(-1), "networks=-1 must be a whole number from 0 on"),
        (lambda: closed(2, 1.5), "inferences=1.5 must be a whole number"),
        (lambda: periodic(0, 0, 3), "period_ms=0 must be above 0 and finite"),
        (lambda: periodic(0, math.nan, 3), "period_ms=nan"),
        (lambda: periodic(-1, 5, 3), "network=-1"),
        (lambda: periodic(0, 5, -3), "count=-3"),
        (lambda: periodic(0, 5, 3, offset_ms=-1), "offset_ms=-1 must be a time from 0 on"),
        (lambda: poisson(0, 0, 3, RANDOM), "mean_gap_ms=0 must be above 0"),
        (lambda: poisson(0, 5, -3, RANDOM), "count=-3"),
        (lambda: simulated(Request(0, 0, math.nan)), "is due nan ms after its arrival"),
        (lambda: simulated(Request(0, 0, -1)), "is due -1 ms after its arrival"),
        (lambda: simulated(Request(0, 0, 1, math.nan)), "has the priority nan"),
        (
            lambda: simulated(policy=OneLane(7)),
            r"OneLane\(lane=7\) put job 0 of net to lane 7 of 2",
        ),
        (lambda: simulated(policy=OneLane(-1)), "to lane -1 of 2"),
        (lambda: simulated(policy=ByKind({Kind.CONV: 9}, 0)), "to lane 9 of 2"),
        (lambda: QueueTime(math.nan), "a time to synchronise of nan ms"),
        (lambda: CpuLane(slowdown=math.nan), "a slowdown of nan must be at least 1"),
        (lambda: utilisation(simulated(), 0), "bins of 0 ms"),
        (lambda: slowdowns(simulated(), [1, 2]), r"\[1, 2\] ms alone for 1 networks"),
        (lambda: decompose(nn.ReLU().eval(), torch.ones(1), "fine"), "rule='fine' must be one of"),
        (lambda: slowdowns(simulated(), [0]), r"\[0\] ms alone"),
        (lambda: Control().remove(-1), "network -1 cannot be removed; networks count from 0"),
        (lambda: Control().remove("a"), "network 'a' cannot be removed"),
    ],
)
def test_what_cannot_be_is_refused(call, told):
    with pytest.raises(ValueError, match=told):
        call()


@pytest.fixture
def network():
    module, x = nn.Sequential(nn.ReLU(), nn.Tanh()).eval(), torch.ones(1, 3)
    program = decompose(module, x)
    with CpuLane() as lane:
        yield Network(program, x, measured_chain("net", program, x, [lane], repeats=1)), lane


def test_to_remove_a_network_that_is_none_loses_nothing(network):
    one, lane = network
    control = Control()

    class Removes:
        """Asks in the midst of the execution."""

        told = ""

        def place(self, situation):
            try:
                control.remove(3)
            except ValueError as error:
                self.told = str(error)
            return OneLane().place(situation)

    policy = Removes()
    _, results = execute([one], closed(1, 3), [lane], policy, control=control)

    assert policy.told == "network 3 cannot be removed; there are 1"
    assert all(isinstance(result, torch.Tensor) for result in results)


def test_an_execution_refuses_what_was_removed_before_it_and_is_none(network):
    one, lane = network
    control = Control()
    control.remove(3)

    with pytest.raises(ValueError, match="network 3 cannot be removed; there are 1"):
        execute([one], closed(1), [lane], OneLane(), control=control)
