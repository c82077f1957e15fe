"""Table of fine-tunings: what each pretrained network is worth on a data set, for searches to be judged by.

    $ python -m benchmarks.fine_tuning_table --weights FOLDER --data photos0 cifar5000.parquet --out TABLE.csv

Candidates are the networks of the folder at the sides of `SIDES` and of their name; each has a row for its
frozen features, and rows of tuning in the order of `PLAN`, or of the lengths `--epochs`, as many as
`--seconds` allow; those of the table `--done` are left out. Rows are written as they come. Accuracies are of the product's own split of validation, of the test images, and of
every other of them (`even`).

Several processes share the GPU, each with trainings side by side on streams; a process has all jobs of some
shapes of networks, because finding the kernels of a shape takes longer than a training. `seconds` are the
share of a training: its own from begin to end, divided by the number side by side in all processes. Those
of frozen features are of one pass over the training and validation images.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import os
import re
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from copy import deepcopy
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from traceback import clear_frames
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float32, Int64
from numpy import ndarray
from safetensors.numpy import save_file
from torch import nn

from nas.fit.data.image_set import Images
from nas.fit.starts.fine_tuning.frozen import FrozenResult, frozen_features, frozen_result
from nas.fit.starts.fine_tuning.trial import PretrainedImages, PretrainedNetwork, head_of
from nas.fit.starts.pretrained.space import PretrainedSpace, pretrained_space
from nas.fit.training.evaluation import classes_of, device_named
from nas.fit.training.recipe import recipe_named
from nas.fit.training.sources import sources_of
from nas.fit.training.together import TrainingPool
from nas.fit.training.train_on import TrainOn
from nas.fit.training.trainer import Epoch, Trained, TrainingOptions
from nas.spaces.trusted_code import trust

COLUMNS = (
    *("data", "network", "side", "tuning", "epochs", "rate", "seed", "valid", "test", "seconds"),
    *("images", "judged", "published", "prior", "flops", "knn", "logme"),
    "even",
)
BATCH = 256
"""Images that features are taken of at once on a GPU."""

SIDES = {96: (128,), 128: (96,), 160: (128,), 192: (160,), 224: (96, 128)}
"""Sides beside a network's own."""


class Tuning(NamedTuple):
    """A way of tuning."""

    tuning: str
    epochs: int
    rate: float = 1.0
    seed: int = 0


PLAN = (
    *(Tuning("all", epochs) for epochs in (12, 6, 3)),
    *(Tuning("all", epochs, 0.4) for epochs in (12, 3)),
    Tuning("all", 12, 1.0, 1),
    Tuning("stage", 12),
    Tuning("all", 6, 0.4),
)


FROZEN_FEATURES = Tuning("head", 0)
"""Of which a classifier alone is fitted."""


class NetworkAtSide(NamedTuple):
    """A network at a side."""

    network: str
    side: int

    @property
    def shape(self) -> tuple[str, int]:
        """The same for networks of the same kernels."""
        return self.network.rpartition(".")[0] or self.network, self.side


def space_of(weights: str) -> PretrainedSpace:
    """The pool, whose functions the command line names."""
    trust(weights)
    return pretrained_space(weights)


class Row(NamedTuple):
    """What tells rows of a table apart."""

    data: str
    network: str
    side: int
    tuning: str
    epochs: int
    rate: float
    seed: int


def rows_of(table: Path) -> set[Row]:
    """Those of a table."""
    with table.open(encoding="utf-8") as file:
        return {
            Row(
                *(row["data"], row["network"], int(row["side"]), row["tuning"]),
                *(int(row["epochs"]), float(row["rate"]), int(row["seed"])),
            )
            for row in csv.DictReader(file)
        }


def candidates_of(space: PretrainedSpace, sides: Collection[int]) -> list[NetworkAtSide]:
    """All at their own sides, then at others, those of `sides`."""
    pool = [(each.name, each.side) for each in space.pool]
    at_own_sides = [NetworkAtSide(name, side) for name, side in pool]
    at_others = [NetworkAtSide(name, other) for name, side in pool for other in SIDES[side]]
    return [each for each in (*at_own_sides, *at_others) if each.side in sides]


