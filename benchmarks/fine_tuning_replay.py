"""Replay of the search among pretrained networks on a table of fine-tunings; nothing is trained.

    $ python -m benchmarks.fine_tuning_replay benchmarks/results/fine_tuning.csv --pools 100 \
          --latencies benchmarks/results/fine_tuning_core.csv

`FineTunings` chooses trainings by validation accuracies of the table, on a simulated clock that ends after
a share of the GPU time that tuning each candidate within T in full takes, for the most epochs that the table
has of the data. Its first is then tuned in full, by the table, and judged by the test images. T are quantiles
of the candidates' latencies, which are those of `--latencies`, or else
modelled. Durations are modelled: on a busy machine the same training took up to ten times as long. A shorter
training that the table lacks has the validation accuracy in full and a difference, drawn with mean and spread
of those that the table has. A search sees the accuracies of one seed of the trainings, their mean where the
table lacks it; it is judged by the mean test accuracy over all seeds.

Gaps are points to the best of those test accuracies within T, which is the largest of many noisy numbers,
and to the test accuracy of the best by validation. The baseline is the best published accuracy within T,
less what is expected to be lost at other sides; the plain rule knows no other sides.
Intervals (95 %) are of pools: candidates drawn anew with replacement, all T and data sets in each.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray
from scipy.stats import rankdata

from edgenas_core.types.kind import Kind
from nas.accuracy.slow import Fidelity
from nas.fit.own_images import FineTuningConfig
from nas.fit.ranking.candidates import Candidates
from nas.fit.ranking.fine_tunings import FineTunings
from nas.fit.ranking.stages import Result, StageJob
from nas.fit.run.pretrained import LENGTHS

QUANTILES = (0.35, 0.5, 0.65, 0.8, 0.9, 1.0)
"""Of the latencies, that T are."""

FEWEST = 8
"""Candidates tuned in full, for a data set to be searched."""

CLOSE = 1.2
"""Ratio of latencies up to which two candidates are compared."""

COLUMNS = ("flops", "prior", "published", "knn", "logme")
DEPTHS = 3
PASS = 0.5
"""Time of a pass for frozen features, in epochs of tuning."""

FIXED_FLOPS = 1e8
"""Multiply-accumulates of an image that take as long as what is the same for all networks."""


BESIDE_V2 = {"mobilenetv1": 0.69, "tf_mobilenetv3": 0.76, "mobilenet_edgetpu": 0.71}
"""Latencies beside those of MobileNetV2 with as many multiply-accumulates, by the table's medians."""


@dataclass(frozen=True)
class Table:
    """The candidates of one data set."""

    flops: Float64[ndarray, "n"]
    latency_ms: Float64[ndarray, "n"]
    prior: Float64[ndarray, "n"]
    published: Float64[ndarray, "n"]  # at the network's own side
    knn: Float64[ndarray, "n"]
    logme: Float64[ndarray, "n"]
    epoch_s: Float64[ndarray, "n"]
    valid: Mapping[int, Float64[ndarray, "n"]]  # by epochs
    full: Float64[ndarray, "n"]  # test accuracy, tuned in full
    epochs: int  # of that
    images: tuple[int, int]  # of training, of validation


def latency_ms(network: str, flops: float) -> float:
    """Modelled latency: a power law through nine times of V2 on a quiet Xeon core, within 5 %."""
    beside = next((each for kind, each in BESIDE_V2.items() if network.startswith(kind)), 1.0)
    return beside * 1.375 * float(flops / 31.3e6) ** 0.745


def shape(row: Mapping[str, str]) -> tuple[str, str]:
    """The same for candidates of the same latency."""
    return row["network"].rpartition(".")[0] or row["network"], row["side"]


def measured_ms(path: Path) -> dict[tuple[str, str], float]:
    """Latencies by shape."""
    with path.open(encoding="utf-8") as file:
        return {(row["network"], row["side"]): float(row["ms"]) for row in csv.DictReader(file)}


