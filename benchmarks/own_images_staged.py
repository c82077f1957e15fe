"""The staged search on CIFAR-10 for a device, judged by the table of NAS-Bench-201.

    $ NAS_DATA=<folder of tables> python -m benchmarks.own_images_staged --device 0 --out results/

Needs a GPU. The search sees the images (half of the training images, validated on the other half, as
in the benchmark's `valid` protocol) and the latencies; the table judges the network that it chooses by
its test accuracy after 200 epochs: the gap to the best within T, in points. The winner is not trained.

Trainings are shared by the folder `trainings` in `--out`, also with processes that search for other
devices at the same time, a GPU each: a training that is there is not trained again, but takes one of
the `--at-once` places for its seconds as if it were. So each search has its `--minutes` of one GPU,
of which `nas.trials.staged.stages` leaves the stages their shares. Searches with another `--seed` draw
other candidates and score them on another batch; their trainings have one seed and are shared, too.
`--longer 6953,14964` trains these cells for the epochs of the last stage, and nothing else.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import time
from concurrent.futures import Future
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.own_images import DEVICES, STARTED_S, images_of, problem_of, say
from common.files.atomic_file import write_whole
from common.types.kind import Kind
from nas.accuracy.base import Split
from nas.accuracy.images.image_set import ImageSet
from nas.accuracy.own_images import SHARES, StagedConfig
from nas.accuracy.short import SideBySide
from nas.accuracy.slow import Evaluation, Fidelity
from nas.accuracy.training.recipe import RECIPES
from nas.search.own_images.scoring import ProxyScores
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.trials.asynchronous import Asynchronous
from nas.trials.problem import SearchProblem
from nas.trials.staged.candidates import Candidates, draw, scored
from nas.trials.staged.proposer import StagedProposer
from nas.trials.staged.stages import Stages

TRAINING_SEED = 0


class SharedTrainings:
    """A `SlowAccuracySource` that trains each network once; its clock counts the seconds each time.

    A file in `folder` is a training: of this process, or of one that works for another device. The
    clock is that of a GPU with `at_once` places: each training takes the first that is free.
    """

    source, description = "trained", "shared trainings"

    def __init__(self, inner: SideBySide, at_once: int, folder: Path) -> None:
        self.fidelities = inner.fidelities
        self.played = 0  # trainings that were not trained again
        self._inner, self._folder = inner, folder
        self._free_s = [0.0] * at_once  # a heap: the ends of the free places
        self._began_s: dict[Future[Evaluation], float] = {}
        self._paths: dict[Future[Evaluation], Path] = {}
        self._known: list[tuple[float, int, Future[Evaluation]]] = []  # a heap: by their ends

    def submit(self, trial, architecture, fidelity, seed):
        """Train, or play what is known already; the search's own seed is not that of the training."""
        del seed
        epochs = self.fidelities[fidelity].epochs
        path = self._folder / f"{int(SPACE.numbers(architecture))}-{epochs}-{TRAINING_SEED}.json"
        began_s = heapq.heappop(self._free_s)
        if path.is_file():
            accuracy, seconds = json.loads(path.read_text())
            future = Future()
            future.set_result(Evaluation(accuracy, Kind.trained, seconds))
            self.played += 1
            heapq.heappush(self._known, (began_s + seconds, trial, future))
        else:
            future = self._inner.submit(trial, architecture, fidelity, TRAINING_SEED)
            self._paths[future] = path
        self._began_s[future] = began_s
        return future

    def wait(self, timeout_s=math.inf):
        """Wait for the next end, of those that are known first, and keep what was trained."""
        future = heapq.heappop(self._known)[-1] if self._known else self._inner.wait(timeout_s)
        if future is None:
            return None
        path, end_s = self._paths.pop(future, None), self._began_s.pop(future)
        if future.exception() is None:
            one = future.result()
            end_s += one.seconds
            if path is not None:
                write_whole(path, json.dumps([one.accuracy, one.seconds]))
        heapq.heappush(self._free_s, end_s)
        return future

    def now_s(self) -> float:
        """When the next training can begin, in seconds of a GPU that trains all of them."""
        return self._free_s[0] if self._free_s else min(self._began_s.values())

    def end_s(self) -> float:
        """When the last training has ended, likewise."""
        return max(self._free_s)

    def close(self) -> None:
        """Leave the inner source open; `main` closes it."""


