"""Claim: ten timed cells predict a new device's whole table, better than what is usually done.

    $ NAS_DATA=<tables> python -m benchmarks.transfer
    $ NAS_DATA=<tables> python -m benchmarks.transfer --intervals     # boards and runtimes left out
    $ NAS_DATA=<tables> python -m benchmarks.transfer --unseen <clone of github.com/HayeonLee/HELP> <table of HW-NAS-Bench-360>

HELP's split and sources (Lee et al., NeurIPS 2021): nine training devices, four validation devices,
six test devices. All 15,625 cells are judged, the probes among them. Methods that draw their probes
at random, of the cells with a path, are averaged over five draws, the same for each.
results/transfer.md holds the tables.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from benchmarks.searching import head, row
from latency.devices.measured import measured_on
from latency.devices.registry import find, registered
from latency.models.confidence import ResidualUncertainty, of_residuals
from latency.models.process import Z_90, Known, unlike
from latency.models.regression import embedded_models, judge
from latency.models.transferred import known_from
from latency.sources.table import AutoLatencyConfig, RegressionLatencyConfig
from latency.sources.transfer import known_latency
from nas.accuracy.base import Split
from nas.accuracy.table import AutoAccuracyConfig
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
SHARE_90 = 0.9  # of the devices, whose intervals shall hold 90 % of their times
SHARE_MARGIN = 0.95  # of the devices, whose errors shall be smaller than the margin takes them for
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
    devices, values = [find(SPACE, c) for c in TRAINING], np.stack([measured(c) for c in TRAINING])
    return known_from(SPACE, devices, values)


def training_models():
    devices = [find(SPACE, c) for c in TRAINING]
    return known_from(SPACE, devices, np.stack([*map(bundled, devices)]))


def without(known: Known, column):
    """What is known without a device's board, and those that are nearly it."""
    own = find(SPACE, column).board
    gone = {own} | SIBLINGS.get(own, set())
    kept = [i for i, board in enumerate(known.boards) if board not in gone]
    return only(known, kept, known.wanted)


