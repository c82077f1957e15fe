"""Plans are feasible, state their delay and memory correctly, and are near the optimum."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.streaming_plans import exhaustive_front
from edgenas_runtime.weight_streaming.planning.plan import StreamedLayer, StreamStages
from edgenas_runtime.weight_streaming.planning.planner import (
    BudgetTooSmallError,
    front,
    plans,
    preloaded,
    smallest_budget,
)
from edgenas_runtime.weight_streaming.planning.recurrence import timeline
from edgenas_runtime.weight_streaming.planning.ring import RingSizes, places

TIMES_MS = st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0, 7.0])
LAYERS = st.builds(StreamedLayer, st.just("layer"), st.integers(0, 9), TIMES_MS, TIMES_MS, TIMES_MS)
NETWORKS = st.lists(LAYERS, min_size=1, max_size=6)


def chain(seed, count, sizes, load_ms=4.0):
    draw = np.random.default_rng(seed)
    return [
        StreamedLayer(
            f"layer{i}",
            int(draw.choice(sizes)),
            draw.uniform(0, load_ms),
            draw.uniform(0, load_ms),
            draw.uniform(0, 4),
        )
        for i in range(count)
    ]


@settings(max_examples=25)
@given(NETWORKS, st.sampled_from(StreamStages))
def test_every_plan_of_a_front_is_feasible_and_states_its_delay_and_memory(layers, stages):
    plans = front(layers, stages=stages, alignment=1)

    for one in plans:
        assert one.predicted_ms == pytest.approx(timeline(layers, one, 1).makespan_ms)
        kept = sum(
            layer.weight_bytes for layer, stays in zip(layers, one.resident, strict=True) if stays
        )
        assert one.memory_bytes == kept + one.host_ring_bytes + one.device_ring_bytes
    for less, more in itertools.pairwise(plans):
        assert less.memory_bytes < more.memory_bytes
        assert less.predicted_ms > more.predicted_ms
    assert plans[0].memory_bytes == smallest_budget(layers, stages=stages, alignment=1)
    assert plans[-1].predicted_ms == pytest.approx(preloaded(layers).predicted_ms)


@settings(max_examples=25)
@given(NETWORKS, st.sampled_from(StreamStages), st.integers(0, 60), st.integers(0, 20))
def test_a_larger_budget_is_never_slower(layers, stages, budget, more):
    budget = max(budget, smallest_budget(layers, stages=stages, alignment=1))
    small = plans(layers, budget, stages=stages, alignment=1)[0]
    large = plans(layers, budget + more, stages=stages, alignment=1)[0]

    assert small.memory_bytes <= budget
    assert large.predicted_ms <= small.predicted_ms


@pytest.mark.parametrize("stages", [StreamStages.READ_KERNEL, StreamStages.COPY_KERNEL])
@pytest.mark.parametrize("sizes", [[4], [*range(1, 13)]])
def test_a_front_is_near_the_exact_front(stages, sizes):
    """Predicted delays against those of all resident sets and all ring sizes."""
    gaps = []
    for seed in range(12):
        layers = chain(seed, 6, sizes)
        found = front(layers, stages=stages, alignment=1)
        for best in exhaustive_front(layers, stages):
            affordable = [
                one.predicted_ms for one in found if one.memory_bytes <= best.memory_bytes
            ]
            gaps.append(min(affordable) / best.predicted_ms - 1)

    gaps.sort()
    assert gaps[0] >= -1e-9
    assert gaps[int(0.9 * len(gaps))] < 0.01
    assert gaps[-1] < 0.15


@given(st.lists(st.integers(1, 9), min_size=1, max_size=7), st.integers(1, 30))
def test_between_its_ring_sizes_the_allocation_is_the_same(lengths, more):
    sizes = RingSizes(lengths, 1)
    capacity = sizes.smallest + more
    exact = sizes.floor(capacity)

    assert exact in sizes.all()
    assert places(lengths, capacity, 1) == places(lengths, exact, 1)
    assert {*sizes.ladder()} <= {*sizes.all()}
    assert (sizes.ladder()[0], sizes.ladder()[-1]) == (max(lengths), sum(lengths))


def test_a_budget_below_the_largest_layer_names_the_smallest_that_works():
    layers = [
        StreamedLayer("small", 4_000, 1.0, 1.0, 1.0),
        StreamedLayer("fc1", 10_000, 1.0, 1.0, 1.0),
        StreamedLayer("tail", 9_000, 1.0, 1.0, 1.0),
    ]
    with pytest.raises(BudgetTooSmallError, match=r"\b12288 bytes\b.*\bfc1\b.*\b10000\b") as raised:
        plans(layers, 12_287)
    assert raised.value.smallest_bytes == 12_288 == plans(layers, 12_288)[0].memory_bytes
    with pytest.raises(BudgetTooSmallError, match=r"\b23000 bytes\b"):  # less than two rings of fc1
        plans(layers, 22_999, stages=StreamStages.READ_COPY_KERNEL)


def test_with_two_rings_keeping_the_largest_layer_can_need_the_smallest_budget():
    layers = [
        StreamedLayer(f"layer{i}", nbytes, 1.0, 1.0, 1.0) for i, nbytes in enumerate([1, 9, 1, 1])
    ]

    least = plans(layers, 11, stages=StreamStages.READ_COPY_KERNEL, alignment=1)[0]

    assert smallest_budget(layers, stages=StreamStages.READ_COPY_KERNEL, alignment=1) == 11
    assert least.resident == (False, True, False, False)
    assert (least.host_ring_bytes, least.device_ring_bytes) == (1, 1)
