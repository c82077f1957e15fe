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
    """What further training images are expected to bring, in points of accuracy."""

    photos: int
    points: float
    low: float  # 95 %, bootstrap over the images that the curve was judged on
    high: float


@final
@dataclass(frozen=True)
class OtherNetwork:
    """A network that another limit would give."""

    arch: str
    latency_ms: float
    points: float  # accuracy less the winner's, after trainings of one length
    rests_on: str


@final
@dataclass(frozen=True)
class NextSteps:
    """Advice after a fit; a step that could not be computed is None or empty, and `left_out` says why."""

    accuracy: float  # of the winner on the test images
    test_photos: int
    wrong_of_100: tuple[float, float]  # 95 %, Wilson's
    wrong_of_100_with_4_times: tuple[float, float]  # as many test photos
    model: str  # that the cross-fits are by
    doubtful: tuple[DoubtfulLabel, ...]
    grouped: tuple[
        int, int
    ]  # photos that are nearly equal to another or share its group, and groups
    without_groups: float | None  # points that accuracy would look better by if they were split
    more: tuple[MorePhotos, ...]
    needy: str | None  # class that gains most
    faster: OtherNetwork | None
    beyond: OtherNetwork | None  # just outside the limit
    left_out: tuple[str, ...]

    def sentences(self) -> Iterator[str]:
        """The advice, a sentence or two each."""
        low, high = self.wrong_of_100
        nearer = "{:.0f} to {:.0f}".format(*self.wrong_of_100_with_4_times)
        yield (
            f"Good enough? Of 100 such photos {low:.0f} to {high:.0f} will get a wrong answer (95 %, from "
            f"{self.test_photos:,} test photos); {4 * self.test_photos:,} test photos would make it {nearer}."
        )
        if self.doubtful:
            yield (
                f"Labels: {len(self.doubtful):,} photos look as if they belong to another class; look at the first ones "
                f"below, move those that are wrong, and fit again."
            )
        if self.more:
            gains = " and ".join(
                f"{each.points:+.1f} points [{each.low:.1f}, {each.high:.1f}] with {each.photos:,} more"
                for each in self.more
            )
            where = f", most in class {self.needy}" if self.needy else ""
            yield f"More photos: expect {gains}{where}; a forecast from nested parts of your photos by {self.model}."
        if self.grouped[0]:
            looked = ""
            if self.without_groups is not None:
                looked = f"; split apart, accuracy would have looked {self.without_groups:+.1f} points better than it is"
            yield (
                f"Copies: {self.grouped[0]:,} photos in {self.grouped[1]:,} groups are nearly equal or of one group, and "
                f"stayed in one split each{looked}."
            )
        for title, other in (("Faster", self.faster), ("A larger limit", self.beyond)):
            if other is not None:
                yield (
                    f"{title}: {other.latency_ms:.3g} ms for {other.points:+.1f} points, `{other.arch}`; {other.rests_on}."
                )
        yield from (f"Not computed: {reason}." for reason in self.left_out)


def next_section(steps: NextSteps, images: TrainingData) -> Section:
    """The advice, with pictures of doubtful labels."""
    parts: list[PagePart | str] = [*steps.sentences()]
    if steps.doubtful and isinstance(images, ImageSet):
        shown = [
            (
                picture_address(pixels_at(images, each.position)),
                f"{each.file}: {each.given}, or {each.likely}? ({each.probability:.0%} {each.given})",
            )
            for each in steps.doubtful[:MOST_SHOWN]
        ]
        caption = f"Given class, likely class, and the probability of the given one by {steps.model} that has not learnt the photo."
        parts.append(Pictures("Doubtful labels", shown, caption))
    return Section("What to do next", parts)


def pixels_at(images: ImageSet, position: int) -> object:
    """Pixels of an image by its position among all splits."""
    for split in (images.train, images.valid, images.test):
        if position < len(split):
            return split.pixels[position]
        position -= len(split)
    raise IndexError(position)


def wrong_of_100(accuracy: float, photos: int) -> tuple[float, float]:
    """Wrong answers among 100 photos, 95 % interval of the accuracy."""
    low, high = wilson_interval(accuracy, photos)
    return 100 * (1 - high), 100 * (1 - low)