def search(
    problem: SearchProblem,
    candidates: Candidates,
    source: SharedTrainings,
    arguments: argparse.Namespace,
) -> tuple[Stages, StagedProposer]:
    """Train until the shares of the time, or the time of the script, are over."""
    ends = accumulate(60 * arguments.minutes * share for share in SHARES.values())
    until_s = dict(zip(SHARES, ends, strict=True))
    stages = Stages(candidates, source.fidelities, until_s, arguments.at_once)
    proposer = StagedProposer(stages, arguments.seed)
    loop = Asynchronous(problem, source, stages.parallel)
    for batch in loop.search(proposer, elapsed_s=candidates.seconds):
        trial = batch.replica(0)
        say(
            f"training {trial.number[0] + 1}: cell {SPACE.numbers(trial.architectures[0])},",
            f"{source.fidelities[trial.fidelity[0]].name}, {trial.accuracy[0]:.2%},",
            f"{trial.seconds[0]:.1f} s {trial.error[0]}",
        )
        if time.monotonic() - STARTED_S > 60 * arguments.wall_minutes:
            say("the time of the script is over")
            break
    return stages, proposer


def judged(
    where: tuple[str, float], stages: Stages, proposer: StagedProposer, source: SharedTrainings
) -> dict[str, Any]:
    """What each stage would have chosen, with its gap to the best within T by the table."""
    judge = problem_of(*where, 200, Split.test)
    test = judge.accuracy.answer(SPACE.rows).fraction
    within = judge.oracle.answer(SPACE.rows).ms <= judge.limit_ms
    rows, best = stages.candidates.architectures, test[within].max()
    chosen = {
        "proxies alone": np.argmax(stages.prior),
        "after short trainings": stages.ranked(proposer.results)[0],
        "staged": stages.order(proposer.results)[0],
    }
    cells = {name: int(SPACE.numbers(rows[at])) for name, at in chosen.items()}
    return {
        "device": where[0],
        "limit_ms": where[1],
        "candidates": len(rows),
        "trainings": {
            fidelity.name: sum(job.fidelity == i for job in proposer.results)
            for i, fidelity in enumerate(source.fidelities)
        },
        "shared": source.played,
        "seconds": stages.candidates.seconds + source.end_s(),
        "cells": cells,
        "gap": {
            "random network, mean": float(100 * (best - test[within].mean())),
            **{name: float(100 * (best - test[cell])) for name, cell in cells.items()},
        },
    }


def train_longer(cells: str, source: SharedTrainings) -> None:
    """Train these cells for the epochs of the last stage."""
    last = len(source.fidelities) - 1
    numbers = [int(number) for number in cells.split(",")]
    cell_of = {
        source.submit(trial, SPACE.architectures(np.array(number)), last, 0): number
        for trial, number in enumerate(numbers)
    }
    for _ in numbers:
        future = source.wait()
        say(f"cell {cell_of[future]}: {future.result().accuracy:.2%}")


def searched(images: ImageSet, source: SharedTrainings, arguments: argparse.Namespace) -> None:
    """Search for the device, and write what the table says of the network found."""
    where = DEVICES[arguments.device]
    problem = problem_of(*where, 12, Split.valid)
    draws = 40 if arguments.tiny else StagedConfig().draws
    candidates = draw(problem, arguments.seed, draws, math.inf)
    score = ProxyScores(SPACE, images, arguments.seed)
    seconds = SHARES["scores"] * 60 * arguments.minutes
    candidates = scored(candidates, score.each, score.aggregate, seconds)
    say(f"scored {len(candidates)} of {candidates.within} in {candidates.score_s:.0f} s")
    stages, proposer = search(problem, candidates, source, arguments)
    found = judged(where, stages, proposer, source)
    name = f"staged-{arguments.device}-{arguments.seed}.json"
    write_whole(arguments.out / name, json.dumps(found, indent=2))
    say(json.dumps(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("staged"))
    parser.add_argument("--device", type=int, default=0, choices=range(len(DEVICES)))
    parser.add_argument("--minutes", type=float, default=20.0, help="of the search, of one GPU")
    parser.add_argument("--wall-minutes", type=float, default=20.0, help="of the whole script")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--at-once", type=int, default=8, help="trainings")
    parser.add_argument(
        "--longer", help="at most --at-once cells to train for the epochs of the last stage"
    )
    parser.add_argument("--tiny", action="store_true", help="digits, for a test on a CPU")
    arguments = parser.parse_args()
    images = images_of(tiny=arguments.tiny)
    say("images are ready", images.report)
    inner = SideBySide(
        images,
        SPACE.network,
        RECIPES["nas_bench_201"],
        tuple(Fidelity(f"{n} epochs", n) for n in ((1, 2) if arguments.tiny else (12, 36))),
        at_once=arguments.at_once,
        source="trained",
        description="trained",
    )
    source = SharedTrainings(inner, arguments.at_once, arguments.out / "trainings")
    try:
        if arguments.longer:
            train_longer(arguments.longer, source)
        else:
            searched(images, source, arguments)
    finally:
        inner.close()


if __name__ == "__main__":
    main()