def log_evidence(features: Float32[ndarray, "n f"], labels: Int64[ndarray, "n"]) -> float:
    """LogME (You et al., ICML 2021): mean over classes of the log evidence of linear regression."""
    x = features.astype(np.float64)
    u, s, _ = np.linalg.svd(x, full_matrices=False)
    (n, width), evidences = x.shape, []
    for label in np.unique(labels):
        y = (labels == label).astype(np.float64)
        z, alpha, beta = u.T @ y, 1.0, 1.0
        outside = y @ y - z @ z  # of y, what no direction of the features explains
        for _ in range(50):
            shrunk = alpha + beta * s**2
            effective = (beta * s**2 / shrunk).sum()
            length = ((beta * s * z / shrunk) ** 2).sum()
            residual = ((alpha * z / shrunk) ** 2).sum() + outside
            before = alpha / beta
            alpha, beta = effective / (length + 1e-12), (n - effective) / (residual + 1e-12)
            if abs(alpha / beta / before - 1) < 1e-3:
                break
        determinant = np.log(alpha + beta * s**2).sum() + (width - len(s)) * np.log(alpha)
        fit = beta * residual + alpha * length + determinant + n * np.log(2 * np.pi)
        evidences.append((width * np.log(alpha) + n * np.log(beta) - fit) / 2 / n)
    return float(np.mean(evidences))


def neighbours_accuracy(features: Float32[ndarray, "n f"], labels: Int64[ndarray, "n"]) -> float:
    """Accuracy of the 5 nearest by cosine, each image left out of its own."""
    directions = features / np.linalg.norm(features, axis=1, keepdims=True)
    near = directions @ directions.T
    np.fill_diagonal(near, -np.inf)
    votes = np.eye(labels.max() + 1)[labels[np.argpartition(-near, 5)[:, :5]]].sum(1)
    return float((votes.argmax(1) == labels).mean())


