"""Claim: a linear regression a kind of layer predicts the time of layers it never saw.

    $ python benchmarks/layer_regression.py measure --device cpu --backend torch --out cpu.json
    $ python benchmarks/layer_regression.py measure --device cpu --backend onnxruntime --out ort.json
    $ python benchmarks/layer_regression.py measure --device cuda --backend graph --out h200.json
    $ python benchmarks/layer_regression.py fit cpu.json [--save predictor.json]

`measure` times every distinct layer of AlexNet, VGG, ResNet, DenseNet and NAS-Bench-201 networks and
a random grid of others, then the whole networks; it needs torch, NumPy and jaxtyping. `fit` splits
the layers in ten, predicts each tenth by a fit of the others, and each network by a fit of layers
that are not in it. The published figures: R2 95.2 % (CPU) and 96.2 % (GPU), 94.6 % and 98.3 % within
a tolerance that the source does not state. docs/layers.md says what is timed.
"""

from __future__ import annotations

import argparse
import copy
import json
import platform
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from runtime.backend import Backend, Device
from runtime.decompose import Rule, decompose
from runtime.inference import prepare
from runtime.models.alexnet import AlexNet
from runtime.models.densenet import DenseNet
from runtime.models.nas_bench_201 import CellNetwork
from runtime.models.resnet import ResNet
from runtime.models.vgg import VGG
from runtime.predictor import FEATURES, Layer, fit, layers
from runtime.program import NETWORK_INPUT
from runtime.timing import Stopwatch, TimingConfig, time_interleaved

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
FOLDS = 10
MOST_FLOPS = 3e9  # of a layer of the grid
GRAPH_REPEATS = (
    20  # of a layer within one CUDA graph, so that the launch of the graph is a twentieth
)
TIMING = TimingConfig(samples=20, warm_up_most=20)
TOGETHER = 8


@dataclass(frozen=True)
class Subject:
    """A layer to time."""

    layer: Layer
    body: nn.Module
    shapes: tuple[tuple[int, ...], ...]

    @property
    def key(self):
        """Equal for layers that do the same work."""
        code = getattr(self.body, "code", "")
        names = [str(m) for m in self.body.children()] if code else [str(self.body)]
        return f"{self.layer.kind} {code} {names} {self.shapes}"


class Add(nn.Module):
    """A sum of two tensors."""

    def forward(self, x):
        """Twice the input, by an addition."""
        return x + x


class Concatenation(nn.Module):
    """A concatenation of two tensors along the channels."""

    def forward(self, x):
        """The input beside itself."""
        return torch.cat([x, x], 1)


class Repeated(nn.Module):
    """A layer several times over, with its further inputs inside."""

    def __init__(self, body, rest, repeats):
        super().__init__()
        self.body = body
        self.repeats = repeats
        for i, tensor in enumerate(rest):
            self.register_buffer(f"input_{i}", tensor)

    def forward(self, x):
        """The layer's output."""
        rest = list(self.buffers(recurse=False))
        for _ in range(self.repeats):
            y = self.body(x, *rest)
        return y


def subjects_of(module, shape, rule):
    """The layers of a module on the meta device."""
    x = torch.empty(shape, device="meta")
    program = decompose(module.eval(), x, rule)
    shapes = {NETWORK_INPUT: tuple(shape)}
    shapes.update({i: segment.output_shape for i, segment in enumerate(program.segments)})
    return [
        Subject(layer, segment.body, tuple(shapes[i] for i in segment.inputs))
        for layer, segment in zip(layers(program, x.nbytes), program.segments, strict=True)
    ]


def grid(rule):
    """Random layers, each alone: shapes that the networks do not have."""
    rng = np.random.default_rng(0)
    found = []
    while len(found) < GRID:
        channels, out = (int(rng.choice([8, 16, 24, 48, 64, 96, 160, 256, 384])) for _ in "ab")
        side = int(rng.choice([4, 7, 8, 14, 16, 24, 28, 32, 56, 64, 80]))
        with torch.device("meta"):
            module = _random_layer(rng, channels, out)
        shape = (1, channels) if isinstance(module, nn.Linear) else (1, channels, side, side)
        *_, subject = subjects_of(nn.Sequential(module), shape, rule)
        if subject.layer.features[1] <= MOST_FLOPS:
            found.append(subject)
    return found


