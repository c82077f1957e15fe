"""Replay of the staged search on a benchmark's own 12-epoch accuracies; nothing is trained.

    $ NAS_DATA=<folder of tables> python -m benchmarks.own_images_replay --seeds 100

The search sees CIFAR-10 validation accuracies of NAS-Bench-201 after 12 epochs, on a simulated clock.
It is judged by the test accuracy after 200 epochs: the gap to the best network within T, in points.
What the replay lacks beside a search on images: the longer trainings (the table has none between 12
and 200 epochs), and all proxies but the FLOPs of the live convolutions, which are counted.

An epoch is taken to last 0.5 s for the smallest cell and 2 s for the largest, linear in FLOPs, as on
one H200 where several networks are trained side by side. 20 minutes in all leave the short trainings
the share of `nas.fit.ranking.stages`. The rule was tuned on other devices: Titan RTX, FPGA, Xeon
Silver 4114, Snapdragon 855, Pixel 3 and Eyeriss, each with T at its 45 % quantile.

Beside it: the best of the eight that a search on images would train longer, which bounds what that
can find; a random network within T; the best of the draws by the proxies alone; and the best by
12-epoch accuracy of as many random networks within T as can be trained in the same time.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np
from joblib import Parallel, delayed

from benchmarks.own_images import DEVICES, TASK, problem_of
from edgenas_core.types.kind import Kind
from nas.accuracy.base import Split
from nas.accuracy.slow import Evaluation, Fidelity
from nas.accuracy.table import TableAccuracyConfig
from nas.fit.own_images import SHARES
from nas.fit.ranking.candidates import draw
from nas.fit.ranking.proposer import StagedProposer
from nas.fit.ranking.stages import LONGER, Stages
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import OPERATIONS
from nas.trials.asynchronous import Asynchronous
from nas.trials.executor import Simulated
from nas.trials.problem import SearchProblem

DRAWS = 20_000
EPOCHS = 12
EPOCH_S = (0.5, 2.0)  # of the smallest and of the largest cell
BOUND = f"best of staged's first {LONGER}"
METHODS = ("random network", "proxies alone", "12-epoch ranking", "staged", BOUND)


def live_flops(rows: np.ndarray) -> np.ndarray:
    """Multiply-accumulates of the live convolutions of a cell, in those of a 1x1 convolution."""
    weights = {"nor_conv_1x1": 1, "nor_conv_3x3": 9}
    flops = np.array([weights.get(name, 0) for name in OPERATIONS], float)[rows]
    return (SPACE.live_edges(rows) * flops).sum(-1)


def epoch_seconds(flops: np.ndarray) -> np.ndarray:
    every = SPACE.costs(SPACE.rows, TASK)["flops"]
    return np.interp(flops, (every.min(), every.max()), EPOCH_S)


def one_seed(problem: SearchProblem, seed: int, minutes: float) -> dict[str, np.ndarray]:
    """The architecture that each method finds."""
    candidates = draw(problem, seed, DRAWS, np.inf)
    rows = candidates.architectures
    candidates = replace(candidates, prior=live_flops(rows))
    ends = np.cumsum([SHARES[name] for name in ("scores", "short", "longer")]) * minutes * 60
    stages = Stages(
        candidates,
        (Fidelity(f"{EPOCHS} epochs", EPOCHS),),
        dict(zip(SHARES, ends.tolist(), strict=True)),
    )
    seconds = EPOCHS * epoch_seconds(candidates.flops)
    accuracy = problem.accuracy.answer(rows).fraction
    at = {row.tobytes(): i for i, row in enumerate(rows)}

    def evaluate(architecture, _fidelity, _seed):
        i = at[architecture.tobytes()]
        return Evaluation(float(accuracy[i]), Kind.measured, float(seconds[i]))

    source = Simulated(evaluate, stages.fidelities, source="table", description="replayed")
    proposer = StagedProposer(stages, seed)
    loop = Asynchronous(problem, source, stages.parallel)
    for _ in loop.search(proposer, elapsed_s=float(ends[0])):
        pass
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(rows))
    affordable = order[np.cumsum(seconds[order]) <= ends[1] - ends[0]]
    by_claim = stages.order(proposer.results)
    return {
        "random network": rows[order[0]],
        "proxies alone": rows[np.argmax(stages.prior)],
        "12-epoch ranking": rows[affordable[np.argmax(accuracy[affordable])]],
        "staged": rows[by_claim[0]],
        BOUND: rows[by_claim[:LONGER]],
        "trainings": np.array(len(proposer.results)),
    }


def gaps(device: str, limit_ms: float, seeds: int, minutes: float, jobs: int) -> None:
    problem = problem_of(device, limit_ms, EPOCHS, Split.valid)
    replays = Parallel(n_jobs=jobs)(
        delayed(one_seed)(problem, seed, minutes) for seed in range(seeds)
    )
    judge = TableAccuracyConfig().build(SPACE, TASK, Split.test, 200)
    within = problem.oracle.answer(SPACE.rows).ms <= limit_ms
    best = judge.answer(SPACE.rows).fraction[within].max()
    rng = np.random.default_rng(0)
    trainings = np.mean([each["trainings"] for each in replays])
    for name in METHODS:
        accuracy = judge.answer(np.stack([each[name] for each in replays])).fraction
        gap = 100 * (best - accuracy.reshape(seeds, -1).max(1))
        low, high = np.quantile(rng.choice(gap, (10_000, seeds)).mean(1), [0.025, 0.975])
        share = (gap <= 0.4).mean()
        print(
            f"| {device} | {limit_ms:g} | {name} | {gap.mean():.2f} ({low:.2f} to {high:.2f}) | "
            f"{np.median(gap):.2f} | {share:.0%} | {trainings if name == 'staged' else 0:.0f} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    print("| device | T ms | method | mean gap (95 %) | median | within 0.4 | trainings |")
    print("|---|---|---|---|---|---|---|")
    for device, limit_ms in DEVICES:
        gaps(device, limit_ms, arguments.seeds, arguments.minutes, arguments.jobs)


if __name__ == "__main__":
    main()
