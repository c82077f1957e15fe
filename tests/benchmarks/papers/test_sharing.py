"""How a device was shared, of a plan in which each job is timed."""

from collections import Counter
from itertools import pairwise

import pytest
import torch
from torch import nn

from benchmarks.papers.coschedule.plans import Plans
from benchmarks.papers.dispatch.prepared import Source
from benchmarks.papers.lanes import Groups, Lanes
from benchmarks.papers.sharing import sharing
from runtime.lanes.cpu import CpuLane
from runtime.network.decompose import Rule
from runtime.network.segment_kind import SegmentKind
from runtime.scheduling.chain import Chain, Job, Lane, Request
from runtime.scheduling.policies.rules import EarliestFinish
from runtime.scheduling.schedule import Executed, Schedule


def source(seed, layers):
    torch.manual_seed(seed)
    module = nn.Sequential(*(nn.Linear(64, 64) for _ in range(layers))).eval()
    return Source(f"net{seed}", module, torch.randn(1, 64), Rule.LAYER)


def test_a_planned_run_is_told_network_by_network():
    sources = [source(0, 2), source(1, 3), source(0, 2)]
    with CpuLane(name="as on a GPU", asynchronous=True) as stream, CpuLane(name="core") as core:
        plans = Plans(sources, 4, Lanes((stream, core), Groups((0,), (1,))))
        schedule = plans.timed(plans.plan(EarliestFinish()))
        plans.close()

    assert [chain.name for chain in schedule.chains] == ["net0", "net1", "net0"]
    assert len(schedule.requests) == 12
    assert None not in schedule.completion_ms
    ran = Counter(execution.job for execution in schedule.executed)
    assert max(ran.values()) == 1
    assert len(ran) == 4 * (2 + 3 + 2)
    for request in range(12):
        own = [execution for execution in schedule.executed if execution.job.request == request]
        assert [one.job.index for one in own] == [*range(len(sources[request % 3].program))]
        assert all(a.end_ms <= b.start_ms for a, b in pairwise(own))
    assert len(plans.alone_ms) == 3
    assert 0 < sharing(schedule, plans.alone_ms)["fairness"] <= 1


def test_two_networks_in_turn_are_half_as_fast_and_it_is_fair():
    chains = tuple(Chain(name, (SegmentKind.NETWORK,), ((1.0,),)) for name in "ab")
    ran = tuple(Executed(Job(k, k, 0), 0, 0.0, 4.0) for k in range(2))
    schedule = Schedule(chains, (Lane("gpu"),), (Request(0), Request(1)), ran)

    assert sharing(schedule, [2.0, 2.0]) == {"stp": 1, "antt": 2, "fairness": 1, "ends_ms": 0}
    assert sharing(schedule, []) == {}
    cut_off = Schedule(chains, (Lane("gpu"),), (Request(0), Request(1)), ran[:1])
    assert sharing(cut_off, [2.0, 2.0]) == {}
    with pytest.raises(ValueError, match="alone_ms"):
        sharing(schedule, [2.0])
