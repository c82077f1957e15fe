"""What to do next after a fit: `next_steps.json`, and the part of the page that says it in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from edgenas_core.page.document import Section
from edgenas_core.page.parts import PagePart, Pictures
from nas.fit.data.image_set import ImageSet
from nas.fit.learners.data import TrainingData
from nas.report.pictures import picture_address
from nas.trials.survey import wilson_interval

NEXT_STEPS = "next_steps.json"
"""File in the run's folder."""

MOST_SHOWN = 20
"""Doubtful labels on the page; the file has all."""


@final
@dataclass(frozen=True)
class Figure:
    """A number, where it is from, and its 95 % interval where that is known."""

    value: float
    unit: str
    kind: str  # measured, trained, forecast or predicted, and on what
    low: float | None = None
    high: float | None = None

    @property
    def points(self) -> str:
        """A difference in points, with its interval."""
        interval = "" if self.low is None else f" ({self.low:+.1f} to {self.high:+.1f})"
        return f"{self.value:+.1f} points{interval}"


@final
@dataclass(frozen=True)
class DoubtfulLabel:
    """An image whose label is likely another class."""

    file: str  # relative to the data, or split and number where it has no name
    position: int  # among the training, then the validation, then the test images
    given: str
    likely: str
    probability: float  # of the label, by models that have not learnt the image


@final
@dataclass(frozen=True)
class MorePhotos:
    """What further training images are expected to bring."""

    photos: int
    points: Figure


@final
@dataclass(frozen=True)
class OtherNetwork:
    """A network that another limit would give."""

    arch: str
    latency: Figure
    points: Figure  # accuracy less the winner's


@final
@dataclass(frozen=True)
class NextSteps:
    """Advice after a fit; a step that could not be computed is None or empty, and `left_out` says why."""

    accuracy: Figure  # of the winner on the test images
    test_photos: int
    wrong_of_100: Figure
    wrong_of_100_with_4_times: Figure  # as many test photos
    model: str  # that the cross-fits are by
    doubtful: tuple[DoubtfulLabel, ...]
    grouped: tuple[int, int]  # photos that are nearly equal to another or share its group; groups
    without_groups: Figure | None  # how much better accuracy would look if they were split
    more: tuple[MorePhotos, ...]
    needy: str | None  # class that gains most
    faster: OtherNetwork | None
    beyond: OtherNetwork | None  # just outside the limit
    left_out: tuple[str, ...]

    def sentences(self) -> Iterator[str]:
        """The advice, a sentence or two each."""
        wrong, nearer = self.wrong_of_100, self.wrong_of_100_with_4_times
        yield (
            f"Good enough? Of 100 such photos, expect {wrong.low:.0f} to {wrong.high:.0f} wrong answers (95 %). With "
            f"{4 * self.test_photos:,} test photos instead of {self.test_photos:,}, this would be known as {nearer.low:.0f} to "
            f"{nearer.high:.0f}."
        )
        if self.doubtful:
            yield (
                f"Labels: {self.model}, after learning other photos, takes {len(self.doubtful):,} photos for another class. "
                f"Most are hard, not wrong: look at the first ones, move those in the wrong folder, and fit again."
            )
        if self.more:
            gains = "; ".join(f"{each.photos:,} more: {each.points.points}" for each in self.more)
            where = f" Class {self.needy} gains most." if self.needy else ""
            yield f"More photos: {gains}, a forecast.{where}"
        if self.grouped[0]:
            looked = ""
            if self.without_groups is not None:
                looked = (
                    f" If they were split apart, accuracy would look {self.without_groups.value:+.1f} points better than it "
                    f"is."
                )
            yield (
                f"Copies: {self.grouped[0]:,} photos are nearly equal to another or share its group "
                f"(groups: {self.grouped[1]:,}); each group stayed in one split.{looked}"
            )
        for title, other in (("Faster", self.faster), ("Slower", self.beyond)):
            if other is not None:
                yield (
                    f"{title}: `{other.arch}` takes {other.latency.value:.3g} ms, {other.points.points} "
                    f"({other.points.kind})."
                )
        yield from self.left_out


def next_section(steps: NextSteps, images: TrainingData) -> Section:
    """The advice, with pictures of doubtful labels."""
    parts: list[PagePart | str] = [*steps.sentences()]
    if steps.doubtful and isinstance(images, ImageSet):
        shown = [
            (
                picture_address(pixels_at(images, each.position)),
                f"{each.file}: {each.given}, or {each.likely}?",
            )
            for each in steps.doubtful[:MOST_SHOWN]
        ]
        caption = f"File, the class of its folder, and the class that {steps.model} takes it for after learning other photos."
        parts.append(Pictures("Doubtful labels", shown, caption))
    return Section("What to do next", parts)


def pixels_at(images: ImageSet, position: int) -> object:
    """Pixels of an image by its position among all splits."""
    for split in (images.train, images.valid, images.test):
        if position < len(split):
            return split.pixels[position]
        position -= len(split)
    raise IndexError(position)


def wrong_of_100(accuracy: float, photos: int, kind: str) -> Figure:
    """Wrong answers among 100 photos, with the 95 % interval of the accuracy."""
    low, high = wilson_interval(accuracy, photos)
    return Figure(100 * (1 - accuracy), "of 100 photos", kind, 100 * (1 - high), 100 * (1 - low))
