"""Where the time goes when many captured networks share a GPU: what launches cost, what streams give.

Every network is one graph with weights of its own; times are of so many inferences of all of them,
median and range of 7, and the device is waited for once, at the end.

$ PYTHONPATH=. CUDA_DEVICE_MAX_CONNECTIONS=32 python benchmarks/gpu_sharing.py costs streams:vgg16:15
$ PYTHONPATH=. python benchmarks/gpu_sharing.py processes:vgg16:15 kernels:vgg16 cells
"""

import argparse
import gc
import os
import time
from functools import partial
from statistics import median
from threading import Thread

import torch

from benchmarks.papers.dispatch.modes import DispatchMode, open_executor
from benchmarks.papers.dispatch.prepared import Prepared, Setup
from benchmarks.papers.workloads import Model, Scale, source
from runtime.lanes.gpu import GpuLane
from runtime.network.backend import Device
from runtime.network.decompose import Rule
from runtime.scheduling.metrics import makespan_ms

ROUNDS = 3
PRIORITIES = (0, -1, -2, -3)


def say(name, taken_ms, note=""):
    taken = sorted(taken_ms)
    print(
        f"{name:58} {median(taken):8.3f} ({taken[0]:.3f} to {taken[-1]:.3f}) ms {note}", flush=True
    )


def timed(work, repeats=7):
    taken = []
    for _ in range(repeats + 1):
        torch.cuda.synchronize()
        begin_s = time.perf_counter()
        work()
        torch.cuda.synchronize()
        taken.append(1e3 * (time.perf_counter() - begin_s))
    return taken[1:]


def sources(model, count, rule=Rule.WHOLE):
    return [
        source(Model(model), scale=Scale(), seed=seed, device="cuda", rule=rule)
        for seed in range(count)
    ]


def each_us(name, call, times=2000):
    torch.cuda.synchronize()
    taken = []
    for _ in range(5):
        begin_s = time.perf_counter()
        for _ in range(times):
            call()
        taken.append(1e6 * (time.perf_counter() - begin_s) / times)
        torch.cuda.synchronize()
    print(f"{name:58} {median(taken):8.2f} ({min(taken):.2f} to {max(taken):.2f}) us", flush=True)


def costs():
    """Of one call each, on the issuing thread; 200 calls, for a stream takes about a thousand."""
    x = torch.zeros(8, device="cuda")
    side = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        x.add_(1)
    event = torch.cuda.Event(enable_timing=True)
    plain = torch.cuda.Event()
    each_us("replay of a graph of one kernel", graph.replay, 200)
    each_us("make a stream current", lambda: torch.cuda.set_stream(side))
    each_us("record an event that tells the time", lambda: event.record(side), 200)
    each_us("record one that does not", lambda: plain.record(side), 200)
    event.synchronize()
    each_us("wait for an event that is over", event.synchronize)
    each_us("ask it", event.query)
    with torch.cuda.stream(side):
        each_us("replay and wait", lambda: (graph.replay(), side.synchronize()), 200)
    each_us("start and join a thread", _thread, 200)
    try:
        from cuda.bindings import runtime  # noqa: PLC0415 - without it torch's own way is left

        launch = partial(runtime.cudaGraphLaunch, graph.raw_cuda_graph_exec(), side.cuda_stream)
        each_us("launch of the same through cuda-bindings", launch, 200)
    except Exception as error:  # noqa: BLE001 - a torch that does not give it out
        print("cuda-bindings:", type(error).__name__, error)
    torch.cuda.set_stream(torch.cuda.default_stream())


def _thread():
    thread = Thread(target=int)
    thread.start()
    thread.join()


def launched(replays, streams, order):
    for k in order:
        torch.cuda.set_stream(streams[k % len(streams)])
        replays[k]()
    torch.cuda.set_stream(torch.cuda.default_stream())


def graphs(model, count, priority=lambda _: 0):
    lanes = [GpuLane(priority=priority(k)) for k in range(count)]
    ready = [
        Prepared(one, lane, captured=True)
        for one, lane in zip(sources(model, count), lanes, strict=True)
    ]
    return lanes, ready, [one.inference()[0] for one in ready]


def streams(model, count):
    """One thread, no events: on so many streams, network after network or in turns."""
    count = int(count)
    begin_s = time.perf_counter()
    lanes, ready, replays = graphs(model, count)
    name = f"{model} x {count}, {os.environ.get('CUDA_DEVICE_MAX_CONNECTIONS', '8')} queues"
    print(f"{name}: ready in {time.perf_counter() - begin_s:.1f} s")
    in_turns = [*range(count)] * ROUNDS
    own = [lane.stream for lane in lanes]
    for many in sorted({1, 2, 4, 8, count} & {*range(1, count + 1)}):
        say(f"{name}, {many} streams", timed(partial(launched, replays, own[:many], in_turns)))
    one_by_one = [k for k in range(count) for _ in range(ROUNDS)]
    say(
        f"{name}, {count} streams, network by network",
        timed(partial(launched, replays, own, one_by_one)),
    )
    begin_s = time.perf_counter()
    launched(replays, own, in_turns)
    print(f"{name}, {count} streams: launching took {1e3 * (time.perf_counter() - begin_s):.3f} ms")
    torch.cuda.synchronize()
    del ready, replays
    close(lanes)
    lanes, ready, replays = graphs(model, count, lambda k: PRIORITIES[k % 4])
    own = [lane.stream for lane in lanes]
    say(
        f"{name}, {count} streams of 4 priorities", timed(partial(launched, replays, own, in_turns))
    )
    del ready, replays
    close(lanes)
    with open_executor(DispatchMode.FORK_JOIN, sources(model, count), Setup(Device.cuda)) as fork:
        (graph,) = fork._networks  # noqa: SLF001 - to launch it without the rest
        stream = fork._streams[0].stream  # noqa: SLF001 - likewise
        (replay,) = graph.inference()
        say(
            f"{name}, fork-join",
            timed(partial(launched, [replay], [stream], [0] * ROUNDS)),
        )
        ways(f"{name}, {DispatchMode.FORK_JOIN.value} as it is", fork)
    with open_executor(
        DispatchMode.QUEUE_STREAM, sources(model, count), Setup(Device.cuda)
    ) as executor:
        for way in (
            DispatchMode.QUEUE_STREAM,
            DispatchMode.SINGLE_ISSUER,
            DispatchMode.SINGLE_CONTEXT,
        ):
            ways(f"{name}, {way.value} as it is", executor.with_mode(way))


