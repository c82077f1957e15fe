"""Claim: at no more latency, found networks of MobileNetV3 are more accurate than timm's; and a tau.

    $ pip install timm
    $ NAS_DATA=<folder of tables> python benchmarks/mobilenet_v3_trained.py --part supernet --minutes 25 --out v3/
    $ NAS_DATA=... python benchmarks/mobilenet_v3_trained.py --part tau --epochs 20 --out v3/
    $ NAS_DATA=... python benchmarks/mobilenet_v3_trained.py --part front --epochs 60 --seeds 3 --out v3/
    $ python benchmarks/mobilenet_v3_trained.py --part supernet,tau,front --tiny --out tiny/      # on a CPU

CIFAR-10 at 128 pixels. Parts, in this order, each of which leaves a file that the next reads:

- supernet: the sandwich rule for so many minutes; `supernet.safetensors`, seconds an epoch;
- tau: 20 random networks, their accuracy with inherited weights and after a training alone;
- front: for each of timm's networks, the network of the best inherited accuracy that is no slower, both
  trained from new weights with the same recipe, epochs and seeds. Latencies are of this run, in turns:
  ONNX Runtime on one thread, and on a GPU a captured graph (fp32, one image).

A training that is in `--out` is not repeated, so that a part may be continued, or split among GPUs.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from scipy.stats import kendalltau

from nas.accuracy.images.open import open_images
from nas.accuracy.supernet.stored import load_supernet, save_supernet
from nas.accuracy.supernet.training import path_accuracy, seconds_of_epoch, train_supernet
from nas.accuracy.training.evaluation import accuracy_of, device_named
from nas.accuracy.training.recipe import RECIPES
from nas.accuracy.training.trainer import train
from nas.accuracy.training.untrained import own_side, untrained
from nas.spaces.mobilenet_v3.plugin import NARROW, MobileNetV3Space
from runtime.network.formats.onnx_export import onnx_bytes
from runtime.network.formats.onnx_session import OnnxSession
from runtime.shell.files.atomic_file import write_whole

TIMM = (
    "mobilenetv3_small_100",
    "mobilenetv3_large_100",
    "mobilenetv2_100",
    "efficientnet_lite0",
    "hardcorenas_a",
)
NETWORKS, DRAWS, SCORED, TIMED = 20, 20_000, 64, 8
CALLS = 50
STARTED_S = time.monotonic()


def say(*texts):
    print(f"[{time.monotonic() - STARTED_S:6.1f} s]", *texts, flush=True)


class Bench:
    """The parts of the benchmark, on one set of images."""

    def __init__(self, arguments):
        self.arguments, self.out = arguments, arguments.out
        if arguments.tiny:
            self.space, self.images = (
                MobileNetV3Space("tiny", 0.25, None),
                open_images("digits", side=32),
            )
        else:
            path = Path(os.environ["NAS_DATA"]) / "images" / "cifar10-jpeg.parquet"
            self.space, self.images = NARROW, open_images(str(path), side=arguments.side)
        self.task = self.images.task

    def supernet(self):
        """Train it; the number of epochs is what fits."""
        epoch_s = seconds_of_epoch(self.space, self.images)
        epochs = max(1, int(60 * self.arguments.minutes / epoch_s))
        epochs = 1 if self.arguments.tiny else epochs
        say(f"supernet: {epoch_s:.1f} s an epoch, {epochs} epochs")
        shared = train_supernet(
            self.space,
            self.images,
            epochs=epochs,
            seed=0,
            on_epoch=lambda one: say(
                f"epoch {one.number}, loss {one.loss:.3f}, {one.seconds:.1f} s"
            ),
            checkpoint=self.out / "supernet.checkpoint",
        )
        save_supernet(self.out / "supernet.safetensors", shared)

    def score(self, row):
        """Accuracy with inherited weights."""
        shared = load_supernet(self.space, self.task, self.out / "supernet.safetensors")
        return path_accuracy(self.space, shared, row, self.images)

    def trained(self, name, build, seed):
        """Validation and test accuracy of a network from new weights; from the folder if it is there."""
        epochs = self.arguments.epochs
        path = self.out / f"{name.replace(' ', '_')}-{epochs}-{seed}.json"
        if not path.is_file():
            torch.manual_seed(seed)
            network = build()
            recipe = replace(RECIPES["modern"], epochs=epochs)
            one = train(network, self.images, recipe, seed=seed, evaluate_every=epochs)
            test = accuracy_of(network, self.images.test, self.images)
            write_whole(path, json.dumps([one.accuracy, test, one.seconds]))
            say(f"{name}, seed {seed}: {one.accuracy:.2%}, test {test:.2%}, {one.seconds:.0f} s")
        return json.loads(path.read_text())

    def tau(self):
        """Inherited against trained alone."""
        rows = self.space.sample(np.random.default_rng(0), 3 if self.arguments.tiny else NETWORKS)
        inherited = [self.score(row) for row in rows]
        build = partial(untrained, self.space)
        alone = [
            self.trained(f"alone {i}", partial(build, row, self.task), 0)[0]
            for i, row in enumerate(rows)
        ]
        found = {"inherited": inherited, "alone": alone, "tau": kendalltau(inherited, alone)[0]}
        write_whole(self.out / "tau.json", json.dumps(found))
        say(f"tau {found['tau']:.3f} of {len(rows)} networks")

    def published(self):
        """Networks to compare with, by name."""
        if self.arguments.tiny:
            row = self.space.sample(np.random.default_rng(7), 1)[0]
            return {"one of the space": partial(untrained, self.space, row, self.task)}
        import timm  # noqa: PLC0415 - of this benchmark alone

        classes = self.task.num_classes
        return {name: partial(timm.create_model, name, num_classes=classes) for name in TIMM}

    def front(self):
        """Networks found for the latency of each published one, on each device."""
        published = self.published()
        draws = self.space.sample(np.random.default_rng(1), DRAWS)
        flops = self.space.costs(draws, self.task)["flops"]
        lines = ["| device | network | ms | test accuracy | found | ms | test accuracy | points |"]
        lines.append("|---|---|---|---|---|---|---|---|")
        for name, build in published.items():
            for device, limit_ms, row, ms in self.found_for(build, draws, flops):
                text = self.space.text(row)
                ours = partial(untrained, self.space, row, self.task)
                seeds = range(self.arguments.seeds)
                theirs = [self.trained(name, build, seed)[1] for seed in seeds]
                found = [self.trained(text, ours, seed)[1] for seed in seeds]
                gain = 100 * (np.mean(found) - np.mean(theirs))
                lines.append(
                    f"| {device} | {name} | {limit_ms:.3f} | {_text(theirs)} | `{text}` | {ms:.3f} "
                    f"| {_text(found)} | {gain:+.2f} |"
                )
                write_whole(self.out / "front.md", "\n".join([*lines, ""]))
                say(lines[-1])

    def found_for(self, build, draws, flops):
        """(device, latency to meet, architecture, its latency) for each device."""
        whole = self.task.image_side
        about = _flops(build().eval(), whole)
        near = np.flatnonzero((flops > 0.4 * about) & (flops < 1.3 * about))
        if not len(near):
            near = np.argsort(np.abs(flops - about))
        near = near[: 4 if self.arguments.tiny else SCORED]
        scores = np.array([self.score(draws[i]) for i in near])
        best = near[np.argsort(-scores, kind="stable")]
        for device, timed in DEVICES.items():
            if device == "gpu" and not torch.cuda.is_available():
                continue
            for i in range(0, len(best), TIMED):  # the most accurate first
                some = best[i : i + TIMED]
                networks = [(build().eval(), whole)]
                for at in some:
                    network = self.space.network(draws[at], self.task).eval()
                    networks.append((network, own_side(self.space, draws[at], self.task)))
                limit_ms, *ms = timed(networks)
                within = [k for k, one in enumerate(ms) if one <= limit_ms]
                if within:
                    yield device, limit_ms, draws[some[within[0]]], ms[within[0]]
                    break
            else:
                say(f"no network of {len(best)} is as fast on {device}")


def on_core(networks):
    """Median ms of one image in ONNX Runtime, one thread, in turns."""
    images = [torch.randn(1, 3, side, side) for _, side in networks]
    sessions = [
        OnnxSession(onnx_bytes(network, [image], opset=13, dynamic_batch=False))
        for (network, _), image in zip(networks, images, strict=True)
    ]
    calls = [partial(one, image.numpy()) for one, image in zip(sessions, images, strict=True)]
    return _in_turns(calls)


def on_gpu(networks):
    """Median ms of one image as a captured graph, in turns."""
    calls = []
    for network, side in networks:
        network.to("cuda")
        image = torch.randn(1, 3, side, side, device="cuda")
        stream = torch.cuda.Stream()
        graph = torch.cuda.CUDAGraph()
        with torch.inference_mode():
            with torch.cuda.stream(stream):
                for _ in range(3):
                    network(image)
            torch.cuda.synchronize()
            with torch.cuda.graph(graph):
                network(image)
        calls.append(partial(_replayed, graph, network, image))
    return _in_turns(calls)


DEVICES = {"core": on_core, "gpu": on_gpu}


def _replayed(graph, _network, _image):
    graph.replay()
    torch.cuda.synchronize()


def _in_turns(calls):
    taken = [[] for _ in calls]
    for turn in range(2 * CALLS):
        for call, seconds in zip(calls, taken, strict=True):
            began_s = time.perf_counter()
            call()
            if turn >= CALLS:  # the first half warms up
                seconds.append(time.perf_counter() - began_s)
    return [1e3 * float(np.median(seconds)) for seconds in taken]


def _flops(network, side):
    from nas.accuracy.proxies.flops import flops  # noqa: PLC0415 - beside its use

    return flops(network, torch.randn(1, 3, side, side))


def _text(accuracies):
    return f"{100 * np.mean(accuracies):.2f} +- {100 * np.std(accuracies):.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", default="supernet,tau,front")
    parser.add_argument("--out", type=Path, default=Path("mobilenet_v3_trained"))
    parser.add_argument("--side", type=int, default=128)
    parser.add_argument("--minutes", type=float, default=25.0, help="of the supernet")
    parser.add_argument("--epochs", type=int, default=60, help="of each training")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tiny", action="store_true", help="digits and narrow networks, on a CPU")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.tiny:
        arguments.epochs, arguments.seeds = 1, 1
    bench = Bench(arguments)
    say(f"{bench.images.title}, {bench.images.side} pixels, on {device_named('auto')}")
    for part in arguments.part.split(","):
        getattr(bench, part)()


if __name__ == "__main__":
    main()
