"""Claim: within T of the STM32H747, a fit's network is two points above ST's choice for the board.

    $ python -m benchmarks.st_choice fit PHOTOS WEIGHTS OUT SEED [HOURS]
    $ python -m benchmarks.st_choice recipe PHOTOS WEIGHTS OUT SEED [EPOCHS]
    $ python -m benchmarks.st_choice judge OUT

Run the first two for each seed, which draws a quarter of each class for testing, trains with it, and leaves the network in OUT. ST's
choice is MobileNetV2 0.35 at 128 pixels with real weights; its model zoo tunes all of it by Adam at 0.001, here with a
cosine instead of halving on plateaus. The fit may take no more RAM, flash and predicted time. `judge` judges the int8
.tflite files of both in LiteRT on the test images. Needs the extras `networks` and `tflite`. Recorded in
benchmarks/results/microcontroller.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from edgenas_core.inference.formats.tflite_export import (
    tflite_bytes,
    tflite_quantised,
    without_names,
)
from latency.models.microcontrollers import chip_named
from nas.export.accuracy import classes_of, prepare
from nas.export.int8 import Int8Source
from nas.export.latency import tflite_session
from nas.export.notes import graph_of_file
from nas.fit.learners.opened import open_data
from nas.fit.starts.pretrained.libraries import timm
from nas.fit.starts.pretrained.weights import with_static_padding
from nas.spaces.microcontroller import work_of

DEVICE, SIDE, BATCH, RATE = "stm32h747/cubeai/int8", 128, 64, 1e-3
LIMITS = ("T=99ms", "RAM=256kB", "flash=600kB")
"""What ST's choice takes: 99.5 ms (predicted), 318 kB and 605 kB."""

HALF = (0.5,) * 3
TESTED = 4
"""One image of so many is for testing."""


def photos_of(photos, out, seed):
    """The photos as links, split by the seed into those to train on and those for testing."""
    folder = Path(out) / f"photos-{seed}"
    rng = np.random.default_rng(seed)
    for kind in sorted(Path(photos).iterdir()):
        files = sorted(kind.iterdir())
        tested = {*rng.permutation(len(files))[: len(files) // TESTED].tolist()}
        for number, file in enumerate(files):
            link = folder / ("test" if number in tested else "train") / kind.name / file.name
            link.parent.mkdir(parents=True, exist_ok=True)
            if not link.is_symlink():
                link.symlink_to(file.absolute())
    return folder


def fit_settings(images, weights, out, seed, hours):
    """Settings of the fit, as on a command line."""
    return (
        f"data={images}", f"weights={weights}", f"device={DEVICE}", *LIMITS, "confidence=0", f"hours={hours}", f"seed={seed}",
        f"out={out}/fit-{seed}",
    )  # fmt: skip


def fit(photos, weights, out, seed, hours="0.13"):
    """The one command."""
    settings = fit_settings(photos_of(photos, out, int(seed)), weights, out, seed, hours)
    subprocess.run([sys.executable, "-m", "nas.fit", *settings], check=True)


def network_of(classes):
    """ST's choice, without weights."""
    network = timm().create_model("mobilenetv2_035", num_classes=classes, pad_type="same")
    return with_static_padding(network, SIDE)


def recipe(photos, weights, out, seed, epochs="40"):
    """ST's choice, tuned as a whole with mirrored and shifted images."""
    images = open_data(str(photos_of(photos, out, int(seed))), side=SIDE)
    images = replace(images, mean=HALF, sd=HALF)
    torch.manual_seed(int(seed))
    network = network_of(len(images.classes))
    pretrained = load_file(Path(weights) / "mobilenetv2_035.tf_128.safetensors")
    body = {k: v for k, v in pretrained.items() if not k.startswith("classifier.")}
    network.load_state_dict(body, strict=False)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network.to(device).train()
    pixels = torch.from_numpy(prepare(images.train, images, SIDE, slice(None))).to(device)
    labels = torch.from_numpy(np.array(images.train.labels)).to(device)
    optimiser = torch.optim.Adam(network.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, int(epochs))
    for epoch in range(int(epochs)):
        for chosen in torch.randperm(len(pixels)).to(device).split(BATCH):
            batch, mirrored = pixels[chosen], torch.rand(len(chosen), 1, 1, 1) < 0.5
            batch = torch.where(mirrored.to(device), batch.flip(3), batch)
            shift = torch.randint(-12, 13, (2,)).tolist()
            loss = nn.functional.cross_entropy(network(batch.roll(shift, (2, 3))), labels[chosen])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        schedule.step()
        print(f"epoch {epoch + 1} of {epochs}: loss {loss.item():.3f}", flush=True)
    save_file(network.cpu().state_dict(), Path(out) / f"recipe-{seed}.safetensors")


def tflite_of_recipe(images, weights):
    """The int8 file of ST's choice."""
    network = network_of(len(images.classes))
    network.load_state_dict(load_file(weights))
    source = Int8Source(network.eval(), images, SIDE)
    example = torch.from_numpy(prepare(images.train, images, SIDE, slice(1)))
    made = tflite_quantised(tflite_bytes(source.corrected, example), source.calibration(1))
    return without_names(made)


def judged(name, tflite, images, side):
    """Which test images the file has right; prints its RAM, flash, predicted time and accuracy."""
    graph, chip = graph_of_file(tflite), chip_named(DEVICE)
    ms = chip.predict_ms(work_of([graph], chip.fast_bytes))
    classes = classes_of(tflite_session(tflite), images.test, images, side, 1)
    right = classes == np.asarray(images.test.labels)
    print(
        f"{name}: RAM {graph.memory()[0]:,}, flash {len(tflite):,}, predicted {ms:.1f} ms, {right.mean():.2%} of {len(right)} "
        f"test images",
        flush=True,
    )
    return right.astype(float)


def judge(out):
    """Both int8 files of each seed on its test images, and the difference over all seeds."""
    differences = []
    for weights in sorted(Path(out).glob("recipe-*.safetensors")):
        seed = weights.stem.partition("-")[2]
        photos = Path(out) / f"photos-{seed}"
        images = replace(open_data(str(photos), side=SIDE), mean=HALF, sd=HALF)
        theirs = judged(f"seed {seed}, ST's", tflite_of_recipe(images, weights), images, SIDE)
        (export,) = Path(out).glob(f"fit-{seed}/**/export")
        about = json.loads((export / "preprocessing.json").read_text("utf-8"))
        own = open_data(str(photos), side=about["side"])
        own = replace(own, mean=tuple(about["mean"]), sd=tuple(about["sd"]))
        file = (export / "network-int8.tflite").read_bytes()
        ours = judged(f"seed {seed}, the fit's at {about['side']}", file, own, about["side"])
        differences.append(100 * (ours - theirs))
        print(f"seed {seed}: {differences[-1].mean():+.2f} points")
    images = np.concatenate(differences)
    half = 1.96 * images.std(ddof=1) / len(images) ** 0.5
    means = [each.mean() for each in differences]
    print(
        f"the fit's less ST's, {len(means)} seeds: {images.mean():+.2f} +- {half:.2f} points over paired images, seeds "
        f"{min(means):+.2f} to {max(means):+.2f}"
    )


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    {"fit": fit, "recipe": recipe, "judge": judge}[sys.argv[1]](*sys.argv[2:])
