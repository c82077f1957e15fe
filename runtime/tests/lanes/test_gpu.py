"""GPU lanes. The tests need only torch, and for slices cuda-bindings:

python -m pytest tests/lanes/test_gpu.py --noconftest -c /dev/null -v -rA
"""

import contextlib
import gc
import math
import threading
import time
from itertools import pairwise
from queue import SimpleQueue

import pytest
import torch
from torch import nn

from benchmarks.dispatch.modes import DispatchMode, open_executor
from benchmarks.dispatch.prepared import DispatchedNetwork, Setup
from benchmarks.dispatch.static_schedule import StaticSchedule
from benchmarks.networks.cell import EVERY_OPERATION
from benchmarks.networks.densenet import DenseNet
from benchmarks.networks.vgg import VGG
from edgenas_core.inference.backend import Device
from edgenas_core.inference.cuda.sm_slices import SmSlices
from edgenas_core.inference.models.nas_bench_201 import (
    Cell,
    CellNetwork,
    ResidualBlock,
    example_input,
)
from edgenas_core.inference.models.resnet import ResNet, ResNetBlock
from edgenas_runtime.lanes.base import Began, Ended
from edgenas_runtime.lanes.cpu import CpuLane
from edgenas_runtime.lanes.executor import ServedNetwork, execute, measured_chain
from edgenas_runtime.lanes.gpu import GpuLane
from edgenas_runtime.lanes.report import makespan_ms
from edgenas_runtime.network.compiled import Compiled
from edgenas_runtime.network.decompose import Rule, decompose
from edgenas_runtime.network.engine import EagerEngine, OnnxEngine
from edgenas_runtime.network.mapped_memory import on_gpu, pinned_like
from edgenas_runtime.scheduling.arrivals import closed
from edgenas_runtime.scheduling.chain import Chain, Job
from edgenas_runtime.scheduling.dispatcher import Ticket
from edgenas_runtime.scheduling.policies.base import Placement
from edgenas_runtime.scheduling.policies.rules import ByNetwork, EarliestFinish, OneLane

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here"),
]

CPU = torch.device("cpu")
GPU = torch.device("cuda", 0)
MODELS = {
    "nas_bench_201": (
        lambda: CellNetwork(EVERY_OPERATION, cells_per_stage=1),
        32,
        (Cell, ResidualBlock),
    ),
    "resnet18": (lambda: ResNet(18, width=8, num_classes=7), 64, (ResNetBlock,)),
    "densenet121": (lambda: DenseNet(121, growth=4, num_classes=7), 32, ()),
    "vgg16": (lambda: VGG(16, width=4, num_classes=7), 224, ()),
}
CLOSE = {"rtol": 1e-2, "atol": 1e-3}
"""Between the CPU's single precision and the GPU's, which convolves in TF32."""
CLOCKS_MS = 0.35
"""By which the GPU's clock and the computer's may differ: half an event's time when a lane sets its
own by the computer's, and the drift since, 100 millionths of three seconds (`CudaCompletion`). Jobs of
two lanes that begin closer than that may seem to have changed places."""


def built(name):
    torch.manual_seed(0)
    build, size, _ = MODELS[name]
    return build().eval(), torch.randn(1, 3, size, size)


def cut(name, rule):
    module, x = built(name)
    cells = MODELS[name][2] if rule is Rule.CELL else ()
    return decompose(module, x, rule, cells=cells), x


def served(program, x, lanes, times_ms):
    compiled = Compiled(program, torch.zeros_like(x), [lane.engine for lane in lanes])
    kinds = tuple(segment.kind for segment in program.segments)
    return ServedNetwork(compiled, x, Chain("net", kinds, (times_ms,) * len(kinds)))


