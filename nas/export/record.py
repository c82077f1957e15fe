"""`export.json`: what an exported network is, where it comes from, what was checked and timed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from rich.table import Table

from edgenas_core.types.kind import Kind
from nas.export.accuracy import FileAccuracy
from nas.export.latency import Latency
from nas.export.probabilities import Probabilities
from nas.export.searched import Searched
from nas.fit.training.trained_folder import Training
from nas.report.run_folder import Environment

if TYPE_CHECKING:
    from rich.console import JustifyMethod

SCHEMA = 3


@final
@dataclass(frozen=True)
class Architecture:
    """The exported architecture."""

    arch: str
    index: int | None  # its number, where the space has numbers
    choices: dict[str, str]  # name of the option at each position


@final
@dataclass(frozen=True)
class Form:
    """One file of the network, with its accuracy and latency."""

    precision: str
    file: str
    size: int  # bytes
    max_abs_error: float  # largest difference of a logit against torch, on the compared images
    accuracy: FileAccuracy | None  # on the test images, if it is trained and they are known
    sample_right: int | None  # of the images in the export, those put into the right class
    latency: Latency
    probabilities: Probabilities | None = None  # of a file that puts images into classes


@final
@dataclass(frozen=True)
class FormComparison:
    """Comparison of the files with torch: its images and its tolerance."""

    images: int
    of: str  # noise, or test images
    tolerance: float  # for the fp32 file, as absolute difference of a logit
    largest_logit: float
    dynamic_batch: float | None  # largest difference of a logit between one batch and single images


@final
@dataclass(frozen=True)
class Export:
    """Content of `export.json`."""

    schema: int
    space: str
    architecture: Architecture
    dataset: str
    trained: bool
    weights: str  # where they come from, in words
    training: Training | None
    searched: Searched | None
    input_shape: tuple[int | None, ...]  # None for a batch of any size
    opset: int
    parameters: int
    forms: tuple[Form, ...]
    sample: int  # test images in the export
    calibration: str | None  # images that int8 was calibrated on, in words
    compared: FormComparison
    comparison: str  # the same in words; empty without a search
    notes: tuple[str, ...]  # what the user should know before relying on it
    environment: Environment
    sha256: dict[str, str]
    memory: tuple[float, ...] | None = None  # RAM and flash on a microcontroller, bytes
    mixed: str = ""  # layers that network-int8.onnx leaves in fp32, and what that saves

    @property
    def fp32(self) -> Form:
        """The form that the others are compared with."""
        return self.forms[0]

    @property
    def asked(self) -> Form:
        """The form that was searched for: int8 after a run of int8 files, else fp32."""
        if self.searched is None or not self.searched.is_int8:
            return self.fp32
        return next((each for each in self.forms if each.precision == "int8"), self.fp32)

    @property
    def metric(self) -> str:
        """Name of the metric that the files are evaluated by."""
        return "accuracy" if self.training is None else self.training.metric

    @property
    def doubts(self) -> tuple[str, ...]:
        """Reasons not to rely on the latencies, each once."""
        return tuple(dict.fromkeys(doubt for form in self.forms for doubt in form.latency.doubts))

    @property
    def table(self) -> Table:
        """The files that were made: size, accuracy on test images, and latency with its kind."""
        table = Table(box=None, header_style="bold", pad_edge=False)
        for name in ("file", "precision", "size", self.metric, "latency"):
            justify: JustifyMethod = "left" if name in {"file", "precision"} else "right"
            table.add_column(name, justify=justify, no_wrap=name not in {self.metric, "latency"})
        kind = Kind.disturbed if self.doubts else Kind.measured
        unknown = "unknown" if self.trained else "untrained"
        for form in self.forms:
            table.add_row(
                form.file,
                form.precision,
                f"{form.size / 1e6:.2f} MB",
                unknown if form.accuracy is None else str(form.accuracy),
                f"{form.latency.median_ms:.3f} ms, {kind.words}",
            )
        return table

    @property
    def lines(self) -> Iterator[str]:
        """Lines for the terminal that explain the table."""
        latency = self.fp32.latency
        compared = f"; {self.comparison}" if self.comparison else ""
        yield f"latency: median on {latency.device}, one thread{compared}"
        if self.doubts:
            yield f"latency NOT reliable: {'; '.join(self.doubts)}"
        yield from (f"note: {note}" for note in self.notes)


def compared_with_search(searched: Searched | None, here: Latency) -> str:
    """A median as a multiple of what the run knew, where both are of one device."""
    if searched is None:
        return ""
    if here.device != searched.device:
        return "not compared: another device (board, runtime, precision or batch)"
    ratio = here.median_ms / searched.latency_ms
    return f"{ratio:.3f} times what the search knew, {Kind[searched.latency_kind].words}"
