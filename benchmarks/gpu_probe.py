"""What a GPU makes of green contexts, and a first look at the ways of issuing networks to it.

Networks are cut into cells, the layer-wise decomposer's coarsest cut for NAS-Bench-201: 24 jobs each;
where a job's overhead is to be seen, also into fused layers: 150 jobs.

$ PYTHONPATH=. python benchmarks/gpu_probe.py
"""

import time

import torch

from benchmarks.papers.dispatch.modes import DispatchMode, open_executor
from benchmarks.papers.dispatch.prepared import Setup, Source
from runtime.network.backend import Device
from runtime.network.decompose import Rule
from runtime.network.models.nas_bench_201 import Cell, CellNetwork, ResidualBlock, example_input
from runtime.scheduling.metrics import makespan_ms

OPERATIONS = (
    "avg_pool_3x3",
    "nor_conv_1x1",
    "skip_connect",
    "nor_conv_3x3",
    "none",
    "skip_connect",
)


def cuts():
    from cuda.bindings import driver  # noqa: PLC0415 - what follows is of use without it

    torch.zeros(1, device="cuda")
    sm = driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM
    _, gpu = driver.cuDeviceGet(0)
    _, whole = driver.cuDeviceGetDevResource(gpu, sm)
    print("whole", whole.sm.smCount)
    for groups, least in ((0, 8), (16, 8), (1, 16), (1, 8), (1, 32)):
        status, got, count, rest = driver.cuDevSmResourceSplitByCount(groups, whole, 0, least)
        sizes = [int(one.sm.smCount) for one in (got or [])][: int(count)]
        print("split", groups, least, status.name, int(count), sizes, "rest", int(rest.sm.smCount))
    _, got, count, rest = driver.cuDevSmResourceSplitByCount(16, whole, 0, 8)
    for parts in ([got[0]], [got[0], got[1]], [got[int(count) - 1], rest], [rest]):
        status, descriptor = driver.cuDevResourceGenerateDesc(parts, len(parts))
        line = [len(parts), status.name]
        if int(status) == 0:
            status, context = driver.cuGreenCtxCreate(descriptor, gpu, 1)
            line.append(status.name)
            if int(status) == 0:
                _, resource = driver.cuGreenCtxGetDevResource(context, sm)
                line.append(int(resource.sm.smCount))
                driver.cuGreenCtxDestroy(context)
        print("describe", *line)


def ways(rule, chosen):
    cells = (Cell, ResidualBlock) if rule is Rule.CELL else ()
    sources = []
    for i in range(4):
        torch.manual_seed(i)
        network = CellNetwork(OPERATIONS).eval()
        sources.append(Source(f"net{i}", network, example_input(32), rule, cells))
    for way in chosen:
        begin_s = time.perf_counter()
        with open_executor(way, sources, Setup(Device.cuda)) as executor:
            ready_s = time.perf_counter() - begin_s
            for each_job in (True, False):
                for inferences in (1, 5):
                    took = sorted(
                        makespan_ms(executor.run(inferences, each_job=each_job).schedule)
                        for _ in range(7)
                    )
                    timed = "jobs" if each_job else "inferences"
                    print(
                        f"{rule.value:5} {way.value:14} ready {ready_s:5.1f} s, {inferences} inferences, "
                        f"{timed:10} timed: {took[0]:7.2f} {took[3]:7.2f} {took[6]:7.2f} ms",
                        flush=True,
                    )


if __name__ == "__main__":
    print(torch.__version__, torch.cuda.get_device_name(), torch.cuda.Stream.priority_range())
    try:
        cuts()
    finally:
        ways(Rule.CELL, DispatchMode)
        ways(
            Rule.FUSED,
            (DispatchMode.SINGLE_CONTEXT, DispatchMode.QUEUE_STREAM, DispatchMode.SINGLE_ISSUER),
        )
