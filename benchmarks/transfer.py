"""Claim: ten timed cells predict a new device's whole table, better than what is usually done.

    $ NAS_DATA=<tables> python benchmarks/transfer.py

HELP's split and sources (Lee et al., NeurIPS 2021): nine training devices, four validation devices,
six test devices. All 15,625 cells are judged, the probes among them. Methods that draw their probes
at random, of the cells with a path, are averaged over five draws, the same for each.
results/transfer.md holds the tables.
"""

from __future__ import annotations

import argparse

import numpy as np

from latency.devices.measured import measured_on
from latency.devices.registry import find, registered
from latency.models.known_devices import known_from
from latency.models.process import Known, unlike
from latency.models.regression import embedded_models, judge
from latency.sources.regression import RegressionLatencyConfig
from latency.sources.transfer import known_latency
from nas.spaces.nas_bench_201.costs import mflops
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201, TASKS

TRAINING = (
    *("help-1080ti-1", "help-1080ti-32", "help-1080ti-256", "help-silver-4114"),
    *("help-silver-4210r", "help-samsung-a50", "help-pixel3", "help-essential-ph-1"),
    "help-samsung-s7",
)
VALIDATION = ("help-titanx-1", "help-titanx-32", "help-titanx-256", "help-gold-6240")
TEST = (
    *("help-titan-rtx-256", "help-gold-6226", "help-pixel2"),
    *("help-raspi4", "help-eyeriss", "help-fpga"),
)
SIBLINGS = {"Google Pixel 2": {"Google Pixel 3"}}  # boards that are nearly one another
COUNTS = (10, 30, 100)
DRAWS = 5
ARCHITECTURES = NAS_BENCH_201.rows


def measured(column):
    return measured_on(SPACE, find(SPACE, column)).values_ms


def bundled(device):
    return (
        RegressionLatencyConfig()
        .build(device.id, SPACE, TASKS["cifar100"])
        .answer(ARCHITECTURES)
        .ms
    )


def training_tables():
    return known_from(
        SPACE, [find(SPACE, c) for c in TRAINING], np.stack([measured(c) for c in TRAINING])
    )


def training_models():
    devices = [find(SPACE, c) for c in TRAINING]
    return known_from(SPACE, devices, np.stack([bundled(device) for device in devices]))


def without(known: Known, column):
    """What is known without a device's board, and those that are nearly it."""
    own = find(SPACE, column).board
    gone = {own} | SIBLINGS.get(own, set())
    kept = [i for i, board in enumerate(known.boards) if board not in gone]
    return Known(
        tuple(known.boards[i] for i in kept),
        known.log_ms[kept],
        known.linear,
        known.counts,
        known.wanted,
        known.eligible,
    )


def ridge(features, cells, latency_ms, strength):
    """Ridge regression of the logarithm, on features centred at the probes."""
    log_ms = np.log(latency_ms)
    here = features[cells]
    centred = here - here.mean(axis=0)
    gram = centred.T @ centred + strength * np.eye(features.shape[1])
    weights = np.linalg.solve(gram, centred.T @ (log_ms - log_ms.mean()))
    return np.exp(log_ms.mean() + (features - here.mean(axis=0)) @ weights)


def scaled(shape_ms, cells, latency_ms):
    """A shape at the level of the probes."""
    return shape_ms * np.exp(np.log(latency_ms / shape_ms[cells]).mean())


def mean_of_sources(known, cells, latency_ms):
    return scaled(np.exp(known.log_ms.mean(axis=0)), cells, latency_ms)


def nearest_device(known, cells, latency_ms):
    off = np.log(latency_ms) - known.log_ms[:, cells]
    nearest = int(np.argmin(off.std(axis=1)))
    return scaled(np.exp(known.log_ms[nearest]), cells, latency_ms)


def ridge_on_sources(known, cells, latency_ms):
    return ridge(known.log_ms.T, cells, latency_ms, 0.1)


def one_hot_ridge(_known, cells, latency_ms):
    hot = (ARCHITECTURES[..., None] == np.arange(5)).reshape(len(ARCHITECTURES), -1)
    return ridge(hot.astype(float), cells, latency_ms, 1.0)


def flops(_known, cells, latency_ms):
    """Latency as a line in FLOPs."""
    count = mflops(ARCHITECTURES, TASKS["cifar10"])
    slope, intercept = np.polyfit(count[cells], latency_ms, 1)
    return np.maximum(slope * count + intercept, 1e-3)


def ours(known, cells, latency_ms):
    return known.transfer(cells, latency_ms).latency_ms


BASELINES = {
    "FLOPs": flops,
    "one-hot ridge": one_hot_ridge,
    "nearest device": nearest_device,
    "mean of the sources": mean_of_sources,
    "ridge on the sources": ridge_on_sources,
    "ours, random probes": ours,
}


def draws(known, count):
    """Random probes, of the cells with a path: near-zero times of the others mislead every method."""
    for seed in range(DRAWS):
        cells = np.flatnonzero(known.wanted)
        yield np.random.default_rng(seed).choice(cells, count, replace=False)


def row(name, values):
    print("|", name, "|", " | ".join(values), "|", flush=True)


def spearman_row(name, qualities):
    """One row of the table: Spearman of each device, its mean, and the other means."""
    rho = [q.spearman for q in qualities]
    within = np.mean([q.within_10_percent for q in qualities])
    median = np.mean([q.median_error for q in qualities])
    cells = [f"{r:.3f}" for r in rho]
    row(name, [*cells, f"**{np.mean(rho):.3f}**", f"{within:.1%}", f"{median:.1%}"])


