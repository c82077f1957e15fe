"""An hour of everything in one process: whatever grows from round to round is a leak.

python -m benchmarks.soak [--minutes 60] [--only lanes,streaming]

A round is a search and a study on predicted tables, a search that is killed and resumed, a study whose
workers are left behind by a killed parent, a search on a board, a short training on digits, a network whose weights are streamed, and
five seconds of requests on all lanes. After each round are counted: resident memory, tensors, threads, open
files, child processes, temporary files, and processes of the soak that belong to nobody.

Requests come at random to three small networks on a lane a core, placed by earliest finish, at 80 % of the rate
at which the same lanes serve the same networks when all of them always wait.

Everything must work, and give in each round what it gave in the first. Exit status 1 if anything else happens, or if anything grows.
"""

import argparse
import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from statistics import median

import numpy as np
import psutil
import torch

import edgenas
import edgenas_runtime
from benchmarks.networks.cell import EVERY_OPERATION
from benchmarks.networks.vgg import VGG
from benchmarks.simulator.makespan_error import poisson
from edgenas_core.inference.models.nas_bench_201 import CellNetwork
from edgenas_core.inference.models.resnet import ResNet
from edgenas_runtime.lanes.cpu import CpuLane
from edgenas_runtime.lanes.executor import ServedNetwork, execute, measured_chain
from edgenas_runtime.lanes.report import makespan_ms
from edgenas_runtime.network.decompose import Rule, decompose
from edgenas_runtime.scheduling.arrivals import closed
from edgenas_runtime.scheduling.policies.rules import EarliestFinish

MODELS = {
    "cell": lambda: CellNetwork(EVERY_OPERATION, cells_per_stage=1, channels=8),
    "resnet18": lambda: ResNet(18, width=8, num_classes=10),
    "vgg16": lambda: VGG(16, width=4, num_classes=10),
}
MOST_GROWTH_MB = 16.0
FEWEST = 4
ARCH = "|skip_connect~0|+|none~0|nor_conv_1x1~1|+|skip_connect~0|none~1|skip_connect~2|"
QUICK = {"samples": 3}


def served_networks(lanes):
    networks = []
    for name, build in MODELS.items():
        torch.manual_seed(0)
        x = torch.randn(1, 3, 32, 32)
        program = decompose(build().eval(), x, Rule.FUSED)
        networks.append(
            ServedNetwork(program, x, measured_chain(name, program, x, lanes, repeats=5))
        )
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


def requests_served(seconds, *, load=0.8):
    """Number of requests at this load, and what is wrong with them."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [None]
    lanes = [CpuLane(core) for core in cores]
    try:
        networks = served_networks(lanes)
        _, expected = execute(networks, closed(len(networks)), lanes, EarliestFinish())
        gap_ms = busiest_gap_ms(networks, lanes) / load
        requests = arrivals(networks, gap_ms, 1e3 * seconds, np.random.default_rng(0))
        schedule, results = execute(networks, requests, lanes, EarliestFinish())
        return len(requests), [*faults(networks, expected, requests, schedule, results)]
    finally:
        for lane in lanes:
            lane.close()


@dataclass(frozen=True)
class Held:
    """Resources of the process after a round: memory in MB, and counts of the others."""

    resident_mb: float
    tensors: int
    threads: int
    files: int
    children: int
    temporary_files: int
    orphans: int
    """Processes that were started in the soak's folder, and whose parent has ended."""


def held(folder):
    gc.collect()
    me = psutil.Process()
    return Held(
        me.memory_info().rss / 2**20,
        sum(type(kept) is torch.Tensor for kept in gc.get_objects()),
        me.num_threads(),
        me.num_fds(),
        len(me.children(recursive=True)),
        sum(path.is_file() for path in folder.rglob("*")),
        len(orphans(folder)),
    )


def orphans(folder):
    mine = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
    return [
        process
        for process in psutil.process_iter(["environ"])
        if process.pid not in mine
        and str(folder) in (process.info["environ"] or {}).get("TMPDIR", "")
    ]


def searched(folder, _number):
    answer = edgenas.search(T="17ms", budget=600, seed=1, out=folder / "search", quiet=True)
    return answer.best.arch, answer.trials.num_rows


def studied(folder, _number):
    settings = {"seeds": 2, "budget": 200, "workers": 2, "rewards": ["proposed", "constrained"]}
    study = edgenas.study(limits=["17ms"], out=folder / "study", quiet=True, **settings)
    return [result["key"] for result in study.results["settings"]]


def killed(folder, number):
    """A search that is killed somewhere, and then resumed, has the samples of a whole one."""
    runs = folder / "killed"
    words = ["T=17ms", "budget=3000", "seed=2", f"out={runs}"]
    begun = subprocess.Popen(
        [sys.executable, "-m", "nas.search", *words], stdout=subprocess.DEVNULL
    )
    wait_for(lambda: [*runs.rglob("journal.jsonl")] or begun.poll() is not None)
    time.sleep(np.random.default_rng(number).uniform(0, 1))
    begun.kill()
    begun.wait()
    (run,) = (path.parent for path in runs.rglob("config.yaml"))
    if not (run / "summary.json").exists():
        edgenas.search(resume=run, quiet=True)
    left = [path.name for path in run.rglob("*.tmp")]
    return edgenas.Found(run).best.arch, left


