"""The staged search on CIFAR-10 for a device, judged by the table of NAS-Bench-201.

    $ NAS_DATA=<folder of tables> python -m benchmarks.own_images_staged --device 0 --out results/

Needs a GPU. The search sees the images (half of the training images, validated on the other half, as
in the benchmark's `valid` protocol) and the latencies; the table judges the network that it chooses by
its test accuracy after 200 epochs: the gap to the best within T, in points. The winner is not trained.

A search has its `--minutes` of one GPU, of which `nas.fit.ranking.stages` leaves the stages their
shares. Searches with another `--seed` draw other candidates and score them on another batch.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.own_images import DEVICES, STARTED_S, images_of, problem_of, say
from edgenas_core.files.atomic_file import write_whole
from nas.accuracy.base import Split
from nas.accuracy.slow import Fidelity
from nas.fit.data.image_set import ImageSet
from nas.fit.own_images import SHARES, StagedConfig
from nas.fit.ranking.candidates import Candidates, draw, scored
from nas.fit.ranking.proposer import StagedProposer
from nas.fit.ranking.stages import Stages
from nas.fit.run.scoring import ProxyScores
from nas.fit.training.recipe import RECIPES
from nas.fit.training.trial import SideBySide
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.trials.asynchronous import Asynchronous
from nas.trials.problem import SearchProblem


def search(
    problem: SearchProblem,
    candidates: Candidates,
    source: SideBySide,
    arguments: argparse.Namespace,
) -> tuple[Stages, StagedProposer]:
    """Train until the shares of the time are over."""
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
    return stages, proposer


def judged(
    where: tuple[str, float], stages: Stages, proposer: StagedProposer, source: SideBySide
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
        "seconds": time.monotonic() - STARTED_S,
        "cells": cells,
        "gap": {
            "random network, mean": float(100 * (best - test[within].mean())),
            **{name: float(100 * (best - test[cell])) for name, cell in cells.items()},
        },
    }


def searched(images: ImageSet, source: SideBySide, arguments: argparse.Namespace) -> None:
    """Search for the device, and write what the table says of the network found."""
    where = DEVICES[arguments.device]
    problem = problem_of(*where, 12, Split.valid)
    draws = 40 if arguments.tiny else StagedConfig.draws
    candidates = draw(problem, arguments.seed, draws, math.inf)
    score = ProxyScores(SPACE, images, arguments.seed)
    seconds = SHARES["scores"] * 60 * arguments.minutes
    candidates = scored(candidates, score.each, score.aggregate, seconds)
    say(f"scored {len(candidates)} of {candidates.within} in {candidates.score_s:.0f} s")
    stages, proposer = search(problem, candidates, source, arguments)
    outcome = judged(where, stages, proposer, source)
    name = f"staged-{arguments.device}-{arguments.seed}.json"
    write_whole(arguments.out / name, json.dumps(outcome, indent=2))
    say(json.dumps(outcome))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("staged"))
    parser.add_argument("--device", type=int, default=0, choices=range(len(DEVICES)))
    parser.add_argument("--minutes", type=float, default=20.0, help="of the search, of one GPU")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--at-once", type=int, default=8, help="trainings")
    parser.add_argument("--tiny", action="store_true", help="digits, for a test on a CPU")
    arguments = parser.parse_args()
    images = images_of(tiny=arguments.tiny)
    say("images are ready", images.report)
    source = SideBySide(
        images,
        SPACE.network,
        RECIPES["nas_bench_201"],
        tuple(Fidelity(f"{n} epochs", n) for n in ((1, 2) if arguments.tiny else (12, 36))),
        at_once=arguments.at_once,
        source="trained",
        description="trained",
    )
    try:
        searched(images, source, arguments)
    finally:
        source.close()


if __name__ == "__main__":
    main()