def ways(name, executor):
    taken = [makespan_ms(executor.run(ROUNDS, each_job=False).schedule) for _ in range(8)]
    say(name, taken[1:])


def processes(model, count):
    """M-C."""
    begin_s = time.perf_counter()
    with open_executor(
        DispatchMode.MULTI_CONTEXT, sources(model, int(count)), Setup(Device.cuda)
    ) as executor:
        ready_s = time.perf_counter() - begin_s
        ways(f"{model} x {count}, a process each, ready in {ready_s:.1f} s", executor)


def kernels(model):
    """One inference, by kernel."""
    from torch.profiler import ProfilerActivity, profile  # noqa: PLC0415 - it slows all that follows

    (one,) = sources(model, 1)
    module = one.program.on(torch.device("cuda"))
    with torch.inference_mode():
        for _ in range(3):
            module.run(one.x)
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CUDA]) as found:
            for _ in range(5):
                module.run(one.x)
            torch.cuda.synchronize()
    rows = [row for row in found.key_averages() if row.device_time_total > 0]
    total_us = sum(row.device_time_total for row in rows) / 5
    print(f"{model}: kernels take {total_us:.1f} us")
    for row in sorted(rows, key=lambda row: -row.device_time_total)[:14]:
        print(f"  {row.count / 5:5.1f} x {row.device_time_total / 5:8.1f} us  {row.key[:110]}")


def formats(model, count):
    """Channels outermost, as torch has them, or innermost: on all streams and on one."""
    count = int(count)
    for form in (torch.contiguous_format, torch.channels_last):
        made = []
        for one in sources(model, count):
            stream = torch.cuda.Stream()
            for weight in one.module.parameters():
                if weight.dim() == 4:
                    weight.data = weight.contiguous(memory_format=form)
            torch.cuda.synchronize()
            with torch.inference_mode(), torch.cuda.stream(stream):
                for _ in range(3):
                    one.module(one.x)
                stream.synchronize()
                graph = torch.cuda.CUDAGraph()
                graph.capture_begin(capture_error_mode="thread_local")
                written = one.module(one.x)
                graph.capture_end()
            made.append((graph, stream, written))
        replays = [graph.replay for graph, _, _ in made]
        own = [stream for _, stream, _ in made]
        in_turns = [*range(count)] * ROUNDS
        for many in (1, count):
            say(
                f"{model} x {count}, {form}, {many} streams",
                timed(partial(launched, replays, own[:many], in_turns)),
            )
        del made, replays


def cells():
    """256 inferences of the NAS-Bench-201 network, weights shared."""
    name = f"cells, {os.environ.get('CUDA_DEVICE_MAX_CONNECTIONS', '8')} queues"
    one = source(Model.nas_bench_201, scale=Scale(), device="cuda", rule=Rule.WHOLE)
    lanes = [GpuLane() for _ in range(32)]
    ready = [Prepared(one, lane, captured=True) for lane in lanes]
    replays = [each.inference()[0] for each in ready]
    own = [lane.stream for lane in lanes]
    for many in (1, 4, 8, 16, 24, 32):
        work = partial(launched, replays, own[:many], [*range(32)] * 8)
        say(f"{name}: 256 on {many} streams", timed(work, 5))
    del ready, replays
    close(lanes)
    for many in (8, 16, 32):
        with open_executor(DispatchMode.FORK_JOIN, [one] * many, Setup(Device.cuda)) as fork:
            (graph,) = fork._networks  # noqa: SLF001 - to launch it without the rest
            (replay,) = graph.inference()
            stream = fork._streams[0].stream  # noqa: SLF001 - likewise
            work = partial(launched, [replay], [stream], [0] * (256 // many))
            say(f"{name}: 256 by fork-join of {many}", timed(work, 5))
            begin_s = time.perf_counter()
            launched([replay], [stream], [0])
            took_ms = 1e3 * (time.perf_counter() - begin_s)
            torch.cuda.synchronize()
            print(f"{name}: one launch of {many} branches takes {took_ms:.3f} ms of the thread")


def close(lanes):
    for lane in lanes:
        lane.close()
    gc.collect()
    torch.cuda.empty_cache()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="+", help="name:argument:argument of a part")
    known = {one.__name__: one for one in (costs, streams, processes, kernels, formats, cells)}
    print(torch.__version__, torch.cuda.get_device_name())
    for part in parser.parse_args().parts:
        called, *given = part.split(":")
        begun_s = time.perf_counter()
        try:
            known[called](*given)
        except Exception as error:  # noqa: BLE001 - the other parts have nothing to do with it
            print(f"{part} failed: {type(error).__name__}: {error}")
        gc.collect()
        torch.cuda.empty_cache()
        print(f"-- {part}: {time.perf_counter() - begun_s:.1f} s", flush=True)
