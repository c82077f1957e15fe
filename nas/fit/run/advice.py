"""Advice after a fit: doubtful labels, what more photos bring, copies, other limits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray
from torch import nn

from edgenas_core.files.typed_json import write_json
from nas.fit.data.image_set import Images, ImageSet
from nas.fit.data.names import names_of
from nas.fit.learners.data import has_classes
from nas.fit.run.context import AnyJobs, FitContext
from nas.fit.run.kind import FitKind
from nas.fit.starts.fine_tuning.frozen import frozen_features
from nas.fit.training.cross_fits import (
    FOLDS,
    SHARES,
    Learn,
    cross_fits,
    doubtful,
    learning_exponent,
    on_features,
    on_pixels,
    seconds_of,
)
from nas.fit.training.evaluation import device_named
from nas.fit.training.trained_folder import Judged, Training
from nas.report.next_steps import (
    NEXT_STEPS,
    DoubtfulLabel,
    MorePhotos,
    NextSteps,
    OtherNetwork,
    wrong_of_100,
)
from nas.trials.trial import Trials

ADVICE_SHARE = 0.03
"""Share of the time of a fit for its advice."""

_LEAST_S = 2.0
"""Time of which the advice takes no part in cross-fits."""

_MOST_IMAGES, _FEWEST_IMAGES = 6000, 150
"""Images that are cross-fitted at most, and fewest that say anything."""

_DRAWS = 500
_NEAR = 1.5
"""Multiple of the limit up to which networks are just outside."""


def advice_of(
    context: FitContext, kind: FitKind[AnyJobs], training: Training, trials: Trials
) -> NextSteps | None:
    """Advice after a fit, which is also written to `next_steps.json`; None where it learnt no classes."""
    row = context.problem.space.parse(training.arch)
    images = kind.images(row)
    if not isinstance(images, ImageSet) or not has_classes(images) or training.test is None:
        return None
    others = other_networks(context, trials)
    seconds = ADVICE_SHARE * context.seconds
    steps = advise(images, training.test, kind.unlearnt(row), seconds, others)
    write_json(context.begun.folder.path / NEXT_STEPS, steps)
    for sentence in steps.sentences():
        context.say(sentence.replace("`", ""))
    return steps


def advise(
    images: ImageSet,
    test: Judged,
    unlearnt: nn.Module | None,
    seconds: float,
    others: tuple[OtherNetwork | None, OtherNetwork | None] = (None, None),
) -> NextSteps:
    """What to do next.

    Args:
      images: all splits; their labels are in question.
      test: accuracy of the winner on the test images.
      unlearnt: network with weights that have not learnt the labels; None: there is none.
      seconds: that frozen features and cross-fits may take.
      others: a faster network, and one just outside the limit.
    """
    names = names_of(images)
    every = len(images.train) + len(images.valid) + len(images.test)
    groups = np.arange(every) if names is None else np.array(names.groups, np.int64)
    chosen, left_out = _chosen(images, groups, unlearnt, seconds)
    found = _Found((), (), None, None)
    if len(chosen):
        found = _cross_fitted(images, chosen, groups[chosen], unlearnt, test)
    doubted = tuple(
        DoubtfulLabel(
            f"image {chosen[at]:,}" if names is None else names.files[chosen[at]],
            int(chosen[at]),
            images.classes[label],
            images.classes[likely],
            probability,
        )
        for at, label, likely, probability in found.doubtful
    )
    _, sizes = np.unique(groups, return_counts=True)
    together = sizes[sizes > 1]
    return NextSteps(
        test.fraction,
        test.images,
        wrong_of_100(test.fraction, test.images),
        wrong_of_100(test.fraction, 4 * test.images),
        "a small network" if unlearnt is None else "a linear layer on frozen features",
        doubted,
        (int(together.sum()), len(together)),
        found.without_groups,
        found.more,
        None if found.needy is None else images.classes[found.needy],
        *others,
        left_out,
    )


def _chosen(
    images: ImageSet, groups: Int64[ndarray, "n"], unlearnt: nn.Module | None, seconds: float
) -> tuple[Int64[ndarray, "k"], tuple[str, ...]]:
    """Positions of the images that are cross-fitted, and a line on what is left out."""
    nothing = np.zeros(0, np.int64)
    order = np.random.default_rng(0).permutation(len(groups))
    count = min(len(groups), _MOST_IMAGES)
    if len(np.unique(groups[order[:count]])) < FOLDS:
        return nothing, (
            f"labels and more photos, which need {FOLDS} groups of photos that are not nearly equal",
        )
    if count >= _FEWEST_IMAGES and seconds >= _LEAST_S:
        # Time a tenth of them, with their features; of more than the time allows, some are left out by chance.
        began_s = time.monotonic()
        few = np.sort(order[: max(2, count // 10)])
        learn, _ = _learner(images, few, unlearnt)
        features_s = (time.monotonic() - began_s) * count / len(few)
        count = min(count, int(count * seconds / (features_s + seconds_of(learn, count))))
    if count < _FEWEST_IMAGES or seconds < _LEAST_S:
        return nothing, (
            f"labels and more photos, which need {_FEWEST_IMAGES} photos and the time to learn them: allow more hours=",
        )
    line = f"{len(groups) - count:,} of {len(groups):,} photos, for their time"
    return np.sort(order[:count]), (line,) if count < len(groups) else ()


def _learner(
    images: ImageSet, chosen: Int64[ndarray, "k"], unlearnt: nn.Module | None
) -> tuple[Learn, Int64[ndarray, "k"]]:
    """A model of some images, by their ascending positions in all splits, and their labels; others are not read."""
    parts, first = [], 0
    for split in (images.train, images.valid, images.test):
        at = chosen[(chosen >= first) & (chosen < first + len(split))] - first
        parts += [Images(np.asarray(split.pixels[at]), split.labels[at])] if len(at) else []
        first += len(split)
    labels = np.concatenate([part.labels for part in parts]).astype(np.int64)
    classes = len(images.classes)
    if unlearnt is None:
        return on_pixels(np.concatenate([part.pixels for part in parts]), labels, classes), labels
    features = frozen_features(unlearnt, parts, images, device_named("auto"))
    return on_features(np.concatenate(features), labels, classes), labels


@final
@dataclass(frozen=True)
class _Found:
    """What cross-fits say."""

    doubtful: tuple[
        tuple[int, int, int, float], ...
    ]  # position, label, likely class, probability of the label
    more: tuple[MorePhotos, ...]
    needy: int | None
    without_groups: float | None


def _cross_fitted(
    images: ImageSet,
    chosen: Int64[ndarray, "n"],
    groups: Int64[ndarray, "n"],
    unlearnt: nn.Module | None,
    test: Judged,
) -> _Found:
    learn, labels = _learner(images, chosen, unlearnt)
    classes = len(images.classes)
    fits = cross_fits(learn, labels, groups, classes)
    whole = fits.probabilities[1.0]
    doubted = [
        (at, int(labels[at]), likely, float(whole[at, labels[at]]))
        for at, likely in doubtful(whole, labels)
        if fits.judged[at]
    ]
    # Each image, right or wrong by each part; wrong labels, and classes that no model learnt, count for no part.
    trusted = fits.judged.copy()
    trusted[[at for at, *_ in doubted]] = False
    right = np.stack([fits.probabilities[share].argmax(1) == labels for share in SHARES], 1)
    more = tuple(_more_photos(right[trusted], len(images.train), test)) if trusted.any() else ()
    # The class whose answers gain most from the second half of the photos.
    gained = np.bincount(labels, (right[:, 2] & ~right[:, 1]) * 1.0 - (right[:, 1] & ~right[:, 2]))
    without = None
    if (np.bincount(np.unique(groups, return_inverse=True)[1]) > 1).any():
        apart = cross_fits(learn, labels, np.arange(len(labels)), classes, (1.0,))
        answers = apart.probabilities[1.0].argmax(1)
        without = float(100 * ((answers == labels).mean() - right[:, 2].mean()))
    return _Found(tuple(doubted), more, int(gained.argmax()) if gained.max() > 0 else None, without)


def _more_photos(
    right: Bool[ndarray, "n shares"], train: int, test: Judged
) -> Iterator[MorePhotos]:
    """Points that 100 more, and twice as many, training images bring the winner.

    Its errors fall with the exponent of the cross-fits' law; the interval is of draws of the images with replacement.
    """
    generator = np.random.default_rng(0)
    drawn = generator.integers(0, len(right), (_DRAWS, len(right)))
    wrong: Float64[ndarray, "draws shares"] = 1 - right[drawn].mean(1)
    exponents = learning_exponent(np.concatenate([1 - right.mean(0)[None], wrong]))
    errors = generator.binomial(test.images, 1 - test.fraction, _DRAWS) / test.images
    for photos in (100, train):
        kept = ((train + photos) / train) ** -exponents
        points = 100 * (1 - test.fraction) * (1 - kept[0])
        low, high = np.quantile(100 * errors * (1 - kept[1:]), [0.025, 0.975])
        yield MorePhotos(photos, float(points), float(low), float(high))


def other_networks(
    context: FitContext, trials: Trials
) -> tuple[OtherNetwork | None, OtherNetwork | None]:
    """The fastest network that loses little, and what a larger limit would bring by the trend of the trainings."""
    best = None
    for fidelity in sorted({*trials.fidelity[trials.fidelity >= 0].tolist()}):
        at = np.flatnonzero((trials.fidelity == fidelity) & np.isfinite(trials.accuracy))
        best = at if len(at) > 3 else best
    if best is None:
        return None, None
    ms, accuracy = trials.latency_ms[best], trials.accuracy[best]
    top = int(np.argmax(accuracy))
    quicker = np.flatnonzero((ms < 0.8 * ms[top]) & (accuracy > accuracy[top] - 0.03))
    faster = beyond = None
    rests = f"both after the same short training, one of {len(best)}"
    if len(quicker):
        first = int(quicker[np.argmin(ms[quicker])])
        points = float(100 * (accuracy[first] - accuracy[top]))
        arch = context.problem.space.text(trials.architectures[best[first]])
        faster = OtherNetwork(arch, float(ms[first]), points, rests)
    if len(best) >= 6 and np.ptp(np.log(ms)) > 0.2:
        slope = float(np.polyfit(np.log(ms), accuracy, 1)[0])
        points = 100 * slope * float(np.log(_NEAR))
        trend = f"a prediction by the trend of {len(best)} trainings within the limit"
        if points > 0.3:
            beyond = OtherNetwork(
                "another network", _NEAR * context.problem.limit_ms, points, trend
            )
    return faster, beyond
