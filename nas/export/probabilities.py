"""Calibrated probabilities of a file's answers, and the threshold below which a photo shows none of its classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64
from numpy import ndarray

from edgenas_core.types.errors import UserError
from edgenas_core.types.printable import printable
from nas.fit.data.class_folders import IMAGE_SUFFIXES
from nas.fit.data.image_set import Images, ImageSet
from nas.fit.data.pixels import cropped, in_channels, rgb, upright

FALSE_ALARMS = 0.05
"""Share of the validation images that may be called none of the classes."""

MOST_OFF = 0.03
"""Calibration error beyond which the user is warned, unless chance explains it."""

_BINS = 15
_MOST_NONE = 2000
_FEWEST_NONE = 10


@final
@dataclass(frozen=True)
class Probabilities:
    """How outputs of one file become probabilities, and what they are worth."""

    temperature: float  # outputs are divided by it
    calibration_error: float | None  # expected, on the test images; None without them
    none_below: float  # probability of the likeliest class below which it is none of them
    false_alarms: float | None  # share of the test images that are then called none
    none_found: float | None  # share of the photos of `none=` that did not choose the threshold
    from_none: bool  # whether photos of `none=` chose the threshold
    error_by_chance: float | None = (
        None  # calibration error that exact probabilities surpass in 1 of 20 such test sets
    )

    @property
    def text(self) -> str:
        """What they are worth, for readers."""
        digits = 0 if self.none_below < 0.995 else 4  # "below 100%" would be all
        parts = [f"none of the classes below {self.none_below:.{digits}%}"]
        if self.false_alarms is not None:
            parts.append(f"which {self.false_alarms:.1%} of the test images are")
        if self.none_found is not None:
            parts.append(f"and {self.none_found:.1%} of the photos of nothing known")
        error = (
            ""
            if self.calibration_error is None
            else f"; calibration error {self.calibration_error:.3f}"
        )
        return f"{', '.join(parts)}{error}"


def probabilities_of(
    images: ImageSet,
    valid: Float[ndarray, "v classes"],
    test: Float[ndarray, "t classes"],
    unknown: Float[ndarray, "u classes"] | None = None,
) -> Probabilities:
    """Fit the temperature and the threshold on outputs for the validation images, and judge them on the test images.

    `unknown` are outputs for photos of nothing known: every other one chooses the threshold, the rest judge it.
    """
    temperature = fitted_temperature(valid, images.valid.labels)
    known, judged = (softened(each, temperature) for each in (valid, test))
    below = float(np.quantile(known.max(1), FALSE_ALARMS))
    found = None
    if unknown is not None:
        surest = softened(unknown, temperature).max(1)
        below = best_threshold(known.max(1), surest[::2])
        found = float((surest[1::2] < below).mean())
    return Probabilities(
        temperature,
        calibration_error(judged, images.test.labels) if len(judged) else None,
        below,
        float((judged.max(1) < below).mean()) if len(judged) else None,
        found,
        unknown is not None,
        error_by_chance(judged) if len(judged) else None,
    )


def uncalibrated(probabilities: Mapping[str, Probabilities]) -> Iterator[str]:
    """Cautions about files whose probabilities are further off than `MOST_OFF`."""
    for file, each in probabilities.items():
        most = max(MOST_OFF, each.error_by_chance or 0.0)
        if each.calibration_error is not None and each.calibration_error > most:
            yield (
                f"probabilities of {file} are off by {each.calibration_error:.3f} on the test images: their "
                f"temperature is of few validation images, or these differ"
            )


def softened(
    outputs: Float[ndarray, "n classes"], temperature: float
) -> Float64[ndarray, "n classes"]:
    """Softmax of the outputs divided by a temperature."""
    scaled = outputs.astype(np.float64) / temperature
    powers = np.exp(scaled - scaled.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True))


def none_scores(outputs: Float[ndarray, "n classes"], temperature: float) -> Float64[ndarray, "n"]:
    """How sure each answer is: the probability of the likeliest class."""
    return np.asarray(softened(outputs, temperature).max(1))


def fitted_temperature(outputs: Float[ndarray, "n classes"], labels: Int64[ndarray, "n"]) -> float:
    """The temperature of the least cross-entropy (Guo et al., ICML 2017), between 0.05 and 20."""
    from scipy.optimize import minimize_scalar  # noqa: PLC0415 - slow to import

    def surprise(logarithm: float) -> float:
        own = softened(outputs, float(np.exp(logarithm)))[np.arange(len(labels)), labels]
        return float(-np.log(np.maximum(own, 1e-12)).mean())

    return float(np.exp(minimize_scalar(surprise, bounds=(-3, 3), method="bounded").x))


def calibration_error(
    probabilities: Float64[ndarray, "n classes"], labels: Int64[ndarray, "n"]
) -> float:
    """Expected calibration error of the likeliest class, in 15 bins of equal width (Guo et al., ICML 2017)."""
    return _gap(probabilities.max(1), probabilities.argmax(1) == labels)


def error_by_chance(probabilities: Float64[ndarray, "n classes"]) -> float:
    """95 % quantile of the error of answers that are right as often as their probabilities say."""
    sure, generator = probabilities.max(1), np.random.default_rng(0)
    return float(
        np.quantile([_gap(sure, generator.random(len(sure)) < sure) for _ in range(200)], 0.95)
    )


def _gap(sure: Float64[ndarray, "n"], right: Bool[ndarray, "n"]) -> float:
    bins = np.minimum((sure * _BINS).astype(np.int64), _BINS - 1)
    gaps = np.bincount(bins, right.astype(np.float64) - sure, _BINS)
    return float(np.abs(gaps).sum() / len(sure))


def best_threshold(known: Float64[ndarray, "n"], unknown: Float64[ndarray, "m"]) -> float:
    """The threshold that tells most known photos from unknown ones, both counting alike (Youden, 1950)."""
    values = np.unique(np.concatenate([known, unknown]))
    kept = 1 - np.searchsorted(np.sort(known), values) / len(known)
    left_out = np.searchsorted(np.sort(unknown), values) / len(unknown)
    return float(values[np.argmax(kept + left_out)])


def read_none(folder: Path, images: ImageSet) -> tuple[Images, str]:
    """Photos of nothing known, below a folder, prepared as those of a data set; and how many were left out.

    Raises:
      UserError: if there are too few.
    """
    files = [each for each in sorted(folder.rglob("*")) if each.suffix.lower() in IMAGE_SUFFIXES]
    drawn = np.random.default_rng(0).permutation(len(files))[:_MOST_NONE].tolist()
    pixels, unread = [], []
    for at in drawn:
        try:
            square = cropped(rgb(upright(files[at], images.side), images.limits), images.side)
        except Exception:  # noqa: BLE001 - a damaged file raises anything
            unread.append(printable(files[at].name))
            continue
        pixels.append(in_channels(square, images.channels))
    if len(pixels) < _FEWEST_NONE:
        raise UserError(
            f"none={folder} has {len(pixels)} photos that can be read; {_FEWEST_NONE} or more are needed"
        )
    report = f"none={folder}: {len(pixels):,} photos of {len(files):,}"
    if len(drawn) < len(files):
        report += f"; {_MOST_NONE:,} are drawn at most"
    if unread:
        report += f"; {len(unread):,} unreadable, such as {unread[0]}"
    return Images(np.stack(pixels), np.zeros(len(pixels), np.int64)), report
