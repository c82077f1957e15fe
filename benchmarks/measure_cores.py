"""Claim: a table can be measured on many cores at once, for 1 to 11 % of time.

    $ python -m benchmarks.measure_cores --cores 0-13

The control network runs on each core alone and then on all cores of a set at once, in ONNX Runtime and in
eager torch; printed is by how much the cores slow each other down. A table is then measured by one
`python -m nas.measure` on each core, as an earlier version's `shard=` did. results/measuring.md holds the table.
"""

from __future__ import annotations

import argparse
import os
import time
from multiprocessing import get_context

import numpy as np

from benchmarks.searching import head, row
from edgenas_core.inference.backend import Backend, Device
from edgenas_core.machine.timing import Stopwatch
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import TASKS

BACKENDS = ("onnxruntime", "torch")


def core_worker(core, connection):
    """Lives on one core and times the control when told to."""
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    os.sched_setaffinity(0, {core})
    # Torch asks how its threads shall wait when it is imported.
    import torch  # noqa: PLC0415

    from edgenas_core.inference.inference import prepare  # noqa: PLC0415 - imported by each worker on its own

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


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cores", required=True, help="first and last, as 0-13")
    first, last = map(int, parser.parse_args().cores.split("-"))
    cores = list(range(first, last + 1))
    workers = start_workers(cores)
    alone_ms = {
        name: {core: control_ms(workers, [core], name, 0.4)[core] for core in cores}
        for name in BACKENDS
    }
    head(
        "cores", *(f"{name}: median" for name in BACKENDS), *(f"{name}: worst" for name in BACKENDS)
    )
    for chosen in (cores, cores[::2], cores[: (len(cores) + 1) // 2]):
        ratios = []
        for name in BACKENDS:
            together_ms = control_ms(workers, chosen, name)
            ratios.append([together_ms[core] / alone_ms[name][core] for core in chosen])
        medians, worst = np.median(ratios, axis=1), np.max(ratios, axis=1)
        row(", ".join(map(str, chosen)), *(f"{ratio:.2f}" for ratio in (*medians, *worst)))
    for worker in workers.values():
        worker.send(None)


if __name__ == "__main__":
    main()
