"""Training recipes by name: optimizer, schedule and augmentation."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, final

from edgenas_core.types.errors import UserError, not_one_of
from nas.fit.data.groups import DataOptions

AUGMENTATION = ("flip", "crop", "rand_augment")
"""Settings of a recipe that change training images."""

_LARGEST_BATCH = 256


@final
@dataclass(frozen=True)
class Recipe:
    """Settings of a training: SGD with Nesterov momentum or AdamW, and a cosine schedule toward 0."""

    name: str
    epochs: int = 200
    batch_size: int = 256  # at most; a small training set has smaller ones
    least_steps: int = 16  # of an epoch
    most_steps: int | None = None  # of an epoch; the rate fits the batch then, see `for_images`
    lr: float = 0.1
    adamw: bool = False  # Loshchilov & Hutter, ICLR 2019; its momenta are PyTorch's
    momentum: float = 0.9  # of SGD
    weight_decay: float = 5e-4
    lr_by_epoch: bool = False  # the learning rate stays the same during an epoch
    warm_up: float = 0.0  # share of the steps in which the learning rate rises from 0
    flip: bool = True  # horizontally, half of the images
    crop: bool = True  # after padding by an eighth of the side with black
    rand_augment: bool = False  # two operations an image (Cubuk et al., 2020)
    rand_augment_from: int = 0  # epochs; a shorter training goes without it
    label_smoothing: float = 0.0
    ema: float = 0.0  # share of the steps that the moving average of the weights spans; 0 for none
    clip: float | None = None  # largest norm of the gradient
    body_lr: float = 1.0  # learning rate of all but the last linear layer, as a share of `lr`

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise UserError(f"epochs={self.epochs} must be at least 1")

    @property
    def augmentation(self) -> tuple[str, ...]:
        """Augmentations that are applied to training images."""
        left_out = {"rand_augment"} if self.epochs < self.rand_augment_from else set()
        return tuple(name for name in AUGMENTATION if getattr(self, name) and name not in left_out)

    def lr_at(self, step: int, steps: int) -> float:
        """Learning rate of a step, of `steps` in the whole training."""
        if self.lr_by_epoch:
            step -= step % (steps // self.epochs)
        warm_up = round(self.warm_up * steps)
        if step < warm_up:
            return self.lr * (step + 1) / (warm_up + 1)
        return self.lr * (1 + math.cos(math.pi * (step - warm_up) / (steps - warm_up))) / 2

    def batch_of(self, images: int) -> int:
        """Batch size for a training set: an epoch has its least steps, a batch at least 8 images."""
        return min(self.batch_size, max(images // self.least_steps, 8), images)

    def for_images(self, images: int) -> Recipe:
        """The recipe for a training set; without `most_steps`, the same for each.

        Batches shrink to the least steps of an epoch, and grow with the most, up to `_LARGEST_BATCH`. The learning
        rate is in proportion to them (Goyal et al., 2017), AdamW's to their square root.
        """
        if self.most_steps is None:
            return self
        batch_size = self.batch_of(images)
        if images >= 2 * self.most_steps * self.batch_size:
            batch_size = min(images // self.most_steps // 8 * 8, _LARGEST_BATCH)
        larger = batch_size / self.batch_size
        lr = self.lr * (math.sqrt(larger) if self.adamw else larger)
        return replace(self, batch_size=batch_size, lr=lr)


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe("nas_bench_201", lr_by_epoch=True),
        Recipe("modern", warm_up=0.05, rand_augment=True, label_smoothing=0.1, ema=0.02),
        Recipe(
            "from_scratch",
            least_steps=32,
            lr=0.05,
            warm_up=0.1,
            rand_augment=True,
            rand_augment_from=40,
            label_smoothing=0.1,
        ),
        Recipe("scenes", epochs=60, adamw=True, lr=1e-3, weight_decay=0.05, warm_up=0.1, clip=1.0),
        Recipe(
            "fine_tuning",
            epochs=30,
            batch_size=32,
            most_steps=200,
            lr=0.004,
            weight_decay=1e-4,
            warm_up=0.3,
            label_smoothing=0.1,
            body_lr=0.3,
        ),
    )
}
RECIPES["adamw"] = replace(
    RECIPES["fine_tuning"], name="adamw", adamw=True, lr=1e-3, weight_decay=0.05
)
"""`nas_bench_201` is the published protocol of the benchmark (Dong & Yang, ICLR 2020, section 2.2).

Its learning rate is that of AutoDL-Projects' `CosineAnnealingLR`, which changes from epoch to epoch.

`from_scratch` is for small sets and little time, in which RandAugment slows a training too much: of 1,200 photos,
140 to 500 epochs gain 2 to 5 points by it, 30 epochs lose some.

`fine_tuning` rises for long: after 5 % of three epochs of 40 steps, MobileNetV2 0.5 had lost 6 points of 1,000
photos that it keeps with 30 %.
"""


def recipe_named(text: str) -> Recipe:
    """The recipe of a name; `modern:flip,crop` applies this augmentation, `modern:none` none.

    Raises:
      UserError: if there is no such recipe or augmentation.
    """
    name, _, names = text.partition(":")
    if name not in RECIPES:
        raise not_one_of("recipe", name, RECIPES)
    if not names:
        return RECIPES[name]
    applied = set(names.split(",")) - {"none"}
    if applied - set(AUGMENTATION):
        unknown = ", ".join(sorted(applied - set(AUGMENTATION)))
        raise not_one_of("augment", unknown, ["none", *AUGMENTATION])
    settings: dict[str, Any] = {each: each in applied for each in AUGMENTATION}
    return replace(RECIPES[name], **settings)


def usual_recipe(space: str) -> str:
    """Name of the recipe for random initialisation: the protocol of a benchmark, or `from_scratch`."""
    return space if space in RECIPES else "from_scratch"


def with_augmentation(name: str, augment: str, data: str | None) -> str:
    """Name of a recipe with `augment=`; auto is the recipe's, without flips for digits.

    Raises:
      UserError: if there is no such recipe or augmentation.
    """
    if augment == "auto":
        usual = recipe_named(name).augmentation
        augment = ",".join(
            each
            for each in usual
            if each != "flip" or not DataOptions.of(str(data)).data.endswith("digits")
        )
    text = f"{name.partition(':')[0]}:{augment or 'none'}"
    recipe_named(text)
    return text
