"""Claim: at no more latency, found networks of MobileNetV3 are more accurate than timm's.

    $ pip install timm
    $ NAS_DATA=<folder of tables> python -m benchmarks.mobilenet_v3_trained --part times --device core --out v3/
    $ NAS_DATA=... python -m benchmarks.mobilenet_v3_trained --part times --device gpu --out v3/
    $ NAS_DATA=... python -m benchmarks.mobilenet_v3_trained --part front --epochs 10 --out v3/
    $ python -m benchmarks.mobilenet_v3_trained --tiny --out tiny/                          # all, on a CPU

CIFAR-10 at 96 pixels: timm's networks, the found ones of results/mobilenet_v3_trained.csv and 20 random ones.

- times: all of them timed in turns, with nothing else on the machine: ONNX Runtime on one thread, or on a GPU a
  captured graph (fp32, one image);
- front: all trained from new weights with one recipe, the random ones with one seed; a table for each device that
  `times` has timed on.

The recipe is `modern` without RandAugment. Trained on the training and validation images, judged on the test
images. A training whose file is in `--out` is not repeated.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from benchmarks.own_images import say
from edgenas_core.files.atomic_file import write_whole
from edgenas_core.inference.formats.onnx_export import onnx_bytes
from edgenas_core.inference.formats.onnx_session import OnnxSession
from nas.fit.data.open import open_images
from nas.fit.starts.pretrained.libraries import timm
from nas.fit.training.evaluation import device_named
from nas.fit.training.network import own_side, untrained
from nas.fit.training.recipe import RECIPES
from nas.fit.training.together import TrainingPool
from nas.fit.training.train_on import TrainOn
from nas.fit.training.trainer import TrainingOptions
from nas.spaces.mobilenet_v3.plugin import NARROW, MobileNetV3Space

TIMM = (
    "mobilenetv3_small_100",
    "mobilenetv3_large_100",
    "mobilenetv2_100",
    "efficientnet_lite0",
    "hardcorenas_a",
)
FRONT = ("mobilenetv4_conv_small", "lcnet_100", "levit_128s", "hgnetv2_b0")
"""Of timm's own list of accuracy and time on a processor."""

FOUND = Path(__file__).parent / "results" / "mobilenet_v3_trained.csv"
RANDOM = 20
TURNS, PASSES = 50, 3
RECIPE = replace(RECIPES["modern"], rand_augment=False)


