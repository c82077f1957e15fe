"""Claim: a searched part of a segmenter or detector beats widths scaled alike, at equal measured time.

The start, torchvision's network, is trained from random initialisation on composed scenes. T is the time of its part of
equally scaled widths, by ONNX Runtime on one core; the product's search asks the same clock. Its winner is compared
with the fastest part of equally scaled widths that is no faster, both timed in turns. Then both are trained alike:
the start's weights, the same epochs and batches, the weights of the last epoch.

    $ python -m benchmarks.scenes cifar10-jpeg.parquet scenes/
    $ python -m benchmarks.scene_search scenes/ out/ --task segmentation --share 0.5 --seed 0 --core 3
    $ python -m benchmarks.scene_search scenes/ out/ --summary

A line of out/records.jsonl is a training, or the times; `--summary` reads them: differences of test metrics, a
seed each, with Student's interval of their mean.
"""

import argparse
import fcntl
import json
import os
import time
from bisect import bisect_left
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from scipy.stats import t as student

import edgenas
from edgenas_core.inference.formats.onnx_export import onnx_bytes
from edgenas_core.inference.formats.onnx_session import OnnxSession
from edgenas_core.machine.timing import Statistic, Stopwatch, TimingConfig, time_interleaved
from nas.fit.build import STARTS
from nas.fit.learners.opened import open_data
from nas.fit.training.captured import opened_slot
from nas.fit.training.device import Kernels
from nas.fit.training.evaluation import device_named, metric_of
from nas.fit.training.network import untrained
from nas.fit.training.recipe import recipe_named
from nas.fit.training.sources import sources_of
from nas.fit.training.train_on import TrainOn
from nas.fit.training.trainer import TrainingOptions, run_to_end, training
from nas.spaces.registry import space_named

DEVICE = "this-core/onnxruntime/fp32/b1"

RECORDS, RECIPE = "records.jsonl", "scenes"

START, SEARCH = 0.25, 0.7
"""Shares of the time: the start's training, and the search, whose winner's share of 40 % of it is left to the two
that are compared."""

MARGIN = 0.75
"""Share of the time that is left for which their epochs are planned by the start's, which is larger."""

JUDGED_EVERY = 10
"""Epochs of a training after which it is judged on the validation images."""

ALIKE = 0.99
"""Least time of the baseline, as a share of the winner's."""

_IN_SEARCH = TimingConfig(samples=30, warm_up_most=20)
_COMPARED = TimingConfig(samples=300)
"""Samples of each network in the search, and of the two that are compared."""


def compare(chosen):
    """Train the start, search among its parts, train the winner and the baseline; a record of each."""
    began_s = time.monotonic()
    task, side = chosen.task, chosen.side
    folder = chosen.out / f"{task}-{chosen.seed}"
    folder.mkdir(parents=True, exist_ok=True)
    data = open_data(f"{task}:{chosen.data}", side=side)
    if torch.cuda.is_available():
        torch.cuda.set_per_process_memory_fraction(chosen.memory)
    if chosen.eager:
        type(data.learner).has_equal_steps = False
    name = f"elastic:{STARTS[task]}/{data.task.num_classes}"
    space, weights = space_named(f"{name},,{side}"), folder / "start.safetensors"
    reference, rules = scaled_alike(space, chosen.share)[0], scaled_alike(space, chosen.share / 2)
    clock = Clock(space, reference, chosen.core, chosen.out / "core.lock")

    def record(name, **values):
        values = {"task": task, "seed": chosen.seed, "name": name, **values}
        values["seconds"] = round(time.monotonic() - began_s, 1)
        line = json.dumps(values)
        print(line, flush=True)
        with (chosen.out / RECORDS).open("a") as file:
            file.write(f"{line}\n")

    def trained(name, network, epochs, ends_s=None):
        epoch_s, result = _trained(network, data, epochs, chosen.seed, ends_s)
        record(name, **result, **_judged(network, data))
        return epoch_s

    start = untrained(space, space.largest, data.task)
    ends_s = began_s + START * chosen.seconds
    epoch_s = trained("start", start, chosen.start_epochs, ends_s)
    save_file({name: each.cpu().contiguous() for name, each in start.state_dict().items()}, weights)
    del start
    searched = edgenas.fit(
        network=STARTS[task],
        T=f"{clock.reference_ms:.4f}ms",
        start="network",
        latency=clock,
        device=DEVICE,
        hours=SEARCH * chosen.seconds / 3600,
        out=folder,
        workers=chosen.workers,
        data=chosen.data,
        task=task,
        seed=chosen.seed,
        quiet=False,
        settings={
            "side": side,
            "weights": weights,
            "recipe": RECIPE,
            "epochs": chosen.search_epochs,
        },
    )
    best = searched.best
    record(
        "search", arch=best.arch, ranked=best.accuracy_searched, samples=searched.summary.samples
    )
    winner = space.parse(best.arch)
    rule, searched_ms, rule_ms = clock.nearest(winner, rules)
    record("times", searched_ms=searched_ms, rule_ms=rule_ms, samples=_COMPARED.samples)
    parts = space_named(f"{name},{weights.absolute()},{side}")
    left_s = chosen.seconds - (time.monotonic() - began_s)
    epochs = max(1, min(chosen.epochs, int(MARGIN * left_s / 2 / epoch_s)))
    for name, row in (("searched", winner), ("rule", rule)):
        trained(name, untrained(parts, row, data.task), epochs)


