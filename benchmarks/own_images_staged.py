"""The staged search on CIFAR-10 for three devices, judged by the table of NAS-Bench-201.

    $ NAS_DATA=<folder of tables> python benchmarks/own_images_staged.py --out results/

Needs a GPU. The search sees the images (half of the training images, validated on the other half, as
in the benchmark's `valid` protocol) and the latencies; the table judges the network that it chooses by
its test accuracy after 200 epochs: the gap to the best within T, in points. The winner is not trained.

Scores and trainings are shared: a network that an earlier device's search trained is not trained
again, but its seconds count against this search's time as if it were. So each search has its
`--minutes` of one GPU, of which `nas.trials.staged.stages` leaves the stages their shares.
`trainings.json` in `--out` keeps all trainings; another run with it goes on from there.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import queue
import time
import traceback
from concurrent.futures import Future
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import torch

from latency.sources.table import AutoLatencyConfig
from nas.accuracy.base import Split
from nas.accuracy.images.image_set import ImageSet
from nas.accuracy.images.open import open_images
from nas.accuracy.own_images import StagedConfig
from nas.accuracy.slow import Evaluation, Fidelity
from nas.accuracy.table import TableAccuracyConfig
from nas.accuracy.training.recipe import RECIPES
from nas.accuracy.training.share import take_share
from nas.accuracy.training.trial import TrialTraining
from nas.search.own_images.scoring import ProxyScores
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.trials.executor import Evaluated, Workers
from nas.trials.problem import SearchProblem
from nas.trials.staged.candidates import Candidates, draw
from nas.trials.staged.loop import StagedLoop
from nas.trials.staged.stages import SHARES, Stages
from rewards.constrained import ConstrainedReward
from runtime.shell.provenance import Kind

DEVICES = (("jetson-nano/fp32/b1", 17.0), ("raspberry-pi-4/b1", 17.0), ("xeon-gold-6226/b1", 11.0))
TASK = SPACE.tasks["cifar10"]
STARTED_S = time.monotonic()


def say(*texts: object) -> None:
    print(f"[{time.monotonic() - STARTED_S:6.1f} s]", *texts, flush=True)


class SharedTrainings:
    """A `SlowAccuracySource` that trains each network once; its clock counts the seconds each time."""

    source, description = "trained", "shared trainings"

    def __init__(self, inner: Evaluated, parallel: int, path: Path) -> None:
        self.fidelities, self.spent_s = inner.fidelities, 0.0
        self._inner, self._parallel, self._path = inner, parallel, path
        self.known: dict[str, list[float]] = {}
        if path.is_file():
            self.known = json.loads(path.read_text())
        self._keys: dict[Future[Evaluation], str] = {}
        self._ready: queue.SimpleQueue[Future[Evaluation]] = queue.SimpleQueue()

    def submit(self, trial, architecture, fidelity, seed):
        """Train, or play what is known already."""
        epochs = self.fidelities[fidelity].epochs
        key = f"{int(SPACE.numbers(architecture))}-{epochs}-{seed}"
        if key not in self.known:
            future = self._inner.submit(trial, architecture, fidelity, seed)
            self._keys[future] = key
            return future
        accuracy, seconds = self.known[key]
        future = Future()
        future.set_result(Evaluation(accuracy, Kind.trained, seconds))
        self._ready.put(future)
        return future

    def wait(self, timeout_s=math.inf):
        """Wait for the next end, and keep what was trained."""
        is_known = not self._ready.empty()
        future = self._ready.get() if is_known else self._inner.wait(timeout_s)
        key = None if future is None else self._keys.pop(future, None)
        if future is not None and future.exception() is None:
            one = future.result()
            self.spent_s += one.seconds
            if key is not None:
                self.known[key] = [one.accuracy, one.seconds]
                self._path.write_text(json.dumps(self.known))
        return future

    def now_s(self) -> float:
        """Seconds that the trainings would have taken without those that are shared."""
        return self.spent_s / self._parallel

    def close(self) -> None:
        """Wait for what still runs, and keep the processes for the next device."""
        while self._keys:
            self.wait()


def problem_of(device: str, limit_ms: float, epochs: int, split: Split) -> SearchProblem:
    return SearchProblem(
        SPACE,
        TASK,
        TableAccuracyConfig().build(SPACE, TASK, split, epochs),
        AutoLatencyConfig().build(device, SPACE, TASK),
        ConstrainedReward(limit_ms),
        limit_ms,
    )


def scored_together(
    drawn: list[Candidates], images: ImageSet, arguments: argparse.Namespace
) -> list[Candidates]:
    """Score what any device's search needs once; each is charged for its own candidates."""
    rows = np.unique(np.concatenate([one.architectures for one in drawn]), axis=0)
    flops = SPACE.costs(rows, TASK)["flops"]
    rows = rows[np.argsort(-flops, kind="stable")]
    score = ProxyScores(SPACE, images, arguments.seed, arguments.processes)
    began_s = time.monotonic()
    found: dict[bytes, list[float]] = {}
    each = score.each(rows)
    for row, values in zip(rows, each, strict=False):
        found[row.tobytes()] = values
        if len(found) % 500 == 0:
            say(f"scored {len(found)} of {len(rows)}")
        if time.monotonic() - began_s > 60 * arguments.score_minutes:
            break
    each.close()
    one_s = (time.monotonic() - began_s) / len(found)
    say(f"scored {len(found)} of {len(rows)} networks, {1e3 * one_s:.1f} ms each")
    kept = []
    for one in drawn:
        room = max(2, int(SHARES["proxies"] * 60 * arguments.minutes / one_s))
        order = np.argsort(-one.flops, kind="stable")
        known = [i for i in order if one.architectures[i].tobytes() in found][:room]
        chosen = one.rows(np.array(known))
        values = np.array([found[row.tobytes()] for row in chosen.architectures])
        kept.append(replace(chosen, prior=score.aggregate(values), score_s=one_s * len(chosen)))
    return kept


