"""Claim: a linear model of a GPU's own times predicts MobileNetV3 networks that it has not seen.

    $ python benchmarks/mobilenet_v3_latency_h200.py --out measured --minutes 9

Times 500 networks and more of `space=mobilenet_v3` on one GPU as captured CUDA graphs: fp32 and bf16, batch
1 and 32. Half of them are drawn uniformly from the space, half with each depth equally likely, so that
shallow networks are known too. Each is timed in turns with the space's control network, as `nas.measure`
does, but in all four settings at once, because building and capturing takes longer than timing. Every tenth
network is timed again later.

Writes `mobilenet_v3_h200_ms.csv` (a table of `nas.search`: a column for each setting), its origin beside it
(`.json`), and `samples.csv` with every time, control included. What is there is kept if the time ends early.
`--tiny` times few networks by torch on the CPU, to see that the script works.
Recorded in benchmarks/results/mobilenet_v3_latency.md.
"""

import argparse
import csv
import gc
import json
import time
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import torch

from common.files.keyed_table import write_csv_table
from nas.spaces.base import task_named
from nas.spaces.registry import space_named
from runtime.machine.description import current_state, machine_facts
from runtime.machine.timing import Stopwatch, TimingConfig, settle, time_interleaved
from runtime.network.backend import Backend, Device, Precision
from runtime.network.inference import prepare

SPACE = space_named("mobilenet_v3")
TASK = task_named(SPACE, "auto")
SETTINGS = [(p, b) for p in (Precision.fp32, Precision.bf16) for b in (1, 32)]
REPEATED, LATER = 10, 60  # every tenth network is timed again, so many networks later
DRIFT = 0.05  # a time is left out if its control is so far from the median of all
SAVED_EVERY = 20  # networks