class Bench:
    """The parts of the benchmark, on one set of images."""

    def __init__(self, arguments):
        self.arguments, self.out = arguments, arguments.out
        if arguments.tiny:
            self.space = MobileNetV3Space("tiny", 0.25, None)
            self.images = open_images("digits", side=32)
        else:
            path = Path(os.environ["NAS_DATA"]) / "images" / "cifar10-jpeg.parquet"
            self.space, self.images = NARROW, open_images(str(path), side=arguments.side)
        self.task = self.images.task

    def published(self):
        """Builders of the networks to compare with, by name."""
        if self.arguments.tiny:
            largest = np.array(self.space.num_choices) - 1
            return {"largest": partial(untrained, self.space, largest, self.task)}
        classes = self.task.num_classes
        builds = {name: partial(timm().create_model, name, num_classes=classes) for name in TIMM}
        for name in FRONT:
            fixed = {"img_size": self.arguments.side} if name.startswith("levit") else {}
            builds[name] = partial(timm().create_model, name, num_classes=classes, **fixed)
        return {name: build for name, build in builds.items() if self.is_chosen(name)}

    def is_chosen(self, name):
        """Whether the command line's pattern matches the name of a network."""
        return re.search(self.arguments.match, name) is not None

    def rows(self):
        """Rows of choices of the found and of the random networks, by name."""
        rng = np.random.default_rng(0)
        random = self.space.sample(rng, 2 if self.arguments.tiny else RANDOM)
        choices = (rng.random(random[::2].shape) * self.space.num_choices).astype(np.int64)
        random[::2] = self.space.normal(choices)  # uniform draws are nearly all deep
        rows = {}
        if not self.arguments.tiny:
            texts = [line["network"] for line in csv.DictReader(FOUND.open())]
            rows = {text: self.space.parse(text) for text in texts if "(timm)" not in text}
        rows |= {f"random {i}": row for i, row in enumerate(random)}
        return {name: row for name, row in rows.items() if self.is_chosen(name)}

    def times(self):
        """Median ms of all networks, in turns, `PASSES` times."""
        passes = []
        for _ in range(PASSES):
            side = self.task.image_side
            networks = [(build().eval(), side) for build in self.published().values()]
            networks += [
                (self.space.network(row, self.task).eval(), own_side(self.space, row, self.task))
                for row in self.rows().values()
            ]
            passes.append(in_turns(CALLS[self.arguments.device](networks)))
        medians = np.median(passes, axis=0).tolist()
        ms = dict(zip([*self.published(), *self.rows()], medians, strict=True))
        write_whole(self.out / f"times-{self.arguments.device}.json", json.dumps(ms))
        say(ms)

    def path(self, name, seed):
        """File of a training."""
        return self.out / f"{name.replace(' ', '_')}-{self.arguments.epochs}-{seed}.json"

    def trained(self, builds):
        """Test accuracies in percent of each network's seeds; one of a random network."""
        epochs = self.arguments.epochs
        recipe = replace(RECIPE, epochs=epochs)
        paths = {
            name: [
                self.path(name, seed)
                for seed in range(1 if name.startswith("random") else self.arguments.seeds)
            ]
            for name in builds
        }
        with TrainingPool(
            self.images, on=TrainOn.train_and_valid, side_by_side=self.arguments.at_once
        ) as pool:
            futures = []
            for name, build in builds.items():
                for seed, path in enumerate(paths[name]):
                    if not path.is_file():
                        options = TrainingOptions(seed=seed, evaluate_every=epochs)
                        futures.append(pool.submit(partial(_seeded, build, seed), recipe, options))
                        futures[-1].add_done_callback(partial(_kept, path))
            for future in futures:
                future.result()
        return {
            name: 100 * np.array([json.loads(path.read_text())[0] for path in paths[name]])
            for name in builds
        }

    def front(self):
        """Train all networks; write what each device's times make of it."""
        builds = self.published()
        for name, row in self.rows().items():
            builds[name] = partial(untrained, self.space, row, self.task)
        accuracies = self.trained(builds)
        tables = []
        for device, title in DEVICES.items():
            path = self.out / f"times-{device}.json"
            if not path.is_file():
                continue
            ms = json.loads(path.read_text())
            tables += [f"| {title}, ms | network | test accuracy, % |", "|---|---|---|"]
            tables += [
                f"| {ms[name]:.3f} | `{name}` | {_text(accuracies[name])} |"
                for name in sorted(builds, key=ms.__getitem__)
            ]
            tables.append("")
        write_whole(self.out / "front.md", "\n".join(tables))
        say("\n".join(tables))


def _seeded(build, seed):
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return build()


def _kept(path, future):
    error = future.exception()
    if error is None:
        evaluation = future.result()
        write_whole(path, json.dumps([evaluation.accuracy, evaluation.seconds]))
        say(f"{path.stem}: {evaluation.accuracy:.2%} in {evaluation.seconds:.0f} s")


def on_core(networks):
    """Calls of each network with one image, in ONNX Runtime on one thread."""
    images = [torch.randn(1, 3, side, side) for _, side in networks]
    sessions = [
        OnnxSession(onnx_bytes(network, [image], opset=13, dynamic_batch=False))
        for (network, _), image in zip(networks, images, strict=True)
    ]
    return [
        partial(session, image.numpy()) for session, image in zip(sessions, images, strict=True)
    ]


def on_gpu(networks):
    """Calls of each network with one image, as a captured graph."""
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
    return calls


CALLS = {"core": on_core, "gpu": on_gpu}
DEVICES = {"core": "ONNX Runtime, one thread", "gpu": "captured CUDA graph"}


def _replayed(graph, _network, _image):
    graph.replay()
    torch.cuda.synchronize()


def in_turns(calls):
    """Median ms of each call."""
    taken = [[] for _ in calls]
    for turn in range(2 * TURNS):
        for call, seconds in zip(calls, taken, strict=True):
            began_s = time.perf_counter()
            call()
            if turn >= TURNS:  # the first half warms up
                seconds.append(time.perf_counter() - began_s)
    return [1e3 * float(np.median(seconds)) for seconds in taken]


def _text(percent):
    spread = f" +- {percent.std(ddof=1):.2f}" if len(percent) > 1 else ""
    return f"{percent.mean():.2f}{spread}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", default="times,front")
    parser.add_argument("--out", type=Path, default=Path("mobilenet_v3_trained"))
    parser.add_argument("--device", default="core", choices=CALLS, help="to time on")
    parser.add_argument("--side", type=int, default=96)
    parser.add_argument("--epochs", type=int, default=20, help="of each training")
    parser.add_argument("--at-once", type=int, default=4, help="trainings on a GPU")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--match", default="", help="regular expression in names of networks")
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