def outputs(results):
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def assert_lawful(schedule):
    jobs = [(one.job.request, one.job.index) for one in schedule.executed]
    wanted = [
        (i, index)
        for i, request in enumerate(schedule.requests)
        for index in range(len(schedule.chains[request.network]))
    ]
    assert sorted(jobs) == wanted
    for lane in range(len(schedule.lanes)):
        own = sorted(schedule.of_lane(lane), key=lambda one: (one.start_ms, one.end_ms))
        for before, after in pairwise(own):
            assert before.end_ms <= after.start_ms + 1e-6
    for network in range(len(schedule.chains)):
        own = [one for one in schedule.executed if one.job.network == network]
        own.sort(key=lambda one: (one.job.request, one.job.index))
        for before, after in pairwise(own):
            assert before.start_ms <= after.start_ms + CLOCKS_MS


class Turns:
    """Every job on another lane than the one before."""

    def place(self, context):
        lane = context.job.index % len(context.lanes)
        return Placement(lane, context.predicted_ms[lane])


@pytest.fixture(scope="module")
def gpu_lane():
    with GpuLane() as lane:
        yield lane


@pytest.fixture
def cpu_lane():
    with CpuLane(name="cpu", engine=EagerEngine()) as lane:
        yield lane


@pytest.mark.parametrize("rule", Rule)
@pytest.mark.parametrize("name", MODELS)
def test_graphs_give_the_very_bits_of_eager_kernels(gpu_lane, name, rule):
    if rule is Rule.CELL and not MODELS[name][2]:
        pytest.skip("no cells")
    program, x = cut(name, rule)
    module, _ = built(name)
    with torch.inference_mode():
        expected = program.on(GPU).run(x.to(GPU)).cpu()
        plain = module.to(GPU)(x.to(GPU)).cpu()

    network = served(program, x, [gpu_lane], (1.0,))
    schedule, results = execute([network], closed(1, 3), [gpu_lane], OneLane())

    assert all(torch.equal(result, expected) for result in outputs(results))
    torch.testing.assert_close(results[0], plain, **CLOSE)
    assert_lawful(schedule)


def test_eager_jobs_give_them_too():
    program, x = cut("nas_bench_201", Rule.LAYER)
    with torch.inference_mode():
        expected = program.on(GPU).run(x.to(GPU)).cpu()

    with GpuLane(captured=False) as lane:
        _, results = execute([served(program, x, [lane], (1.0,))], closed(1, 2), [lane], OneLane())

    assert all(torch.equal(result, expected) for result in outputs(results))


def test_a_pinned_tensor_is_one_of_the_gpu_in_place():
    for example in (
        torch.randn(3, 5).T,
        torch.randn(2, 3).to(torch.bfloat16),
        torch.randn(1, 4, 6, 6).to(memory_format=torch.channels_last),
    ):
        host = pinned_like(example)
        device = on_gpu(host, GPU)
        host.copy_(example)
        assert torch.equal(device.cpu(), example)
        device.mul_(2)
        torch.cuda.current_stream().synchronize()
        assert torch.equal(host, 2 * example)
        assert device.device == GPU
        del host
        gc.collect()
        assert torch.equal(device.cpu(), 2 * example)


@pytest.mark.parametrize("engine", [EagerEngine, OnnxEngine])
def test_a_network_goes_from_core_to_gpu_and_back_at_every_segment(gpu_lane, engine):
    for name, rule in (("nas_bench_201", Rule.FUSED), ("resnet18", Rule.LAYER)):
        program, x = cut(name, rule)
        with torch.inference_mode():
            expected = program.run(x)
        with CpuLane(name="cpu", engine=engine()) as cpu_lane:
            lanes = [cpu_lane, gpu_lane]
            network = served(program, x, lanes, (1.0, 1.0))
            for policy in (Turns(), OneLane(0), OneLane(1), EarliestFinish()):
                schedule, results = execute([network], closed(1, 3), lanes, policy)
                for result in outputs(results):
                    torch.testing.assert_close(result, expected, **CLOSE)
                assert_lawful(schedule)


