"""`edgenas_runtime.stream`: output equal to the resident network's, memory limits, errors."""

import errno
import gc
import os
import signal
import threading
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

import edgenas_runtime
from benchmarks.streaming.architectures import asynchronous, synchronous, zero_copy
from benchmarks.streaming.yolo import YOLOv4
from edgenas_runtime.network.decompose import Rule, decompose
from edgenas_runtime.weight_streaming.files.layers import split_layers
from edgenas_runtime.weight_streaming.files.readers import Tier
from edgenas_runtime.weight_streaming.planning.plan import StreamPlan
from edgenas_runtime.weight_streaming.planning.planner import BudgetTooSmallError, preloaded
from edgenas_runtime.weight_streaming.planning.ring import PAGE_BYTES
from edgenas_runtime.weight_streaming.profiling import unmeasured
from edgenas_runtime.weight_streaming.streamable import open_streamable

ARCHITECTURES = (preloaded, synchronous, asynchronous, zero_copy)


@pytest.fixture(scope="module")
def opened(networks):
    """VGG in layers of very different sizes, with the expected output."""
    module, x = networks["vgg16"]
    one = open_streamable(module, x, tier=Tier.SSD)
    with torch.no_grad():
        yield one, x, module(x)
    one.close()


@pytest.mark.parametrize(
    "name",
    [
        "nas_bench_201",
        "alexnet",
        "vgg16",
        "resnet18",
        pytest.param("resnet50", marks=pytest.mark.slow),
        pytest.param("densenet121", marks=pytest.mark.slow),
    ],
)
def test_every_network_family_is_streamed_bit_for_bit(networks, name):
    check_tier(*networks[name], "ssd")


def test_weights_in_memory_give_the_same(networks):
    check_tier(*networks["resnet18"], "host")


def check_tier(module, x, tier):
    with torch.no_grad():
        expected, other = module(x), module(2 * x)
    layers, _ = split_layers(decompose(module, x, Rule.UNFOLDED), module)
    with edgenas_runtime.stream(module, x, budget=layers.largest_bytes, tier=tier) as small:
        assert small.plan.memory_bytes <= layers.largest_bytes
        for _ in range(2):
            assert torch.equal(small(x), expected)
            assert torch.equal(small(2 * x), other)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture_gives_the_same(opened, architecture):
    one, x, expected = opened
    pipeline = one.pipeline(architecture(unmeasured(one.layered)), x)
    for _ in range(3):
        assert torch.equal(pipeline.run(x), expected)
    assert all(times.kernel_ms > 0 for times in pipeline.times)
    pipeline.close()


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_valid_plan_gives_the_same_and_never_exceeds_its_rings(opened, data):
    one, x, expected = opened
    layers = one.layered.layers
    resident = data.draw(st.tuples(*[st.booleans()] * len(layers)))
    sizes = [layer.nbytes for layer, stays in zip(layers, resident, strict=True) if not stays]
    largest = max(sizes, default=0)
    rings = st.integers(largest, 3 * largest)
    host, device = data.draw(rings), data.draw(st.one_of(st.just(0), rings))
    ahead = data.draw(st.booleans())
    bundle = data.draw(st.integers(0, largest))
    plan = StreamPlan(*(resident, host, device, 0.0, 0, ahead), bundle_bytes=bundle)

    pipeline = one.pipeline(plan, x)
    for _ in range(1 + 2 * ahead):
        assert torch.equal(pipeline.run(x), expected)
    kept = sum(layer.nbytes for layer in layers) - sum(sizes)
    pages = 3 * (PAGE_BYTES - 1)
    assert pipeline.buffers.host_bytes <= kept + host + device + pages
    for slots, capacity in (
        (pipeline.buffers.layout.host, host),
        (pipeline.buffers.layout.device, device),
    ):
        for slot, i in zip(slots or (), pipeline.buffers.layout.streamed, strict=False):
            assert slot.offset + pipeline._layers[i].nbytes <= capacity
    pipeline.close()


def test_a_experiment_of_a_weight_stays_valid_after_its_layer():
    class Token(nn.Module):
        def __init__(self):
            super().__init__()
            self.token = nn.Parameter(torch.randn(1, 256))
            self.layers = nn.ModuleList(nn.Linear(256, 256) for _ in range(4))

        def forward(self, x):
            token = self.token.expand(3, 256)
            for layer in self.layers:
                x = layer(x)
            return x + token

    module, x = Token().eval(), torch.randn(3, 256)
    with torch.no_grad(), edgenas_runtime.stream(module, x, budget=300_000) as small:
        for _ in range(3):
            assert torch.equal(small(x), module(x))


@pytest.mark.parametrize("bundle_bytes", [0, 2**20])
def test_layers_that_share_a_weight_are_streamed(bundle_bytes):
    shared = nn.Linear(256, 256)
    module = nn.Sequential(shared, nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), shared).eval()
    x, ring = torch.randn(3, 256), 2**20
    plan = StreamPlan((False,) * 3, ring, 0, 0.0, ring)
    plan = replace(plan, bundle_bytes=bundle_bytes)
    with torch.no_grad(), edgenas_runtime.stream(module, x, plan=plan) as small:
        assert torch.equal(small(x), module(x))
        assert len(small._pipeline.times) == (1 if bundle_bytes else 3)