def deserted(folder, _number):
    """Workers of a study end with it, even if it was killed."""
    words = ["seeds=2", "budget=100000", "workers=2", "limits=[17ms,19ms]"]
    begun = subprocess.Popen(
        [sys.executable, "-m", "nas.study", *words, f"out={folder / 'deserted'}"],
        stdout=subprocess.DEVNULL,
    )
    wait_for(lambda: len(psutil.Process(begun.pid).children()) > 1 or begun.poll() is not None)
    begun.kill()
    begun.wait()
    wait_for(lambda: not orphans(folder.parent))
    return [" ".join(orphan.cmdline()) for orphan in orphans(folder.parent)]


def probed(folder, _number):
    """A search on a board, which is another process here."""
    settings = {
        "latency.python": sys.executable, "latency.cache": folder / "cache",
        "latency.runtime": "onnxruntime",
        "latency.on_disturbance": "flag", "latency.confirm_top": 1,
        **{f"latency.timing.{name}": value for name, value in QUICK.items()},
    }  # fmt: skip
    answer = edgenas.search(
        T="500ms", device="cmd://", latency="probe", controller="uniform", budget=2, seed=3,
        out=folder / "probed", settings=settings, quiet=True,
    )  # fmt: skip
    return answer.trials.num_rows


def trained(folder, _number):
    weights = edgenas.train(
        arch=ARCH,
        data="digits",
        epochs=1,
        out=folder / "trained",
        settings={"side": 8},
        quiet=True,
    )
    return sorted(
        path.name for path in weights.iterdir() if path.suffix in {".json", ".safetensors"}
    )


def streamed(_folder, number):
    torch.manual_seed(0)
    model, x = VGG(16, width=8, num_classes=10).eval(), torch.randn(1, 3, 32, 32)
    with (
        torch.no_grad(),
        edgenas_runtime.stream(model, x, budget="7MB", tier=("ssd", "host")[number % 2]) as small,
    ):
        return all(torch.equal(small(x * i), model(x * i)) for i in range(1, 6))


def served(_folder, _number):
    return requests_served(5)[1]


PARTS = {
    "search": searched, "study": studied, "killed": killed, "deserted": deserted,
    "board": probed, "training": trained, "streaming": streamed, "lanes": served,
}  # fmt: skip


def wait_for(condition, seconds=60):
    """Whether the condition became true in that time."""
    end_s = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end_s:
            return False
        time.sleep(0.02)
    return True


def growth(rounds):
    """Growth of each resource: its median in the last quarter of the rounds less that in the second."""
    quarter = len(rounds) // 4
    columns = [*zip(*map(astuple, rounds), strict=True)]
    return Held(
        *(median(column[-quarter:]) - median(column[quarter : 2 * quarter]) for column in columns)
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--only", default=",".join(PARTS), help="parts of a round")
    arguments = parser.parse_args()
    end_s = time.monotonic() + 60 * arguments.minutes
    folder = Path(tempfile.mkdtemp(prefix="edgenas-soak-"))
    work = folder / "work"
    os.environ |= {
        "TMPDIR": str(folder),
        "XDG_CACHE_HOME": tempfile.mkdtemp(prefix="edgenas-cache-"),
    }
    tempfile.tempdir = None
    torch.set_num_threads(1)
    first, outcomes, faults, rounds, total = {}, Counter(), [], [], 0
    while time.monotonic() < end_s:
        took_s = {}
        for name in arguments.only.split(","):
            part = PARTS[name]
            began_s = time.monotonic()
            try:
                got = part(work, len(rounds))
            except Exception as error:  # noqa: BLE001 - whatever it is, it is reported, and the soak goes on
                faults.append(f"{name}: {error!r}")
                continue
            finally:
                took_s[name] = time.monotonic() - began_s
            outcomes[name] += 1
            if got != first.setdefault(name, got):
                faults.append(f"{name} gave {got}, not {first[name]}")
        shutil.rmtree(work, ignore_errors=True)
        rounds.append(held(folder))
        now = ", ".join(
            f"{getattr(rounds[-1], field.name):.6g} {field.name}" for field in fields(Held)
        )
        seconds = ", ".join(f"{name} {taken_s:.1f} s" for name, taken_s in took_s.items())
        print(f"{len(rounds):4}: {now}", seconds, *faults, sep="\n      ", flush=True)
        total, faults = total + len(faults), []
    if len(rounds) < FEWEST:
        print(f"{len(rounds)} rounds, {total} faults; growth is reported after {FEWEST} rounds")
        return int(total > 0)
    grown = growth(rounds)
    print(f"{len(rounds)} rounds, {total} faults; grown by {grown}")
    print(", ".join(f"{name}: {count}" for name, count in sorted(outcomes.items())))
    shutil.rmtree(folder)
    shutil.rmtree(os.environ["XDG_CACHE_HOME"])
    leaks = astuple(grown)
    return int(total > 0 or leaks[0] > MOST_GROWTH_MB or any(leak > 0 for leak in leaks[1:]))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.exit(main())
