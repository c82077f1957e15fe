"""Claim: on NASFLAT's twelve device splits ours orders networks better than a plain ridge regression.

    $ NAS_DATA=<tables> python -m benchmarks.nasflat <clone of github.com/HayeonLee/HELP>

Splits of Akhauri & Abdelfattah (MLSys 2024), `correlation_trainer/device_task_list.py` of their
repository, where their means stand too (`results_geomean.py`, 20 networks): six on NAS-Bench-201, six
on FBNet. Sources are the tables of the training devices alone. Three devices have no public table:
two only train and are left out, `embedded_gpu_jetson_nano_fp16` also tests. Both methods have the same
networks: designed ones, and ones drawn at random. FBNet's networks are described by how often each operation occurs and
by FLOPs, weights and moved activations, as the product describes those of its own spaces; which of these was chosen by
predicting the training devices of the splits from each other. Spearman's rho over all networks, mean over the test
devices, then mean and bootstrap 95 % interval over seeds. results/transfer.md holds the table.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

from benchmarks.searching import head, row
from benchmarks.transfer import ridge_on_sources
from latency.devices.measured import measured_on
from latency.devices.registry import registered
from latency.models.process import Known
from latency.models.regression import judge
from latency.models.transferred import known_from
from nas.spaces.nas_bench_201.plugin import SPACE

COUNT, SEEDS = 20, 10
FBNET_STAGES = (
    (16, 1, 1),
    (24, 4, 2),
    (32, 4, 2),
    (64, 4, 2),
    (112, 4, 1),
    (184, 4, 2),
    (352, 1, 1),
)
"""Channels, blocks and first stride of each stage of FBNet (Wu et al., CVPR 2019, table 1), behind 16 channels of 112 pixels."""
FBNET_OPERATIONS = (
    (3, 1, 1),
    (3, 1, 2),
    (3, 3, 1),
    (3, 6, 1),
    (5, 1, 1),
    (5, 1, 2),
    (5, 3, 1),
    (5, 6, 1),
    None,
)
"""Kernel, expansion and groups of each block; None skips it."""
_SPREAD, _COST_SPREAD = (
    0.15,
    0.085,
)  # of counts and of each cost, as in latency.models.transferred
GPUS_OF_N2 = ("1080ti_1", "1080ti_32", "titanx_32", "titanxp_1", "titanxp_32")
HELP_TRAINING = (
    *("1080ti_1", "1080ti_32", "1080ti_256", "silver_4114", "silver_4210r", "samsung_a50"),
    *("pixel3", "essential_ph_1", "samsung_s7"),
)
EDGE = ("embedded_tpu_edge_tpu_int8", "eyeriss", "mobile_gpu_snapdragon_855_adreno_640_int8")
DSPS = ("mobile_dsp_snapdragon_675_hexagon_685_int8", "mobile_dsp_snapdragon_855_hexagon_690_int8")
N_SPLITS = {
    "ND": (HELP_TRAINING, ("titan_rtx_256", "gold_6226", "fpga", "pixel2", "raspi4", "eyeriss")),
    "N1": (
        (*EDGE, "pixel3"),
        ("1080ti_1", "titan_rtx_32", "titanxp_1", "2080ti_32", "titan_rtx_1"),
    ),
    "N2": (GPUS_OF_N2, ("embedded_tpu_edge_tpu_int8", *DSPS, "pixel3")),
    "N3": (
        ("desktop_gpu_gtx_1080ti_fp32", "eyeriss", DSPS[0], EDGE[2]),
        ("1080ti_1", "2080ti_1", "titanxp_1", "2080ti_32", "titanxp_32"),
    ),
    "N4": (
        (
            *("embedded_gpu_jetson_nano_fp32", *EDGE, *DSPS, "pixel2"),
            "mobile_cpu_snapdragon_855_kryo_485_int8",
        ),
        ("1080ti_1", "2080ti_1", "titan_rtx_1"),
    ),
    "NA": (
        (
            *("titan_rtx_1", "titan_rtx_32", "titanxp_1", "2080ti_1", "titanx_1", "1080ti_1"),
            *("titanx_32", "titanxp_32", "2080ti_32", "1080ti_32", "gold_6226", "samsung_s7"),
            *("silver_4114", "gold_6240", "silver_4210r", "samsung_a50", "pixel2"),
        ),
        ("eyeriss", "desktop_gpu_gtx_1080ti_fp32", "embedded_tpu_edge_tpu_int8"),
    ),
}
F_SPLITS = {
    "FD": (
        tuple(name.replace("256", "64") for name in HELP_TRAINING),
        ("fpga", "raspi4", "eyeriss"),
    ),
    "F1": (
        ("2080ti_1", "essential_ph_1", "silver_4114", "titan_rtx_1", "titan_rtx_32"),
        ("eyeriss", "fpga", "raspi4", "samsung_a50", "samsung_s7"),
    ),
    "F2": (
        ("essential_ph_1", "gold_6226", "gold_6240", "pixel3", "raspi4"),
        ("1080ti_1", "1080ti_32", "2080ti_32", "titan_rtx_1", "titanxp_1"),
    ),
    "F3": (
        ("essential_ph_1", "pixel2", "pixel3", "raspi4", "samsung_s7"),
        ("1080ti_1", "1080ti_32", "2080ti_1", "titan_rtx_1", "titan_rtx_32"),
    ),
    "F4": (
        (
            *("1080ti_64", "2080ti_1", "eyeriss", "gold_6226", "gold_6240", "raspi4"),
            *("samsung_s7", "silver_4210r", "titan_rtx_1", "titan_rtx_32"),
        ),
        ("1080ti_1", "pixel2", "essential_ph_1"),
    ),
    "FA": (
        tuple(
            f"{board}_{batch}"
            for board in ("1080ti", "2080ti", "titan_rtx", "titanx", "titanxp")
            for batch in (1, 32, 64)
        ),
        ("gold_6226", "essential_ph_1", "samsung_s7", "pixel2"),
    ),
}
NASFLAT = dict(
    zip(
        (*N_SPLITS, *F_SPLITS),
        (0.959, 0.893, 0.967, 0.857, 0.962, 0.959, 0.961, 0.577, 0.809, 0.871, 0.814, 0.734),
        strict=True,
    )
)


def published(folder, name):
    """Milliseconds of one device, as HELP published them."""
    return np.array(torch.load(folder / f"{name}.pt", weights_only=True), float)


def cells_ms(folder, name):
    """Milliseconds of a device on NAS-Bench-201; NaN where it was not measured."""
    if "_int8" in name or "_fp" in name:
        columns = {device.column: device for device in registered(SPACE)}
        return measured_on(SPACE, columns[f"latbench-{name.replace('_', '-')}"]).values_ms
    return published(folder / "nasbench201" / "latency", name)


def cells_known(folder, names):
    """What is known of NAS-Bench-201; cells that were not measured take as long as the fastest."""
    latency_ms = np.stack([cells_ms(folder, name) for name in names])
    fastest = np.nanmin(latency_ms, axis=1, keepdims=True)
    some = registered(SPACE)[: len(names)]  # only their boards and runtimes are read, and not here
    return known_from(SPACE, some, np.where(np.isfinite(latency_ms), latency_ms, fastest))


def fbnet_costs():
    """FLOPs of 1x1 and of depthwise convolutions, weights and moved activations of each block, (22, 9, 4)."""
    costs, channels, side = [], 16, 112
    for out, blocks, first_stride in FBNET_STAGES:
        for stride in (first_stride, *[1] * (blocks - 1)):
            end = -(-side // stride)
            costs.append([block_costs(each, channels, out, side, end) for each in FBNET_OPERATIONS])
            channels, side = out, end
    return np.array(costs, float)


def block_costs(operation, channels, out, side, end):
    if operation is None:  # a 1x1 convolution where it cannot be left out
        needed = channels != out or side != end
        return [
            needed * end**2 * channels * out,
            0,
            needed * channels * out,
            needed * end**2 * (channels + out),
        ]
    kernel, expansion, groups = operation
    inner = channels * expansion
    weights = inner * (channels + out) / groups + inner * kernel**2
    moved = side**2 * (channels + 2 * inner) + end**2 * (2 * inner + out)
    pointwise = (side**2 * channels + end**2 * out) * inner / groups
    return [pointwise, end**2 * inner * kernel**2, weights, moved]


def standardised(values):
    return (values - values.mean(axis=0)) / values.std(axis=0)


def networks_known(folder, names):
    """What is known of FBNet's 5,000 networks: their operations are counted, and their costs."""
    operations = np.array(torch.load(folder / "fbnet" / "arch.pt", weights_only=True))
    kinds = len(FBNET_OPERATIONS)
    counts = (operations[..., None] == np.arange(kinds)).sum(axis=1).astype(float)
    costs = fbnet_costs()[np.arange(operations.shape[1]), operations].sum(axis=1)
    linear = np.concatenate(
        [
            _SPREAD / np.sqrt(kinds) * standardised(counts),
            _COST_SPREAD * standardised(np.log(costs)),
        ],
        axis=1,
    )
    log_ms = [np.log(published(folder / "fbnet" / "latency", name)) for name in names]
    every = np.arange(len(operations))
    return Known(names, names, np.stack(log_ms), linear, counts, every, np.ones(len(every), bool))