def tables(path: Path, latencies: Path | None, *, seed: int = 0) -> dict[str, list[Table]]:
    """Candidates that were tuned in full, by data set; a table for each seed of the trainings."""
    measured = {} if latencies is None else measured_ms(latencies)
    with path.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["tuning"] != "stage"]
    answers, by_seed, about = defaultdict(list), {}, {}
    for row in rows:
        candidate = row["data"], row["network"], row["side"]
        if float(row["rate"]) == 1:
            answer = candidate, int(row["epochs"])
            answers[answer].append([float(row["valid"]), float(row["test"])])
            by_seed[(*answer, row["seed"])] = float(row["valid"])
        if row["epochs"] == "0":
            about[candidate] = row
    mean = {key: np.mean(each, 0) for key, each in answers.items()}
    rng, every = np.random.default_rng(seed), {}
    for data in dict.fromkeys(row["data"] for row in rows):
        longest = max(epochs for key, epochs in mean if key[0] == data)
        chosen = [
            key
            for key in about
            if key[0] == data
            and (key, longest) in mean
            and (latencies is None or shape(about[key]) in measured)
        ]
        if len(chosen) < FEWEST or not longest:
            continue
        frozen = {name: np.array([float(about[key][name]) for key in chosen]) for name in COLUMNS}
        seeds = [
            each
            for each in sorted({key[2] for key in by_seed})
            if sum((key, longest, each) in by_seed for key in chosen) >= len(chosen) / 2
        ]
        valid: dict[str, dict[int, ndarray]] = {each: {} for each in seeds}
        for epochs in (0, *(each for each in LENGTHS if each <= longest)):
            differences = [
                mean[key, epochs][0] - mean[key, longest][0]
                for key in about
                if {(key, epochs), (key, longest)} <= mean.keys()
            ]
            changes = rng.normal(np.mean(differences), np.std(differences), len(chosen))
            for each in seeds:
                in_full = [
                    by_seed.get((key, longest, each), mean[key, longest][0]) for key in chosen
                ]
                valid[each][epochs] = np.array(
                    [
                        by_seed.get((key, epochs, each), mean[key, epochs][0])
                        if (key, epochs) in mean
                        else accuracy + change
                        for key, accuracy, change in zip(chosen, in_full, changes, strict=True)
                    ]
                )
        full = np.array([mean[key, longest][1] for key in chosen])
        ms = np.array([latency_ms(key[1], float(about[key]["flops"])) for key in chosen])
        if latencies is not None:
            ms = np.array([measured[shape(about[key])] for key in chosen])
        images = tuple(int(about[chosen[0]][name]) for name in ("images", "judged"))
        epoch_s = (images[0] / 1000) * (FIXED_FLOPS + frozen["flops"]) / FIXED_FLOPS
        every[data] = [
            Table(
                **frozen,
                latency_ms=ms,
                epoch_s=epoch_s,
                valid=valid[each],
                full=full,
                epochs=longest,
                images=images,
            )
            for each in seeds
        ]
    return every


@dataclass(frozen=True)
class ReplayedSearch:
    """Where a search ends."""

    winner: int  # among those within T
    test: float
    spent_s: float
    worth: Float64[ndarray, "n"]  # forecast of each in full


