"""Weight streaming to a GPU. It needs no more than torch:

python -m pytest tests/weight_streaming/test_stream_on_gpu.py --noconftest -c /dev/null -v -rA
"""

import threading
from contextlib import closing
from dataclasses import replace

import pytest
import torch
from torch import nn

import edgenas_runtime
from benchmarks.networks.cell import EVERY_OPERATION
from benchmarks.networks.vgg import VGG
from benchmarks.streaming.architectures import asynchronous, zero_copy
from edgenas_core.inference.models.nas_bench_201 import CellNetwork
from edgenas_runtime.weight_streaming.files.readers import Tier
from edgenas_runtime.weight_streaming.pipeline.progress import StreamStage
from edgenas_runtime.weight_streaming.planning.plan import StreamPlan
from edgenas_runtime.weight_streaming.planning.planner import preloaded
from edgenas_runtime.weight_streaming.planning.recurrence import is_streamed
from edgenas_runtime.weight_streaming.profiling import unmeasured
from edgenas_runtime.weight_streaming.streamable import open_streamable

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here"),
]

MODELS = {
    "vgg16": (lambda: VGG(16, width=16, num_classes=7), (2, 3, 224, 224)),
    "nas_bench_201": (lambda: CellNetwork(EVERY_OPERATION, cells_per_stage=1), (2, 3, 32, 32)),
    "chain": (
        lambda: nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(12)]).half(),
        (64, 1024),
    ),
}


def built(name):
    torch.manual_seed(0)
    build, shape = MODELS[name]
    module = build().eval().cuda()
    weight = next(module.parameters())
    x = torch.randn(shape, device="cuda", dtype=weight.dtype)
    with torch.no_grad():
        return module, x, module(x)


