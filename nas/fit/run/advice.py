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
from edgenas_core.types.kind import Kind
from nas.fit.data.image_set import Images, ImageSet
from nas.fit.data.names import names_of
from nas.fit.learners.data import has_classes
from nas.fit.run.context import AnyJobs, FitContext
from nas.fit.run.kind import FitKind
from nas.fit.starts.fine_tuning.frozen import frozen_features, left_out_accuracy
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
    standardised,
)
from nas.fit.training.evaluation import device_named
from nas.fit.training.trained_folder import Judged, Training
from nas.report.next_steps import (
    NEXT_STEPS,
    DoubtfulLabel,
    Figure,
    MorePhotos,
    NextSteps,
    OtherNetwork,
    wrong_of_100,
)
from nas.trials.survey import wilson_interval
from nas.trials.trial import Trials

ADVICE_SHARE = 0.03
"""Share of the time of a fit for its advice."""

_LEAST_S = 2.0
"""Time of which the advice takes no part in cross-fits."""

_MOST_IMAGES, _FEWEST_IMAGES = 6000, 150
"""Images that are cross-fitted at most, and fewest that say anything."""

_DRAWS = 500
_MOST_JUDGED, _FEWEST_JUDGED = 600, 100
"""Photos by whose features a network outside T is compared."""


def advice_of(
    context: FitContext,
    kind: FitKind[AnyJobs],
    training: Training,
    trials: Trials,
    left_s: float,
) -> NextSteps | None:
    """Advice after a fit, which is also written to `next_steps.json`; None where it learnt no classes.

    It takes its share of the time, and no more than what is left.
    """
    row = context.problem.space.parse(training.arch)
    images = kind.images(row)
    if not isinstance(images, ImageSet) or not has_classes(images) or training.test is None:
        return None
    seconds = min(ADVICE_SHARE * context.seconds, left_s)
    began_s = time.monotonic()
    beyond = network_beyond(context, kind, row, seconds / 3)
    others = (faster_network(context, trials, len(images.valid)), beyond)
    seconds -= time.monotonic() - began_s
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
    kind = f"measured on {test.images:,} test photos"
    low, high = wilson_interval(test.fraction, test.images)
    return NextSteps(
        accuracy=Figure(test.fraction, "fraction", kind, low, high),
        test_photos=test.images,
        wrong_of_100=wrong_of_100(test.fraction, test.images, kind),
        wrong_of_100_with_4_times=wrong_of_100(
            test.fraction, 4 * test.images, "forecast for the same accuracy"
        ),
        model="a small network" if unlearnt is None else "a linear layer on pretrained features",
        doubtful=doubted,
        grouped=(int(together.sum()), len(together)),
        without_groups=found.without_groups,
        more=found.more,
        needy=None if found.needy is None else images.classes[found.needy],
        faster=others[0],
        beyond=others[1],
        left_out=left_out,
    )