def test_networks_share_streams_of_their_own_and_measured_times_place_them():
    program, x = cut("nas_bench_201", Rule.CELL)
    with torch.inference_mode():
        expected = program.run(x)
    with GpuLane(name="a") as a, GpuLane(name="b", priority=-1) as b:
        lanes = [a, b]
        compiled = [Compiled(program, x, [lane.engine for lane in lanes]) for _ in range(3)]
        chain = measured_chain("net", compiled[0], x, lanes, repeats=3)
        networks = [ServedNetwork(one, x, chain) for one in compiled]
        for policy in (ByNetwork(), EarliestFinish(), Turns()):
            schedule, results = execute(networks, closed(3, 2), lanes, policy)
            for result in outputs(results):
                torch.testing.assert_close(result, expected, **CLOSE)
            assert_lawful(schedule)


def test_networks_that_take_turns_on_one_stream_overwrite_nothing_of_each_other(gpu_lane):
    sources = [cut(name, rule) for name, rule in (("nas_bench_201", Rule.CELL),) * 2]
    sources.append(cut("resnet18", Rule.LAYER))
    with torch.inference_mode():
        expected = [program.on(GPU).run(x.to(GPU)).cpu() for program, x in sources]
    networks = [served(program, x, [gpu_lane], (1.0,)) for program, x in sources]

    schedule, results = execute(networks, closed(3, 4), [gpu_lane], OneLane())

    assert all(torch.equal(one, expected[i % 3]) for i, one in enumerate(outputs(results)))
    order = [one.job.network for one in sorted(schedule.executed, key=lambda one: one.start_ms)]
    assert sum(a != b for a, b in pairwise(order)) > len(order) / 3
    assert_lawful(schedule)


def test_a_lane_captures_again_when_all_its_graphs_have_died(gpu_lane):
    program, x = cut("resnet18", Rule.FUSED)
    for _ in range(3):
        network = served(program, x, [gpu_lane], (1.0,))
        outputs(execute([network], closed(1), [gpu_lane], OneLane())[1])
        del network
        gc.collect()
        torch.cuda.empty_cache()


def put(lane, compute, after=None):
    events = SimpleQueue()
    return events, lane.put(Ticket(Job(0, 0, 0), 0, None), compute, events, after)


def sleep(milliseconds):
    torch.cuda._sleep(int(milliseconds * 1.5e6))  # cycles; the clock is under 2 GHz


def test_a_job_is_launched_when_it_is_put_and_ends_by_its_event(gpu_lane, cpu_lane):
    ran = []

    begin_s = time.perf_counter()
    events, completion = put(gpu_lane, lambda: sleep(100))
    put_s = time.perf_counter() - begin_s
    waiting, _ = put(cpu_lane, lambda: ran.append(time.perf_counter()), completion)

    assert put_s < 0.05
    assert isinstance(events.get(timeout=1), Began)
    assert not completion.end.query()
    assert isinstance(waiting.get(timeout=1), Began)
    ended = events.get(timeout=5)
    assert isinstance(ended, Ended)
    assert ended.error is None
    assert ended.ended_s - ended.began_s > 0.05
    assert waiting.get(timeout=5).error is None
    assert ran[0] >= completion.ended_s - 0.001
    assert math.isclose(completion.ended_s, ended.ended_s, abs_tol=0.005)


def test_a_stream_waits_for_another_stream_not_for_the_device(gpu_lane):
    busy = torch.cuda.Stream()
    with GpuLane(name="other") as other:
        _, first = put(other, lambda: sleep(50))
        with torch.cuda.stream(busy):
            sleep(1000)
        _, second = put(gpu_lane, lambda: None, first)
        second.wait()

        assert first.end.query()
        uncertain_s = first.uncertainty_s + second.uncertainty_s  # two lanes, two origins
        assert second.ended_s >= first.ended_s - uncertain_s
        assert not busy.query()
    busy.synchronize()


class Greedy(nn.Module):
    wants = 1

    def forward(self, x):
        return x + torch.zeros(Greedy.wants, dtype=torch.int8, device=x.device)[0]


