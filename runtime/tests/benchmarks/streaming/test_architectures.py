"""The published architectures of streaming, and the bounds of a plan's delay."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from streaming_cases import network, networks, planned

from benchmarks.streaming.architectures import asynchronous, enlarged, synchronous, zero_copy
from benchmarks.streaming.bounds import bound_ms, least_ms, lockstep
from edgenas_runtime.weight_streaming.planning.plan import (
    StreamPlan,
    StreamStages,
)
from edgenas_runtime.weight_streaming.planning.planner import preloaded, total_bytes
from edgenas_runtime.weight_streaming.planning.recurrence import predicted, timeline
from edgenas_runtime.weight_streaming.planning.ring import aligned


@settings(max_examples=50)
@given(planned())
def test_a_makespan_lies_between_its_bound_and_the_sequential_delay(case):
    layers, plan = case
    makespan_ms = timeline(layers, plan, 1).makespan_ms
    low = bound_ms(layers, plan)
    high = sum(one.read_ms + one.copy_ms + one.kernel_ms for one in layers)

    assert low <= makespan_ms + 1e-9
    assert makespan_ms <= high + 1e-9
    assert low >= sum(layer.kernel_ms for layer in layers) - 1e-9


@settings(max_examples=50)
@given(planned())
def test_no_plan_is_faster_than_the_least_delay_of_its_memory(case):
    layers, plan = case
    for ahead in (False, True):
        made = predicted(layers, replace(plan, ahead=ahead), 1)
        assert least_ms(layers, plan) <= made.predicted_ms + 1e-9


def test_weights_that_memory_cannot_hold_arrive_while_their_layers_run():
    layers = network((1, 1.0, 0.0, 50.0), (20, 20.0, 0.0, 1.0), (1, 1.0, 0.0, 3.0))
    plan = zero_copy(layers)

    assert least_ms(layers, replace(plan, memory_bytes=5)) == 50 + (20 - 5) + 3
    assert least_ms(layers, replace(plan, memory_bytes=20)) == 54


def test_in_lockstep_every_cycle_lasts_as_long_as_its_longest_stage():
    layers = network((1, 3.0, 1.0, 2.0), (1, 1.0, 4.0, 5.0), (0, 9.0, 9.0, 1.0))

    run = lockstep(layers, (False, False, False))

    # read 0 | read 1, copy 0 | copy 1, kernel 0 | kernel 1 | kernel 2
    assert run.kernel == ((4.0, 6.0), (8.0, 13.0), (13.0, 14.0))
    assert run.read == ((0.0, 3.0), (3.0, 4.0), None)
    assert run.copy == ((3.0, 4.0), (4.0, 8.0), None)
    assert run.makespan_ms == 14.0


@given(networks())
def test_the_architectures_have_the_published_buffers(layers):
    largest = aligned(max(layer.weight_bytes for layer in layers))

    assert synchronous(layers).memory_bytes == 4 * largest
    assert asynchronous(layers).memory_bytes == 2 * largest
    assert zero_copy(layers).memory_bytes == largest
    assert preloaded(layers).memory_bytes == total_bytes(layers)


@settings(max_examples=25)
@given(networks(), st.sampled_from(StreamStages), st.sampled_from([0.0, 0.05, 0.3]))
def test_an_enlarged_ring_is_within_tolerance_of_an_unbounded_one(layers, stages, tolerance):
    one = enlarged(layers, stages=stages, tolerance=tolerance, alignment=1)
    if all(one.resident):
        assert total_bytes(layers) == 0
        return
    assert one.predicted_ms <= bound_ms(layers, one) * (1 + tolerance) + 1e-9
    assert one.memory_bytes <= total_bytes(layers) * (stages.reads + stages.copies)
    if stages is not StreamStages.READ_COPY_KERNEL and one.memory_bytes > max(
        layer.weight_bytes for layer in layers
    ):
        ring = one.memory_bytes - 1  # one of the two rings
        less = StreamPlan(
            one.resident,
            ring * stages.reads,
            ring * stages.copies,
            0.0,
            ring,
        )
        slower_ms = timeline(layers, less, 1).makespan_ms
        assert slower_ms > bound_ms(layers, one) * (1 + tolerance)
