"""Bundles of layers: one hand-over each, in predictions and in plans."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streaming_cases import ring

from edgenas_runtime.weight_streaming.planning.bundles import bundles
from edgenas_runtime.weight_streaming.planning.plan import StreamedLayer, StreamStages
from edgenas_runtime.weight_streaming.planning.planner import plans
from edgenas_runtime.weight_streaming.planning.recurrence import predicted
from edgenas_runtime.weight_streaming.profiling import _start_ms

SMALL = StreamedLayer("small", 4096, 2.0, 0.0, 3.0, sync_ms=0.5, read_start_ms=1.0)


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=12), st.integers(0, 30))
def test_bundles_are_runs_of_streamed_layers_within_their_size(layers, bundle_bytes):
    sizes, resident = zip(*layers, strict=True) if layers else ((), ())
    runs = [*bundles(sizes, resident, bundle_bytes)]

    assert [i for run in runs for i in run] == [*range(len(layers))]
    for run in runs:
        if len(run) > 1:
            assert sum(sizes[i] for i in run) <= bundle_bytes
            assert all(sizes[i] and not resident[i] for i in run)


@pytest.mark.parametrize(
    ("bundle_bytes", "resident", "expected_ms"),
    [
        (0, (), 2 + 4 * 3.5),
        (2 * 4096, (), (2 + 1) + 2 * (6 + 0.5)),  # each bundle waits and starts reading once
        (4 * 4096, (), 2 + 3 * 1 + 12 + 0.5),
        (4 * 4096, (1,), 2 + 3.5 + 3 + 6.5),  # a resident layer ends a bundle
    ],
)
def test_a_bundle_is_read_and_waited_for_once(bundle_bytes, resident, expected_ms):
    layers = [SMALL] * 4
    made = replace(ring(layers, 4 * 4096, resident=resident), bundle_bytes=bundle_bytes)
    assert predicted(layers, made).predicted_ms == pytest.approx(expected_ms)


@pytest.mark.parametrize("stages", StreamStages)
def test_many_small_layers_are_planned_in_bundles(stages):
    large = replace(SMALL, name="large", weight_bytes=16 * 4096, kernel_ms=4.0)
    small = [replace(SMALL, copy_ms=1.0, copy_start_ms=0.9, kernel_ms=0.5)] * 16
    layers = [*small, large, *small]
    made = plans(layers, 36 * 4096, stages=stages)[0]

    alone = plans([replace(layer, sync_ms=0.0) for layer in layers], 36 * 4096, stages=stages)[0]
    assert made.bundle_bytes > 0
    assert predicted(layers, made).predicted_ms == pytest.approx(made.predicted_ms)
    without = predicted(layers, replace(made, bundle_bytes=0)).predicted_ms
    assert made.predicted_ms < 0.8 * without
    assert alone.predicted_ms <= made.predicted_ms


def test_the_start_of_a_transfer_is_what_does_not_grow_with_bytes():
    sizes = [1000, 2000, 4000, 9000]
    assert _start_ms(sizes, [0.5 + nbytes / 1000 for nbytes in sizes]) == pytest.approx(0.5)
    assert _start_ms(sizes, [0.0] * 4) == 0.0
    assert _start_ms([1000] * 4, [1.0] * 4) == 0.0
    assert _start_ms(sizes, [1.0, 1.0, 1.0, 9.0]) <= 1.0