def rhos(known, probes, tables):
    """Mean Spearman of ours and of the ridge regression over the devices, for some networks each."""
    rhos_of = []
    for timed, truth in zip(probes, tables, strict=True):
        judged = np.isfinite(truth)
        each = (
            known.transfer(timed, truth[timed]).latency_ms,
            ridge_on_sources(known, timed, truth[timed]),
        )
        rhos_of.append([judge(ms[judged], truth[judged]).spearman for ms in each])
    return np.mean(rhos_of, axis=0)


def drawn(known, truth, count, seed):
    cells = np.flatnonzero(known.wanted & np.isfinite(truth))
    return np.random.default_rng(seed).choice(cells, count, replace=False)


def of_seeds(values):
    means = np.random.default_rng(0).choice(values, (10_000, len(values))).mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return f"{values.mean():.3f} [{low:.3f}, {high:.3f}]"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("help", type=Path, help="clone of github.com/HayeonLee/HELP")
    parser.add_argument("--count", type=int, default=COUNT, help="networks timed on each device")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    arguments = parser.parse_args()
    folder = arguments.help / "data"
    head("split", "NASFLAT", "ours", "ridge", "ours, random", "ridge, random")
    every = []
    for name, (training, test) in (N_SPLITS | F_SPLITS).items():
        if name in N_SPLITS:
            known, tables = cells_known(folder, training), [cells_ms(folder, each) for each in test]
        else:
            known = networks_known(folder, training)
            tables = [published(folder / "fbnet" / "latency", each) for each in test]
        seeds = range(arguments.seeds)
        designs = [known.choose(arguments.count, seed) for seed in seeds]
        both = [
            np.append(
                rhos(known, [design] * len(tables), tables),
                rhos(known, [drawn(known, t, arguments.count, seed) for t in tables], tables),
            )
            for seed, design in zip(seeds, designs, strict=True)
        ]
        every.append(both)
        row(name, f"{NASFLAT[name]:.3f}", *map(of_seeds, np.array(both).T))
    for name, part in (
        ("mean", slice(None)),
        ("mean of N", slice(6)),
        ("mean of F", slice(6, None)),
    ):
        means = np.array(every)[part].mean(axis=0).T
        row(name, f"{np.mean([*NASFLAT.values()][part]):.3f}", *map(of_seeds, means))


if __name__ == "__main__":
    main()
