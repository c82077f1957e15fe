r"""Claim: a table can be measured on many cores at once, and here is what that costs in truth.

    $ python -m benchmarks.measure_cores --board xeon --cores 0-13 --out /tmp/cores \
          --steps torch:5,onnxruntime,onnxruntime,torch

First the control network runs on one core alone and then on all cores of a candidate set at once;
the largest set whose cores slow each other down by at most `--slowdown` is taken. Then a few
networks are measured on one core alone, and then all networks, a part on each core, in the given
steps: in this example eager torch until five minutes after the start at most, then what is missing or
was disturbed in ONNX Runtime, and so on while time is left. Run again the command goes on where it
was, on the same cores. The tables' numbers and the comparison are printed and written to
`cores.json`.

Recorded 2026-11-21, 16-core virtual machine (Intel, Emerald Rapids), Python 3.12.3, six steps
(torch, twice ONNX Runtime, torch, ONNX Runtime, torch) in 9 minutes on cores 0, 2 ... 12. Slowdown of
the control, median and worst core, in ONNX Runtime / torch: seven cores 1.01 and 1.06 / 1.05 and
1.08, fourteen 1.08 and 1.13 / 1.11 and 1.14. 16 networks beside others against alone, by their
controls: 1.01 (0.96 to 1.09) / 0.98 (0.96 to 1.02). Single calls in alternation against turns of five,
by their controls, ONNX Runtime: 1.00 (0.98 to 1.02). Undisturbed: 6,338 / 5,422 of 6,466 networks.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing as mp
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf
from rich.console import Console

from common.command.conf_folder import CONF
from latency.measuring.folder import MeasurementFolder, rows_of
from latency.measuring.machine import ThisMachine
from latency.measuring.settings import MeasureConfig
from nas.measure.plan import completed
from nas.measure.table import write_measured_table
from nas.spaces.base import task_named
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
    while True:
        task = connection.recv()
        if task == "end":
            return
        name, begin, seconds = task
        while time.time() < begin:
            control[name]()  # all begin warm and together
        taken = []
        while time.time() < begin + seconds:
            taken.append(stopwatch.ms(control[name]))
        connection.send(taken)


def start_workers(cores):
    spawn = mp.get_context("spawn")
    workers = {}
    for core in cores:
        workers[core], theirs = spawn.Pipe()
        spawn.Process(target=core_worker, args=(core, theirs), daemon=True).start()
    for worker in workers.values():
        worker.recv()
    return workers


def control_ms(workers, cores, name, seconds=1.5):
    """The control's median on each of the cores, while all of them run it."""
    begin = time.time() + 0.3
    for core in cores:
        workers[core].send((name, begin, seconds))
    return {core: float(np.median(workers[core].recv())) for core in cores}


def siblings(core):
    path = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
    return path.read_text().strip() if path.exists() else str(core)


def choose(workers, cores, limit):
    """The cores to measure on, and the slowdown of every candidate set."""
    one_each = list({siblings(core): core for core in reversed(cores)}.values())[::-1]
    half = (len(cores) + 2) // 2
    candidates = {  # who shares a physical core may be told, or be next to it, or half way round
        "all": cores,
        "one of each physical core": one_each,
        "every second": cores[::2],
        "first half": cores[:half],
    }
    # Alone twice, before and after: what differs between them is no slowdown.
    alone = {name: [control_ms(workers, cores[:1], name)[cores[0]]] for name in BACKENDS}
    each = {name: {c: control_ms(workers, [c], name, 0.4)[c] for c in cores} for name in BACKENDS}
    found = {}
    for label, chosen in candidates.items():
        slowdown = {}
        for name in BACKENDS:
            together = control_ms(workers, chosen, name)
            ratios = [together[core] / each[name][core] for core in chosen]
            slowdown[name] = {"median": float(np.median(ratios)), "worst": max(ratios)}
        found[label] = {"cores": chosen, "slowdown": slowdown}
    for name in BACKENDS:
        alone[name].append(control_ms(workers, cores[:1], name)[cores[0]])
    slowest = {
        label: max(s["median"] for s in one["slowdown"].values()) for label, one in found.items()
    }
    fitting = [label for label, ratio in slowest.items() if ratio <= limit]
    label = max(fitting, key=lambda label: len(candidates[label]), default=None)
    chosen = candidates[label or min(slowest, key=slowest.__getitem__)]
    return chosen, {"alone_ms": alone, "alone_ms_by_core": each, "candidates": found}


def command(options, backend, out, core, *more):
    return [
        *(sys.executable, "-m", "nas.measure"),
        *(f"board={options.board}", f"backend={backend}", f"out={out}", f"core={core}"),
        *("on_disturbance=flag", f"together={options.together}"),
        *(f"timing.samples={options.samples}", *options.overrides, *more),
    ]


def measure_alone(options, core):
    few = (f"networks={options.alone}", "repeats=0")
    for name, backend, more in (
        ("alone", "onnxruntime", few),
        ("alone", "torch", few),
        ("alternating", "onnxruntime", (*few, "timing.turn=1")),
    ):
        alone = command(options, backend, options.out / name, core, *more)
        subprocess.run(alone, check=False, stdout=subprocess.DEVNULL)
    print(f"{time.time() - options.started:.0f} s: {options.alone} alone", flush=True)