def _trained(network, data, epochs, seed, ends_s=None):
    """Train in place, up to so many epochs that fit into the time; seconds of an epoch, and what to record."""
    recipe, began_s, ended = replace(recipe_named(RECIPE), epochs=epochs), time.monotonic(), []

    def on_epoch(epoch):
        ended.append(time.monotonic())
        if epoch.accuracy is not None or epoch.number < 3:
            print(
                f"{epoch.number}/{epoch.epochs} loss {epoch.loss:.3f} {epoch.accuracy}", flush=True
            )

    def epochs_left(_epoch):
        epoch_s = (ended[-1] - ended[0]) / (len(ended) - 1) if len(ended) > 1 else 0.001
        return int((ends_s - ended[-1]) / epoch_s)

    options = TrainingOptions(
        seed=seed,
        evaluate_every=JUDGED_EVERY,
        on_epoch=on_epoch,
        epochs_left=None if ends_s is None else epochs_left,
    )
    device = device_named("auto")
    sources = sources_of(data, TrainOn.train, device)
    # kernels that are guessed: six processes that try them all would wait for each other for minutes
    with opened_slot(device, Kernels.guessed) as slot:
        done = run_to_end(training(sources, network, recipe, options, slot))
    took_s = ended[-1] - began_s
    epoch_s = (ended[-1] - ended[0]) / max(1, len(ended) - 1) or took_s
    result = {"epochs": done.epochs, "losses": [round(each, 4) for each in done.losses]}
    return epoch_s, {**result, "epoch_s": round(epoch_s, 2), "training_s": round(took_s, 1)}


def _judged(network, data):
    valid, test = (metric_of(network, split, data) for split in (data.valid, data.test))
    return {
        "metric": test.name,
        "test": test.value,
        "interval": test.interval,
        "images": len(data.test),
        "valid": valid.value,
        "parameters": sum(each.numel() for each in network.parameters()),
    }


def scaled_alike(space, share=0.5):
    """Networks of the whole depth and kernels, whose widths are nearest to a share or more, the least first."""
    rows = []
    for share_of_row in np.linspace(share, 1, 51):
        row = space.largest.copy()
        for at, widths in enumerate(space.structure.widths, len(row) - len(space.structure.widths)):
            row[at] = np.abs(np.array(widths) - share_of_row * max(widths)).argmin()
        if not rows or (row != rows[-1]).any():
            rows.append(row)
    return rows