@pytest.mark.slow
def test_a_graph_with_branches_of_yolos_shape_is_streamed():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module, x = YOLOv4(width=4).eval(), torch.randn(1, 3, 64, 64)
    with torch.no_grad(), edgenas_runtime.stream(module, x, budget="1MB") as small:
        assert torch.equal(small(x), module(x))
        assert small.memory.saved > 0.5


def test_a_layer_that_writes_to_its_weights_is_refused():
    module = nn.Sequential(nn.Embedding(1000, 256, max_norm=1.0), nn.Linear(256, 256)).eval()
    with pytest.raises(ValueError, match="layer 0"):
        edgenas_runtime.stream(module, torch.randint(1000, (4,)), budget="1.1MB")


def test_a_budget_below_the_smallest_tile_names_the_smallest_that_works(chain):
    module, x, expected = chain
    with pytest.raises(BudgetTooSmallError, match="100000 bytes") as caught:
        edgenas_runtime.stream(module, x, budget="100kB")
    with edgenas_runtime.stream(module, x, budget=caught.value.smallest_bytes) as small:
        assert torch.equal(small(x), expected)
    with pytest.raises(ValueError, match="too small"):
        edgenas_runtime.stream(module, x, budget=caught.value.smallest_bytes - 1)


def test_without_an_example_the_first_call_initialises(chain):
    module, x, expected = chain
    small = edgenas_runtime.stream(module, budget="3MB")
    with pytest.raises(RuntimeError, match="not called yet"):
        _ = small.plan
    assert torch.equal(small(x), expected)
    assert small.memory.host <= 3e6
    with pytest.raises(ValueError, match=r"\(8, 512\).*\(4, 512\)"):
        small(torch.cat([x, x]))
    assert torch.equal(small(x), expected)
    small.close()
    with pytest.raises(RuntimeError, match="closed"):
        small(x)


def test_a_plan_can_be_used_again(chain):
    module, x, expected = chain
    with edgenas_runtime.stream(module, x, budget="3MB") as first:
        plan = first.plan
        assert len(first.profile) == len(plan.resident)
    with edgenas_runtime.stream(module, x, plan=plan) as second:
        assert torch.equal(second(x), expected)
        assert second.plan == plan


def test_callers_from_several_threads_take_turns(chain):
    module, x, expected = chain
    right = []
    with edgenas_runtime.stream(module, x, budget="3MB") as small:
        threads = [
            threading.Thread(target=lambda: right.append(torch.equal(small(x), expected)))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert right == [True] * 4


def test_inference_mode_and_gradients_do_not_change_the_output(chain):
    module, x, expected = chain
    with torch.inference_mode():
        small = edgenas_runtime.stream(module, x, budget="3MB")
        assert torch.equal(small(x), expected)
    assert torch.equal(small(x.requires_grad_()), expected)
    small.close()


def failing():
    raise OSError(errno.EIO, "Input/output error")


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize("at", [1, 3, 6])
@pytest.mark.parametrize(
    ("harm", "error"),
    [(failing, OSError), (lambda: os.kill(os.getpid(), signal.SIGINT), KeyboardInterrupt)],
    ids=["read error", "Ctrl-C"],
)
@pytest.mark.parametrize("architecture", [synchronous, asynchronous, zero_copy])
def test_an_error_during_streaming_ends_all_threads_and_releases_the_memory(
    chain, recording_reader, *, architecture, harm, error, at
):
    module, x, expected = chain
    layers, _ = split_layers(decompose(module, x, Rule.UNFOLDED), module)
    small = edgenas_runtime.stream(module, x, plan=architecture(unmeasured(layers)))
    assert torch.equal(small(x), expected)
    pipeline, opened = small._pipeline, small._opened
    pipeline._reader = recording_reader(pipeline._reader, [], at, harm)

    with pytest.raises(error):
        small(x)
    assert pipeline.buffers.host_bytes == 0
    with pytest.raises(OSError, match="Bad file descriptor"):
        opened.reader.start_cold()
    with pytest.raises(RuntimeError, match=rf"closed after {error.__name__}(: \[Errno|$)"):
        small(x)


def test_close_returns_memory_to_the_system():
    module = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(8)]).eval()
    x = torch.randn(1, 1024)
    with edgenas_runtime.stream(module, x, budget="10MB") as small:
        small(x)
    gc.collect()
    rss = psutil.Process().memory_info().rss
    small = edgenas_runtime.stream(module, x, budget="30MB")
    small(x)
    held = psutil.Process().memory_info().rss - rss
    small.close()
    left = psutil.Process().memory_info().rss - rss
    assert held > 20e6
    assert left < held - 20e6


def test_no_file_remains(chain, tmp_path, monkeypatch):
    module, x, _ = chain
    disk, files = Path("/var/tmp"), Path("/proc/self/fd")  # noqa: S108 - only looked at
    before, opened = set(disk.glob("edgenas-*")), len([*files.iterdir()])
    with edgenas_runtime.stream(module, x, budget="3MB") as small:
        small(x)
        assert set(disk.glob("edgenas-*")) == before
    assert len([*files.iterdir()]) == opened
    path = tmp_path / "weights.safetensors"
    monkeypatch.setattr(os, "fsync", lambda _: failing())
    with pytest.raises(OSError, match="Input/output"):
        edgenas_runtime.stream(module, x, budget="3MB", weights=path)
    assert list(tmp_path.iterdir()) == []
