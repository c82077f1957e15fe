"""Claim: strong augmentation brings small ResNets up to a plain CNN in the same time of one processor core.

    $ python -m benchmarks.from_scratch photos1/ photos2/ --seconds 300

Each folder has class folders in `train` and, photos from outside, in `test`. A network has as many epochs
as the seconds allow on one thread of this CPU, and is trained on a GPU where there is one.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from nas.fit.data.image_set import Images
from nas.fit.data.open import open_images
from nas.fit.training.evaluation import classes_of
from nas.fit.training.network import untrained
from nas.fit.training.recipe import recipe_named
from nas.fit.training.trainer import TrainingOptions, seconds_an_epoch, train
from nas.spaces.residual import SPACE

PLAIN = (32, 32, 64, 64, 128, 128)
RESIDUAL = {
    "ResNet-8": (1, 16, 3),
    "wide ResNet-8": (1, 32, 3),
    "stride 2": (2, 32, 3),
    "9 blocks": (2, 32, 9),
}
"""Stride of the stem, width and blocks, by name."""

RECIPES = ("from_scratch:flip,crop", "from_scratch")


def plain_cnn(classes: int) -> nn.Module:
    """Convolutions with a maximum over 2 x 2 pixels after every second one."""
    layers, inputs = nn.Sequential(), 3
    for number, width in enumerate(PLAIN):
        convolution = nn.Conv2d(inputs, width, 3, padding=1, bias=False)
        layers.extend((convolution, nn.BatchNorm2d(width), nn.ReLU()))
        if number % 2:
            layers.append(nn.MaxPool2d(2))
        inputs = width
    return layers.extend((nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes)))


def rows(data: str, networks: Sequence[str], seconds: float, seed: int) -> Iterator[str]:
    """Train the networks by every recipe."""
    images = open_images(f"{data}/train")
    parts = open_images(f"{data}/test")
    splits = (parts.train, parts.valid, parts.test)
    pixels = np.concatenate([np.asarray(split.pixels) for split in splits])
    outside = Images(pixels, np.concatenate([split.labels for split in splits]))
    for name in networks:
        for recipe_name in RECIPES:
            torch.manual_seed(seed)
            if name == "plain":
                network = plain_cnn(len(images.classes))
            else:
                stride, width, blocks = RESIDUAL[name]
                text = f"stride={stride} kernel=3 width={width} growth=2.0 blocks={blocks} kind=residual"
                network = untrained(SPACE, SPACE.parse(text), images.task)
            recipe = recipe_named(recipe_name)
            epochs = int(seconds / seconds_an_epoch(network, images, recipe, device="cpu"))
            recipe = replace(recipe, epochs=max(1, epochs))
            options = TrainingOptions(seed=seed, keeps_best=True)
            trained = train(network, images, recipe, options)
            answers = classes_of(network, outside, images).cpu().numpy()
            accuracy = float((answers == outside.labels).mean())
            yield f"{data},{seed},{name},{recipe_name},{epochs},{trained.accuracy:.4f},{accuracy:.4f}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="+")
    parser.add_argument("--networks", nargs="+", default=["plain", *RESIDUAL])
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print("data,seed,network,recipe,epochs,valid,outside")
    for folder in arguments.data:
        for row in rows(folder, arguments.networks, arguments.seconds, arguments.seed):
            print(row, flush=True)