def head(columns):
    names = [c.removeprefix("help-") for c in columns]
    row("method", [*names, "mean", "within 10 %", "median error"])
    print("|" + "---|" * (len(columns) + 4))


def mean_quality(judged):
    """The mean of a few qualities of one device."""
    kind = type(judged[0])
    fields = ("r2", "spearman", "within_10_percent", "median_error")
    return kind(**{f: float(np.mean([getattr(q, f) for q in judged])) for f in fields})


def compare(known, columns, count):
    """All methods on HELP's sources."""
    print(f"\n{count} probes\n")
    head(columns)
    for name, method in BASELINES.items():
        qualities = []
        for column in columns:
            truth = measured(column)
            judged = [judge(method(known, p, truth[p]), truth) for p in draws(known, count)]
            qualities.append(mean_quality(judged))
        spearman_row(name, qualities)
    other_designs(known, columns, count)
    designed(f"**ours**, {count} designed", [known] * len(columns), columns, count)


def other_designs(known, columns, count):
    """The spread of the design: its sample of cells is drawn anew."""
    sets = [known.choose(count, seed) for seed in range(DRAWS)]
    of_set = []
    for probes in sets:
        tables = [measured(c) for c in columns]
        of_set.append([judge(ours(known, probes, t[probes]), t) for t in tables])
    spearman_row("ours, other designs", [mean_quality(one) for one in zip(*of_set, strict=True)])
    means = [np.mean([q.spearman for q in one]) for one in of_set]
    within = [np.mean([q.within_10_percent for q in one]) for one in of_set]
    print(
        f"(other designs: mean Spearman {min(means):.3f} to {max(means):.3f}, "
        f"{min(within):.1%} to {max(within):.1%} within 10 %)"
    )


def designed(name, sources, columns, count):
    qualities, covered = [], []
    chosen = {}
    for known, column in zip(sources, columns, strict=True):
        if id(known) not in chosen:
            chosen[id(known)] = known.choose(count)
        probes, truth = chosen[id(known)], measured(column)
        found = known.transfer(probes, truth[probes])
        qualities.append(judge(found.latency_ms, truth))
        covered.append(float(((truth >= found.low_ms) & (truth <= found.high_ms)).mean()))
    spearman_row(name, qualities)
    return covered


def honesty(known, columns, count):
    """What the user is told, beside what is so."""
    print(f"\nWhat a user is told with {count} probes, and what is so\n")
    row(
        "device",
        ["held-out median error", "true", "held-out inside 90 %", "true", "held-out RMS", "unlike"],
    )
    print("|" + "---|" * 7)
    probes = known.choose(count)
    of_known = known.held_out_of_known(probes)
    for column in columns:
        truth = measured(column)
        found = known.transfer(probes, truth[probes])
        held = known.held_out(probes, truth[probes])
        inside = ((truth >= found.low_ms) & (truth <= found.high_ms)).mean()
        told = judge(held.predicted_ms, held.latency_ms).median_error
        row(
            column.removeprefix("help-"),
            [
                f"{told:.1%}",
                f"{judge(found.latency_ms, truth).median_error:.1%}",
                f"{held.inside.mean():.0%}",
                f"{inside:.1%}",
                f"{held.rms:.3f}",
                "**yes**" if unlike(held.rms, of_known) else "no",
            ],
        )


def unlike_ones(count):
    """Every registered device without its board, and made-up devices, against all the others."""
    known = known_latency(SPACE)
    probes = known.choose(count)
    of_known = known.held_out_of_known(probes)
    names = [device.id for device in registered(SPACE) if device.for_transfer]
    fired = [name for name, rms in zip(names, of_known, strict=True) if unlike(rms, of_known)]
    print(
        f"\nOf {len(names)} known devices {len(fired)} would be called unlike: {', '.join(fired)}"
    )
    rng = np.random.default_rng(0)
    conv3 = (ARCHITECTURES == 3).sum(axis=1)
    pooling = (ARCHITECTURES == 4).sum(axis=1)
    made_up = {
        "log-normal noise, sd 0.5": np.exp(rng.normal(0, 0.5, len(ARCHITECTURES))),
        "pools 10 times as dear as 3x3 convolutions": 2 + 10.0 * pooling + conv3,
        "a known device backwards (1 / latency)": 100 / measured("help-gold-6226"),
        "a known device with 10 % noise": measured("help-gold-6226")
        * np.exp(rng.normal(0, 0.1, len(ARCHITECTURES))),
    }
    for name, latency_ms in made_up.items():
        held = known.held_out(probes, latency_ms[probes])
        called = "unlike" if unlike(held.rms, of_known) else "like the known ones"
        print(f"- synthetic: {name}: RMS {held.rms:.2f}, called {called}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--validation", action="store_true", help="the validation devices only")
    columns = VALIDATION if parser.parse_args().validation else TEST
    known = training_tables()
    for count in COUNTS:
        compare(known, columns, count)
    honesty(known, columns, 10)
    print("\nOther sources, designed probes\n")
    head(columns)
    models, everything = training_models(), known_latency(SPACE)
    every_model = np.stack([bundled(d) for d in registered(SPACE) if _has_model(d)])
    all_models = known_from(SPACE, [d for d in registered(SPACE) if _has_model(d)], every_model)
    for count in COUNTS:
        designed(f"models of HELP's nine, {count}", [models] * len(columns), columns, count)
        designed(
            f"models of all other boards, {count}",
            [without(all_models, c) for c in columns],
            columns,
            count,
        )
        designed(
            f"tables of all other boards, {count}",
            [without(everything, c) for c in columns],
            columns,
            count,
        )
    unlike_ones(10)


def _has_model(device):

    return device.id in embedded_models(SPACE)


if __name__ == "__main__":
    main()
