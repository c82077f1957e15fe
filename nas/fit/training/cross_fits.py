"""Answers for each image by models that have not learnt it, from parts of the other images.

The models are small: a linear layer on frozen features where the weights are from elsewhere, else a small convolutional
network, as features of a network that has learnt these labels would give wrong labels back.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64, Int64, UInt8
from numpy import ndarray
from torch import nn
from torch.nn import functional

Learn: TypeAlias = Callable[
    [Int64[ndarray, "learnt"], Int64[ndarray, "asked"]], Float32[ndarray, "asked classes"]
]
"""Probabilities for some images by a model that has learnt others, both by their positions."""

SHARES = (0.25, 0.5, 1.0)
"""Nested parts of the images that are learnt."""

USUAL_EXPONENT = 0.23
"""Exponent of the law of errors of three sets of CIFAR-10's photos; benchmarks/results/handover.md."""

FOLDS = 4
_SIDE, _EPOCHS, _BATCH = 32, 20, 32
_PENALTY, _ITERATIONS = 0.02, 100


@final
@dataclass(frozen=True)
class CrossFits:
    """Answers from each part of the images, in their order."""

    probabilities: dict[float, Float32[ndarray, "n classes"]]  # by the share that was learnt
    judged: Bool[ndarray, "n"]  # whether others of the image's class were learnt


def cross_fits(
    learn: Learn,
    labels: Int64[ndarray, "n"],
    groups: Int64[ndarray, "n"],
    classes: int,
    shares: tuple[float, ...] = SHARES,
    *,
    seed: int = 0,
) -> CrossFits:
    """Cross-fit in folds that keep groups together; smaller parts lie in the larger ones, each group drawn by chance."""
    generator = np.random.default_rng(seed)
    _, number = np.unique(groups, return_inverse=True)
    place = generator.permutation(number.max() + 1)[number]  # of each image's group
    folds, order = place % FOLDS, generator.random(number.max() + 1)[number]
    answers = {share: np.zeros((len(labels), classes), np.float32) for share in shares}
    judged = np.zeros(len(labels), bool)
    for fold in range(FOLDS):
        asked, others = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        others = others[np.argsort(order[others], kind="stable")]
        judged[asked] = np.isin(labels[asked], labels[others])
        for share in shares:
            part = others[: max(1, round(share * len(others)))]
            answers[share][asked] = learn(part, asked)
    return CrossFits(answers, judged)


def on_features(
    features: Float32[ndarray, "n f"], labels: Int64[ndarray, "n"], classes: int
) -> Learn:
    """Multinomial logistic regression on features, by scikit-learn."""
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415 - slow to import

    inputs = standardised(features)

    def learn(
        part: Int64[ndarray, "learnt"], asked: Int64[ndarray, "asked"]
    ) -> Float32[ndarray, "asked classes"]:
        answers = np.zeros((len(asked), classes), np.float32)
        learnt = np.unique(labels[part])
        if len(learnt) == 1:  # nothing to tell apart
            answers[:, learnt] = 1
            return answers
        model = LogisticRegression(C=1 / (2 * _PENALTY * len(part)), max_iter=_ITERATIONS)
        with warnings.catch_warnings():  # it need not have converged to rank images
            warnings.simplefilter("ignore")
            model.fit(inputs[part], labels[part])
        answers[:, learnt] = model.predict_proba(inputs[asked])
        return answers

    return learn


def standardised(features: Float32[ndarray, "n f"]) -> Float32[ndarray, "n f"]:
    """Features of mean 0 and a standard deviation near 1; those that hardly vary stay small."""
    sd = features.std(0)
    return np.asarray((features - features.mean(0)) / (sd + 0.3 * sd.mean() + 1e-6), np.float32)