@dataclass
class Worker:
    """The jobs of some candidates, in one process."""

    weights: str
    data: Sequence[str]
    out: Path
    candidates: Sequence[NetworkAtSide]
    at_once: int
    in_all: int  # trainings side by side, of all processes
    plan: Sequence[Tuning]
    done: Collection[Row]
    memory: float  # share of a GPU's
    most_steps: int  # of an epoch, beyond which batches grow

    def __call__(self) -> None:
        """Features of all, then trainings in the order of the plan."""
        torch.set_num_threads(2)
        if torch.cuda.is_available():
            torch.cuda.set_per_process_memory_fraction(self.memory)
        self.space = space_of(self.weights)
        with ThreadPoolExecutor(2) as builder:
            for data in self.data:
                self.rows_of(data, builder)

    def rows_of(self, data: str, builder: ThreadPoolExecutor) -> None:
        """All rows of a data set; a GPU holds its images alone."""
        self.images = {
            each.side: PretrainedImages(self.space, data)(self.row(each))
            for each in self.candidates
        }
        self.networks: dict[tuple[NetworkAtSide, str], Future[nn.Module]] = {}
        for candidate in self.candidates:
            features = self.features(data, candidate)
            network = builder.submit(self.frozen, data, candidate, *features)
            network.add_done_callback(complain)
            self.networks[candidate, "all"] = network
        device = device_named("auto")
        self.sources = {
            side: sources_of(each, TrainOn.train, device) for side, each in self.images.items()
        }
        wait(self.networks.values())  # a GPU captures no graphs while a classifier is fitted on it
        first = next(iter(self.images.values()))
        few = Images(first.train.pixels[:64], first.train.labels[:64])
        with TrainingPool(replace(first, train=few), side_by_side=self.at_once) as pool:
            trainings = []
            for kind, candidate in itertools.product(self.plan, self.candidates):
                if Row(Path(data).stem, *candidate, *kind) in self.done:
                    continue
                key = candidate, kind.tuning
                if key not in self.networks:
                    self.networks[key] = builder.submit(self.built, data, *key)
                trainings.append(self.submit(pool, kind, data, candidate))
            wait(trainings)

    def row(self, candidate: NetworkAtSide, tuning: str = "head") -> Int64[ndarray, "3"]:
        """The candidate in the space."""
        return self.space.parse(
            f"network={candidate.network} side={candidate.side} tuning={tuning}"
        )

    def began(self, data: str) -> PretrainedNetwork:
        """What builds networks for a data set."""
        heads = self.out.parent / "heads" / Path(data).name
        heads.mkdir(parents=True, exist_ok=True)
        return PretrainedNetwork(self.space, PretrainedImages(self.space, data), heads)

    def built(self, data: str, candidate: NetworkAtSide, tuning: str) -> nn.Module:
        """A network before it is tuned; the same for all lengths and rates."""
        images = self.images[candidate.side]
        return self.began(data)(self.row(candidate, tuning), images.task)

    def features(
        self, data: str, candidate: NetworkAtSide
    ) -> tuple[float, list[Float32[ndarray, "n f"]]]:
        """Seconds of one pass, and features of the splits."""
        images, row = self.images[candidate.side], self.row(candidate)
        network, device = self.space.start(row, images.task), device_named("auto")
        is_done = Row(Path(data).stem, *candidate, *FROZEN_FEATURES) in self.done
        splits = [images.train, images.valid, images.test]
        if is_done:
            splits.pop()
        more = images.train.pixels[: -sum(map(len, splits)) % BATCH]  # batches of one size
        pixels = np.concatenate([*(each.pixels for each in splits), more])
        every = Images(pixels, np.zeros(len(pixels), np.int64))
        few = Images(every.pixels[:BATCH], every.labels[:BATCH])
        frozen_features(network, [few], images, device)  # finds a GPU's kernels
        began_s = time.perf_counter()
        (features,) = frozen_features(network, [every], images, device)
        seconds = time.perf_counter() - began_s
        begins = np.cumsum([len(each) for each in splits])
        return seconds * begins[1] / len(pixels), np.split(features, begins)[: len(splits)]

    def frozen(
        self, data: str, candidate: NetworkAtSide, seconds: float, features: list[ndarray]
    ) -> nn.Module:
        """Judge frozen features, and build the network with the classifier on them."""
        images, row = self.images[candidate.side], self.row(candidate)
        labels = [np.asarray(each.labels) for each in (images.train, images.valid, images.test)]
        parts = list(zip(features[:2], labels[:2], strict=True))
        result: FrozenResult = frozen_result(parts[0], parts[1], len(images.classes))
        head = head_of(self.began(data).heads, self.space, row)
        save_file({"weight": result.weight, "bias": result.bias}, head)
        if len(features) == 2:  # the row is there
            return self.built(data, candidate, "all")
        right = (features[2] @ result.weight.T + result.bias).argmax(1) == labels[2]
        every, truth = np.concatenate(features[:2])[:4000], np.concatenate(labels[:2])[:4000]
        self.write(
            data,
            candidate,
            FROZEN_FEATURES,
            (result.left_out, float(right.mean()), seconds),
            even=float(right[::2].mean()),
            flops=float(self.space.costs(row, images.task)["flops"]),
            knn=neighbours_accuracy(every, truth),
            logme=log_evidence(every, truth),
        )
        return self.built(data, candidate, "all")

    def submit(
        self, pool: TrainingPool, kind: Tuning, data: str, candidate: NetworkAtSide
    ) -> Future[Trained]:
        """Train, judge by the test images at the end, write the row."""
        images, usual = self.images[candidate.side], recipe_named("fine_tuning")
        recipe = replace(
            usual, epochs=kind.epochs, lr=usual.lr * kind.rate, most_steps=self.most_steps
        )
        sources = self.sources[candidate.side]
        network = self.networks[candidate, kind.tuning]
        tuned: list[nn.Module] = []
        outside: list[ndarray] = []

        def begin() -> nn.Module:
            tuned.append(deepcopy(network.result()))
            return tuned[0]

        def judge(epoch: Epoch) -> None:
            if epoch.number == kind.epochs:
                answers = classes_of(tuned.pop(), images.test, images).cpu().numpy()
                outside.append(answers == images.test.labels)

        def ended(training: Future[Trained]) -> None:
            seconds = training.result().seconds / self.in_all
            answers = (training.result().accuracy, float(outside[0].mean()), seconds)
            self.write(data, candidate, kind, answers, even=float(outside[0][::2].mean()))

        options = TrainingOptions(seed=kind.seed, evaluate_every=kind.epochs, on_epoch=judge)
        future = pool.submit(begin, recipe, options, sources)
        future.add_done_callback(lambda each: complain(each) or ended(each))
        return future

    def write(
        self,
        data: str,
        candidate: NetworkAtSide,
        kind: Tuning,
        answers: tuple[float, float, float],
        **more: float,
    ) -> None:
        """Append a row."""
        images, row = self.images[candidate.side], self.row(candidate)
        values: dict[str, object] = {
            "data": Path(data).stem,
            **candidate._asdict(),
            **kind._asdict(),
            **zip_rounded(("valid", "test", "seconds"), answers),
            "images": len(images.train),
            "judged": len(images.valid),
            "published": self.space.pooled(row).top1,
            **zip_rounded(("prior",), self.space.prior(row[None])),
            **zip_rounded(more, more.values()),
        }
        with self.out.open("a", encoding="utf-8", newline="") as file:
            csv.DictWriter(file, COLUMNS).writerow(values)