class Clock:
    """Times networks by ONNX Runtime on one core, in turns with a reference whose time was taken first."""

    def __init__(self, space, reference, core, lock):
        """A process at a time uses the core."""
        self._space, self._core, self._lock = space, core, lock
        self._reference, self._known_ms = self._call(reference), {}
        with self._alone():
            self.reference_ms = self._medians([self._reference], _COMPARED)[0]

    def __call__(self, rows):
        """Milliseconds of each row, (n, D) to (n)."""
        return np.array([self._ms(row) for row in np.asarray(rows)])

    def nearest(self, row, rules):
        """The fastest of wider and wider rules that is no faster than the row, and both times: by bisection."""
        call, times = self._call(row), {}

        def is_slower(at):
            calls = [call, self._call(rules[at])]
            with self._alone():
                times[at] = self._medians(calls, _COMPARED)
            return times[at][1] >= ALIKE * times[at][0]

        at = bisect_left(range(len(rules) - 1), 1, key=is_slower)
        if at not in times:
            is_slower(at)
        return rules[at], *times[at]

    def _ms(self, row):
        key = self._space.text(row)
        if key not in self._known_ms:
            call = self._call(row)
            with self._alone():
                ms, reference_ms = self._medians([call, self._reference], _IN_SEARCH)
            self._known_ms[key] = self.reference_ms * ms / reference_ms
        return self._known_ms[key]

    def _call(self, row):
        task = self._space.tasks[self._space.default_task]
        images = self._space.example_input(row, task, 1)
        session = OnnxSession(onnx_bytes(self._space.network(row, task), [images]))
        return session.resident(images.numpy())

    def _medians(self, calls, timing):
        samples = time_interleaved(calls, timing, np.random.default_rng(0), Stopwatch())
        return [float(Statistic.median.of(each.ms)) for each in samples]

    @contextmanager
    def _alone(self):
        before = os.sched_getaffinity(0)
        with self._lock.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            os.sched_setaffinity(0, before if self._core is None else {self._core})
            try:
                yield
            finally:
                os.sched_setaffinity(0, before)


def summary(out):
    """Lines of a table: the paired differences of each task."""
    records = [json.loads(line) for line in (out / RECORDS).read_text().splitlines()]
    by_run = {}
    for each in records:
        by_run.setdefault(each["task"], {}).setdefault(each["seed"], {})[each["name"]] = each
    for task, seeds in by_run.items():
        ended = {seed: run for seed, run in sorted(seeds.items()) if "rule" in run}
        for seed, run in ended.items():
            searched, rule, times = run["searched"], run["rule"], run["times"]
            yield (
                f"{task} seed {seed}: {searched['metric']} searched {searched['test']:.2%}, {times['searched_ms']:.3f} ms, "
                f"rule {rule['test']:.2%}, {times['rule_ms']:.3f} ms, {rule['epochs']} epochs each; "
                f"start {run['start']['test']:.2%}, {run['start']['epochs']} epochs"
            )
        points = [100 * (run["searched"]["test"] - run["rule"]["test"]) for run in ended.values()]
        if len(points) > 1:
            half = student.ppf(0.975, len(points) - 1) * np.std(points, ddof=1) / len(points) ** 0.5
            yield f"{task}: {np.mean(points):+.2f} points +- {half:.2f} (n = {len(points)} seeds, 95 %)"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("out", type=Path)
    parser.add_argument("--task", choices=list(STARTS))
    parser.add_argument("--share", type=float, default=0.5, help="of all widths, whose time is T")
    parser.add_argument("--side", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--epochs", type=int, default=60, help="most, of the two compared")
    parser.add_argument("--start-epochs", type=int, default=100, help="most")
    parser.add_argument(
        "--search-epochs", type=int, default=4, help="most, of a training in the search"
    )
    parser.add_argument("--memory", type=float, default=1.0, help="share of the GPU's")
    parser.add_argument("--eager", action="store_true", help="capture no steps")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--core", type=int, help="core to time on")
    parser.add_argument("--cores", help="others, as 0,1,2: of all else")
    parser.add_argument("--summary", action="store_true")
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    if chosen.cores:
        os.sched_setaffinity(0, set(map(int, chosen.cores.split(","))))
    if chosen.summary:
        print("\n".join(summary(chosen.out)))
    else:
        compare(chosen)


if __name__ == "__main__":
    main()