def _random_layer(rng, channels, out):
    what = rng.choice(
        ["conv", "dw", "linear", "pool", "norm", "act", "add", "cat", "softmax"],
        p=[0.5, 0.05, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05, 0.05],
    )
    if what == "conv":
        kernel, stride = int(rng.choice([1, 3, 5, 7], p=[0.35, 0.45, 0.1, 0.1])), rng.choice([1, 2])
        return nn.Conv2d(channels, out, kernel, int(stride), kernel // 2, bias=False)
    if what == "dw":
        return nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False)
    if what == "linear":
        return nn.Linear(channels, 16 * out)
    if what == "pool":
        return nn.MaxPool2d(3, 2, 1) if rng.random() < 0.5 else nn.AvgPool2d(3, 1, 1)
    if what == "norm":
        return nn.BatchNorm2d(channels)
    alone = {"act": nn.ReLU(), "add": Add(), "cat": Concatenation()}
    return alone.get(what) or nn.Sequential(nn.Flatten(), nn.Softmax(1))


def distinct(subjects):
    return list({subject.key: subject for subject in subjects}.values())


def materialised(body, device):
    """A copy with weights; on the meta device there were shapes only."""
    real = copy.deepcopy(body).to_empty(device=device)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in [*real.parameters(), *real.buffers()]:
            if weight.is_floating_point():
                noise = torch.rand(weight.shape, generator=generator) * 0.1 + 0.05
                weight.copy_(noise.to(device))
    return real.eval()


def callable_of(body, shapes, arguments, repeats):
    """One inference of a module as something to call, and how many times it runs the module."""
    inputs = [torch.rand(shape) for shape in shapes]
    if arguments.backend == "onnxruntime":
        from runtime.onnx_export import onnx_bytes  # noqa: PLC0415 - not on every device
        from runtime.onnx_session import OnnxSession  # noqa: PLC0415

        real = materialised(body, "cpu")
        session = OnnxSession(onnx_bytes(real, inputs))
        arrays = [tensor.numpy() for tensor in inputs]
        return lambda: session(*arrays)
    real = materialised(body, arguments.device)
    rest = [tensor.to(arguments.device) for tensor in inputs[1:]]
    network = Repeated(real, rest, repeats) if rest or repeats > 1 else real
    return prepare(network, inputs[0], Device(arguments.device), Backend(arguments.backend))


def time_all(bodies, arguments, repeats):
    """Median and least milliseconds of each, a few of them in turns."""
    generator = np.random.default_rng(0)
    stopwatch = Stopwatch(torch.cuda.synchronize) if arguments.device == "cuda" else Stopwatch()
    found, began = [], time.monotonic()
    for start in range(0, len(bodies), TOGETHER):
        calls = [callable_of(b, s, arguments, repeats) for b, s in bodies[start : start + TOGETHER]]
        timed = time_interleaved(calls, TIMING, generator, stopwatch)
        found += [
            {"ms": float(np.median(s.ms)) / repeats, "least_ms": float(s.ms.min()) / repeats}
            for s in timed
        ]
        if start % (20 * TOGETHER) == 0:
            print(
                f"{len(found)} of {len(bodies)}, {time.monotonic() - began:.0f} s", file=sys.stderr
            )
    return found