def zip_rounded(names: Iterable[str], values: Iterable[float]) -> dict[str, str]:
    """Texts of values, by name."""
    return {name: f"{value:.4f}" for name, value in zip(names, values, strict=True)}


def complain(future: Future[Any]) -> bool:
    """A job that fails costs one row, and keeps no memory."""
    error = future.exception()
    if error is not None:
        print(f"{type(error).__name__}: {error}", flush=True)
        clear_frames(error.__traceback__)
    return error is not None


def open_one(weights: str, data: str, network: str, side: int) -> None:
    """Decode the images for a side."""
    space = space_of(weights)
    PretrainedImages(space, data)(space.parse(f"network={network} side={side} tuning=head"))


def main() -> None:
    """Share the shapes between processes, each about as much work, until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", required=True)
    parser.add_argument("--data", nargs="+", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=400)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--side-by-side", type=int, default=3)
    parser.add_argument("--sides", type=int, nargs="+", default=[96, 128, 160, 192, 224])
    parser.add_argument("--match", default="", help="regular expression in names of networks")
    parser.add_argument("--epochs", type=int, nargs="+")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="of each of --epochs")
    parser.add_argument("--done", type=Path)
    parser.add_argument("--memory", type=float, default=1.0)
    parser.add_argument(
        "--most-steps",
        type=int,
        default=recipe_named("fine_tuning").most_steps,
        help="of an epoch, beyond which batches grow",
    )
    arguments = parser.parse_args()
    ends_s = time.monotonic() + arguments.seconds
    space = space_of(arguments.weights)
    candidates = [
        each
        for each in candidates_of(space, arguments.sides)
        if re.search(arguments.match, each.network)
    ]
    lengths = itertools.product(arguments.epochs or (), arguments.seeds)
    plan = [Tuning("all", epochs, 1.0, seed) for epochs, seed in lengths] or PLAN
    done = rows_of(arguments.done) if arguments.done else set()
    by_side = {each.side: each.network for each in candidates}
    context = get_context("spawn")
    decoding = [
        (arguments.weights, data, network, side)
        for data in arguments.data
        for side, network in by_side.items()
    ]
    with context.Pool(min(len(os.sched_getaffinity(0)), len(decoding))) as pool:
        pool.starmap(open_one, decoding, chunksize=1)
    print(f"decoded, {ends_s - time.monotonic():.0f} s left", flush=True)
    groups = defaultdict(list)
    for candidate in candidates:
        groups[candidate.shape].append(candidate)
    shares: list[list[NetworkAtSide]] = [[] for _ in range(arguments.processes)]

    def work(share: list[NetworkAtSide]) -> float:
        return sum(100**2 + each.side**2 for each in share)

    for group in sorted(groups.values(), key=work, reverse=True):
        min(shares, key=work).extend(group)
    with arguments.out.open("w", encoding="utf-8") as file:
        file.write(",".join(COLUMNS) + "\n")
    in_all = arguments.processes * arguments.side_by_side
    settings = arguments.weights, arguments.data, arguments.out
    workers = [
        context.Process(
            target=Worker(
                *(*settings, share, arguments.side_by_side, in_all),
                *(plan, done, arguments.memory / arguments.processes),
                arguments.most_steps,
            )
        )
        for share in shares
        if share
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(max(0.0, ends_s - time.monotonic()))
        worker.kill()


if __name__ == "__main__":
    main()