def networks(count):
    """Distinct architectures, half of them with every depth equally likely, in a random order."""
    rng = np.random.default_rng(15)
    rows = SPACE.sample(rng, count)
    half = rows[: count // 2]
    any_choice = (rng.random(half.shape) * SPACE.num_choices).astype(np.int64)
    rows[: count // 2] = SPACE.normal(any_choice)
    return rng.permutation(np.unique(rows, axis=0))


def plan(count):
    """Each network once, and every tenth again 60 networks later."""
    order, rows = [], networks(count)
    for number, row in enumerate(rows):
        order.append(row)
        if number >= LATER and number % REPEATED == 0:
            order.append(rows[number - LATER])
    return order


class Bench:
    """The control network in every setting, and the timing of another beside it."""

    def __init__(self, device, timing, settings, task):
        self.device = device
        self.backend = Backend.graph if device is Device.cuda else Backend.torch
        self.timing = timing
        self.settings = settings
        self.task = task
        self.stopwatch = Stopwatch(torch.cuda.synchronize) if device is Device.cuda else Stopwatch()
        self.generator = np.random.default_rng(0)
        self.controls = {s: self.prepared(SPACE.control(), s) for s in settings}
        settle(self.controls[settings[0]], timing, self.stopwatch)

    def prepared(self, architecture, setting):
        """The network's inference."""
        precision, batch_size = setting
        with torch.device(self.device.value):
            network = SPACE.network(architecture, self.task)
            images = SPACE.example_input(architecture, self.task, batch_size)
        return prepare(network, images, self.device, self.backend, precision)

    def timed(self, architecture):
        """Times of the network and of the control in each setting, ms."""
        for setting in self.settings:
            subjects = [self.controls[setting], self.prepared(architecture, setting)]
            control, network = time_interleaved(
                subjects, self.timing, self.generator, self.stopwatch
            )
            yield setting, network.ms, control.ms


def name_of(setting, board, backend):
    precision, batch_size = setting
    runtime = "torch-graph" if backend is Backend.graph else "torch"
    return f"{board}/{runtime}/{precision.value}/b{batch_size}"


def table(samples, names):
    """(architectures, a column for each setting) of the medians whose control had not drifted."""
    typical = {name: np.median([c for _, n, _, c in samples if n == name]) for name in names}
    found = {}
    for text, name, median, control in samples:
        if abs(control / typical[name] - 1) <= DRIFT:
            found.setdefault(text, {}).setdefault(name, []).append(median)
    texts = list(found)
    columns = {
        name: np.array([np.median(found[text].get(name, [np.nan])) for text in texts])
        for name in names
    }
    return np.stack([SPACE.parse(text) for text in texts]), columns


def noise(samples, name):
    """Median relative difference of a network's two times."""
    times = {}
    for text, n, median, _ in samples:
        if n == name:
            times.setdefault(text, []).append(median)
    pairs = [(a, b) for a, b, *_ in (t for t in times.values() if len(t) > 1)]
    return float(np.median([abs(a / b - 1) for a, b in pairs])) if pairs else None


def save(out, samples, names, facts):
    architectures, columns = table(samples, names)
    path = out / "mobilenet_v3_h200_ms.csv"
    write_csv_table(path, SPACE, columns, architectures)
    origin = {
        **facts,
        "networks": len(architectures),
        "repeats_differ": {name: noise(samples, name) for name in names},
        "ended": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
    path.with_suffix(".json").write_text(json.dumps(origin, indent=2) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--networks", type=int, default=900)
    parser.add_argument("--tiny", action="store_true")
    chosen = parser.parse_args()
    until_s = time.monotonic() + 60 * chosen.minutes
    chosen.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    device = Device.cpu if chosen.tiny else Device.cuda
    timing = TimingConfig(samples=10, warm_up_window=3, warm_up_most=30, settle_s=1.0)
    settings = SETTINGS[:1] if chosen.tiny else SETTINGS
    task = replace(TASK, image_side=56) if chosen.tiny else TASK
    bench = Bench(device, timing, settings, task)
    names = {s: name_of(s, "tiny" if chosen.tiny else "h200", bench.backend) for s in settings}
    facts = {
        "space": SPACE.name,
        "dataset": TASK.name,
        "began": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "settings": {"timing": vars(timing), "networks": chosen.networks, "drift": DRIFT},
        "machine": machine_facts(0, gpu=device is Device.cuda),
        "state": current_state(device.value),
    }
    gc.collect()
    gc.freeze()  # each capture collects garbage: it need not look at what was there before
    samples, failed = [], 0
    with (chosen.out / "samples.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["arch", "device", "kind", "ms..."])
        for number, architecture in enumerate(plan(8 if chosen.tiny else chosen.networks)):
            if time.monotonic() >= until_s:
                break
            text = SPACE.text(architecture)
            try:
                for setting, ms, control_ms in bench.timed(architecture):
                    name = names[setting]
                    samples.append((text, name, float(np.median(ms)), float(np.median(control_ms))))
                    writer.writerow([text, name, "network", *(f"{one:.5f}" for one in ms)])
                    writer.writerow([text, name, "control", *(f"{one:.5f}" for one in control_ms)])
            except torch.cuda.OutOfMemoryError as error:
                failed += 1
                print(f"{text}: {error}", flush=True)
            if (number + 1) % SAVED_EVERY == 0:
                save(chosen.out, samples, names.values(), facts)
                left_s = until_s - time.monotonic()
                print(f"{number + 1} timed, {left_s:.0f} s left", flush=True)
    save(chosen.out, samples, names.values(), facts)
    for name in names.values():
        medians = [m for _, n, m, _ in samples if n == name]
        controls = [c for _, n, _, c in samples if n == name]
        print(
            f"{name}: {len(medians)} times, {min(medians):.3f} to {max(medians):.3f} ms, repeats differ by "
            f"{(noise(samples, name) or 0):.2%}, control {np.median(controls):.3f} ms "
            f"({min(controls):.3f} to {max(controls):.3f}), {failed} failed"
        )


if __name__ == "__main__":
    main()