def measure(arguments):
    """Time layers and networks, and write what `fit` needs."""
    torch.set_num_threads(1)
    rule = Rule.FUSED if arguments.backend == "onnxruntime" else Rule.LAYER
    repeats = GRAPH_REPEATS if arguments.backend == "graph" else 1
    networks, shapes = {}, {}
    for name, (builder, side) in NETWORKS.items():
        with torch.device("meta"):
            networks[name] = builder().eval()
        shapes[name] = (1, 3, side, side)
    inside = {n: subjects_of(m, shapes[n], rule) for n, m in networks.items()}
    every = distinct([s for of in inside.values() for s in of] + grid(rule))
    if arguments.most:
        every = every[:: -(-len(every) // arguments.most)]
    number = {subject.key: i for i, subject in enumerate(every)}
    print(f"{len(every)} distinct layers", file=sys.stderr)
    ms = time_all([(s.body, s.shapes) for s in every], arguments, repeats)
    chosen = [] if arguments.most else list(networks)
    whole = time_all([(networks[n], (shapes[n],)) for n in chosen], arguments, 1)
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
        content["convolutions"] = convolutions(every, ms, arguments)
    arguments.out.write_text(json.dumps(content) + "\n", encoding="utf-8")


def convolutions(every, ms, arguments):
    """Each convolution beside its im2col and its matrix product, each timed alone."""
    found = []
    for subject, whole in zip(every, ms, strict=True):
        body = subject.body
        if isinstance(body, nn.Conv2d) and body.groups == 1 and body.kernel_size != (1, 1):
            unfold = nn.Unfold(body.kernel_size, padding=body.padding, stride=body.stride)
            _, rows, columns = unfold(torch.empty(subject.shapes[0], device="meta")).shape
            product = nn.Linear(rows, body.out_channels, bias=False, device="meta")
            found.append((whole, unfold, product, subject.shapes[0], (columns, rows)))
    im2col = time_all([(u, (shape,)) for _, u, _, shape, _ in found], arguments, 1)
    gemm = time_all([(p, (shape,)) for _, _, p, _, shape in found], arguments, 1)
    return [
        {"whole": whole["ms"], "im2col": a["ms"], "gemm": b["ms"]}
        for (whole, *_), a, b in zip(found, im2col, gemm, strict=True)
    ]


def r2(predicted, ms):
    return 1 - ((predicted - ms) ** 2).sum() / ((ms - ms.mean()) ** 2).sum()


def report(arguments):
    """Fit, predict what was held out, and print."""
    content = json.loads(arguments.times.read_text(encoding="utf-8"))
    device = f"{content['device']}/{content['backend']}"
    which = "least_ms" if arguments.least else "ms"
    timed = [(Layer(row["kind"], tuple(row["features"])), row[which]) for row in content["layers"]]
    ms = np.array([t for _, t in timed])
    fold = np.random.default_rng(0).permutation(len(timed)) % FOLDS
    predicted = np.empty(len(timed))
    for number in range(FOLDS):
        model = fit(device, [row for row, f in zip(timed, fold, strict=True) if f != number])
        for i in np.flatnonzero(fold == number):
            predicted[i] = predict(model, timed[i][0])
    group = np.array([layer.kind.split()[0] for layer, _ in timed])
    print(f"{device}: {len(timed)} layers, each predicted by a fit of nine tenths of the others\n")
    print("| kind | layers | ms | R2 | within 10 % | within 20 % | median error |")
    print("|---|---|---|---|---|---|---|")
    rows = []
    for kind in [*sorted(set(group)), "all"]:
        part = (group == kind) if kind != "all" else np.ones(len(ms), bool)
        part &= np.isfinite(predicted)
        if part.sum() < FOLDS:
            print(f"| {kind} | {part.sum()} | too few to judge |")
            continue
        error = np.abs(predicted[part] / ms[part] - 1)
        row = [r2(predicted[part], ms[part]), (error <= 0.1).mean(), (error <= 0.2).mean()]
        rows.append(row)
        span = f"{ms[part].min():.4f} to {ms[part].max():.3g}"
        rates = " | ".join(f"{x:.1%}" for x in [*row, np.median(error)])
        print(f"| {kind} | {part.sum()} | {span} | {rates} |")
    mean = np.mean(rows[:-1], axis=0)
    print(f"\nmean over kinds: R2 {mean[0]:.1%}, {mean[1]:.1%} within 10 %, {mean[2]:.1%} in 20 %")
    report_networks(content, timed, device, which)
    report_convolutions(content)
    if arguments.save:
        fit(device, timed).save(arguments.save)


def predict(model, layer):
    try:
        return model.ms(layer)
    except KeyError:  # the only layer of its kind was held out
        return np.nan


def report_networks(content, timed, device, which):
    """Sums over whole networks, of measured layers and of predictions without their layers."""
    if not content["networks"]:
        return
    print("\n| network | layers | measured ms | sum of its layers | sum of predictions |")
    print("|---|---|---|---|---|")
    for name, network in content["networks"].items():
        own = set(network["layers"])
        model = fit(device, [row for i, row in enumerate(timed) if i not in own])
        whole = network[which]
        summed = sum(timed[i][1] for i in network["layers"])
        told = np.nansum([predict(model, timed[i][0]) for i in network["layers"]])
        print(
            f"| {name} | {len(network['layers'])} | {whole:.3f} | {summed:.3f} "
            f"({summed / whole - 1:+.1%}) | {told:.3f} ({told / whole - 1:+.1%}) |"
        )


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
