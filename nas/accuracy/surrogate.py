"""`accuracy=surrogate`: accuracies predicted by the model that is embedded in a search space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from common.types.architectures import Keys
from common.types.errors import UserError
from common.types.task import Task
from nas.accuracy.base import Accuracy, AccuracyConfig, HasSurrogate, Split


@final
@dataclass
class SurrogateAccuracyConfig(AccuracyConfig):
    """No settings: a space has one model, or none."""

    def build(self, space: Keys, task: Task, split: Split, epochs: int) -> Accuracy:
        """The space's own model.

        Raises:
          UserError: if the space has none, or it does not know this split or length of training.
        """
        if not isinstance(space, HasSurrogate):
            raise UserError(
                f"accuracy=surrogate: space={space.name} has no embedded model of accuracy; choose "
                f"another source, or train on your images with data=<folder>"
            )
        return space.surrogate(task, split, epochs)
