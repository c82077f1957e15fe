"""Claim, open: a searched part of a segmenter or detector beats widths scaled alike, at equal measured time.

The start, torchvision's network, is trained from new weights on composed scenes. T is the time of its part of
equally scaled widths, by ONNX Runtime on one core; the search asks the same clock. The winner is compared with the
fastest part of equally scaled widths that is no faster, both timed in turns. It begins with the start's weights,
too, and is trained for the epochs of the supernet and the winner.

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
from pathlib import Path

import numpy as np
from scipy.stats import t as student

import edgenas
from nas.accuracy.learners.opened import open_data
from nas.accuracy.training.trained_folder import WEIGHTS, read_training, trained_folder
from nas.config.build import STARTS
from nas.spaces.registry import space_named
from runtime.machine.timing import Statistic, Stopwatch, TimingConfig, time_interleaved
from runtime.network.formats.onnx_export import onnx_bytes
from runtime.network.formats.onnx_session import OnnxSession

DEVICE = "this-core/onnxruntime/fp32/b1"

RECORDS = "records.jsonl"

START, SEARCH = 0.2, 0.42
"""Shares of the time: the start's training, and the search with the winner's; the rule of thumb has what is left,
as one process among several may have to wait."""

ALIKE = 0.99
"""Least time of the rule of thumb, as a share of the winner's."""

_IN_SEARCH = TimingConfig(samples=30, warm_up_most=20)
_COMPARED = TimingConfig(samples=300)
"""Samples of each network in the search, and of the two that are compared."""


def compare(chosen):
    """Train the start, search among its parts, train the rule of thumb; a record of each."""
    began_s = time.monotonic()
    task, side, hours = chosen.task, chosen.side, chosen.seconds / 3600
    folder = chosen.out / f"{task}-{chosen.seed}"
    settings_of_all = {"data": chosen.data, "task": task, "seed": chosen.seed, "quiet": False}
    outputs = open_data(f"{task}:{chosen.data}", side=side).task.num_classes
    space = space_named(f"elastic:{STARTS[task]}/{outputs},,{side}")
    reference, rules = scaled_alike(space, chosen.share)[0], scaled_alike(space, chosen.share / 2)
    clock = Clock(space, reference, chosen.core, chosen.out / "core.lock")

    def record(name, **values):
        values = {"task": task, "seed": chosen.seed, "name": name, **values}
        values["seconds"] = round(time.monotonic() - began_s, 1)
        line = json.dumps(values)
        print(line, flush=True)
        with (chosen.out / RECORDS).open("a") as file:
            file.write(f"{line}\n")

    start = edgenas.train(
        space=space.name,
        arch=space.text(space.largest),
        runs=folder,
        recipe="scenes",
        epochs=chosen.epochs,
        hours=START * hours,
        settings={"side": side, "images": "train"},
        **settings_of_all,
    )
    record("start", **_judged(read_training(start)))
    searched = edgenas.search(
        network=STARTS[task],
        T=f"{clock.reference_ms:.4f}ms",
        accuracy="inherited",
        latency=clock,
        device=DEVICE,
        hours=SEARCH * hours,
        runs=folder,
        workers=chosen.workers,
        settings={
            "side": side,
            "weights": start / WEIGHTS,
            "accuracy.draws": 200,
            "accuracy.recipe": "scenes",
            "epochs": chosen.epochs,
        },
        **settings_of_all,
    )
    winner = read_training(trained_folder(searched.folder, searched.best.arch))
    supernet = _supernet_epochs(searched.folder)
    record("searched", **_judged(winner), supernet_epochs=supernet)
    rule, searched_ms, rule_ms = clock.nearest(space.parse(winner.arch), rules)
    record("times", searched_ms=searched_ms, rule_ms=rule_ms, samples=_COMPARED.samples)
    left_s = chosen.seconds - (time.monotonic() - began_s)
    scaled = edgenas.train(
        run=searched.folder,
        arch=space.text(rule),
        recipe=winner.recipe["name"],
        epochs=winner.epochs + supernet,
        hours=max(left_s, START * chosen.seconds) / 3600,
        seed=chosen.seed,
        settings={"images": "train"},
    )
    record("rule", **_judged(read_training(scaled)))


def _supernet_epochs(run):
    """Epochs of a search's supernet, by TensorBoard's events."""
    files = (run / "tensorboard" / "supernet").glob("events*")
    return sum(file.read_bytes().count(b"training/loss") for file in files)


def _judged(training):
    interval = training.test.interval
    return {
        "metric": training.metric,
        "test": training.test.fraction,
        "interval": interval,
        "images": training.test.images,
        "valid": training.valid.fraction,
        "epochs": training.epochs,
        "arch": training.arch,
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
                f"{task} seed {seed}: {searched['metric']} searched {searched['test']:.2%} "
                f"({searched['epochs']} + {searched['supernet_epochs']} epochs, "
                f"{times['searched_ms']:.3f} ms), rule {rule['test']:.2%} ({rule['epochs']} epochs, "
                f"{times['rule_ms']:.3f} ms), start {run['start']['test']:.2%}"
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
    parser.add_argument("--epochs", type=int, default=60, help="most, of the start and the winner")
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
