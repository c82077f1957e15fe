"""A learner of two functions and data loaders."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, final

from edgenas_core.types.errors import UserError
from nas.fit.learners.base import LearnerDescription, Metric
from nas.fit.learners.data import count_of, first_tensor

if TYPE_CHECKING:
    from torch import Tensor, nn


def learner(
    loss: Callable[[nn.Module, Any], Tensor],
    metric: Callable[[nn.Module, Iterable[Any]], float | Metric],
    train: Iterable[Any],
    valid: Iterable[Any],
    test: Iterable[Any] = (),
    *,
    outputs: int = 1,
    name: str = "own",
) -> FunctionLearner:
    """Make a learner of functions and data loaders, for `search(learner=...)`.

    Args:
      loss: function (network, batch) -> mean loss, one number in a tensor.
      metric: function (network, batches) -> quality between 0 and 1, higher is better; its `__name__`
        is shown.
      train: batches of tensors, lists, dictionaries, such as a `DataLoader`; the first tensor of a batch
        is the network's input (n, channels, side, side).
      valid: batches that networks are compared on.
      test: batches for the winner.
      outputs: numbers that the network gives.
      name: of the task, short.

    Raises:
      UserError: if there are no training or validation batches.
    """
    return FunctionLearner(
        loss, metric, {"train": train, "valid": valid, "test": test}, outputs, name
    )


@final
@dataclass(frozen=True, eq=False)
class FunctionLearner:
    """A `Learner` that calls functions."""

    loss: Callable[[nn.Module, Any], Tensor]
    judge: Callable[[nn.Module, Iterable[Any]], float | Metric]
    loaders: dict[str, Iterable[Any]]
    outputs: int
    name: str

    def batches(self, split: str) -> Iterable[Any]:
        """The loader of a split."""
        return self.loaders[split]

    def metric(self, network: nn.Module, batches: Iterable[Any]) -> Metric:
        """The function's number."""
        value = self.judge(network, batches)
        return value if isinstance(value, Metric) else Metric(self._metric, float(value))

    @property
    def _metric(self) -> str:
        name = getattr(self.judge, "__name__", "metric").strip("<>")
        return "metric" if name == "lambda" else name

    def example_input(self) -> Tensor:
        """The first input."""
        tensor: Tensor | None = first_tensor(next(iter(self.loaders["train"]), None))
        if tensor is None:
            raise UserError(f"learner={self.name} has no train batches, or no tensors in them")
        return tensor[:1]

    def describe(self) -> LearnerDescription:
        """What the loaders say of themselves."""
        counts = (count_of(loader) for loader in self.loaders.values())
        train, valid, test = counts
        judged = first_tensor(next(iter(self.loaders["valid"]), None))
        content = b"" if judged is None else judged.numpy().tobytes()
        return LearnerDescription(
            name=self.name,
            title=self.name,
            outputs=self.outputs,
            metric=self._metric,
            counts=(train, valid, test),
            digest=sha256(content + repr((train, valid, test)).encode()).hexdigest(),
        )


def no_labels(_network: nn.Module, _batch: Any) -> Any:
    """Loss and metric of batches alone.

    Raises:
      UserError: always.
    """
    raise UserError("batches without a loss are learnt by the answers of network=")


def loaders_alone(given: object) -> FunctionLearner | None:
    """Batches without a loss: of a mapping with train, valid and perhaps test; None of anything else."""
    if not isinstance(given, Mapping) or not {"train", "valid"} <= given.keys():
        return None
    loaders = {split: given.get(split, ()) for split in ("train", "valid", "test")}
    return FunctionLearner(no_labels, no_labels, loaders, 1, "own")
