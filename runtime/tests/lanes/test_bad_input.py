"""Invalid values are refused where they enter, naming the value."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from benchmarks.simulator.simulator import simulate
from edgenas_runtime.lanes.cpu import CpuLane
from edgenas_runtime.network.decompose import decompose
from edgenas_runtime.network.segment_kind import SegmentKind
from edgenas_runtime.scheduling.arrivals import closed, periodic
from edgenas_runtime.scheduling.chain import Chain, Lane, Request
from edgenas_runtime.scheduling.policies.rules import OneLane, QueueTime

CHAINS = [Chain("net", (SegmentKind.CONV,), ((1.0, 2.0),))]
LANES = (Lane("a"), Lane("b"))
RANDOM = np.random.default_rng(0)


def simulated(request=None, policy=None):
    return simulate(CHAINS, [request or Request(0)], LANES, policy or OneLane())


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: closed(-1), "networks=-1"),
        (lambda: closed(2, 1.5), "inferences=1.5"),
        (lambda: periodic(0, 0, 3), "period_ms=0"),
        (lambda: periodic(0, math.nan, 3), "period_ms=nan"),
        (lambda: periodic(-1, 5, 3), "network=-1"),
        (lambda: periodic(0, 5, -3), "count=-3"),
        (lambda: simulated(Request(0, 0, math.nan)), "deadline_ms=nan"),
        (lambda: simulated(Request(0, 0, -1)), "deadline_ms=-1"),
        (
            lambda: simulated(policy=OneLane(7)),
            r"OneLane\(lane=7\).* job 0 of net .*lane 7.* 2 lanes",
        ),
        (lambda: simulated(policy=OneLane(-1)), "lane -1.* 2 lanes"),
        (lambda: QueueTime(math.nan), "sync_ms=nan"),
        (lambda: CpuLane(slowdown=0.5), "slowdown=0.5"),
        (lambda: CpuLane(slowdown=math.nan), "slowdown=nan.* 1"),
        (lambda: decompose(nn.ReLU().eval(), torch.ones(1), "fine"), "rule='fine'.*layer"),
    ],
)
def test_an_invalid_value_is_refused_by_name(call, named):
    with pytest.raises(ValueError, match=named):
        call()
