"""Predicted timelines: small cases computed by hand, and laws on random networks."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streaming_cases import network, networks, planned, ring

from benchmarks.streaming.bounds import bound_ms
from edgenas_runtime.weight_streaming.planning.plan import StreamedLayer
from edgenas_runtime.weight_streaming.planning.recurrence import (
    first_and_steady,
    is_streamed,
    predicted,
    timeline,
)


def slots(layers, host_slots, device_slots):
    """The timeline with buffers that hold a number of layers of any size; None: no such buffer."""
    streams = is_streamed(layers, [False] * len(layers))

    def waits(slots):
        if slots is None:
            return None
        return [i - slots if i >= slots else None for i in range(sum(streams))]

    first, _ = first_and_steady(
        layers, streams, waits(host_slots), waits(device_slots), ahead=False
    )
    return first


def ahead(plan):
    return replace(plan, ahead=True)


def spans(stage):
    return [span for span in stage if span is not None]


@settings(max_examples=50)
@given(planned())
def test_stages_are_in_order_and_one_at_a_time(case):
    layers, plan = case
    run = timeline(layers, plan, 1)

    for stage in (run.read, run.copy, run.kernel):
        for (_, end), (begin, _) in pairwise(spans(stage)):
            assert end <= begin  # in order, one at a time
    for layer, stays, read, copy, kernel in zip(
        layers, plan.resident, run.read, run.copy, run.kernel, strict=True
    ):
        goes = layer.weight_bytes > 0 and not stays
        assert (read is not None) == (goes and plan.host_ring_bytes > 0)
        assert (copy is not None) == (goes and plan.device_ring_bytes > 0)
        own = spans([read, copy, kernel])
        for (_, end), (begin, _) in pairwise(own):
            assert end <= begin
        assert kernel[1] - kernel[0] == pytest.approx(layer.kernel_ms)


@settings(max_examples=50)
@given(networks(), st.integers(1, 4), st.integers(1, 4))
def test_slots_follow_the_published_recurrence(layers, host_slots, device_slots):
    layers = [layer for layer in layers if layer.weight_bytes]
    r, c, k = [], [], []
    for i, layer in enumerate(layers):
        r.append(max(r[-1:] + c[i - host_slots : i - host_slots + 1] * (i >= host_slots) + [0.0]))
        r[i] += layer.read_ms
        c.append(
            max(*c[-1:], r[i], *k[i - device_slots : i - device_slots + 1] * (i >= device_slots))
            if i
            else r[0]
        )
        c[i] += layer.copy_ms
        k.append(max(*k[-1:], c[i]) if i else c[0])
        k[i] += layer.kernel_ms

    run = slots(layers, host_slots, device_slots)

    assert [end for _, end in run.read] == r
    assert [end for _, end in run.copy] == c
    assert [end for _, end in run.kernel] == k


@settings(max_examples=50)
@given(networks(sizes=st.just(3)), st.integers(1, 4), st.integers(1, 4))
def test_for_layers_of_one_size_a_ring_equals_slots(layers, host, device):
    assert timeline(layers, ring(layers, 3 * host, 3 * device), 1) == slots(layers, host, device)
    assert timeline(layers, ring(layers, 3 * host + 2), 1) == slots(layers, host, None)


@settings(max_examples=50)
@given(networks(), st.data())
def test_a_faster_stage_never_makes_the_whole_slower(layers, data):
    plan = ring(layers, data.draw(st.integers(6, 20)), data.draw(st.just(0) | st.integers(6, 20)))
    i = data.draw(st.integers(0, len(layers) - 1))
    old = layers[i]
    new = StreamedLayer("faster", old.weight_bytes, 0.0, old.copy_ms / 2, old.kernel_ms / 2)
    faster = [*layers[:i], new, *layers[i + 1 :]]

    assert timeline(faster, plan, 1).makespan_ms <= timeline(layers, plan, 1).makespan_ms


def test_two_stages_with_one_slot_take_turns_and_with_two_overlap():
    layers = network(*[(4, 2.0, 0.0, 3.0)] * 3)

    assert timeline(layers, ring(layers, 4), 1).makespan_ms == 15.0
    assert timeline(layers, ring(layers, 8), 1).makespan_ms == 11.0
    assert timeline(layers, ring(layers, 8), 1).stall_ms == (2.0, 0.0, 0.0)


def test_plans_that_do_not_fit_are_refused():
    layers = network((4, 1.0, 1.0, 1.0))
    with pytest.raises(ValueError, match="4 bytes"):
        timeline(layers, ring(layers, 3), 1)
    with pytest.raises(ValueError, match=r"\bring\b.*\b1 layers"):
        timeline(layers, ring(layers, 0), 1)
    with pytest.raises(ValueError, match=r"\b1 layers\b.* 2"):
        timeline([*layers, *layers], ring(layers, 4), 1)


@pytest.mark.parametrize(
    ("layer", "count", "rings", "first_ms", "steady_ms"),
    [
        ((4, 2.0, 0.0, 3.0), 2, (4, 0, [0]), 6.0, 6.0),  # a resident layer hides the read
        ((4, 5.0, 0.0, 3.0), 4, (8, 0), 23.0, 20.0),  # a slow disk is always busy
        ((4, 100.0, 2.0, 3.0), 3, (0, 8), 11.0, 11.0),  # copies only: nothing is read
        ((4, 100.0, 2.0, 3.0), 4, (0, 8), 14.0, 12.0),
    ],
)
def test_the_first_inference_and_the_steady_state(layer, count, rings, first_ms, steady_ms):
    layers = network(*[layer] * count)
    plan = ring(layers, *rings)
    assert timeline(layers, plan, 1).makespan_ms == first_ms
    steady = predicted(layers, ahead(plan), 1)
    assert (steady.first_ms, steady.predicted_ms) == (first_ms, steady_ms)


def test_in_steady_state_the_first_read_overlaps_the_previous_inference():
    layers = network(*[(4, 2.0, 0.0, 3.0)] * 4)
    plan = predicted(layers, ahead(ring(layers, 8)), 1)

    assert (plan.first_ms, plan.predicted_ms) == (14.0, 12.0)
    run = timeline(layers, plan, 1)
    assert run.read[0] == (-3.0, -1.0)  # as soon as the last layer but one has left its bytes
    assert run.stall_ms == (0.0,) * 4
    one_slot = predicted(layers, ahead(ring(layers, 4)), 1)
    assert (one_slot.first_ms, one_slot.predicted_ms) == (20.0, 20.0)  # no overlap


def test_with_reads_and_copies_only_reads_are_prefetched():
    layers = network(*[(4, 2.0, 1.0, 3.0)] * 4)
    plan = predicted(layers, ahead(ring(layers, 8, 8)), 1)

    assert (plan.first_ms, plan.predicted_ms) == (15.0, 13.0)
    run = timeline(layers, plan, 1)
    assert run.read[0][1] <= 0
    assert run.copy[0] == (0.0, 1.0)


@settings(max_examples=60)
@given(planned())
def test_the_steady_state_lies_between_its_bound_and_the_first_inference(case):
    layers, plan = case
    from_empty = predicted(layers, plan, 1)
    later = predicted(layers, ahead(plan), 1)

    assert from_empty.predicted_ms == from_empty.first_ms
    assert later.predicted_ms <= later.first_ms + 1e-9
    assert later.predicted_ms >= bound_ms(layers, later) - 1e-9
    assert bound_ms(layers, later) <= bound_ms(layers, plan) + 1e-9
    kernels_ms = sum(layer.kernel_ms for layer in layers)
    assert bound_ms(layers, later) >= kernels_ms - 1e-9


@settings(max_examples=60)
@given(planned())
def test_in_steady_state_bytes_never_exceed_the_ring_and_are_never_overwritten_in_use(case):
    """Of one inference and the next one, which starts one makespan later."""
    layers, plan = case
    plan = ahead(plan)
    run = timeline(layers, plan, 1)
    takes_ms = run.makespan_ms
    begins, ends = (
        (run.read, run.copy if plan.device_ring_bytes else run.kernel)
        if plan.host_ring_bytes
        else (run.copy, run.kernel)
    )
    capacity = plan.host_ring_bytes or plan.device_ring_bytes
    uses = [
        (begin[0] + later, end[1] + later, layer.weight_bytes)
        for later in (0.0, takes_ms)
        for layer, begin, end in zip(layers, begins, ends, strict=True)
        if begin is not None
    ]
    for moment, _, _ in uses:
        held = sum(nbytes for begin, end, nbytes in uses if begin <= moment < end - 1e-9)
        assert held <= capacity
    for (_, end), (begin, _) in pairwise(spans(begins)):
        assert end <= begin
    if spans(begins):
        assert spans(begins)[-1][1] <= spans(begins)[0][0] + takes_ms + 1e-9
