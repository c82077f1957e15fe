"""Claim: within T of the STM32H747, a fit's network is two points above ST's choice for the board.

    $ python -m nas.fit data=PHOTOS weights=FOLDER device=stm32h747/cubeai/int8 T=100ms confidence=0 RAM=256kB flash=1MB
    $ python -m benchmarks.st_choice PHOTOS FOLDER/mobilenetv2_035.tf_128.safetensors RUN [epochs]

ST's choice is MobileNetV2 0.35 at 128 pixels with real weights; its model zoo tunes all of it by Adam at 0.001, here with a
cosine instead of halving on plateaus. Both int8 .tflite files are judged in LiteRT on the same test images. Needs the
extras `networks` and `tflite`. Recorded in benchmarks/results/microcontroller.md.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
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


def opened(data, side, mean, sd):
    return replace(open_data(data, side=side), mean=tuple(mean), sd=tuple(sd))


def trained(images, weights, epochs):
    """MobileNetV2 0.35, tuned as a whole with mirrored and shifted images."""
    torch.manual_seed(0)
    network = timm().create_model(
        "mobilenetv2_035", num_classes=len(images.classes), pad_type="same"
    )
    body = {k: v for k, v in load_file(weights).items() if not k.startswith("classifier.")}
    network.load_state_dict(body, strict=False)
    network = with_static_padding(network, SIDE).train()
    pixels = torch.from_numpy(prepare(images.train, images, SIDE, slice(None)))
    labels = torch.from_numpy(np.array(images.train.labels))
    optimiser = torch.optim.Adam(network.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs)
    for epoch in range(epochs):
        for chosen in torch.randperm(len(pixels)).split(BATCH):
            batch = pixels[chosen]
            batch = torch.where(torch.rand(len(batch), 1, 1, 1) < 0.5, batch.flip(3), batch)
            shift = torch.randint(-12, 13, (2,)).tolist()
            loss = nn.functional.cross_entropy(network(batch.roll(shift, (2, 3))), labels[chosen])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        schedule.step()
        print(f"epoch {epoch + 1} of {epochs}: loss {loss.item():.3f}", flush=True)
    return network.eval()


def judged(name, tflite, images, side):
    """Which test images the file has right; prints its RAM, flash, predicted time and accuracy."""
    graph, chip = graph_of_file(tflite), chip_named(DEVICE)
    ms = chip.predict_ms(work_of([graph], chip.fast_bytes))
    classes = classes_of(tflite_session(tflite), images.test, images, side, 1)
    right = classes == np.asarray(images.test.labels)
    print(
        f"{name}: RAM {graph.memory()[0]:,}, flash {len(tflite):,}, predicted {ms:.1f} ms, {right.mean():.2%} of {len(right)} "
        f"test images"
    )
    return right


def main():
    """Train ST's choice and compare."""
    data, weights, run, *epochs = sys.argv[1:]
    images = opened(data, SIDE, (0.5,) * 3, (0.5,) * 3)
    network = trained(images, weights, int([*epochs, "40"][0]))
    source = Int8Source(network, images, SIDE)
    example = torch.from_numpy(prepare(images.train, images, SIDE, slice(1)))
    made = tflite_quantised(tflite_bytes(source.corrected, example), source.calibration(1))
    theirs = judged("MobileNetV2 0.35 at 128, ST's recipe", without_names(made), images, SIDE)
    export = Path(run) / "export"
    about = json.loads((export / "preprocessing.json").read_text("utf-8"))
    own = opened(data, about["side"], about["mean"], about["sd"])
    file = (export / "network-int8.tflite").read_bytes()
    ours = judged(f"the fit's network at {about['side']}", file, own, about["side"])
    difference = 100 * (ours.astype(float) - theirs)
    half = 1.96 * difference.std(ddof=1) / len(difference) ** 0.5
    print(f"the fit's less ST's: {difference.mean():+.2f} +- {half:.2f} points")


if __name__ == "__main__":
    main()
