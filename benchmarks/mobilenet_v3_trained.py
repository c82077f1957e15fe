"""Claim: at no more latency, found networks of MobileNetV3 are more accurate than timm's; and a tau.

    $ pip install timm
    $ NAS_DATA=<folder of tables> python -m benchmarks.mobilenet_v3_trained --part times,supernet,inherited,find --out v3/
    $ NAS_DATA=... python -m benchmarks.mobilenet_v3_trained --part tau --out v3/           # at the same time, another GPU
    $ NAS_DATA=... python -m benchmarks.mobilenet_v3_trained --part again,front --out v3/   # after both
    $ python -m benchmarks.mobilenet_v3_trained --tiny --out tiny/                          # all, on a CPU

CIFAR-10 at 96 pixels. Each part leaves files in `--out` that the next reads:

- times: of timm's networks, those of `tau` and 120 others, on each device: ONNX Runtime on one thread, and on a GPU a
  captured graph (fp32, one image);
- supernet: the sandwich rule for `--minutes`;
- inherited, tau: 20 random networks, their accuracy with inherited weights and after a training alone; `tau` trains timm's
  networks too, and then waits for `inherited`;
- find: for each of timm's networks and each device, the network of the best inherited accuracy that is no
  slower: candidates by a linear model of the times, the chosen one timed in turns with timm's;
- again: timm's, the found and the random networks timed in turns, with nothing else on the machine;
- front: timm's and the found networks trained from new weights with one recipe, and for each device that `again` has
  timed on a table and a figure, with the random networks that `tau` has trained.

The recipe is `modern` without RandAugment. `front` and `tau` train on the training and validation images, judged on the test images. A training whose
file is in `--out` is not repeated, and processes on several GPUs share the folder: what one has begun
(`.begun`; remove it if that process was killed) the others leave to it.
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
from matplotlib.figure import Figure
from scipy.stats import kendalltau
from sklearn.linear_model import RidgeCV

from benchmarks.own_images import say
from common.files.atomic_file import write_whole
from nas.accuracy.images.open import open_images
from nas.accuracy.supernet.stored import load_supernet, save_supernet
from nas.accuracy.supernet.training import path_accuracy, seconds_of_epoch, train_supernet
from nas.accuracy.training.evaluation import device_named
from nas.accuracy.training.recipe import RECIPES
from nas.accuracy.training.together import TrainingPool
from nas.accuracy.training.train_on import TrainOn
from nas.accuracy.training.trainer import TrainingOptions
from nas.accuracy.training.untrained import own_side, untrained
from nas.spaces.mobilenet_v3.plugin import NARROW, MobileNetV3Space
from runtime.network.formats.onnx_export import onnx_bytes
from runtime.network.formats.onnx_session import OnnxSession

TIMM = (
    "mobilenetv3_small_100",
    "mobilenetv3_large_100",
    "mobilenetv2_100",
    "efficientnet_lite0",
    "hardcorenas_a",
)
NETWORKS, DRAWS, TIMED, SCORED, IN_TURNS = 20, 20_000, 120, 48, 8
SHARES_OF_T = (
    0.97,
    0.9,
    0.8,
)  # what seems accurate and fast is often where the model of the times errs
CALLS, PASSES = 50, 3
RECIPE = replace(RECIPES["modern"], rand_augment=False)


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

    def draws(self, seed, count):
        """Networks, half of them with each depth equally likely: uniform draws are nearly all deep."""
        rng = np.random.default_rng(seed)
        rows = self.space.sample(rng, count)
        choices = (rng.random(rows[::2].shape) * self.space.num_choices).astype(np.int64)
        rows[::2] = self.space.normal(choices)
        return rows

    def published(self):
        """Builders of the networks to compare with, by name."""
        if self.arguments.tiny:
            largest = np.array(self.space.num_choices) - 1
            return {"largest": partial(untrained, self.space, largest, self.task)}
        import timm  # noqa: PLC0415 - of this benchmark alone

        classes = self.task.num_classes
        return {name: partial(timm.create_model, name, num_classes=classes) for name in TIMM}

    def times(self):
        """Median ms of the published networks and those of `tau`, in turns, and of drawn ones."""
        rows = self.draws(2, 16 if self.arguments.tiny else TIMED)
        published = [(build().eval(), self.task.image_side) for build in self.published().values()]
        alone = list(map(self.timeable, self.random_networks()))
        for device in self.devices():
            first_ms = TIMERS[device]([*published, *alone])
            theirs, ours = first_ms[: len(published)], []
            for i in range(0, len(rows), IN_TURNS):
                ours += TIMERS[device](list(map(self.timeable, rows[i : i + IN_TURNS])))
                say(f"{device}: {len(ours)} timed, {np.median(ours):.2f} ms")
            found = {
                "published": dict(zip(self.published(), theirs, strict=True)),
                "alone": first_ms[len(published) :],
                "ms": ours,
            }
            write_whole(self.out / f"times-{device}.json", json.dumps(found))
            say(device, found["published"])

    def devices(self):
        """Names of the devices that are here."""
        asked = self.arguments.device.split(",")
        return [one for one in asked if one != "gpu" or torch.cuda.is_available()]

    def timeable(self, row):
        """A network and the side of the images that it computes."""
        return self.space.network(row, self.task).eval(), own_side(self.space, row, self.task)

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
        )
        save_supernet(self.out / "supernet.safetensors", shared)

    def scores(self, rows):
        """Accuracies with inherited weights."""
        shared = load_supernet(self.space, self.task, self.out / "supernet.safetensors")
        return np.array([path_accuracy(self.space, shared, row, self.images) for row in rows])

    def find(self):
        """The network for the latency of each published one, on each device."""
        draws = self.draws(1, DRAWS)
        flops = self.space.costs(draws, self.task)["flops"]
        found = []
        for device in self.devices():
            times = json.loads((self.out / f"times-{device}.json").read_text())
            timed = self.draws(2, len(times["ms"]))
            model = RidgeCV(np.logspace(-3, 3, 13)).fit(self.space.features(timed), times["ms"])
            about_ms = model.predict(self.space.features(draws))
            say(f"{device}: R2 {model.score(self.space.features(timed), times['ms']):.3f}")
            for name, build in self.published().items():
                theirs = build().eval(), self.task.image_side
                for share in SHARES_OF_T:
                    within = np.flatnonzero(about_ms <= share * times["published"][name])
                    within = within[np.argsort(-flops[within])][
                        : 4 if self.arguments.tiny else SCORED
                    ]
                    scores = self.scores(draws[within])
                    best = draws[within[np.argsort(-scores, kind="stable")]]
                    one = self.fastest(device, theirs, best)
                    if one is not None:
                        break
                else:
                    say(f"{device}: no candidate is as fast as {name}")
                    continue
                limit_ms, row, ms = one
                found.append([device, name, limit_ms, self.space.text(row), ms])
                say(*found[-1])
        write_whole(self.out / "found.json", json.dumps(found))

    def fastest(self, device, theirs, candidates):
        """(latency to meet, architecture, its latency) of the first that is no slower."""
        for i in range(0, len(candidates), IN_TURNS):
            some = candidates[i : i + IN_TURNS]
            limit_ms, *ms = TIMERS[device]([theirs, *map(self.timeable, some)])
            for row, one in zip(some, ms, strict=True):
                if one <= limit_ms:
                    return limit_ms, row, one
        return None

    def trained(self, jobs):
        """Test accuracies after a training alone, by (name, seed); waits for those of other processes."""
        epochs = self.arguments.epochs
        recipe = replace(RECIPE, epochs=epochs)
        paths = {}
        with TrainingPool(
            self.images, on=TrainOn.train_and_valid, side_by_side=self.arguments.at_once
        ) as pool:
            futures = []
            for name, build, seed in jobs:
                path = paths[name, seed] = self.path(name, seed)
                if not path.is_file():
                    begin = partial(_begun, path, build, seed)
                    options = TrainingOptions(seed=seed, evaluate_every=epochs)
                    futures.append(pool.submit(begin, recipe, options))
                    futures[-1].add_done_callback(partial(_kept, path))
            errors = [future.exception() for future in futures]  # waits
        for error in errors:
            if error is not None and not isinstance(error, FileExistsError):
                raise error
        while not all(path.is_file() for path in paths.values()):
            time.sleep(1)
        return {key: json.loads(path.read_text())[0] for key, path in paths.items()}

    def path(self, name, seed):
        """File of a training."""
        return self.out / f"{name.replace(' ', '_')}-{self.arguments.epochs}-{seed}.json"

    def of_seeds(self, builds):
        """The trainings of these networks, seed after seed."""
        return [(*item, seed) for seed in range(self.arguments.seeds) for item in builds.items()]

    def found(self):
        """Rows of choices of the networks that `find` chose, by their texts."""
        found = json.loads((self.out / "found.json").read_text())
        return {text: self.space.parse(text) for _, _, _, text, _ in found}

    def again(self):
        """Median ms of all that is compared, in turns, `PASSES` times."""
        for device in self.devices():
            passes = []
            for _ in range(PASSES):
                networks = [
                    *[
                        (build().eval(), self.task.image_side)
                        for build in self.published().values()
                    ],
                    *map(self.timeable, self.found().values()),
                    *map(self.timeable, self.random_networks()),
                ]
                passes.append(TIMERS[device](networks))
            names = [*self.published(), *self.found(), *self.alone()]
            ms = dict(zip(names, np.transpose(passes).tolist(), strict=True))
            write_whole(self.out / f"again-{device}.json", json.dumps(ms))
            say(device, ms)

    def front(self):
        """Train what `find` compares; write and draw what each device's times make of it."""
        builds = self.published()
        for text, row in self.found().items():
            builds[text] = partial(untrained, self.space, row, self.task)
        trained = self.trained(self.of_seeds(builds))
        accuracies = {
            name: 100 * np.array([trained[name, seed] for seed in range(self.arguments.seeds)])
            for name in builds
        }
        for name in self.alone():  # which `tau` trains, with one seed
            path = self.path(name, 0)
            if path.is_file():
                accuracies[name] = 100 * np.array(json.loads(path.read_text())[:1])
        tables = []
        for device in TIMERS:
            path = self.out / f"again-{device}.json"
            if not path.is_file():
                continue
            ms = {
                name: float(np.median(load)) for name, load in json.loads(path.read_text()).items()
            }
            tables += [f"| {DEVICES[device]}, ms | network | test accuracy, % |", "|---|---|---|"]
            tables += [
                f"| {ms[name]:.3f} | `{name}` | {_text(accuracies[name])} |"
                for name in sorted(builds, key=ms.__getitem__)
            ]
            tables.append("")
            self.draw(device, ms, accuracies)
        write_whole(self.out / "front.md", "\n".join(tables))
        say("\n".join(tables))

    def draw(self, device, ms, accuracies):
        """Latency and accuracy of each network, with the error bars of the seeds."""
        figure = Figure((7, 4.2), layout="constrained")
        axes = figure.add_subplot(
            xlabel=f"{DEVICES[device]}, one image, ms", ylabel="test accuracy, %"
        )
        groups = {
            "found": (list(self.found()), "o", "tab:blue"),
            "random, one seed": (self.alone(), ".", "0.6"),
            "timm": (list(self.published()), "s", "tab:orange"),
        }
        for label, (names, marker, color) in groups.items():
            known = [name for name in names if name in accuracies]
            axes.errorbar(
                [ms[name] for name in known],
                [accuracies[name].mean() for name in known],
                [_sd(accuracies[name]) for name in known],
                fmt=marker,
                color=color,
                capsize=2,
                label=label,
            )
        for name in self.published():
            axes.annotate(
                name,
                (ms[name], accuracies[name].mean()),
                textcoords="offset points",
                xytext=(6, -10),
                fontsize=8,
            )
        axes.legend(loc="lower right")
        figure.savefig(self.out / f"front-{device}.png", dpi=120)

    def random_networks(self):
        """Rows of choices of the 20 random networks that `inherited` and `tau` compare."""
        return self.draws(0, 3 if self.arguments.tiny else NETWORKS)

    def alone(self):
        """Names of the random networks."""
        return [f"alone {i}" for i in range(len(self.random_networks()))]

    def inherited(self):
        """Accuracies of the random networks with inherited weights."""
        scores = self.scores(self.random_networks())
        write_whole(self.out / "inherited.json", json.dumps(scores.tolist()))

    def tau(self):
        """Inherited against trained alone; and timm's networks, which need no supernet, meanwhile."""
        alone = [
            (name, partial(untrained, self.space, row, self.task), 0)
            for name, row in zip(self.alone(), self.random_networks(), strict=True)
        ]
        accuracies = self.trained([*self.of_seeds(self.published()), *alone])
        while not (self.out / "inherited.json").is_file():
            time.sleep(1)
        inherited = json.loads((self.out / "inherited.json").read_text())
        found = [accuracies[name, seed] for name, _, seed in alone]
        tau = kendalltau(inherited, found)[0]
        write_whole(self.out / "tau.json", json.dumps({"tau": tau, "alone": found}))
        say(f"tau {tau:.3f} of {len(alone)} networks")