def test_out_of_memory_ends_one_request_and_a_capture(gpu_lane, monkeypatch):
    x = torch.ones(1, 2)
    greedy = decompose(Greedy().eval(), x, Rule.WHOLE)
    modest = decompose(nn.ReLU().eval(), x)
    with GpuLane(captured=False) as lane:
        networks = [served(program, x, [lane], (1.0,)) for program in (greedy, modest)]
        monkeypatch.setattr(Greedy, "wants", 1 << 42)
        _, results = execute(networks, closed(2, 2), [lane], OneLane())

    assert [type(result).__name__ for result in results] == ["OutOfMemoryError", "Tensor"] * 2
    with pytest.raises(torch.OutOfMemoryError):
        served(greedy, x, [gpu_lane], (1.0,))
    network = served(modest, x, [gpu_lane], (1.0,))
    assert torch.equal(execute([network], closed(1), [gpu_lane], OneLane())[1][0], x)


def test_what_a_graph_cannot_hold_is_refused_and_the_lane_goes_on(gpu_lane):
    class Asks(nn.Module):
        def forward(self, x):
            return x * float(x.sum().item())

    x = torch.ones(1, 2)
    sound = served(decompose(nn.ReLU().eval(), x), x, [gpu_lane], (1.0,))
    for _ in range(2):
        with pytest.raises(RuntimeError):
            served(decompose(Asks().eval(), x, Rule.WHOLE), x, [gpu_lane], (1.0,))
    torch.rand(1, device=GPU)
    for network in (sound, served(decompose(nn.ReLU().eval(), x), x, [gpu_lane], (1.0,))):
        assert torch.equal(execute([network], closed(1), [gpu_lane], OneLane())[1][0], x)


def test_memory_is_returned():
    def used():
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        return torch.cuda.memory_reserved()

    def serve():
        with GpuLane() as lane:
            program, x = cut("vgg16", Rule.FUSED)
            execute([served(program, x, [lane], (1.0,))], closed(1), [lane], OneLane())

    serve()
    before = used()
    for _ in range(3):
        serve()
    assert used() <= before + (4 << 20)  # what a segment of the allocator may strand


@pytest.mark.parametrize("captured", [True, False], ids=["captured", "eager"])
@pytest.mark.parametrize("way", DispatchMode)
def test_every_way_of_issuing_computes_the_networks(way, captured):
    sources = []
    for i in range(3):
        torch.manual_seed(i)
        module = CellNetwork(EVERY_OPERATION, cells_per_stage=1).eval()
        sources.append(DispatchedNetwork(f"net{i}", module, example_input(32), Rule.FUSED))
    expected = []
    with torch.inference_mode():
        expected = [one.module(one.x) for one in sources]

    with open_executor(way, sources, Setup(Device.cuda, captured)) as executor:
        for each_job in (True, False):
            outcome = executor.run(3, each_job=each_job)

            for found, wanted in zip(outputs(outcome.outputs), expected, strict=True):
                torch.testing.assert_close(found, wanted, **CLOSE)
            assert_lawful(outcome.schedule)
            assert 0 < makespan_ms(outcome.schedule) < 5000


@pytest.mark.parametrize("counts", [(16, 116), (32, 100), (64, 68), (8, 16, 32), (132,), (8,)])
def test_slices_have_the_multiprocessors_asked_for(counts):
    if sum(counts) > torch.cuda.get_device_properties(0).multi_processor_count:
        pytest.skip("a smaller GPU")
    with SmSlices(counts) as slices:
        assert tuple(one.count for one in slices) == counts


def product_ms(stream):
    a = torch.randn(4096, 4096, device=GPU, dtype=torch.float16)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        for _ in range(3):
            a @ a
        begin.record()
        for _ in range(10):
            a @ a
        end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 10


