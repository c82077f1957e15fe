"""Concurrent networks: small cases computed by hand, and comparison with the recurrence."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.papers.streaming.experiment import model_error
from benchmarks.papers.streaming.interference import (
    StreamedInference,
    simulate_concurrent,
)
from benchmarks.papers.streaming.sharing import Tenant, beside_others, share
from runtime.weight_streaming.planning.plan import (
    StreamArchitecture,
    StreamedLayer,
    StreamPlan,
    StreamStages,
)
from runtime.weight_streaming.planning.planner import front, smallest_budget
from runtime.weight_streaming.planning.recurrence import timeline

TIMES_MS = st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0, 7.0])
LAYERS = st.builds(StreamedLayer, st.just("layer"), st.integers(0, 9), TIMES_MS, TIMES_MS, TIMES_MS)
NETWORKS = st.lists(LAYERS, min_size=1, max_size=6)


def of(*layers):
    return [StreamedLayer(f"layer{i}", *layer) for i, layer in enumerate(layers)]


def ring(layers, host, device=0):
    return StreamPlan(
        StreamArchitecture.PLANNED, (False,) * len(layers), host, device, 0.0, host + device
    )


@st.composite
def streamings(draw):
    layers = draw(NETWORKS)
    stages = draw(st.sampled_from(StreamStages))
    plan = draw(st.sampled_from(front(layers, stages=stages, alignment=1, ahead=False)))
    return StreamedInference(layers, plan)


@given(streamings())
def test_one_network_alone_follows_the_recurrence(one):
    (run,) = simulate_concurrent([one], alignment=1)
    expected = timeline(one.layers, one.plan, 1)

    assert run.makespan_ms == pytest.approx(expected.makespan_ms)
    for ours, theirs in ((run.read, expected.read), (run.copy, expected.copy)):
        assert [span is None for span in ours] == [span is None for span in theirs]
    assert [end for _, end in run.kernel] == pytest.approx([end for _, end in expected.kernel])


def test_two_networks_share_the_disk_and_the_processor():
    layers = of((1, 2.0, 0.0, 3.0))
    both = [StreamedInference(layers, ring(layers, 1))] * 2

    assert [run.makespan_ms for run in simulate_concurrent(both, alignment=1)] == [10.0, 10.0]
    assert [run.makespan_ms for run in simulate_concurrent(both, processors=2, alignment=1)] == [
        7.0,
        7.0,
    ]


@settings(max_examples=25)
@given(st.lists(streamings(), min_size=1, max_size=3), st.integers(1, 3))
def test_no_network_is_slower_than_its_worst_case_prediction(networks, processors):
    runs = simulate_concurrent(networks, processors=processors, alignment=1)
    for network, run in zip(networks, runs, strict=True):
        slowed = beside_others(network.layers, len(networks), processors)
        assert run.makespan_ms <= timeline(slowed, network.plan, 1).makespan_ms * (1 + 1e-9)


@settings(max_examples=25)
@given(
    st.lists(st.tuples(NETWORKS, st.sampled_from([1.0, 10.0, 40.0])), min_size=1, max_size=3),
    st.integers(0, 60),
    st.sampled_from([StreamStages.READ_KERNEL, StreamStages.READ_COPY_KERNEL]),
)
def test_shares_fit_the_budget_and_minimise_the_largest_strain(cases, more, stages):
    tenants = [Tenant(f"net{i}", layers, limit) for i, (layers, limit) in enumerate(cases)]
    slowed = [beside_others(tenant.layers, len(tenants)) for tenant in tenants]
    budget = more + sum(smallest_budget(one, stages=stages, alignment=1) for one in slowed)

    shares = share(tenants, budget, stages=stages, alignment=1)

    assert sum(share.plan.memory_bytes for share in shares) <= budget
    worst = max(share.strain for share in shares)
    needed = 0  # memory for a smaller strain
    for tenant, layers in zip(tenants, slowed, strict=True):
        better = [
            plan.memory_bytes
            for plan in front(layers, stages=stages, alignment=1, ahead=False)
            if plan.predicted_ms / tenant.deadline_ms < worst * (1 - 1e-9)
        ]
        needed += better[0] if better else budget + 1
    assert needed > budget


@settings(max_examples=25)
@given(st.lists(NETWORKS, min_size=1, max_size=3), st.integers(0, 60), st.integers(1, 2))
def test_a_deadline_met_by_a_share_is_met_when_all_networks_run_at_once(networks, more, processors):
    tenants = [Tenant(f"net{i}", layers, 20.0) for i, layers in enumerate(networks)]
    least = sum(smallest_budget(tenant.layers, alignment=1) for tenant in tenants)
    shares = share(tenants, least + more, processors=processors, alignment=1)

    runs = simulate_concurrent(
        [StreamedInference(share.tenant.layers, share.plan) for share in shares],
        processors=processors,
        alignment=1,
    )
    for one, run in zip(shares, runs, strict=True):
        assert run.makespan_ms <= one.plan.predicted_ms + 1e-9
        assert run.makespan_ms / one.tenant.deadline_ms <= one.strain + 1e-9


def test_the_network_with_the_tighter_deadline_gets_the_memory():
    layers = of(*[(4, 2.0, 0.0, 2.0)] * 6)
    tight, loose = share(
        [Tenant("tight", layers, 30.0), Tenant("loose", layers, 300.0)], 16, alignment=1
    )
    assert tight.plan.memory_bytes > loose.plan.memory_bytes


def test_a_budget_too_small_for_all_names_the_smallest_that_works():
    layers = of((4, 1.0, 1.0, 1.0), (8, 1.0, 1.0, 1.0))
    tenants = [Tenant("a", layers, 9.0), Tenant("b", layers, 9.0)]
    with pytest.raises(ValueError, match=r"\b15 bytes\b.*\ba, b\b.*\b16 bytes\b"):
        share(tenants, 15, alignment=1)


@pytest.mark.parametrize("deadline_ms", [0.0, -1.0, math.inf, math.nan])
def test_a_deadline_must_be_positive_and_finite(deadline_ms):
    with pytest.raises(ValueError, match="deadline"):
        Tenant("a", [], deadline_ms)


def test_a_synchronous_plan_cannot_be_simulated_concurrently():
    layers = of((4, 1.0, 1.0, 1.0))
    plan = StreamPlan(StreamArchitecture.SYNCHRONOUS, (False,), 8, 8, 0.0, 16)
    with pytest.raises(ValueError, match="synchronous"):
        simulate_concurrent([StreamedInference(layers, plan)])


def test_errors_of_a_model():
    found = model_error([99.0, 100.0, 104.0], [100.0, 100.0, 100.0])

    assert found["configurations"] == 3
    assert [found[name] for name in ("median", "worst", "bias")] == pytest.approx([1, 4, 0])
    with pytest.raises(ValueError, match="must be positive"):
        model_error([], [])
    with pytest.raises(ValueError, match="must be positive"):
        model_error([1.0], [0.0])
