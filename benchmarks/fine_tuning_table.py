"""Table of fine-tunings: what each pretrained network is worth on a data set, for searches to be judged by.

    $ python -m benchmarks.fine_tuning_table --weights FOLDER --jobs JOBS.txt --out TABLE.csv

A job is a line of `JOB`'s values: data set, network, side, tuning, epochs (0: frozen features), learning
rate and its share for the body, RandAugment (0 or 1), seed. Rows hold them with the accuracies on
validation and test images, and the seconds. Jobs that the table has are not run again; those that
have not ended after `--minutes` are left out.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import torch

from nas.accuracy.fine_tuning.trial import FineTuningTrial, PretrainedImages, PretrainedNetwork
from nas.accuracy.slow import Fidelity
from nas.accuracy.training.evaluation import accuracy_of
from nas.accuracy.training.recipe import recipe_named
from nas.accuracy.training.trainer import TrainingOptions, train
from nas.spaces.pretrained.space import pretrained_space

JOB = ("data", "network", "side", "tuning", "epochs", "lr", "body_lr", "rand_augment", "seed")
COLUMNS = (*JOB, "valid", "test", "images", "seconds")


def run(weights: str, heads: Path, job: tuple[str, ...]) -> tuple[str, ...]:
    """The row of a job."""
    torch.set_num_threads(1)
    data, name, side, tuning, epochs, lr, body_lr, rand_augment, seed = job
    space = pretrained_space(weights)
    row = space.parse(f"network={name} side={side} tuning={tuning}")
    folder = heads / Path(data).name
    began = PretrainedNetwork(space, PretrainedImages(space, data), folder)
    images = began.images(row)
    began_s = time.perf_counter()
    if epochs == "0":
        trial = FineTuningTrial(began, recipe_named("fine_tuning"), len(images.classes))
        answer = trial(row, Fidelity("frozen", 0), 0)
        seconds, valid = time.perf_counter() - began_s, answer.accuracy
        device = "cuda" if torch.cuda.is_available() else "cpu"
        test = accuracy_of(began(row, images.task).to(device).eval(), images.test, images)
    else:
        recipe = replace(
            recipe_named("fine_tuning"),
            epochs=int(epochs),
            lr=float(lr),
            body_lr=float(body_lr),
            rand_augment=rand_augment == "1",
        )
        torch.manual_seed(int(seed))
        network = began(row, images.task)
        options = TrainingOptions(seed=int(seed), evaluate_every=int(epochs))
        trained = train(network, images, recipe, options)
        seconds, valid = time.perf_counter() - began_s, trained.accuracy
        test = accuracy_of(network, images.test, images)
    return (*job, f"{valid:.4f}", f"{test:.4f}", str(len(images.train)), f"{seconds:.1f}")


def main() -> None:
    """Run what is missing, the first jobs first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", required=True)
    parser.add_argument("--jobs", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60.0)
    arguments = parser.parse_args()
    ends_s = time.monotonic() + 60 * arguments.minutes
    out, heads = arguments.out, arguments.out.parent / "heads"
    done = set()
    if out.is_file():
        with out.open(encoding="utf-8") as file:
            done = {tuple(row[name] for name in JOB) for row in csv.DictReader(file)}
    else:
        out.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")
    jobs = [tuple(line.split()) for line in arguments.jobs.read_text("utf-8").splitlines() if line]
    with ProcessPoolExecutor(arguments.workers, mp_context=get_context("spawn")) as pool:
        asked = [pool.submit(run, arguments.weights, heads, job) for job in jobs if job not in done]
        for answer in as_completed(asked):
            try:
                with out.open("a", encoding="utf-8") as file:
                    file.write(",".join(answer.result()) + "\n")
            except Exception as error:  # noqa: BLE001 - one network that fails costs one row
                print(f"{type(error).__name__}: {error}", flush=True)
            if time.monotonic() > ends_s:
                os._exit(0)


if __name__ == "__main__":
    main()
