"""Hours in minutes: random arrivals at 80 % load, again and again, on the same lanes.

python -m benchmarks.soak [--minutes 10] [--load 0.8] [--round-s 5]

Three small networks on a lane a core, placed by earliest finish. Load is against the rate at which
the same lanes serve the same networks when all of them always wait. Each round is a run of its own,
served to its end: what it gave is checked and dropped, so whatever grows is kept by the runtime.
Exit status 1 if a request has no result, or not one only, or a wrong one, or if memory grows.
"""

import argparse
import gc
import os
import sys
import time
from collections import Counter
from dataclasses import dataclass
from statistics import median

import numpy as np
import psutil
import torch

from benchmarks.papers.schedule_metrics import utilisation
from runtime.lanes.cpu import CpuLane
from runtime.lanes.executor import Network, execute
from runtime.lanes.profile import measured_chain
from runtime.network.decompose import Rule, decompose
from runtime.network.models.nas_bench_201 import EVERY_OPERATION, CellNetwork
from runtime.network.models.resnet import ResNet
from runtime.network.models.vgg import VGG
from runtime.scheduling.arrivals import closed, poisson
from runtime.scheduling.metrics import latencies_ms, makespan_ms
from runtime.scheduling.policies.rules import EarliestFinish

MODELS = {
    "cell": lambda: CellNetwork(EVERY_OPERATION, cells_per_stage=1, channels=8),
    "resnet18": lambda: ResNet(18, width=8, num_classes=10),
    "vgg16": lambda: VGG(16, width=4, num_classes=10),
}
MOST_GROWTH_MB = 16.0


@dataclass(frozen=True)
class Round:
    """What one run of all lanes gave."""

    requests: int
    wrong: tuple[str, ...]
    p50_ms: float
    p99_ms: float
    busy: float
    """Share of the lanes' time, until the last job's end."""
    resident_mb: float
    tensors: int
    """Alive after the round."""


def served_networks(lanes):
    networks = []
    for name, build in MODELS.items():
        torch.manual_seed(0)
        x = torch.randn(1, 3, 32, 32)
        program = decompose(build().eval(), x, Rule.FUSED)
        networks.append(Network(program, x, measured_chain(name, program, x, lanes, repeats=5)))
    return networks


def busiest_gap_ms(networks, lanes, inferences=30):
    """Between two requests of a network, when the lanes serve all of them without a pause."""
    requests = closed(len(networks), inferences)
    return makespan_ms(execute(networks, requests, lanes, EarliestFinish())[0]) / inferences


def arrivals(networks, gap_ms, length_ms, generator):
    count = int(2 * length_ms / gap_ms) + 50
    return [
        request
        for network in range(len(networks))
        for request in poisson(network, gap_ms, count, generator)
        if request.arrival_ms < length_ms
    ]


def faults(networks, expected, requests, schedule, results):
    """What is wrong with a round, a line each."""
    if len(results) != len(requests):
        yield f"{len(requests)} requests have {len(results)} results"
    for i, (request, result) in enumerate(zip(requests, results, strict=False)):
        if isinstance(result, BaseException):
            yield f"request {i} ended with {result!r}"
        elif not torch.equal(result, expected[request.network]):
            yield f"request {i} of network {request.network} has another result than the first"
    wanted = Counter(
        (i, index)
        for i, request in enumerate(requests)
        for index in range(len(networks[request.network].chain))
    )
    ran = Counter((execution.job.request, execution.job.index) for execution in schedule.executed)
    if ran != wanted:
        yield f"{(wanted - ran).total()} jobs were lost and {(ran - wanted).total()} ran twice"


def serve(networks, expected, lanes, requests):
    """A round of at least one request."""
    schedule, results = execute(networks, requests, lanes, EarliestFinish())
    took_ms = np.concatenate([latencies_ms(schedule, i) for i in range(len(networks))])
    end_ms = max(execution.end_ms for execution in schedule.executed)
    wrong = tuple(faults(networks, expected, requests, schedule, results))
    p50_ms, p99_ms = np.percentile(took_ms, [50, 99])
    busy = float(utilisation(schedule, end_ms)[:, 0].mean())
    del schedule, results
    gc.collect()
    resident_mb = psutil.Process().memory_info().rss / 2**20
    tensors = sum(type(one) is torch.Tensor for one in gc.get_objects())
    return Round(len(requests), wrong, float(p50_ms), float(p99_ms), busy, resident_mb, tensors)


def soak(seconds, *, load=0.8, round_s=5.0):
    """Yields a round after the other, until the time is over."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [None]
    lanes = [CpuLane(core) for core in cores]
    try:
        networks = served_networks(lanes)
        _, expected = execute(networks, closed(len(networks)), lanes, EarliestFinish())
        gap_ms = busiest_gap_ms(networks, lanes) / load
        generator = np.random.default_rng(0)
        end_s = time.monotonic() + seconds
        while (left_s := end_s - time.monotonic()) > round_s / 2:
            requests = arrivals(networks, gap_ms, 1e3 * min(round_s, left_s), generator)
            yield serve(networks, expected, lanes, requests)
    finally:
        for lane in lanes:
            lane.close()


def growth_mb(rounds):
    """Resident memory, median of the last quarter against that of the second."""
    quarter = max(len(rounds) // 4, 1)
    resident_mb = [one.resident_mb for one in rounds]
    return median(resident_mb[-quarter:]) - median(resident_mb[quarter : 2 * quarter])


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--load", type=float, default=0.8)
    parser.add_argument("--round-s", type=float, default=5)
    options = parser.parse_args()
    rounds = []
    for one in soak(60 * options.minutes, load=options.load, round_s=options.round_s):
        rounds.append(one)
        print(
            f"{len(rounds):4}: {one.requests:6} requests, p50 {one.p50_ms:7.2f} ms, "
            f"p99 {one.p99_ms:8.2f} ms, lanes busy {one.busy:4.0%}, "
            f"{one.resident_mb:7.1f} MB, {one.tensors} tensors",
            *one.wrong[:3],
            flush=True,
        )
    if not rounds:
        parser.error("--minutes is less than half a round")
    wrong = sum(len(one.wrong) for one in rounds)
    grown_mb = growth_mb(rounds)
    kept = rounds[-1].tensors - rounds[0].tensors
    print(
        f"{sum(one.requests for one in rounds)} requests in {len(rounds)} rounds, {wrong} faults; "
        f"memory grew by {grown_mb:.1f} MB and {kept} tensors"
    )
    return int(wrong > 0 or grown_mb > MOST_GROWTH_MB or kept > 0)


if __name__ == "__main__":
    sys.exit(main())