def _chosen(
    images: ImageSet, groups: Int64[ndarray, "n"], unlearnt: nn.Module | None, seconds: float
) -> tuple[Int64[ndarray, "k"], tuple[str, ...]]:
    """Positions of the images that are cross-fitted, and a line on what is left out."""
    nothing = np.zeros(0, np.int64)
    order = np.random.default_rng(0).permutation(len(groups))
    count = min(len(groups), _MOST_IMAGES)
    if len(np.unique(groups[order[:count]])) < FOLDS:
        why = f"nearly all photos are copies of one another, and {FOLDS} different ones at least are needed."
        return nothing, (f"Labels and more photos are left out: {why}",)
    if count >= _FEWEST_IMAGES and seconds >= _LEAST_S:
        # Time a tenth of them, with their features; of more than the time allows, some are left out by chance.
        began_s = time.monotonic()
        few = np.sort(order[: max(2, count // 10)])
        learn, _ = _learner(images, few, unlearnt)
        features_s = (time.monotonic() - began_s) * count / len(few)
        count = min(count, int(count * seconds / (features_s + seconds_of(learn, count))))
    if count < _FEWEST_IMAGES or seconds < _LEAST_S:
        if len(groups) < _FEWEST_IMAGES:
            why = f"{len(groups):,} photos are too few to judge them; collect {_FEWEST_IMAGES} or more."
        else:
            why = f"there was no time to look at {_FEWEST_IMAGES} photos; allow more hours=."
        return nothing, (f"Labels and more photos are left out: {why}",)
    line = (
        f"Labels and more photos rest on {count:,} of {len(groups):,} photos, as the time did not suffice for all; more "
        f"hours= takes more of them."
    )
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
    without_groups: Figure | None


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
    more = tuple(more_photos(right[trusted], len(images.train), test)) if trusted.any() else ()
    # The class whose answers gain most from the second half of the photos.
    gained = np.bincount(labels, (right[:, 2] & ~right[:, 1]) * 1.0 - (right[:, 1] & ~right[:, 2]))
    without = None
    if (np.bincount(np.unique(groups, return_inverse=True)[1]) > 1).any():
        apart = cross_fits(learn, labels, np.arange(len(labels)), classes, (1.0,))
        answers = apart.probabilities[1.0].argmax(1)
        better = float(100 * ((answers == labels).mean() - right[:, 2].mean()))
        without = Figure(better, "points", "cross-fitted, once each way")
    return _Found(tuple(doubted), more, int(gained.argmax()) if gained.max() > 0 else None, without)


def more_photos(right: Bool[ndarray, "n shares"], train: int, test: Judged) -> Iterator[MorePhotos]:
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
        kind = "forecast from nested parts of the photos"
        yield MorePhotos(photos, Figure(float(points), "points", kind, float(low), float(high)))


def faster_network(context: FitContext, trials: Trials, judges: int) -> OtherNetwork | None:
    """The fastest network that loses little, by the longest trainings that several had."""
    longest = None
    for fidelity in sorted({*trials.fidelity[trials.fidelity >= 0].tolist()}):
        at = np.flatnonzero((trials.fidelity == fidelity) & np.isfinite(trials.accuracy))
        longest = at if len(at) > 3 else longest
    if longest is None:
        return None
    ms, accuracy = trials.latency_ms[longest], trials.accuracy[longest]
    top = int(np.argmax(accuracy))
    quicker = np.flatnonzero((ms < 0.8 * ms[top]) & (accuracy > accuracy[top] - 0.03))
    if not len(quicker):
        return None
    first = int(quicker[np.argmin(ms[quicker])])
    arch = context.problem.space.text(trials.architectures[longest[first]])
    latency = Figure(float(ms[first]), "ms", Kind(trials.latency_kind[longest[first]]).words)
    rests = f"against {ms[top]:.3g} ms, both after the same short training"
    return OtherNetwork(
        arch, latency, _difference(float(accuracy[first]), float(accuracy[top]), judges, rests)
    )


def network_beyond(
    context: FitContext, kind: FitKind[AnyJobs], winner: Int64[ndarray, "D"], seconds: float
) -> OtherNetwork | None:
    """The most promising network just outside T, compared with the winner by features before tuning.

    None where there is none, or no time for the features of `_FEWEST_JUDGED` photos.
    """
    found, mine = kind.just_beyond(), kind.unlearnt(winner)
    if found is None or mine is None:
        return None
    row, latency_ms, latency_kind = found
    other = kind.unlearnt(row)
    # As many photos as a pass of both networks, about T each, has time for.
    count = int(min(_MOST_JUDGED, 1000 * seconds / (latency_ms + context.problem.limit_ms)))
    if other is None or count < _FEWEST_JUDGED:
        return None
    accuracies = []
    for network, architecture in ((mine, winner), (other, row)):
        images = kind.images(architecture)
        if not isinstance(images, ImageSet):
            return None
        part = Images(np.asarray(images.train.pixels[:count]), images.train.labels[:count])
        (features,) = frozen_features(network, [part], images, device_named("auto"))
        labels = part.labels.astype(np.int64)
        accuracies.append(left_out_accuracy(standardised(features), labels))
    rests = f"by features of {len(part):,} photos, before tuning"
    return OtherNetwork(
        context.problem.space.text(row),
        Figure(latency_ms, "ms", latency_kind.words),
        _difference(accuracies[1], accuracies[0], len(part), rests),
    )


def _difference(accuracy: float, other: float, judges: int, kind: str) -> Figure:
    """Points between two accuracies on as many photos; the interval takes them for independent, and is wide."""
    half = 1.96 * np.sqrt((accuracy * (1 - accuracy) + other * (1 - other)) / judges)
    points = 100 * (accuracy - other)
    return Figure(points, "points", kind, float(points - 100 * half), float(points + 100 * half))