@pytest.mark.parametrize("tier", [Tier.HOST, Tier.SSD])
@pytest.mark.parametrize("name", MODELS)
def test_every_architecture_gives_the_output_of_the_resident_network(name, tier):
    module, x, expected = built(name)
    opened = open_streamable(module, x, tier=tier)
    layers = unmeasured(opened.layered)
    plans = [preloaded(layers), asynchronous(layers), zero_copy(layers)]
    if tier is Tier.HOST:
        none = (False,) * len(layers)
        ring = 2 * opened.layered.largest_bytes
        plans = [
            preloaded(layers),
            StreamPlan(none, 0, ring // 2, 0.0, ring // 2),
            StreamPlan(none, 0, 0, 0.0, 0),
        ]
    for plan in plans:
        assert any(is_streamed(layers, plan.resident)) == (plan is not plans[0])
        pipeline = opened.pipeline(plan, x)
        for scale in (1, 2, 1):  # the second must not see anything of the first
            with torch.no_grad():
                assert torch.equal(pipeline.run(scale * x), module(scale * x)), plan
        assert torch.equal(pipeline.run(x), expected)
        assert len(pipeline.times) == len(layers)
        late_ms = {stage: pipeline.sync_ms(stage) for stage in StreamStage}
        assert all(0 <= one < 10 for one in late_ms.values())
        if plan.device_ring_bytes:
            assert late_ms[StreamStage.KERNEL] > 0
        pipeline.close()
    opened.close()


@pytest.mark.parametrize("tier", [Tier.HOST, Tier.SSD])
@pytest.mark.parametrize("name", MODELS)
def test_prefetched_layers_are_those_that_the_next_inference_needs(name, tier):
    module, x, expected = built(name)
    with torch.no_grad():
        other = module(2 * x)
    opened = open_streamable(module, x, tier=tier)
    none = (False,) * len(opened.layered.layers)
    every_third = tuple(i % 3 == 0 for i in range(len(none)))
    largest = opened.layered.largest_bytes
    rings = {
        Tier.HOST: [(0, largest), (0, 2 * largest), (0, 5 * largest)],
        Tier.SSD: [(largest, largest), (3 * largest, 2 * largest), (2 * largest, 0)],
    }[tier]
    for resident in (none, every_third):
        for host, device in rings:
            plan = StreamPlan(resident, host, device, 0.0, 0, ahead=True)
            pipeline = opened.pipeline(plan, x)
            for _ in range(3):
                assert torch.equal(pipeline.run(x), expected)
                assert torch.equal(pipeline.run(2 * x), other)
            pipeline.wait_prefetched()
            assert pipeline.buffers.layout.prefetched_layers > 0
            assert torch.equal(pipeline.run(x), expected)
            pipeline.empty_rings()
            assert torch.equal(pipeline.run(2 * x), other)
            assert all(one.kernel_ms >= 0 and one.copy_ms >= 0 for one in pipeline.times)
            pipeline.run(x)
            pipeline.close()  # in the middle of it
    opened.close()


def test_copies_for_the_next_inference_continue_between_calls():
    module, x, expected = built("chain")
    opened = open_streamable(module, x, tier=Tier.HOST)
    ring = 3 * opened.layered.largest_bytes
    none = (False,) * len(opened.layered.layers)
    plan = StreamPlan(none, 0, ring, 0.0, ring, ahead=True)
    pipeline = opened.pipeline(plan, x)
    assert torch.equal(pipeline.run(x), expected)
    pipeline.wait_prefetched()
    for ordinal in range(pipeline.buffers.layout.prefetched_layers):
        for target, source in pipeline.buffers.copies(ordinal):
            assert torch.equal(target.cpu(), source.cpu())
    assert pipeline.buffers.layout.prefetched_layers == 3
    pipeline.close()
    opened.close()


def test_repeated_kernels_are_timed_and_leave_the_weights_unchanged():
    module, x, expected = built("chain")
    opened = open_streamable(module, x, tier=Tier.HOST)
    ring = 2 * opened.layered.largest_bytes
    none = (False,) * len(opened.layered.layers)
    pipeline = opened.pipeline(StreamPlan(none, 0, ring, 0.0, ring), x)
    assert torch.equal(pipeline.run(x), expected)
    pipeline.repeat_kernels(5)
    pipeline.run(x)
    assert all(one.kernel_ms > 0 for one in pipeline.times)
    pipeline.repeat_kernels(1)
    assert torch.equal(pipeline.run(x), expected)
    pipeline.close()
    opened.close()


def test_a_read_error_between_two_calls_is_raised_by_the_next_one():
    module, x, expected = built("chain")
    opened = open_streamable(module, x, tier=Tier.SSD)
    plan = replace(asynchronous(unmeasured(opened.layered)), ahead=True)
    opened.close()
    small = edgenas_runtime.stream(module, x, plan=plan)
    reads = iter(range(1000))
    reader = small._opened.reader
    original = reader.read

    def failing(layer, into, is_stopped=bool):
        if next(reads) == len(plan.resident):
            raise OSError(5, "Input/output error")
        original(layer, into, is_stopped)

    reader.read = failing
    assert torch.equal(small(x), expected)
    small._pipeline.wait_prefetched()
    with pytest.raises(OSError, match="Input/output"):
        small(x)
    torch.cuda.synchronize()


@pytest.mark.parametrize("tier", ["host", "ssd"])
def test_a_budget_is_observed_and_memory_is_released(tier):
    module, x, expected = built("chain")
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    with edgenas_runtime.stream(module, x, budget="14MB", tier=tier) as small:
        for _ in range(5):
            assert torch.equal(small(x), expected)
        assert small.plan.memory_bytes <= 14e6
        assert small.memory.pinned + small.memory.device <= 14e6
        assert torch.cuda.memory_allocated() - before < 30e6
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() - before < 1e6
    assert "edgenas-stream" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize("tier", ["host", "ssd"])
@pytest.mark.parametrize("tile_bytes", [0, 300_000])
def test_small_layers_are_handed_over_together(tier, tile_bytes):
    torch.manual_seed(0)
    module = nn.Sequential(*[nn.Linear(256, 256) for _ in range(64)], nn.Linear(256, 2048))
    module = module.eval().cuda()
    x = torch.randn(4, 256, device="cuda")
    opened = open_streamable(module, x, tier=tier)
    layers = opened.pieces(tile_bytes).layers
    resident = tuple(i % 7 == 3 for i in range(len(layers)))
    ring = 4 * opened.layered.largest_bytes
    plan = StreamPlan(
        *(resident, ring * (tier == "ssd"), ring, 0.0, 0),
        ahead=True,
        tile_bytes=tile_bytes,
        bundle_bytes=2**20,
    )
    with closing(opened), closing(opened.pipeline(plan, x)) as pipeline:
        for scale in (1, 2, 1):
            with torch.no_grad():
                expected = module(scale * x)
            worst = (pipeline.run(scale * x) - expected).abs().max() / expected.abs().max()
            assert worst <= (1e-6 if tile_bytes else 0)
        assert len(pipeline.times) < len(layers) / 2


@pytest.mark.parametrize("tier", ["host", "ssd"])
@pytest.mark.parametrize("name", MODELS)
def test_tiles_give_nearly_the_output_of_the_resident_network(name, tier):
    module, x, _ = built(name)
    opened = open_streamable(module, x, tier=tier)
    layers = opened.pieces(300_000)
    ring = 2 * layers.largest_bytes
    resident = tuple(i % 3 == 1 for i in range(len(layers.layers)))
    assert len(resident) > len(opened.layered.layers) or name == "nas_bench_201"
    plan = StreamPlan(
        *(resident, ring * (tier == "ssd"), ring, 0.0, 0),
        ahead=True,
        tile_bytes=300_000,
    )
    least = torch.finfo(x.dtype).eps * 8
    with closing(opened), closing(opened.pipeline(plan, x)) as pipeline:
        for scale in (1, 2, 1):
            with torch.no_grad():
                whole = module(scale * x)
            assert (pipeline.run(scale * x) - whole).abs().max() <= least * whole.abs().max()
        assert len(pipeline.times) == len(resident)


def test_a_read_error_is_raised_and_the_gpu_is_idle_then():
    module, x, _ = built("chain")
    small = edgenas_runtime.stream(module, x, budget="14MB")
    small(x)
    reader = small._opened.reader
    original, calls = reader.read, iter(range(1000))

    def failing(layer, into, is_stopped=bool):
        if next(calls) == 5:
            raise OSError(5, "Input/output error")
        original(layer, into, is_stopped)

    reader.read = failing
    with pytest.raises(OSError, match="Input/output"):
        small(x)
    with pytest.raises(RuntimeError, match="closed after OSError"):
        small(x)
    torch.cuda.synchronize()


def test_a_layer_that_writes_to_its_weights_is_refused():
    module = nn.Sequential(nn.Embedding(1000, 256, max_norm=1.0), nn.Linear(256, 256)).eval().cuda()
    with pytest.raises(ValueError, match="its weights"):
        edgenas_runtime.stream(module, torch.randint(1000, (4,), device="cuda"), budget="10MB")