def only(known: Known, kept, wanted):
    """Some of the devices, with these architectures alone wanted."""
    return Known(
        tuple(known.boards[i] for i in kept),
        tuple(known.runtimes[i] for i in kept),
        known.log_ms[kept],
        known.linear,
        known.counts,
        known.canonical,
        wanted,
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


def spearman_row(name, qualities):
    """One row of the table: Spearman of each device, its mean, and the other means."""
    rho = [q.spearman for q in qualities]
    within = np.mean([q.within_10_percent for q in qualities])
    median = np.mean([q.median_error for q in qualities])
    cells = [f"{r:.3f}" for r in rho]
    row(name, *cells, f"**{np.mean(rho):.3f}**", f"{within:.1%}", f"{median:.1%}")


def head_of(columns):
    names = [c.removeprefix("help-") for c in columns]
    head("method", *names, "mean", "within 10 %", "median error")


def mean_quality(judged):
    """The mean of a few qualities of one device."""
    kind = type(judged[0])
    fields = ("r2", "spearman", "within_10_percent", "median_error")
    return kind(**{f: float(np.mean([getattr(q, f) for q in judged])) for f in fields})


def compare(known, columns, count):
    """All methods on HELP's sources."""
    print(f"\n{count} probes\n")
    head_of(columns)
    for name, method in BASELINES.items():
        qualities = []
        for column in columns:
            truth = measured(column)
            judged = [judge(method(known, p, truth[p]), truth) for p in draws(known, count)]
            qualities.append(mean_quality(judged))
        spearman_row(name, qualities)
    probes, tables = known.choose(count), [measured(c) for c in columns]
    same = [judge(ridge_on_sources(known, probes, t[probes]), t) for t in tables]
    spearman_row("ridge on the sources, designed as ours", same)
    designed(f"**ours**, {count} designed", [known] * len(columns), columns, count)


def designed(name, sources, columns, count):
    qualities, covered = [], []
    chosen = {}
    for known, column in zip(sources, columns, strict=True):
        if id(known) not in chosen:
            chosen[id(known)] = known.choose(count)
        probes, truth = chosen[id(known)], measured(column)
        predicted = known.transfer(probes, truth[probes])
        qualities.append(judge(predicted.latency_ms, truth))
        covered.append(float(((truth >= predicted.low_ms) & (truth <= predicted.high_ms)).mean()))
    spearman_row(name, qualities)
    return covered


def honesty(known, columns, count):
    """What the user is told, beside what is so."""
    print(f"\nWhat a user is told with {count} probes, and what is so\n")
    head(
        *("device", "held-out median error", "true", "held-out inside 90 %", "true"),
        *("held-out RMS", "unlike"),
    )
    probes = known.choose(count)
    of_known = known.held_out_of_known(probes)
    for column in columns:
        truth = measured(column)
        predicted = known.transfer(probes, truth[probes])
        held = known.held_out(probes, truth[probes])
        inside = ((truth >= predicted.low_ms) & (truth <= predicted.high_ms)).mean()
        held_out_error = judge(held.predicted_ms, held.latency_ms).median_error
        row(
            column.removeprefix("help-"),
            f"{held_out_error:.1%}",
            f"{judge(predicted.latency_ms, truth).median_error:.1%}",
            f"{held.inside.mean():.0%}",
            f"{inside:.1%}",
            f"{held.rms:.3f}",
            "**yes**" if unlike(held.rms, of_known) else "no",
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--validation", action="store_true", help="the validation devices only")
    parser.add_argument("--intervals", action="store_true", help="boards and runtimes left out")
    parser.add_argument(
        "--unseen", nargs=2, type=Path, help="clone of HELP, HW-NAS-Bench-360's table"
    )
    arguments = parser.parse_args()
    if arguments.unseen:
        unseen(without_tables(), *arguments.unseen)
        return
    if arguments.intervals:
        task = TASKS["cifar100"]
        accuracy = AutoAccuracyConfig().build(SPACE, task, Split.auto, 200).answer(ARCHITECTURES)
        intervals([*left_out_devices(without_tables(), 10, accuracy.fraction)])
        return
    columns = VALIDATION if arguments.validation else TEST
    known = training_tables()
    for count in COUNTS:
        compare(known, columns, count)
    honesty(known, columns, 10)
    print("\nOther sources, designed probes\n")
    head_of(columns)
    models, everything = training_models(), known_latency(SPACE)
    every_model = np.stack([bundled(d) for d in registered(SPACE) if _has_model(d)])
    with_models = [d for d in registered(SPACE) if _has_model(d)]
    all_models = known_from(SPACE, with_models, every_model)
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


@dataclass(frozen=True)
class LeftOut:
    """A device predicted from those that share neither its board nor its runtime."""

    device: str
    predicted_ms: np.ndarray  # of the cells that were measured, and are no calibration networks
    half_width: (
        np.ndarray
    )  # of the interval's logarithm, over `Z_90`: the process's deviation, or more
    truth_ms: np.ndarray
    accuracy: np.ndarray
    ridge_ms: np.ndarray

    @property
    def error(self):
        """Residuals of the logarithm."""
        return np.log(self.truth_ms / self.predicted_ms)

    @property
    def needed(self):
        """Deviations within which 90 % of the times lie."""
        return float(np.quantile(np.abs(self.error) / self.half_width, 0.9))

    @property
    def per_sd(self):
        """Quantiles of the residuals, in the median deviation."""
        return of_residuals(self.error / np.median(self.half_width))


def left_out_devices(known, count, accuracy):
    devices = [device for device in registered(SPACE) if device.for_transfer]
    for number, device in enumerate(devices):
        truth = measured_on(SPACE, device).values_ms
        timed = np.isfinite(truth)
        others = only(known, known.strangers(number), known.wanted & timed)
        probes = others.choose(count)
        predicted = others.transfer(probes, truth[probes])
        judged = timed & known.wanted
        judged[probes] = False
        yield LeftOut(
            device.id,
            predicted.latency_ms[judged],
            np.log(predicted.high_ms / predicted.latency_ms)[judged] / Z_90,
            truth[judged],
            accuracy[judged],
            ridge_on_sources(others, probes, truth[probes])[judged],
        )


def beyond(device, margin):
    """Share of the answers at eight limits that are truly beyond, and the accuracy lost to the best."""
    wrong, lost = [], []
    for limit_ms in np.quantile(device.truth_ms, np.linspace(0.1, 0.8, 8)):
        within = device.predicted_ms * np.exp(margin) <= limit_ms
        answer = (
            np.where(within, device.accuracy, -1).argmax()
            if within.any()
            else device.predicted_ms.argmin()
        )
        wrong.append(device.truth_ms[answer] > limit_ms)
        lost.append(device.accuracy[device.truth_ms <= limit_ms].max() - device.accuracy[answer])
    return np.mean(wrong), np.mean(lost)


def intervals(devices):
    """Calibrate the intervals on each device's strangers, and judge each by what the others ask for."""
    needed = np.array([device.needed for device in devices])
    quantiles = np.array([device.per_sd.quantiles for device in devices])
    sds = np.array([device.per_sd.sd for device in devices])
    names = ["ours", "within 10 %", "ridge", "within 10 %", "inside 90 %", "if others calibrate"]
    head("device", *names, "beyond T")
    table = []
    for number, device in enumerate(devices):
        factor = np.quantile(np.delete(needed, number), SHARE_90)
        others = np.quantile(np.delete(quantiles, number, axis=0), SHARE_MARGIN, axis=0)
        scale = float(np.median(device.half_width))
        margin = ResidualUncertainty(1.0, tuple(others)).scaled(scale).margin(0.95)
        ours, plain = (
            judge(device.predicted_ms, device.truth_ms),
            judge(device.ridge_ms, device.truth_ms),
        )
        inside = [(np.abs(device.error) <= z * device.half_width).mean() for z in (Z_90, factor)]
        wrong, lost = zip(beyond(device, 0.0), beyond(device, margin), strict=True)
        qualities = [(each.spearman, each.within_10_percent) for each in (ours, plain)]
        table.append([*qualities[0], *qualities[1], *inside, *wrong, *lost])
        row(device.device, *cells_of(table[-1]))
    values = np.array(table)
    row("mean", *cells_of(values.mean(0)))
    kept = (values[:, 4:6] >= 0.9).sum(0)
    print(
        f"\ninside 90 %: least {values[:, 4].min():.1%}; of {len(devices)} devices {kept[0]} hold 90 %, "
        f"{(values[:, 4] >= 0.88).sum()} hold 88 %; {kept[1]} hold 90 % if others calibrate\nanswers beyond T: {values[:, 6].mean():.1%} as predicted, "
        f"{values[:, 7].mean():.1%} with the margin of confidence=0.95, for "
        f"{100 * (values[:, 9] - values[:, 8]).mean():.2f} points\n\n"
        f"Z_90 = {np.quantile(needed, SHARE_90):.2f}\n"
        f"_PER_SD = Uncertainty({np.quantile(sds, SHARE_MARGIN):.2f}, "
        f"{tuple(np.quantile(quantiles, SHARE_MARGIN, axis=0).round(2).tolist())})"
    )


def unseen(known, folder, hw360):
    """Devices on which no choice was made, from all known devices / those of other boards and runtimes.

    "Canonical only": no equal networks are timed, and every device runs a cell as it is written.
    """
    import torch  # noqa: PLC0415 - the other tables need none

    filters = [("device", "=", "pi5"), ("framework", "=", "onnx"), ("task", "=", "cifar100")]
    table = pq.read_table(hw360, filters=filters).sort_by("arch_idx")
    nearest = find(SPACE, "help-2080ti-1")
    devices = {
        "Raspberry Pi 5, ONNX Runtime": (
            *("Raspberry Pi 5", "onnxruntime"),
            table["lat_ms_median"].to_numpy(),
        )
    }
    for batch in (32, 256):
        ms = torch.load(folder / f"data/nasbench201/latency/2080ti_{batch}.pt", weights_only=True)
        devices[f"RTX 2080 Ti, batch {batch}"] = (
            nearest.board,
            nearest.source,
            np.array(ms, float),
        )
    every = np.arange(len(ARCHITECTURES))
    head("device", "canonical only", "inside 90 %", "ours", "inside 90 %", "ridge, same networks")
    rows = []
    for name, (board, runtime, truth) in devices.items():
        is_other = (np.array(known.boards) != board) & (np.array(known.runtimes) != runtime)
        rows.append([])
        for kept in (range(len(known.boards)), np.flatnonzero(is_other)):
            ours = only(known, kept, known.wanted)
            plain = replace(ours, canonical=every, wanted=known.wanted & (known.canonical == every))
            qualities = []
            for each in (plain, ours):
                probes = each.choose(10)
                judged = known.wanted & ~np.isin(every, probes)
                found = each.transfer(probes, truth[probes])
                inside = (truth >= found.low_ms) & (truth <= found.high_ms)
                rho = judge(found.latency_ms[judged], truth[judged]).spearman
                qualities += [rho, inside[judged].mean()]
            on_sources = ridge_on_sources(ours, probes, truth[probes])
            rows[-1].append([*qualities, judge(on_sources[judged], truth[judged]).spearman])
        row(name, *(f"{a:.3f} / {b:.3f}" for a, b in zip(*rows[-1], strict=True)))
    row("mean", *(f"{a:.3f} / {b:.3f}" for a, b in zip(*np.mean(rows, axis=0), strict=True)))


def cells_of(values):
    shares = [f"{value:.1%}" for value in values]
    return [
        f"{values[0]:.3f}",
        shares[1],
        f"{values[2]:.3f}",
        shares[3],
        *shares[4:6],
        f"{values[7]:.0%}",
    ]


def without_tables():
    """Known devices of a machine without tables: latencies (ms) by embedded models, else by bundled tables."""
    devices = [device for device in registered(SPACE) if device.for_transfer]
    task = TASKS["cifar100"]
    values = [
        bundled(device)
        if _has_model(device)
        else AutoLatencyConfig().build(device.id, SPACE, task).ms
        for device in devices
    ]
    return known_from(SPACE, devices, np.array(values))


def _has_model(device):
    return device.id in embedded_models(SPACE)


if __name__ == "__main__":
    main()
