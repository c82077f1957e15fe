r"""Claim: a table can be measured on many cores at once, and here is what that costs in truth.

    $ python -m benchmarks.measure_cores --board xeon --cores 0-13 --out /tmp/cores

First the control network runs on each core alone and then on all cores of a candidate set at once;
the largest set whose cores slow each other down by at most `--slowdown` is taken. Then a few
networks are measured on one core alone, and then all networks, a part on each core (`shard=`), in ONNX
Runtime and in eager torch. Run again the command goes on where it was, on the same cores. The
comparison is printed and written to `cores.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from latency.measuring.folder import rows_of
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import TASKS
from runtime.machine.stability import StabilityConfig
from runtime.machine.timing import Stopwatch
from runtime.network.backend import Backend, Device

BACKENDS = ("onnxruntime", "torch")


def core_worker(core, connection):
    """Lives on one core and times the control when told to."""
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    os.sched_setaffinity(0, {core})
    # Torch asks how its threads shall wait when it is imported.
    import torch  # noqa: PLC0415

    from runtime.network.inference import prepare  # noqa: PLC0415 - imported by each worker on its own

    torch.set_num_threads(1)
    images = SPACE.example_input(SPACE.control(), TASKS["cifar100"], 1)
    network = SPACE.network(SPACE.control(), TASKS["cifar100"])
    control = {name: prepare(network, images, Device.cpu, Backend(name)) for name in BACKENDS}
    stopwatch = Stopwatch()
    connection.send("ready")
    while (task := connection.recv()) is not None:
        name, begin_s, seconds = task
        while time.time() < begin_s:
            control[name]()  # all begin warm and together
        taken = []
        while time.time() < begin_s + seconds:
            taken.append(stopwatch.ms(control[name]))
        connection.send(taken)


def start_workers(cores):
    spawn = get_context("spawn")
    workers = {}
    for core in cores:
        workers[core], theirs = spawn.Pipe()
        spawn.Process(target=core_worker, args=(core, theirs), daemon=True).start()
    for worker in workers.values():
        worker.recv()
    return workers


def control_ms(workers, cores, name, seconds=1.5):
    """The control's median on each of the cores, while all of them run it."""
    begin_s = time.time() + 0.3
    for core in cores:
        workers[core].send((name, begin_s, seconds))
    return {core: float(np.median(workers[core].recv())) for core in cores}


def siblings(core):
    path = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
    return path.read_text().strip() if path.exists() else str(core)


def choose(cores, limit):
    """The cores to measure on, and the slowdown of every candidate set."""
    workers = start_workers(cores)
    one_each = list({siblings(core): core for core in reversed(cores)}.values())[::-1]
    candidates = {  # who shares a physical core may be told, or be next to it, or half way round
        "all": cores,
        "one of each physical core": one_each,
        "every second": cores[::2],
        "first half": cores[: (len(cores) + 2) // 2],
    }
    alone = {
        name: {core: control_ms(workers, [core], name, 0.4)[core] for core in cores}
        for name in BACKENDS
    }
    found = {}
    for label, chosen in candidates.items():
        slowdown = {}
        for name in BACKENDS:
            together = control_ms(workers, chosen, name)
            ratios = [together[core] / alone[name][core] for core in chosen]
            slowdown[name] = {"median": float(np.median(ratios)), "worst": max(ratios)}
        found[label] = {"cores": chosen, "slowdown": slowdown}
    for worker in workers.values():
        worker.send(None)
    slowest = {
        label: max(ratio["median"] for ratio in one["slowdown"].values())
        for label, one in found.items()
    }
    fitting = [label for label, ratio in slowest.items() if ratio <= limit]
    label = max(fitting, key=lambda label: len(candidates[label]), default=None)
    chosen = candidates[label or min(slowest, key=slowest.__getitem__)]
    return chosen, {"alone_ms_by_core": alone, "candidates": found}


def measure(options, backend, out, core, *more):
    """`nas.measure` on one core; its journal keeps what it has if it is stopped."""
    words = (f"board={options.board}", f"backend={backend}", f"out={out}", f"core={core}")
    command = [sys.executable, "-m", "nas.measure", *words, "on_disturbance=flag"]
    log = options.out / f"{backend}-{core}.log"
    with log.open("a") as file:
        subprocess.run([*command, *options.overrides, *more], check=False, stdout=file, stderr=file)


def undisturbed(options, backend, out):
    """Of each network in one folder its median and that of the control beside it."""
    rows = rows_of(out, f"{options.board}-{backend}-fp32-b1", StabilityConfig())
    quiet = [row for row in rows if not row["disturbances"]]
    return {row["arch"]: (float(row["median_ms"]), float(row["control_ms"])) for row in quiet}


def against_alone(options, backend):
    """Times beside others, as multiples of those of the same networks on one core alone.

    Those were taken minutes before, on a host that others use too: what the machine did meanwhile
    is in the control's ratio, and divided out of the last three.
    """
    times, alone = (
        undisturbed(options, backend, folder) for folder in (options.out, options.out / "alone")
    )
    both = sorted(times.keys() & alone.keys())
    if not both:
        return None
    network, control = (np.array([times[arch] for arch in both]) / [alone[arch] for arch in both]).T
    return {
        "networks": len(both),
        "least_median_most": np.quantile(network, [0, 0.5, 1]).tolist(),
        "control": float(np.median(control)),
        "against_control": np.quantile(network / control, [0, 0.5, 1]).tolist(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--board", required=True)
    parser.add_argument("--cores", default="0-13", help="first-last")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--slowdown", type=float, default=1.05)
    parser.add_argument("--alone", type=int, default=24, help="networks on one core first; 0: none")
    parser.add_argument("overrides", nargs="*", help="of nas.measure, as networks=100 repeats=0")
    options = parser.parse_args()
    first, last = map(int, options.cores.split("-"))
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "cores.json"
    if path.exists():  # the parts are those of the run that this one continues
        report = json.loads(path.read_text())
        cores = report["cores"]
    else:
        cores, pilot = choose(list(range(first, last + 1)), options.slowdown)
        report = {"cores": cores, "pilot": pilot, "siblings": {c: siblings(c) for c in cores}}
        path.write_text(json.dumps(report, indent=2) + "\n")
    for backend in BACKENDS:
        if options.alone:
            few = (f"networks={options.alone}", "repeats=0")
            measure(options, backend, options.out / "alone", cores[0], *few)
        with ThreadPoolExecutor(len(cores)) as threads:
            for number, core in enumerate(cores, 1):
                shard = f"shard={number}/{len(cores)}"
                threads.submit(measure, options, backend, options.out, core, shard)
    report["beside_others"] = {name: against_alone(options, name) for name in BACKENDS}
    path.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report["beside_others"], indent=1))


if __name__ == "__main__":
    main()