def search(table: Table, at: Int64[ndarray, "n"], share: float) -> ReplayedSearch:
    """Replay the search among some candidates."""
    fidelities = [Fidelity(f"{epochs} epochs", epochs) for epochs in table.valid]
    n, ends_s = len(at), share * table.epochs * float(table.epoch_s[at].sum())
    rows = np.array([(i, 0, depth) for i in range(n) for depth in range(DEPTHS)])
    columns = (np.repeat(each[at], DEPTHS) for each in (table.latency_ms, table.flops, table.prior))
    latency_ms, flops, prior = columns
    kinds = np.full(len(rows), Kind.regression, np.int8)
    candidates = Candidates(rows, latency_ms, kinds, flops, prior, n, n, n, 0.0, 0.0)
    shares = FineTuningConfig.shares
    frozen_s = ends_s * shares["frozen"] / (shares["frozen"] + shares["short"])
    full_s = ends_s + 1.3 * table.epochs * float(table.epoch_s[at].max())
    tunings = FineTunings(
        candidates,
        rows[:, 2],
        rows[:, 0],
        tuple(fidelities),
        {"scores": 0.0, "frozen": frozen_s, "short": ends_s, "longer": ends_s, "full": full_s},
        (sum(table.images), table.images[1]),
        table.epochs,
    )
    results: dict[StageJob, Result] = {}
    spent_s = 0.0
    while (job := tunings.next(results, (), spent_s)) is not None:
        fidelity, network = tunings.fidelities[job.fidelity], at[job.candidate // DEPTHS]
        seconds = float((fidelity.epochs or PASS) * table.epoch_s[network])
        if spent_s + seconds > ends_s:
            break
        spent_s += seconds
        results[job] = Result(float(table.valid[fidelity.epochs][network]), seconds)
    worth = tunings.forecast(results).accuracy(np.full(len(rows), float(table.epochs)))
    winner = int(tunings.order(results)[0]) // DEPTHS
    return ReplayedSearch(
        winner, float(table.full[at[winner]]), spent_s, worth[rows[:, 2] == DEPTHS - 1]
    )


def agreement(score: Float64[ndarray, "n"], truth: Float64[ndarray, "n"], ms: ndarray) -> ndarray:
    """Sum over pairs of like latency of the agreement in order, and their number: Kendall's tau."""
    first, second = np.triu_indices(len(score), 1)
    is_close = np.maximum(ms[first], ms[second]) <= CLOSE * np.minimum(ms[first], ms[second])
    first, second = first[is_close], second[is_close]
    signs = np.sign(score[first] - score[second]) * np.sign(truth[first] - truth[second])
    return np.array([signs.sum(), (truth[first] != truth[second]).sum()])


def judged(table: Table, at: Int64[ndarray, "n"], share: float) -> dict[str, ndarray]:
    """What a search within a limit comes to, in points and shares; of rankings, `agreement`."""
    replay, full = search(table, at, share), table.full[at]
    by_validation = full[np.argmax(table.valid[table.epochs][at])]
    thumb = full[np.argmax(table.prior[at])]
    at_own_side = np.where(table.prior[at] == table.published[at], table.published[at], -1)
    plain = full[np.argmax(at_own_side if at_own_side.max() > 0 else table.prior[at])]
    full_s = table.epochs * table.epoch_s[at]
    size = rankdata(table.prior[at]) + rankdata(table.flops[at])
    scores = {
        "forecast": replay.worth,
        "frozen": table.valid[0][at],
        "knn": table.knn[at],
        "logme": table.logme[at],
        "accuracy and size": size,
        "published": table.prior[at],
    }
    ms = table.latency_ms[at]
    return {
        "gap to the best": np.array(100 * (full.max() - replay.test)),
        "gap to the best by validation": np.array(100 * (by_validation - replay.test)),
        "over the baseline": np.array(100 * (replay.test - thumb)),
        "over the plain rule": np.array(100 * (replay.test - plain)),
        "baseline, gap": np.array(100 * (full.max() - thumb)),
        "share of GPU time": np.array(100 * replay.spent_s / full_s.sum()),
        "with the winner's": np.array(
            100 * (replay.spent_s + full_s[replay.winner]) / full_s.sum()
        ),
        **{f"tau, {name}": agreement(score, full, ms) for name, score in scores.items()},
    }


def replayed(
    seeds: Sequence[Table], which: Int64[ndarray, "k"], share: float
) -> dict[str, ndarray]:
    """`judged` at each limit, mean over seeds: (limits,) or (limits, 2)."""
    latency_ms = seeds[0].latency_ms[which]
    limits = np.quantile(latency_ms, QUANTILES)
    each = [[judged(table, which[latency_ms <= ms], share) for table in seeds] for ms in limits]
    rows = [{name: np.mean([row[name] for row in some], 0) for name in some[0]} for some in each]
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def reduced(values: ndarray) -> float:
    """Mean over the settings; of agreements, the sum over pairs divided by their number."""
    sums = values.reshape(-1, values.shape[-1]).sum(0) if values.ndim > 2 else None
    return float(values.mean() if sums is None else sums[0] / sums[1])


def main() -> None:
    """Print a row for each figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("--share", type=float, default=0.15)
    parser.add_argument("--pools", type=int, default=100)
    parser.add_argument("--latencies", type=Path)
    arguments = parser.parse_args()
    data = tables(arguments.table, arguments.latencies)
    rng = np.random.default_rng(0)
    whole = {
        name: replayed(seeds, np.arange(len(seeds[0].full)), arguments.share)
        for name, seeds in data.items()
    }
    redrawn = defaultdict(list)
    for pool in range(arguments.pools):
        for name, seeds in tables(arguments.table, arguments.latencies, seed=pool).items():
            candidates = len(seeds[0].full)
            which = np.unique(rng.choice(candidates, candidates))
            redrawn[name].append(replayed(seeds, which, arguments.share))
    print(
        "| | "
        + " | ".join(data)
        + " | all | pools (95 %) | range |\n"
        + "|---" * (len(data) + 4)
        + "|"
    )
    for key in next(iter(whole.values())):
        each = [reduced(whole[name][key][None]) for name in data]
        values = np.stack([whole[name][key] for name in data])
        pools = [
            reduced(np.stack([redrawn[name][i][key] for name in data]))
            for i in range(arguments.pools)
        ]
        low, high = np.quantile(pools, [0.025, 0.975])
        worst = f"{values.min():.2f} to {values.max():.2f}" if values.ndim == 2 else ""
        cells = " | ".join(f"{value:.2f}" for value in each)
        pooled = f"{np.mean(pools):.2f} ({low:.2f} to {high:.2f})"
        print(f"| {key} | {cells} | {reduced(values):.2f} | {pooled} | {worst} |")


if __name__ == "__main__":
    main()
