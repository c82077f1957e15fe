"""Claim: two GPUs of a machine finish 1.8 times the trials an hour of one.

    $ NAS_DATA=<folder of tables> python -m benchmarks.own_images_spread --trials 40 --out spread.json
    $ python -m benchmarks.own_images_spread --tiny        # digits on a CPU: that it works

The same trials (random cells of NAS-Bench-201, a few epochs each on CIFAR-10) are trained in processes
as `executor=processes` does, ten on a GPU, first on one GPU and then on all of them. Each process trains once before the clock starts, so that
starting, uploading and capturing are not counted. The accuracies of both are compared: where a trial
runs must not matter.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np
import torch

from benchmarks.own_images import images_of
from nas.accuracy.slow import Fidelity
from nas.accuracy.training.recipe import RECIPES
from nas.accuracy.training.share import take_share
from nas.accuracy.training.trial import TrialTraining
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.trials.executor import Evaluated, Workers


def seconds_of(source, rows, slots):
    """Wall seconds of all trials, and their accuracies in the order of the trials."""
    for slot in range(slots):
        source.submit(slot, rows[slot % len(rows)], 0, slot)
    for _ in range(slots):
        source.wait().result()
    waiting = dict(enumerate(rows))
    numbers, accuracies = {}, {}
    began_s = time.monotonic()
    while waiting or numbers:
        while waiting and len(numbers) < slots:
            number = min(waiting)
            numbers[source.submit(number, waiting.pop(number), 1, number)] = number
        future = source.wait()
        accuracies[numbers.pop(future)] = future.result().accuracy
    return time.monotonic() - began_s, [accuracies[number] for number in range(len(rows))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--per-gpu", type=int, default=10)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.tiny:
        arguments.trials, arguments.epochs, arguments.per_gpu = 4, 1, 1
    images = images_of(tiny=arguments.tiny)
    rows = SPACE.sample(np.random.default_rng(0), arguments.trials)
    trial = TrialTraining(images, SPACE.network, RECIPES["nas_bench_201"])
    fidelities = (Fidelity("1 epoch", 1), Fidelity("trial", arguments.epochs))
    gpus = torch.cuda.device_count()  # no CUDA context in this process
    found = []
    for used in sorted({1, max(1, gpus)}):
        if gpus:
            os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, range(used)))
        slots = arguments.per_gpu * used
        source = Evaluated(
            trial,
            fidelities,
            workers=Workers.processes,
            slots=slots,
            source="trained",
            description="trained",
            prepare=take_share,
        )
        seconds, accuracies = seconds_of(source, rows, slots)
        source.close()
        found.append({"gpus": used if gpus else 0, "slots": slots, "seconds": seconds})
        found[-1]["trials_per_hour"] = 3600 * len(rows) / seconds
        found[-1]["accuracies"] = accuracies
        print(
            f"{used} GPUs, {slots} slots: {seconds:.1f} s, {3600 * len(rows) / seconds:.0f} an hour"
        )
    apart = np.abs(np.subtract(found[-1]["accuracies"], found[0]["accuracies"])).max()
    print(
        f"{found[0]['seconds'] / found[-1]['seconds']:.2f} times the trials; accuracies at most {apart:.4f} apart"
    )
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
