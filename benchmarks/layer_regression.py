"""Claim: a linear regression a kind of layer predicts the time of layers it never saw.

    $ python benchmarks/layer_regression.py measure --device cpu --backend torch --out cpu.json
    $ python benchmarks/layer_regression.py measure --device cpu --backend onnxruntime --out ort.json
    $ python benchmarks/layer_regression.py measure --device cuda --backend graph --out h200.json
    $ python benchmarks/layer_regression.py fit cpu.json [--save predictor.json]

`measure` times every distinct layer of AlexNet, VGG, ResNet, DenseNet and NAS-Bench-201 networks and
a random grid of others, then the whole networks; it needs torch, NumPy and jaxtyping. `fit` splits
the distinct layers in ten, predicts each tenth by a fit of the others, and each network by a fit of
layers that are not in it. The published figures: R2 95.2 % (CPU) and 96.2 % (GPU), 94.6 % and 98.3 % within
a tolerance that the source does not state. results/layers.md describes what is timed.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

from benchmarks.papers.predictor.accuracy import (
    alike_as_one,
    by_group,
    held_out,
    predicted_ms,
    tenths,
)
from benchmarks.papers.predictor.forest import fit_corrected
from benchmarks.papers.predictor.regression import FEATURES, Layer, fit, fit_plain
from benchmarks.papers.predictor.timing import (
    LayerRun,
    Subject,
    distinct,
    random_layers,
    subjects_of,
    time_layers,
)
from runtime.machine.timing import TimingConfig
from runtime.network.backend import Backend, Device
from runtime.network.decompose import Rule, decompose
from runtime.network.models.alexnet import AlexNet
from runtime.network.models.densenet import DenseNet
from runtime.network.models.nas_bench_201 import CellNetwork
from runtime.network.models.resnet import ResNet
from runtime.network.models.vgg import VGG

CELLS = {
    "cell, 3x3": ("nor_conv_3x3",) * 6,
    "cell, mixed": (
        *("nor_conv_1x1", "avg_pool_3x3", "skip_connect"),
        *("nor_conv_3x3", "avg_pool_3x3", "nor_conv_1x1"),
    ),
}
NETWORKS = {  # name -> (builder, side of the image)
    "AlexNet": (AlexNet, 224),
    "VGG-16": (lambda: VGG(16), 224),
    "ResNet-18": (lambda: ResNet(18), 224),
    "ResNet-50": (lambda: ResNet(50), 224),
    "ResNet-152": (lambda: ResNet(152), 224),
    "DenseNet-121": (lambda: DenseNet(121), 224),
    "DenseNet-201": (lambda: DenseNet(201), 224),
    **{name: (lambda ops=ops: CellNetwork(ops), 32) for name, ops in CELLS.items()},
}
GRID = 300
TIMING = TimingConfig(samples=20, warm_up_most=20)
FITS = {"as printed": fit_plain, "relative": fit, "corrected by a forest": fit_corrected}
NO_LAYER = Layer("whole network, or a part of a layer", ())


def layers_inside(module, shape, rule):
    """The layers of a module on the meta device."""
    x = torch.empty(shape, device="meta")
    return subjects_of(decompose(module.eval(), x, rule), shape, x.nbytes)


def time_all(subjects, run):
    """Median and least milliseconds of each."""
    found, began = [], time.monotonic()
    for samples in time_layers(subjects, run, TIMING):
        found.append({"ms": float(np.median(samples.ms)), "least_ms": float(samples.ms.min())})
        if len(found) % 160 == 0:
            print(
                f"{len(found)} of {len(subjects)}, {time.monotonic() - began:.0f} s",
                file=sys.stderr,
            )
    return found


def measure(arguments):
    """Time layers and networks, and write what `fit` needs."""
    torch.set_num_threads(1)
    rule = Rule.FUSED if arguments.backend == "onnxruntime" else Rule.LAYER
    networks, shapes = {}, {}
    for name, (builder, side) in NETWORKS.items():
        with torch.device("meta"):
            networks[name] = builder().eval()
        shapes[name] = (1, 3, side, side)
    inside = {n: layers_inside(m, shapes[n], rule) for n, m in networks.items()}
    every = distinct([s for of in inside.values() for s in of] + random_layers(rule, GRID))
    if arguments.most:
        every = every[:: -(-len(every) // arguments.most)]
    number = {subject.key: i for i, subject in enumerate(every)}
    print(f"{len(every)} distinct layers", file=sys.stderr)
    run = LayerRun(Device(arguments.device), Backend(arguments.backend))
    ms = time_all(every, run)
    chosen = [] if arguments.most else list(networks)
    once = replace(run, repeats=1)
    whole = time_all([Subject(NO_LAYER, networks[n], (shapes[n],)) for n in chosen], once)
    content = {
        "device": arguments.name or platform.processor() or platform.machine(),
        "backend": arguments.backend,
        "torch": torch.__version__,
        "features": FEATURES,
        "layers": [{**asdict(s.layer), **t} for s, t in zip(every, ms, strict=True)],
        "networks": {
            name: {**t, "layers": [number[s.key] for s in inside[name]]}
            for name, t in zip(chosen, whole, strict=True)
        },
    }
    if arguments.device == "cuda":
        content["gpu"] = torch.cuda.get_device_name()
    if arguments.backend == "torch" and not arguments.most:
        content["convolutions"] = convolutions(every, ms, run)
    arguments.out.write_text(json.dumps(content) + "\n", encoding="utf-8")


def convolutions(every, ms, run):
    """Each convolution beside its im2col and its matrix product, each timed alone."""
    found = []
    for subject, whole in zip(every, ms, strict=True):
        body = subject.body
        if isinstance(body, nn.Conv2d) and body.groups == 1 and body.kernel_size != (1, 1):
            unfold = nn.Unfold(body.kernel_size, padding=body.padding, stride=body.stride)
            _, rows, columns = unfold(torch.empty(subject.shapes[0], device="meta")).shape
            product = nn.Linear(rows, body.out_channels, bias=False, device="meta")
            found.append((whole, unfold, product, subject.shapes[0], (columns, rows)))
    im2col = time_all([Subject(NO_LAYER, u, (shape,)) for _, u, _, shape, _ in found], run)
    gemm = time_all([Subject(NO_LAYER, p, (shape,)) for _, _, p, _, shape in found], run)
    return [
        {"whole": whole["ms"], "im2col": a["ms"], "gemm": b["ms"]}
        for (whole, *_), a, b in zip(found, im2col, gemm, strict=True)
    ]


def report(arguments):
    """Fit, predict what was held out, and print."""
    content = json.loads(arguments.times.read_text(encoding="utf-8"))
    device = f"{content['device']}/{content['backend']}"
    which = "least_ms" if arguments.least else "ms"
    every = [(Layer(row["kind"], tuple(row["features"])), row[which]) for row in content["layers"]]
    timed = alike_as_one(every)
    print(f"{device}: {len(timed)} layers, each predicted by a fit of nine tenths of the others")
    for name, fitted in FITS.items():
        print(
            f"\n{name}:\n\n| kind | layers | R2 | within 10 % | within 20 % | MAPE | median | tau |"
        )
        print("|---|---|---|---|---|---|---|---|")
        told = held_out(timed, tenths(timed), partial(fitted, device))
        found = dict(by_group(timed, told))
        for kind, one in found.items():
            rates = (one.r2, one.within_10, one.within_20, one.mape, one.median_error)
            print(
                f"| {kind} | {one.layers} | {' | '.join(f'{x:.1%}' for x in rates)} | {one.tau:.2f} |"
            )
        kinds = [one for kind, one in found.items() if kind != "all"]
        r2, within = (np.mean([getattr(one, of) for one in kinds]) for of in ("r2", "within_10"))
        print(f"mean over kinds: R2 {r2:.1%}, {within:.1%} within 10 %")
    report_networks(content, every, device, which)
    report_convolutions(content)
    if arguments.save:
        fit(device, every).save(arguments.save)


def report_networks(content, timed, device, which):
    """Sums over whole networks, of measured layers and of predictions without their layers."""
    if not content["networks"]:
        return
    print(f"\n| network | layers | measured ms | sum of its layers | {' | '.join(FITS)} |")
    print("|---|---|---|---|---|---|---|")
    for name, network in content["networks"].items():
        own = [timed[i][0] for i in network["layers"]]
        seen = set(own)
        rest = [row for row in timed if row[0] not in seen]
        whole = network[which]
        sums = [sum(timed[i][1] for i in network["layers"])]
        sums += [np.nansum(predicted_ms(fitted(device, rest), own)) for fitted in FITS.values()]
        cells = " | ".join(f"{ms:.3f} ({ms / whole - 1:+.1%})" for ms in sums)
        print(f"| {name} | {len(own)} | {whole:.3f} | {cells} |")


def report_convolutions(content):
    """Whether a convolution's time is that of its im2col and its matrix product."""
    if "convolutions" not in content:
        return
    whole, im2col, gemm = (
        np.array([row[name] for row in content["convolutions"]])
        for name in ("whole", "im2col", "gemm")
    )
    ratio = (im2col + gemm) / whole
    low, middle, high = np.quantile(ratio, [0.1, 0.5, 0.9])
    print(
        f"\nim2col + GEMM, timed alone, against the convolution that torch runs, {len(whole)} of "
        f"them: median {middle:.2f} of it, 10 % under {low:.2f}, 10 % over {high:.2f}; "
        f"{(ratio > 1).mean():.0%} would be slower so"
    )


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("measure")
    one.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    one.add_argument("--backend", choices=["torch", "graph", "onnxruntime"], default="torch")
    one.add_argument("--name", help="of the device, in the file")
    one.add_argument("--most", type=int, help="time so many layers only, and no network: a trial")
    one.add_argument("--out", type=Path, required=True)
    one.set_defaults(run=measure)
    two = commands.add_parser("fit")
    two.add_argument("times", type=Path)
    two.add_argument("--save", type=Path)
    two.add_argument(
        "--least", action="store_true", help="the least of the times, not their median"
    )
    two.set_defaults(run=report)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