def on_pixels(
    pixels: UInt8[ndarray, "n side side 3"], labels: Int64[ndarray, "n"], classes: int
) -> Learn:
    """A convolutional network of four layers, on small images that are shifted."""
    small = functional.interpolate(
        torch.from_numpy(np.ascontiguousarray(pixels)).permute(0, 3, 1, 2).float(),
        (_SIDE, _SIDE),
        mode="area",
    )
    inputs = (small - small.mean((0, 2, 3), keepdim=True)) / (small.std() + 1e-6)
    truth = torch.from_numpy(labels)

    def learn(
        part: Int64[ndarray, "learnt"], asked: Int64[ndarray, "asked"]
    ) -> Float32[ndarray, "asked classes"]:
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.manual_seed(0)
            network = _small_network(classes, inputs.shape[1])
            steps = _EPOCHS * -(-len(part) // _BATCH)
            optimizer = torch.optim.AdamW(network.parameters(), 3e-3, weight_decay=0.05)
            schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, steps + 1)
            for _ in range(_EPOCHS):
                for batch in torch.from_numpy(part)[torch.randperm(len(part))].split(_BATCH):
                    if len(batch) == 1 < len(part):
                        continue  # batch normalisation needs two
                    down, right = torch.randint(-3, 4, (2,)).tolist()
                    images = torch.roll(inputs[batch], (down, right), (2, 3))
                    optimizer.zero_grad()
                    functional.cross_entropy(network(images), truth[batch]).backward()
                    optimizer.step()
                    schedule.step()
        return _probabilities(network.eval(), inputs[asked])

    return learn


def _small_network(classes: int, before: int) -> nn.Module:
    layers: list[nn.Module] = []
    for width, stride in ((24, 2), (48, 2), (64, 1), (96, 2)):
        layers += [nn.Conv2d(before, width, 3, stride, 1, bias=False)]
        layers += [nn.BatchNorm2d(width), nn.ReLU()]
        before = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes))


def _probabilities(network: nn.Module, inputs: torch.Tensor) -> Float32[ndarray, "asked classes"]:
    with torch.no_grad():
        parts = [network(batch).softmax(1) for batch in inputs.split(512)]
    return np.asarray(torch.cat(parts).numpy(), np.float32)


def seconds_of(learn: Learn, count: int) -> float:
    """About how long all cross-fits of so many images take, by one of a tenth of them."""
    few = np.arange(max(2, count // 10))
    began_s = time.monotonic()
    learn(few, few[:2])
    return (time.monotonic() - began_s) * count / len(few) * sum(SHARES) * (FOLDS - 1)


def doubtful(
    probabilities: Float32[ndarray, "n classes"], labels: Int64[ndarray, "n"]
) -> list[tuple[int, int]]:
    """Images whose label is likely another one, with that class, the likeliest first.

    Confident learning (Northcutt, Jiang and Chuang, JAIR, 2021): an image counts as of class j if its probability is at
    least the mean of that class's own images; it is doubtful if the likeliest such class is not its label. The
    order is by the probability of the label less that of the class (their normalised margin).
    """
    classes = probabilities.shape[1]
    own = probabilities[np.arange(len(labels)), labels]
    counts = np.maximum(np.bincount(labels, minlength=classes), 1)
    thresholds = np.bincount(labels, own, classes) / counts
    confident = np.where(probabilities >= thresholds, probabilities, 0.0)
    likely = confident.argmax(1)
    is_doubtful = (confident.max(1) > 0) & (likely != labels)
    margin = own - probabilities[np.arange(len(labels)), likely]
    at = np.flatnonzero(is_doubtful)
    return [(int(i), int(likely[i])) for i in at[np.argsort(margin[at], kind="stable")]]


def learning_exponent(
    wrong: Float64[ndarray, "draws shares"], shares: tuple[float, ...] = SHARES
) -> Float64[ndarray, "draws"]:
    """Exponent c of the law error ~ n ** -c (Hestness et al., 2017), half by these errors and half as usual.

    The mean of the exponent that is nearest to the logarithms of the errors, 0 to 1, and of `USUAL_EXPONENT`: three
    errors of few images alone leave it too uncertain.
    """
    x = np.log(np.array(shares))
    y = np.log(np.maximum(wrong, 1e-3))
    slope = ((x - x.mean()) * (y - y.mean(1, keepdims=True))).sum(1) / ((x - x.mean()) ** 2).sum()
    return np.asarray((np.clip(-slope, 0.0, 1.0) + USUAL_EXPONENT) / 2)