def _begun(path, build, seed):
    """The untrained network, unless another process trains it."""
    path.with_suffix(".begun").touch(exist_ok=False)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return build()


def _kept(path, future):
    error = future.exception()
    if error is None:
        one = future.result()
        write_whole(path, json.dumps([one.accuracy, one.seconds]))
        say(f"{path.stem}: {one.accuracy:.2%} in {one.seconds:.0f} s")


def on_core(networks):
    """Median ms of one image in ONNX Runtime, one thread, in turns."""
    images = [torch.randn(1, 3, side, side) for _, side in networks]
    sessions = [
        OnnxSession(onnx_bytes(network, [image], opset=13, dynamic_batch=False))
        for (network, _), image in zip(networks, images, strict=True)
    ]
    calls = [
        partial(session, image.numpy()) for session, image in zip(sessions, images, strict=True)
    ]
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


TIMERS = {"core": on_core, "gpu": on_gpu}
DEVICES = {"core": "ONNX Runtime, one thread", "gpu": "captured CUDA graph"}


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


def _text(percent):
    return (
        f"{percent.mean():.2f} +- {_sd(percent):.2f}" if len(percent) > 1 else f"{percent[0]:.2f}"
    )


def _sd(percent):
    return percent.std(ddof=1) if len(percent) > 1 else 0.0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", default="times,supernet,find,inherited,again,front,tau")
    parser.add_argument("--out", type=Path, default=Path("mobilenet_v3_trained"))
    parser.add_argument("--device", default="core,gpu", help="to time on")
    parser.add_argument("--side", type=int, default=96)
    parser.add_argument("--minutes", type=float, default=9.0, help="of the supernet")
    parser.add_argument("--epochs", type=int, default=20, help="of each training")
    parser.add_argument("--at-once", type=int, default=4, help="trainings on a GPU")
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
