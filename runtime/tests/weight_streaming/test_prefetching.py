"""Prefetching for the next inference: same offsets, same output, errors, forks and process exit."""

import errno
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch

import edgenas_runtime
from edgenas_runtime.weight_streaming.planning.plan import StreamPlan
from edgenas_runtime.weight_streaming.planning.planner import plans
from edgenas_runtime.weight_streaming.profiling import unmeasured
from edgenas_runtime.weight_streaming.streamable import open_streamable


def ring_of(opened, layers, *, ahead=True):
    """A plan that keeps nothing, with a ring of so many of the largest layer."""
    count, nbytes = len(opened.layered.layers), layers * opened.layered.largest_bytes
    return StreamPlan((False,) * count, nbytes, 0, 0.0, nbytes, ahead)


@pytest.fixture
def opened(chain):
    module, x, _ = chain
    one = open_streamable(module, x)
    yield one
    one.close()


def failing():
    raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize(("slots", "in_a_lap"), [(1, 1), (2, 2), (4, 3), (6, 6)])
def test_the_first_layers_of_the_next_inference_are_read_after_their_place_was_used(
    chain, opened, recording_reader, slots, in_a_lap
):
    module, x, expected = chain
    pipeline = opened.pipeline(ring_of(opened, slots), x)
    count, inferences, events = len(opened.layered.layers), 4, []
    pipeline._reader = recording_reader(opened.reader, events)
    compute = pipeline._compute
    pipeline._compute = lambda running, layer, *more: (
        compute(running, layer, *more),
        events.append(("used", layer)),
    )
    for scale in range(1, inferences + 1):
        with torch.no_grad():
            assert torch.equal(pipeline.run(scale * x), module(scale * x))
    pipeline.wait_prefetched()
    pipeline.close()

    places = [place.offset for place in pipeline.buffers.layout.host]
    lies_there, reads, uses = {}, 0, 0
    for what, layer in events:
        if what == "read":
            assert layer == reads % count
            before = lies_there.get(places[layer])
            assert before is None or before < uses  # its kernel has run
            lies_there[places[layer]] = reads
            reads += 1
        else:
            assert layer == uses % count
            assert lies_there[places[layer]] == uses
            uses += 1
    assert uses == inferences * count
    assert reads == uses + in_a_lap  # it waits with a full ring
    assert torch.equal(expected, module(x))


def test_with_empty_rings_an_inference_starts_like_the_first(chain, opened, recording_reader):
    _, x, expected = chain
    pipeline = opened.pipeline(ring_of(opened, 3), x)
    events = []
    pipeline._reader = recording_reader(opened.reader, events)
    for _ in range(3):
        assert torch.equal(pipeline.run(x), expected)
        pipeline.wait_prefetched()
        pipeline.empty_rings()
        assert events == [("read", layer) for layer in (0, 1, 2, 3, 4, 5, 0, 1, 2)]
        events.clear()
    pipeline.close()


def test_without_prefetching_nothing_is_read_between_inferences(chain, opened, recording_reader):
    _, x, expected = chain
    pipeline = opened.pipeline(ring_of(opened, 3, ahead=False), x)
    events = []
    pipeline._reader = recording_reader(opened.reader, events)
    assert torch.equal(pipeline.run(x), expected)
    assert torch.equal(pipeline.run(x), expected)
    time.sleep(0.05)
    assert len(events) == 12
    pipeline.close()


def test_a_given_plan_determines_whether_to_prefetch(chain, opened):
    module, x, expected = chain
    one, *_ = plans(unmeasured(opened.layered), 3_200_000)
    assert one.ahead
    for plan in (one, replace(one, ahead=False)):
        with edgenas_runtime.stream(module, x, plan=plan) as small:
            assert torch.equal(small(x), expected)
            assert (small._pipeline.buffers.layout.prefetched_layers > 0) == plan.ahead


@pytest.mark.parametrize("at", [1, 2])
def test_an_error_between_two_calls_is_raised_by_the_next_one(chain, opened, recording_reader, at):
    module, x, expected = chain
    small = edgenas_runtime.stream(module, plan=ring_of(opened, 2))
    assert torch.equal(small(x), expected)
    pipeline = small._pipeline
    pipeline.empty_rings()
    reads = len(opened.layered.layers)
    pipeline._reader = recording_reader(pipeline._reader, [], reads + at, failing)

    assert torch.equal(small(x), expected)  # it had all that it needed
    pipeline.wait_prefetched()
    with pytest.raises(OSError, match="Input/output"):
        small(x)
    assert pipeline.buffers.host_bytes == 0
    with pytest.raises(RuntimeError, match="closed after OSError"):
        small(x)


def test_a_pipeline_restarts_after_an_error(chain, opened, recording_reader):
    _, x, expected = chain
    pipeline = opened.pipeline(ring_of(opened, 2), x)

    def run_often():
        for _ in range(4):
            assert torch.equal(pipeline.run(x), expected)

    for at in range(1, 20):
        pipeline._reader = recording_reader(opened.reader, [], at, failing)
        with pytest.raises(OSError, match="Input/output"):
            run_often()
        pipeline._reader = opened.reader
        assert torch.equal(pipeline.run(x), expected)
        pipeline.empty_rings()
    pipeline.close()


@pytest.mark.slow
def test_a_process_ends_without_closing_its_network():
    script = """
import torch, runtime
from torch import nn
model = nn.Sequential(*[nn.Linear(512, 512) for _ in range(6)]).eval()
small = edgenas_runtime.stream(model, budget="3MB")
small(torch.randn(2, 512))
print("done")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=True
    )
    assert done.stdout == "done\n"
    assert not done.stderr