def search(
    where: tuple[str, float],
    candidates: Candidates,
    source: SharedTrainings,
    seed: int,
    until_s: float,
) -> dict[str, Any]:
    """One device's search; what each stage would have chosen, with its gap."""
    device, limit_ms = where
    minutes = ARGUMENTS.minutes
    ends = accumulate(60 * minutes * share for share in SHARES.values())
    stages = Stages(
        candidates,
        source.fidelities,
        dict(zip(SHARES, ends, strict=True)),
        ARGUMENTS.processes,
    )
    problem = problem_of(device, limit_ms, 12, Split.valid)
    loop = StagedLoop(problem, source, stages, seed)
    source.spent_s = 0.0
    for trial in loop.search(candidates.seconds):
        say(
            device,
            f"training {trial.number[0] + 1}: cell {SPACE.numbers(trial.architectures[0])},",
            f"{source.fidelities[trial.fidelity[0]].name}, {trial.accuracy[0]:.2%},",
            f"{trial.seconds[0]:.1f} s {trial.error[0]}",
        )
        if time.monotonic() > until_s:
            say("the time of this search is over")
            break
    judge = problem_of(device, limit_ms, 200, Split.test)
    test = judge.accuracy.answer(SPACE.rows).fraction
    within = judge.oracle.answer(SPACE.rows).ms <= limit_ms
    rows = candidates.architectures
    numbers = {
        "proxies alone": SPACE.numbers(rows[np.argmax(stages.prior)]),
        "after short trainings": SPACE.numbers(rows[stages.ranked(loop.results)[0]]),
        "staged": SPACE.numbers(rows[stages.order(loop.results)[0]]),
    }
    best = test[within].max()
    rng = np.random.default_rng(seed)
    chance = 100 * (best - rng.choice(test[within], 10_000).mean())
    return {
        "device": device,
        "limit_ms": limit_ms,
        "seed": seed,
        "candidates": len(candidates),
        "trainings": {
            one.name: sum(job.fidelity == i for job in loop.results)
            for i, one in enumerate(source.fidelities)
        },
        "seconds": candidates.seconds + source.now_s(),
        "found": {name: int(number) for name, number in numbers.items()},
        "test": {name: float(test[number]) for name, number in numbers.items()},
        "gap": {
            "random network": float(chance),
            **{name: float(100 * (best - test[number])) for name, number in numbers.items()},
        },
    }


def main() -> None:
    images = open_images("digits", side=8) if ARGUMENTS.tiny else cifar10()
    say("images are ready", images.report)
    epochs = (1, 2) if ARGUMENTS.tiny else (1, 12, 36)
    inner = Evaluated(
        TrialTraining(images, SPACE.network, RECIPES["nas_bench_201"]),
        tuple(Fidelity(f"{n} epochs", n) for n in epochs),
        workers=Workers.processes,
        slots=ARGUMENTS.processes,
        source="trained",
        description="trained",
        prepare=take_share,
    )
    ARGUMENTS.out.mkdir(parents=True, exist_ok=True)
    source = SharedTrainings(inner, ARGUMENTS.processes, ARGUMENTS.out / "trainings.json")
    found = []
    draws = 40 if ARGUMENTS.tiny else StagedConfig().draws
    try:
        for seed in range(ARGUMENTS.seed, ARGUMENTS.seed + ARGUMENTS.seeds):
            drawn = [
                draw(problem_of(device, limit_ms, 12, Split.valid), seed, draws, math.inf)
                for device, limit_ms in DEVICES
            ]
            scored = scored_together(drawn, images, ARGUMENTS)
            searches = ARGUMENTS.seeds * len(DEVICES)
            for where, candidates in zip(DEVICES, scored, strict=True):
                left_s = STARTED_S + 60 * ARGUMENTS.wall_minutes - time.monotonic()
                until_s = time.monotonic() + left_s / (searches - len(found))
                try:
                    found.append(search(where, candidates, source, seed, until_s))
                    say(json.dumps(found[-1]))
                except Exception:  # noqa: BLE001 - the other devices may still work
                    traceback.print_exc()
                (ARGUMENTS.out / "staged.json").write_text(json.dumps(found, indent=2))
    finally:
        inner.close()
    print("| device | T ms | seed | random | proxies alone | short | staged | cell | seconds |")
    print("|---|---|---|---|---|---|---|---|---|")
    for one in found:
        gaps = " | ".join(f"{gap:.2f}" for gap in one["gap"].values())
        print(
            f"| {one['device']} | {one['limit_ms']:g} | {one['seed']} | {gaps} | "
            f"{one['found']['staged']} | {one['seconds']:.0f} |"
        )


def cifar10() -> ImageSet:
    path = Path(os.environ["NAS_DATA"]) / "images" / "cifar10-jpeg.parquet"
    return open_images(str(path), side=32, seed=0, share=0.5)


def arguments_of() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("staged"))
    parser.add_argument("--minutes", type=float, default=20.0, help="of each search, of one GPU")
    parser.add_argument("--score-minutes", type=float, default=2.0, help="for all devices")
    parser.add_argument("--wall-minutes", type=float, default=9.0, help="of the whole script")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument(
        "--processes", type=int, default=10 * max(1, torch.cuda.device_count()), help="at once"
    )
    parser.add_argument(
        "--tiny", action="store_true", help="digits at 8 pixels, for a test on a CPU"
    )
    return parser.parse_args()


if __name__ == "__main__":
    ARGUMENTS = arguments_of()
    main()
