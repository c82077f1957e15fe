"""`python -m nas.check a.onnx b.tflite photos/`: the same photos, two files, and why they differ."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import Float32
from numpy import ndarray

from edgenas_core.command.arguments import OneLineParser
from edgenas_core.command.console import PlainConsole, say
from edgenas_core.command.exit_status import one_line_errors
from edgenas_core.command.json_output import add_result, note_error
from edgenas_core.machine.monitors import OtherLoad
from edgenas_core.machine.stability import StabilityConfig
from edgenas_core.machine.timing import Statistic, Stopwatch, TimingConfig, time_interleaved
from edgenas_core.types.errors import UserError
from nas.check.comparison import (
    Agreement,
    Cause,
    LayerPair,
    are_finite,
    compare_layers,
    inner_causes,
    outer_causes,
    outputs_of,
    paired_difference,
)
from nas.check.network_file import NetworkFile, open_network
from nas.check.photos import Photos
from nas.check.preparation import Preparation

DIFFERENT = 1
"""Exit status where the files differ by more than their precision explains."""

_CHOSEN_ON = 64
"""Photos on which a preparation is chosen where nothing says which it is."""


@one_line_errors()
def main(words: Sequence[str] | None = None) -> None:
    """Compare two files.

    Raises:
      SystemExit: with status 1 if they differ, 2 if they cannot be compared.
    """
    parser = OneLineParser(
        prog="python -m nas.check",
        description="Compare two network files of any makers on the same photos: accuracy, agreement, the first "
        "layer that differs, time, and the likely cause. Photos are prepared by preprocessing.json if it lies beside a file.",
    )
    parser.add_argument("a", type=Path, help="the file that is right: .onnx or .tflite")
    parser.add_argument("b", type=Path, help="the file that is checked")
    parser.add_argument("photos", type=Path, help="folder of photos, perhaps in class folders")
    parser.add_argument("--most", type=int, default=300, help="photos to take (default: 300)")
    chosen = parser.parse_args(words)
    if not 10 <= chosen.most <= 100_000:
        raise UserError(f"--most {chosen.most} is not between 10 and 100,000")
    found = check(chosen.a, chosen.b, Photos.of(chosen.photos, chosen.most))
    console = PlainConsole()
    for line in found.lines():
        say(console, line)
    for line in _times(found):
        say(console, line)
    add_result(**found.fields)
    if not found.is_same:
        note_error("the files differ")
        sys.exit(DIFFERENT)


@final
@dataclass(frozen=True)
class Comparison:
    """What two files do with the same photos."""

    a: NetworkFile
    b: NetworkFile
    prepared: tuple[Preparation, Preparation]
    about: tuple[str, ...]  # photos, preparations, classes
    accuracy: str
    agreement: Agreement
    is_less_accurate: bool
    layers: list[LayerPair] | str  # or why they are not compared
    causes: list[Cause]  # the most likely first
    photo: Any

    @property
    def is_int8(self) -> bool:
        """Whether one of them has 8 bits."""
        return self.a.is_quantised or self.b.is_quantised

    @property
    def is_same(self) -> bool:
        """Whether the files differ by no more than their precision explains."""
        return self.agreement.is_same(is_int8=self.is_int8) and not self.is_less_accurate

    @property
    def first_different(self) -> LayerPair | None:
        """The first layer that differs, where layers can be paired."""
        layers = [] if isinstance(self.layers, str) else self.layers
        return next((each for each in layers if each.differs(is_int8=self.is_int8)), None)

    @property
    def fields(self) -> dict[str, Any]:
        """The comparison, for `--json`."""
        first = self.first_different
        return {
            "a": self.a.path,
            "b": self.b.path,
            "photos": self.agreement.photos,
            "is_same": self.is_same,
            "agreement": self.agreement.same,
            "outputs_db": self.agreement.decibels,
            "accuracy": self.accuracy.removeprefix("accuracy: "),
            "first_different_layer": None if first is None else first.b,
            "causes": [{"name": each.name, "text": each.text} for each in self.causes],
        }

    def lines(self) -> Iterator[str]:
        """The comparison, for the terminal."""
        yield from self.about
        yield self.accuracy
        yield f"agreement: {self.agreement.text}"
        first = self.first_different
        if isinstance(self.layers, str):
            yield f"layers: not compared, {self.layers}"
        elif first is None:
            least = min((each.decibels for each in self.layers), default=120.0)
            yield f"layers: all {len(self.layers)} alike, to {least:.0f} dB or more"
        else:
            yield (
                f"first layer that differs: {first.number} of {len(self.layers)}, {first.a} / {first.b}, alike to "
                f"{first.decibels:.0f} dB"
            )
        alike = "the same network, within what its precision explains"
        if self.is_same:
            yield f"verdict: {alike}"
        else:
            yield "verdict: THEY DIFFER"
        names = ("note" if self.is_same else "likely cause", *["or"] * len(self.causes))
        yield from (
            f"{word}: {each.name}: {each.text}"
            for word, each in zip(names, self.causes[:3], strict=False)
        )
        if not self.causes and not self.is_same:
            yield "likely cause: not found: no other preparation, order of classes or range explains it"


def check(a_path: Path, b_path: Path, photos: Photos) -> Comparison:
    """Compare two files on photos.

    Raises:
      UserError: if a file cannot be run, or gives no classes.
      OSError: if a file cannot be read.
    """
    a, b = open_network(a_path), open_network(b_path)
    told_a, told_b = Preparation.beside(a_path), Preparation.beside(b_path)
    classes = next((told[1] for told in (told_a, told_b) if told is not None), ())
    chosen = told_a or told_b
    prepared_a = chosen[0] if chosen else _chosen(a, b, photos)
    prepared_b = told_b[0] if told_b else prepared_a
    outputs_a = outputs_of(a, photos.images, prepared_a)
    outputs_b = outputs_of(b, photos.images, prepared_b)
    outputs_a, outputs_b, left_out = _of_one_size(outputs_a, outputs_b)
    labels, source = photos.labels(classes, outputs_a.shape[1])
    accuracy, is_less = f"accuracy: unknown, {source}", False
    if labels is not None:
        right_a, right_b = (
            (each.argmax(1) == labels) & are_finite(each) for each in (outputs_a, outputs_b)
        )
        difference, low, high = paired_difference(right_a, right_b)
        is_less = high < 0 and difference < -0.01
        accuracy = (
            f"accuracy: {right_a.mean():.1%} and {right_b.mean():.1%}; difference {100 * difference:+.1f} points "
            f"[{100 * low:+.1f}, {100 * high:+.1f}] (95 %, paired)"
        )
    agreement = Agreement.of(outputs_a, outputs_b)
    layers = compare_layers(a, b, photos.images, prepared_a, prepared_b)
    is_same = agreement.is_same(is_int8=a.is_quantised or b.is_quantised) and not is_less
    known = [] if isinstance(layers, str) else layers
    found = [*inner_causes(outputs_a, outputs_b, known)]
    if not is_same:
        outer = outer_causes(b, photos.images, prepared_b, outputs_a, agreement)
        found = [*outer, *found]
    told = "as preprocessing.json says" if chosen else "chosen of the usual ones"
    about = (
        photos.report,
        f"{a_path}: {prepared_a.words} ({told})",
        f"{b_path}: {prepared_b.words}" if told_b else f"{b_path}: the same",
        *left_out,
        *([source] if labels is not None else []),
    )
    return Comparison(
        a,
        b,
        (prepared_a, prepared_b),
        about,
        accuracy,
        agreement,
        is_less,
        layers,
        found,
        photos.images[0],
    )


def _chosen(network: NetworkFile, other: NetworkFile, photos: Photos) -> Preparation:
    """The usual preparation with which a network is most accurate, or surest where no class is known."""
    images = photos.images[:_CHOSEN_ON]

    def worth(preparation: Preparation) -> tuple[float, float]:
        outputs = outputs_of(network, images, preparation)
        labels, _ = photos.labels((), outputs.shape[1])
        right = 0.0 if labels is None else float((outputs.argmax(1) == labels[:_CHOSEN_ON]).mean())
        top = np.sort(outputs - outputs.mean(1, keepdims=True), 1)
        return right, float((top[:, -1] - top[:, -2]).mean() / max(top.std(), 1e-9))

    return max(Preparation.usual(network.form, other.form), key=worth)


def _of_one_size(
    a: Float32[ndarray, "n c"], b: Float32[ndarray, "n d"]
) -> tuple[Float32[ndarray, "n k"], Float32[ndarray, "n k"], list[str]]:
    """Outputs of as many classes: a first one that only one of the files has is a background."""
    if a.shape[1] == b.shape[1]:
        return a, b, []
    if abs(a.shape[1] - b.shape[1]) != 1:
        raise UserError(
            f"the files have {a.shape[1]:,} and {b.shape[1]:,} classes, so that they are not the same network"
        )
    count = min(a.shape[1], b.shape[1])
    line = f"{count + 1:,} and {count:,} classes: the first of the more is taken for a background"
    return a[:, -count:], b[:, -count:], [line]


def _times(found: Comparison) -> Iterator[str]:
    """Time of both files on this machine, in turns, on one thread."""
    pairs = zip((found.a, found.b), found.prepared, strict=True)
    inputs = [
        (network, network.form.numbers(prepared(found.photo, network.form)))
        for network, prepared in pairs
    ]
    calls = [lambda network=network, image=image: network(image) for network, image in inputs]
    load = OtherLoad(StabilityConfig().other_load, cores=())
    generator = np.random.default_rng(0)
    for (network, _), samples in zip(
        inputs, time_interleaved(calls, TimingConfig(), generator, Stopwatch()), strict=True
    ):
        low, high = samples.interval(Statistic.median)
        median = float(Statistic.median.of(samples.ms))
        yield f"time here, one thread: {network.path.name} {median:.3f} ms [{low:.3f}, {high:.3f}]"
    yield from (f"times NOT reliable: {line}" for line in load())