def test_a_slice_is_slower_and_graphs_run_on_it():
    whole_ms = product_ms(torch.cuda.Stream())
    program, x = cut("nas_bench_201", Rule.CELL)
    with torch.inference_mode():
        expected = program.on(GPU).run(x.to(GPU)).cpu()
    with SmSlices((16, 64)) as slices:
        took_ms = [product_ms(one.stream()) for one in slices]
        assert took_ms[0] > 2 * took_ms[1] > 2 * whole_ms
        with contextlib.ExitStack() as stack:
            lanes = [stack.enter_context(GpuLane(sms=one)) for one in slices]
            assert [lane.lane.name for lane in lanes] == ["gpu0/sm16", "gpu0/sm64"]
            networks = [served(program, x, lanes, (1.0, 1.0)) for _ in range(2)]
            schedule, results = execute(networks, closed(2, 3), lanes, ByNetwork())
            for result in outputs(results):
                torch.testing.assert_close(result, expected, **CLOSE)
            assert_lawful(schedule)
    with SmSlices((16, 64)) as again:  # while memory remembers the streams of those before
        del networks, results
        gc.collect()
        assert [one.count for one in again] == [16, 64]
        product_ms(again[0].stream())


def test_slices_open_at_once_are_not_the_same():
    with SmSlices((8,)) as one, SmSlices((8,)) as other:
        assert one[0] is not other[0]
        streams = {each.stream().cuda_stream for each in (*one, *other, *one)}
        assert len(streams) == 3


def test_more_lanes_than_torch_has_streams_have_one_each():
    with contextlib.ExitStack() as stack:
        lanes = [stack.enter_context(GpuLane()) for _ in range(40)]
        assert len({lane.stream.cuda_stream for lane in lanes}) == 40
        program, x = cut("nas_bench_201", Rule.WHOLE)
        with torch.inference_mode():
            expected = program.on(GPU).run(x.to(GPU)).cpu()
        network = served(program, x, [lanes[-1]], (1.0,))
        results = outputs(execute([network], closed(1, 2), [lanes[-1]], OneLane())[1])
        assert all(torch.equal(result, expected) for result in results)


def test_shares_given_ahead_run_on_streams_and_cores():
    sources = [
        DispatchedNetwork(name, built(name)[0], built(name)[1], Rule.WHOLE)
        for name in ("nas_bench_201", "resnet18")
    ]
    with contextlib.ExitStack() as stack:
        lanes = [stack.enter_context(GpuLane(name=f"stream{i}")) for i in range(3)]
        lanes.append(stack.enter_context(CpuLane(name="cpu", engine=OnnxEngine())))
        planned = stack.enter_context(StaticSchedule(sources, lanes))
        planned.give([[0, 1, 0], [1], [0] * 5, [1, 0]])
        found = planned.run(2)
        for output, last in zip(outputs(found.outputs), (0, 1, 0, 0), strict=True):
            with torch.inference_mode():
                expected = sources[last].program.on(CPU).run(sources[last].x)
            torch.testing.assert_close(output, expected, **CLOSE)
        assert len(found.schedule.executed) == 2 * 4
        assert 0 < makespan_ms(found.schedule) < 5000


def test_all_networks_as_one_graph_run_on_a_slice():
    sources = [
        DispatchedNetwork(f"net{i}", built("resnet18")[0], built("resnet18")[1], Rule.WHOLE)
        for i in range(3)
    ]
    with torch.inference_mode():
        expected = sources[0].program.run(sources[0].x)
    with SmSlices((16,)) as slices:
        setup = Setup(Device.cuda, sms=slices[0])
        with open_executor(DispatchMode.FORK_JOIN, sources, setup) as executor:
            for found in outputs(executor.run(2, each_job=False).outputs):
                torch.testing.assert_close(found, expected, **CLOSE)


def test_threads_end_with_their_lanes():
    before = threading.active_count()
    with GpuLane(), GpuLane():
        assert threading.active_count() == before + 2
    assert threading.active_count() == before
