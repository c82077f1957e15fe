"""Inferences given to lanes ahead, on the cores of a CPU."""

import threading
import time
from collections import Counter
from itertools import chain, pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from benchmarks.dispatch.prepared import DispatchedNetwork
from benchmarks.dispatch.static_schedule import StaticSchedule, shares
from benchmarks.simulator.simulator import simulate
from edgenas_runtime.lanes.cpu import CpuLane
from edgenas_runtime.lanes.report import makespan_ms
from edgenas_runtime.network.decompose import Rule
from edgenas_runtime.network.engine import OnnxEngine
from edgenas_runtime.network.segment_kind import SegmentKind
from edgenas_runtime.scheduling.arrivals import closed
from edgenas_runtime.scheduling.chain import Chain, Job, Lane
from edgenas_runtime.scheduling.policies.rules import EarliestFinish, QueueTime
from edgenas_runtime.scheduling.schedule import Executed, Schedule


def source(seed, layers=2):
    torch.manual_seed(seed)
    parts = [part for _ in range(layers) for part in (nn.Linear(4, 4), nn.Tanh())]
    return DispatchedNetwork(
        f"net{seed}", nn.Sequential(*parts).eval(), torch.randn(1, 4), Rule.LAYER
    )


SOURCES = [source(0), source(1, layers=3)]


@pytest.fixture(scope="module")
def lanes():
    with (
        CpuLane(name="as on a GPU", asynchronous=True) as stream,
        CpuLane(name="core") as core,
        CpuLane(name="onnx", engine=OnnxEngine()) as other,
    ):
        yield [stream, core, other]


@pytest.fixture(scope="module")
def planned(lanes):
    with StaticSchedule(SOURCES, lanes) as made:
        yield made


PLANS = st.lists(st.lists(st.integers(0, len(SOURCES) - 1), max_size=5), min_size=3, max_size=3)


@given(PLANS, st.integers(0, 2))
@settings(max_examples=15, deadline=None)
def test_every_lane_runs_its_share_once_and_in_order(planned, lanes, given_shares, times):
    planned.give(given_shares)

    found = planned.run(times)

    active = [lane for lane, share in enumerate(given_shares) if share]
    assert [chain.name for chain in found.schedule.chains] == [lanes[i].lane.name for i in active]
    ran = Counter(execution.lane for execution in found.schedule.executed)
    for lane in active:
        assert ran[lane] == times
        own = [*found.schedule.of_lane(lane)]
        assert [(one.job.request, one.job.index) for one in own] == sorted(
            (one.job.request, one.job.index) for one in own
        )
        assert all(a.end_ms <= b.start_ms for a, b in pairwise(own))
    for lane, output in zip(active, found.outputs, strict=True):
        last = SOURCES[given_shares[lane][-1]]
        with torch.inference_mode():
            torch.testing.assert_close(output, last.module(last.x))


@pytest.mark.parametrize("policy", [EarliestFinish(), QueueTime()], ids=str)
def test_what_a_policy_decides_on_a_virtual_clock_runs_on_lanes(planned, lanes, policy):
    chains = [Chain(f"net{i}", (SegmentKind.NETWORK,), ((1.0, 2.0, 4.0),)) for i in range(14)]
    plan = simulate(chains, closed(14), [lane.lane for lane in lanes], policy)
    of_lane = shares(plan)
    assert [len(share) for share in of_lane] == [8, 4, 2]
    assert sorted(chain.from_iterable(of_lane)) == [*range(14)]

    planned.give([[i % 2 for i in share] for share in of_lane])
    schedule = planned.run().schedule

    assert len(schedule.executed) == 3
    assert makespan_ms(schedule) > 0


def test_an_inference_that_changes_lanes_cannot_be_given_ahead():
    cut = Chain("cut", (SegmentKind.CONV, SegmentKind.OTHER), ((1.0, 1.0),) * 2)
    ran = tuple(Executed(Job(0, 0, i), i, float(i), i + 1.0) for i in range(2))
    plan = Schedule((cut,), (Lane("a"), Lane("b")), closed(1), ran)

    with pytest.raises(ValueError, match="cut"):
        shares(plan)


class Breaks(nn.Module):
    broken = False

    def forward(self, x):
        if self.broken:
            raise ValueError("broken")
        return 2 * x


def test_a_network_that_raises_ends_its_lane_and_no_other(lanes, monkeypatch):
    broken = DispatchedNetwork("broken", Breaks().eval(), torch.ones(1, 2), Rule.WHOLE)
    with StaticSchedule([broken, SOURCES[0]], lanes[:2]) as planned:
        planned.give([[1, 1], [0, 1]])
        monkeypatch.setattr(Breaks, "broken", True)

        found = planned.run()

        assert isinstance(found.outputs[0], torch.Tensor)
        assert str(found.outputs[1]) == "broken"
        monkeypatch.setattr(Breaks, "broken", False)
        assert all(isinstance(output, torch.Tensor) for output in planned.run().outputs)


def test_a_core_that_is_done_takes_from_the_one_that_is_late():
    with CpuLane(name="fast") as fast, CpuLane(name="slow") as slow:
        ran = Counter()

        class Counts(nn.Module):
            def forward(self, x):
                ran[threading.current_thread().name] += 1
                if threading.current_thread().name == "slow":
                    time.sleep(0.05)
                return 2 * x

        source = DispatchedNetwork("counts", Counts().eval(), torch.ones(1, 2), Rule.WHOLE)
        with StaticSchedule([source], [fast, slow]) as planned:
            planned.give([[0], [0] * 10])
            ran.clear()
            planned.run(2)

    assert ran["fast"] + ran["slow"] == 22
    assert ran["fast"] > 2
