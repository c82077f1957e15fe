"""The data of a learner as the search and the training see it, beside an `ImageSet`."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, final

from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task
from nas.fit.data.image_set import Images, ImageSet, Target
from nas.fit.learners.base import SPLITS, Learner, LearnerDescription, Metric, blamed

if TYPE_CHECKING:
    import torch
    from torch import nn


@final
@dataclass(frozen=True)
class LearnerSplit:
    """One split of a learner's data."""

    learner: Learner
    name: str
    count: int  # items
    is_part: bool = False  # its batches end after `count` items

    def __len__(self) -> int:
        return self.count

    def batches(self, device: torch.device) -> Iterator[Any]:
        """Batches on a device."""
        batches = partial(self._on, device)
        for batch in self._bounded(seeded_batches(batches, seed=0) if self.is_part else batches()):
            yield moved(batch, device)

    @property
    def steps(self) -> int:
        """Batches of a pass.

        Raises:
          UserError: if they do not end.
        """
        batches = self.learner.batches(self.name)
        with suppress(TypeError):  # also of a DataLoader of a data set without a length
            return len(batches)  # type: ignore[arg-type]
        return sum(1 for _ in self._bounded(batches))

    def _bounded(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The batches, to the end of the part; those of a whole split must end by themselves."""
        items = 0
        for batch in batches:
            if self.is_part and items >= self.count:
                return
            if items > _MOST_REPEATED * self.count:
                raise UserError(
                    f"batches of split {self.name} go on after {items:,} items, and describe() counts {self.count:,}: "
                    f"they must end"
                )
            yield batch
            items += _items(batch)

    def _on(self, device: torch.device) -> Iterable[Any]:
        """The learner's batches, on the device already where it can move them all."""
        batches = self.learner.batches(self.name)
        return batches.to(device) if hasattr(batches, "to") else batches

    def first(self, count: int) -> LearnerSplit:
        """The first batches of so many items, the same each time."""
        return replace(self, count=min(count, self.count), is_part=True)


def seeded_batches(batches: Callable[[], Iterable[Any]], seed: int) -> Iterator[Any]:
    """Batches that torch's default generator draws from a seed; what others draw stays as it is."""
    import torch  # noqa: PLC0415 - takes seconds

    state = torch.Generator().manual_seed(seed).get_state()
    iterator: Iterator[Any] | None = None
    while True:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.set_state(state)
            iterator = iter(batches()) if iterator is None else iterator
            batch = next(iterator, _END)
            state = torch.default_generator.get_state()
        if batch is _END:
            return
        yield batch


_END = object()

_MOST_REPEATED = 4
"""Items that the batches of one epoch may have, as a multiple of those that are counted: oversampling repeats some."""

_COUNTED_S = 60.0
"""Longest count of a loader's batches; it may have no end."""

_MOST_OUTPUTS = 100_000


@final
@dataclass(frozen=True)
class LearnerData:
    """A learner of its own batches, with the names that an `ImageSet` has."""

    learner: Learner
    opened_by: tuple[Callable[..., LearnerData], tuple[Any, ...]] | None = None
    """What opens the same data in another process; None: they are sent."""

    @classmethod
    def checked(cls, learner: object) -> LearnerData:
        """The data of an object that should be a learner.

        Raises:
          UserError: if it is none, or has no batches to train on or to judge by.
        """
        name = type(learner).__name__
        if not isinstance(learner, Learner):
            missing = [each for each in _METHODS if not callable(getattr(learner, each, None))]
            raise UserError(f"learner={name} is no learner: it has no {', '.join(missing)}")
        data = cls(learner)
        with blamed(f"learner={name}"), _handler_of_children_kept():
            about, shape = data.about, tuple(data.example.shape)
            batches = [next(iter(learner.batches(split)), None) for split in SPLITS[:2]]
        if not isinstance(about, LearnerDescription):
            raise UserError(f"learner={name}: describe() must return a LearnerDescription")
        if type(about.outputs) is not int or not 1 <= about.outputs <= _MOST_OUTPUTS:
            raise UserError(
                f"learner={name}: outputs={about.outputs!r} is no whole number between 1 and {_MOST_OUTPUTS:,}"
            )
        counts = about.counts if isinstance(about.counts, tuple | list) else ()
        if len(counts) != 3 or any(type(each) is not int or each < 0 for each in counts):
            raise UserError(
                f"learner={name}: counts={about.counts!r} are not the items of train, valid and test"
            )
        if len(shape) < 2:
            raise UserError(
                f"learner={name}: example_input() has shape {shape}, not (1, channels, ...), one input"
            )
        for split, count, batch in zip(SPLITS, about.counts, batches, strict=False):
            if not count or batch is None:
                raise UserError(f"learner={about.name} has no batches of split {split}")
        return data

    @cached_property
    def about(self) -> LearnerDescription:
        """The learner's own description."""
        return self.learner.describe()

    @cached_property
    def example(self) -> torch.Tensor:
        """One input."""
        return self.learner.example_input()

    @property
    def name(self) -> str:
        """Short name, safe in file names."""
        return self.about.name

    @property
    def title(self) -> str:
        """Name as a page writes it."""
        return self.about.title

    @property
    def metric(self) -> str:
        """Name of the metric."""
        return self.about.metric

    @property
    def items(self) -> str:
        """What the splits hold, as reports name it."""
        return "images" if self.about.mean else "items"

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes; empty without any."""
        return self.about.classes

    @property
    def mean(self) -> tuple[float, ...]:
        """Mean that pixels were normalised by; 0 for other inputs."""
        return self.about.mean or (0.0,) * self.task.channels

    @property
    def sd(self) -> tuple[float, ...]:
        """Standard deviation that pixels were normalised by; 1 for other inputs."""
        return self.about.sd or (1.0,) * self.task.channels

    @property
    def limits(self) -> tuple[float, float] | None:
        """Pixel values of images of more than 8 bits that became 0 and 255."""
        return self.about.limits

    @property
    def digest(self) -> str:
        """Changes when the data do."""
        return self.about.digest or self.name

    @property
    def report(self) -> tuple[str, ...]:
        """Lines for the user."""
        return self.about.report

    @property
    def side(self) -> int:
        """Last size of an input, the height and width of an image."""
        return int(self.example.shape[-1])

    @property
    def task(self) -> Task:
        """The task as a network sees it."""
        shape = tuple(self.example.shape[1:])
        is_image = len(shape) == 3 and shape[1] == shape[2]
        other = () if is_image else shape
        return Task(self.name, self.about.outputs, self.side, shape[0], self.title, shape=other)

    @property
    def train(self) -> LearnerSplit:
        """Training items."""
        return self._split(0)

    @property
    def valid(self) -> LearnerSplit:
        """Validation items."""
        return self._split(1)

    @property
    def test(self) -> LearnerSplit:
        """Test items, perhaps none."""
        return self._split(2)

    def _split(self, number: int) -> LearnerSplit:
        return LearnerSplit(self.learner, SPLITS[number], self.about.counts[number])

    def inputs(self, count: int, split: LearnerSplit | None = None) -> torch.Tensor:
        """The first inputs of a split, that to train on by default; the example where batches have no tensor of its shape."""
        import torch  # noqa: PLC0415 - takes seconds

        shape, inputs = self.example.shape[1:], []
        for batch in (split or self.train).first(count).batches(torch.device("cpu")):
            inputs += [part for part in _tensors(batch) if part.shape[1:] == shape][:1]
        return torch.cat(inputs or [self.example]).float()[:count]

    def judged(self, network: nn.Module, batches: Iterable[Any]) -> Metric:
        """The learner's metric.

        Raises:
          UserError: if it is no number between 0 and 1.
        """
        with blamed(f"the metric of learner={self.name}"):
            metric = self.learner.metric(network, batches)
        if not isinstance(metric, Metric):
            raise UserError(f"the metric of learner={self.name} is a {type(metric).__name__}")
        return metric

    def __reduce__(self) -> tuple[Any, ...]:
        """Send a learner of a script or a notebook to another process by its code."""
        if self.opened_by is not None:
            return self.opened_by
        import cloudpickle  # noqa: PLC0415 - trainings in other processes only

        return _carried, (cloudpickle.dumps(self.learner),)


@contextmanager
def _handler_of_children_kept() -> Iterator[None]:
    """Take back torch's handler of SIGCHLD, once a data loader with workers has set it.

    It raises wherever this process is, long after the last batch, if a worker of an iterator that nobody reads ends.
    One that is read notices by itself that its worker ended.
    """
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGCHLD) if is_main and hasattr(signal, "SIGCHLD") else None
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGCHLD, before)


_METHODS = ("batches", "loss", "metric", "example_input", "describe")

TrainingData: TypeAlias = ImageSet | LearnerData
"""What networks are trained on."""

TrainingSplit: TypeAlias = Images | LearnerSplit


def has_classes(data: TrainingData) -> TypeGuard[ImageSet]:
    """Whether data are images of one class each."""
    return isinstance(data, ImageSet) and data.target is Target.classification


def _carried(content: bytes) -> LearnerData:
    import cloudpickle  # noqa: PLC0415 - loaded when needed

    return LearnerData(cloudpickle.loads(content))


def _items(batch: Any) -> int:
    """Items of a batch: rows of its first tensor."""
    shape = getattr(first_tensor(batch), "shape", ())
    return int(shape[0]) if shape else 1


def count_of(loader: Iterable[Any]) -> int:
    """Items of a data loader, or of batches.

    Raises:
      UserError: if they have not ended after a minute.
    """
    dataset: Any = getattr(loader, "dataset", None)
    if hasattr(dataset, "__len__"):
        return len(dataset)
    items, ends_s = 0, time.monotonic() + _COUNTED_S
    for batch in loader:
        items += _items(batch)
        if time.monotonic() > ends_s:
            raise UserError(
                f"a loader has not ended after {items:,} items and {_COUNTED_S:g} s; give batches that end, or "
                f"a data set with a length"
            )
    return items


def first_tensor(batch: Any) -> Any:
    """The first tensor of a batch; None without one."""
    return next(iter(_tensors(batch)), None)


def _tensors(batch: Any) -> list[Any]:
    if isinstance(batch, dict):
        batch = list(batch.values())
    if isinstance(batch, list | tuple):
        return [tensor for part in batch for tensor in _tensors(part)]
    return [batch] if hasattr(batch, "shape") else []


def moved(batch: Any, device: torch.device) -> Any:
    """A batch with its tensors on a device."""
    if hasattr(batch, "to"):
        return batch.to(device)
    if isinstance(batch, dict):
        return {name: moved(part, device) for name, part in batch.items()}
    if isinstance(batch, list | tuple):
        make = getattr(type(batch), "_make", type(batch))  # of a named tuple
        return make(moved(part, device) for part in batch)
    return batch