def part(options, backend, number, cores, core):
    networks = () if options.networks is None else (f"networks={options.networks}",)
    shard = (f"shard={number}/{len(cores)}", f"repeats={options.repeats}")
    return command(options, backend, options.out, core, *shard, *networks)


def measure_parts(options, cores):
    """Each core takes the steps for its part of the networks; whether all ended in time."""
    logs = options.out / "logs"
    logs.mkdir(exist_ok=True)

    def chain(number, core):
        """Processes one after the other, each with the time at which it is stopped."""
        for place, step in enumerate(options.steps.split(","), 1):
            backend, _, minutes = step.partition(":")
            end = options.started + 60 * min(float(minutes or options.minutes), options.minutes)
            if time.time() >= end:
                continue
            with (logs / f"{place}-{backend}-{number}.log").open("w") as log:
                yield (
                    subprocess.Popen(
                        part(options, backend, number, cores, core),
                        stdout=log,
                        stderr=subprocess.STDOUT,
                    ),
                    end,
                )

    chains = {core: chain(number, core) for number, core in enumerate(cores, 1)}
    running = {core: next(steps) for core, steps in chains.items()}
    in_time = True
    while running:
        time.sleep(0.1)
        for core, (process, end) in list(running.items()):
            if process.poll() is None and time.time() < end:
                continue
            if process.poll() is None:
                in_time = False
                process.terminate()  # its journal has all but the group that it was at
                process.wait()
            running[core] = next(chains[core], None)
            if running[core] is None:
                del running[core]
    return in_time


def write_tables(options, cores):
    """The tables of all parts, also where a part was stopped before it could write them."""
    ConfigStore.instance().store(name="measure_schema", node=MeasureConfig)
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        for backend in BACKENDS:
            overrides = part(options, backend, 1, cores, cores[0])[3:]
            config = OmegaConf.to_object(compose("measure", overrides=overrides))
            config = completed(config, task_named(SPACE, config.dataset))
            here = ThisMachine(config, SPACE, TASKS[config.dataset])
            folder = MeasurementFolder(config, here.device_id, here.deciding)
            if rows_of(folder.path, folder.slug, config.quiet):
                write_measured_table(
                    config, SPACE, folder, facts=here.facts(), words=overrides, console=Console()
                )


def undisturbed(options, backend, out):
    """Of each network in one folder its median and that of the control beside it."""
    rows = rows_of(out, f"{options.board}-{backend}-fp32-b1", StabilityConfig())
    quiet = [row for row in rows if not row["disturbances"]]
    return {row["arch"]: (float(row["median_ms"]), float(row["control_ms"])) for row in quiet}


def against_alone(options, backend, out):
    """Times in a folder, as multiples of those of the same networks on one core alone.

    Those were taken minutes before, on a host that others use too: what the machine did meanwhile
    is in the control's ratio, and divided out of the last three.
    """
    times, alone = (
        undisturbed(options, backend, folder) for folder in (out, options.out / "alone")
    )
    both = sorted(times.keys() & alone.keys())
    if not both:
        return None
    ratios = np.array([times[arch] for arch in both]) / [alone[arch] for arch in both]
    network, control = ratios.T
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
    parser.add_argument("--minutes", type=float, default=8.0, help="after which it stops")
    parser.add_argument("--slowdown", type=float, default=1.05)
    parser.add_argument("--samples", type=int, default=30)
    parser.add_argument("--together", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=210)
    parser.add_argument("--networks", type=int, help="all if not given")
    parser.add_argument(
        "--alone", type=int, default=24, help="networks measured on one core first; 0: none"
    )
    parser.add_argument("--steps", default="onnxruntime,torch,onnxruntime,torch")
    parser.add_argument("overrides", nargs="*", help="of nas.measure, as quiet.other_load=0.5")
    options = parser.parse_args()
    options.started = time.time()
    first, last = map(int, options.cores.split("-"))
    cores = list(range(first, last + 1))
    options.out.mkdir(parents=True, exist_ok=True)

    report_path = options.out / "cores.json"
    before = json.loads(report_path.read_text()) if report_path.exists() else None
    if before is None:
        workers = start_workers(cores)
        chosen, pilot = choose(workers, cores, options.slowdown)
        for worker in workers.values():
            worker.send("end")
    else:  # the parts are those of the run that this one continues
        chosen, pilot = before["cores"], before["pilot"]
    report = {"cores": chosen, "pilot": pilot, "siblings": {c: siblings(c) for c in cores}}
    report_path.write_text(json.dumps(report, indent=2) + "\n")
    print(f"{time.time() - options.started:.0f} s: {json.dumps(report)}", flush=True)

    if options.alone:
        measure_alone(options, chosen[0])

    report["finished"] = measure_parts(options, chosen)
    write_tables(options, chosen)
    report["seconds"] = time.time() - options.started
    report["networks"] = {name: len(undisturbed(options, name, options.out)) for name in BACKENDS}
    report["beside_others"] = {name: against_alone(options, name, options.out) for name in BACKENDS}
    report["alternating_single_calls"] = against_alone(
        options, "onnxruntime", options.out / "alternating"
    )
    report_path.write_text(json.dumps(report, indent=2) + "\n")
    shown = ("finished", "seconds", "networks", "beside_others", "alternating_single_calls")
    print(json.dumps({name: report[name] for name in shown}, indent=1))


if __name__ == "__main__":
    main()
