"""Settings of a training; conf/train.yaml holds the defaults."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

from edgenas_core.command.bounds import require_hours
from edgenas_core.types.errors import UserError
from nas.fit.training.recipe import Recipe, recipe_named
from nas.fit.training.train_on import TrainOn


@final
@dataclass
class TrainConfig:
    """Settings of `python -m nas.train`."""

    run: str | None  # folder of a finished search
    space: str
    arch: str | None  # an architecture's text, or its number
    data: str | None
    side: int | None  # pixels
    recipe: str | None  # None: that of the space
    epochs: int | None
    hours: float | None
    images: TrainOn  # that are trained on
    seed: int
    device: str  # auto, cpu, cuda, cuda:1, ...
    runs: str
    task: str | None = None  # None: classification, or that of the run
    learner: str | None = None  # FILE.py:NAME
    network: str | None = None  # FILE.py:FUNCTION, code that the search ran
    processes: int = 1  # that train together, each on a GPU of its own

    def check(self) -> None:
        """Refuse settings that cannot work.

        Raises:
          UserError: naming the first of them.
        """
        if self.run is None and (self.arch is None or (self.data or self.learner) is None):
            raise UserError(
                "name a network: run=<folder of a finished search>, or arch=<architecture> and data=<images>"
            )
        if self.hours is not None:
            require_hours(self.hours)
        if self.processes < 1:
            raise UserError(f"processes={self.processes} must be at least 1")
        self.chosen_recipe()
        if not 0 <= self.seed < 2**63:
            raise UserError(f"seed={self.seed} is not between 0 and {2**63 - 1}")

    def chosen_recipe(self, default: str = "nas_bench_201") -> Recipe:
        """The recipe, `default` if none is named, with the number of epochs if that is set.

        Raises:
          UserError: if there is no such recipe, or the number is below 1.
        """
        recipe = recipe_named(self.recipe or default)
        return recipe if self.epochs is None else replace(recipe, epochs=self.epochs)
