"""The protocol of a learner: what a network is trained for, and how it is judged."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, final, runtime_checkable

from edgenas_core.types.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor, nn

SPLITS = ("train", "valid", "test")
"""Names of the splits; the test split may be empty."""


@final
@dataclass(frozen=True)
class Metric:
    """Quality of a network on some batches; higher is better."""

    name: str
    value: float  # in [lowest, 1]
    interval: tuple[float, float] | None = None  # 95 %
    lowest: float = 0.0

    def __post_init__(self) -> None:
        values = (self.value, *(self.interval or ()))
        if not all(isinstance(each, int | float) and self.lowest <= each <= 1 for each in values):
            text = " ".join(map(str, values))
            raise UserError(
                f"metric {self.name!r} is {text}, which is outside {self.lowest:g} to 1"
            )


@final
@dataclass(frozen=True, kw_only=True)
class LearnerDescription:
    """What is known of a learner before anything is trained."""

    name: str  # short, safe in file names
    title: str  # as pages write it
    outputs: int  # numbers, or channels, that the network's head gives
    metric: str  # its name, as it is shown
    counts: tuple[int, int, int]  # training, validation and test items; test may be 0
    digest: str = ""  # changes when the data do
    report: tuple[str, ...] = ()  # lines for the user when the data are opened
    classes: tuple[str, ...] = ()
    mean: tuple[
        float, ...
    ] = ()  # that pixels / 255 are normalised by; empty if inputs are no images
    sd: tuple[float, ...] = ()
    limits: tuple[float, float] | None = None  # pixel values of deep images that became 0 and 255


@runtime_checkable
class Learner(Protocol):
    """Loss, metric and batches of a task; any object with these methods is one.

    A batch is whatever `batches` yields: tensors on the CPU, in tuples, lists and dictionaries. The
    trainer moves them to its device. Loss and metric call the network and use nothing else of it, so
    that an exported file is judged by the same metric. With `has_equal_steps = True`, training batches are
    tuples of tensors of one shape and the loss never waits for a GPU, which then replays a step as a graph.
    """

    def batches(self, split: str) -> Iterable[Any]:
        """Batches of `train`, `valid` or `test`; as many each time.

        Shuffle and augment by torch's default generator, which is seeded before each epoch.
        """

    def loss(self, network: nn.Module, batch: Any) -> Tensor:
        """The mean loss of a batch: one number to be minimised."""

    def metric(self, network: nn.Module, batches: Iterable[Any]) -> Metric:
        """Quality on some batches; the network is in evaluation mode, without gradients."""

    def example_input(self) -> Tensor:
        """One input, (1, channels, ...), of an image (1, channels, side, side)."""

    def describe(self) -> LearnerDescription:
        """What is known before training."""


@final
@dataclass(frozen=True)
class ClassMetric:
    """Quality of one class."""

    name: str
    items: int
    value: float


@final
@dataclass(frozen=True)
class LearnerPicture:
    """A test item with what the network makes of it."""

    caption: str
    jpeg: bytes


@final
@dataclass(frozen=True)
class Findings:
    """What a page shows of a trained network."""

    classes: tuple[ClassMetric, ...] = ()
    pictures: tuple[LearnerPicture, ...] = ()  # the worst first
    values: tuple[tuple[float, float], ...] = ()  # true and answered, where items have one number


@runtime_checkable
class HasFindings(Protocol):
    """A learner that shows what a network makes of the test split."""

    def findings(self, network: nn.Module) -> Findings:
        """Results by class, and pictures, of a trained network."""


def scalar_loss(loss: Any, learner: str) -> Tensor:
    """The loss, if it is one tensor of one number.

    Raises:
      UserError: if it is anything else.
    """
    import torch  # noqa: PLC0415 - seconds that searches on tables do not pay

    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        shape = tuple(loss.shape) if isinstance(loss, torch.Tensor) else type(loss).__name__
        raise UserError(
            f"the loss of learner={learner} must be one number in a tensor, and is {shape}"
        )
    return loss.reshape(())


@contextmanager
def blamed(what: str) -> Iterator[None]:
    """Say in one line what the code of a learner raises; torch's lack of memory passes.

    Raises:
      UserError: of whatever the block raises.
    """
    import torch  # noqa: PLC0415 - loaded when needed

    try:
        yield
    except (UserError, torch.OutOfMemoryError):
        raise
    except (Exception, SystemExit) as error:  # the author's code
        reason = (str(error) or repr(error)).splitlines()[0]
        raise UserError(f"{what} raised {type(error).__name__}: {reason}") from error


def mean_metric(name: str, worth: Tensor, lowest: float = 0.0) -> Metric:
    """The mean worth of n answers (n) and its 95 % interval by their standard deviation, cut to [lowest, 1]."""
    mean = float(worth.double().mean())
    half = 1.96 * float(worth.double().std(correction=0)) / math.sqrt(max(1, len(worth)))
    value, low, high = (min(1.0, max(lowest, each)) for each in (mean, mean - half, mean + half))
    return Metric(name, value, (low, high), lowest)
