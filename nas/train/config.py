"""Settings of a training."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

from omegaconf import MISSING

from edgenas_core.command.bounds import require_hours
from edgenas_core.command.settings import setting
from edgenas_core.types.errors import UserError
from nas.fit.training.recipe import Recipe, recipe_named
from nas.fit.training.train_on import TrainOn


@final
@dataclass
class TrainConfig:
    """Settings of `python -m nas.train`."""

    run: str | None = setting(
        None,
        "Folder of a finished search: its best network, on its images.",
        heading="Which network (name=value)",
        unit="path",
    )
    arch: str | None = setting(
        None, "Another architecture: its text, or its number where the space has numbers."
    )
    space: str = setting(MISSING, "Search space of arch=.")
    network: str | None = setting(
        None, "FILE.py:FUNCTION that builds the network; repeat that of the search."
    )
    data: str | None = setting(
        None,
        "A folder of class folders, a .parquet file, or digits.",
        heading="On which images",
        unit="path",
    )
    task: str | None = setting(
        None,
        "What is learnt from data=; the values are those of nas.fit.",
        unset="that of the search, or classification",
    )
    learner: str | None = setting(
        None, "FILE.py:NAME of a task of your own; repeat that of the search."
    )
    side: int | None = setting(
        None, "Height and width of the images.", unit="pixels", unset="the search's, or 32"
    )
    images: TrainOn = setting(
        TrainOn.train_and_valid,
        "Images for the training. train: without the validation images, on which the accuracy is then measured after "
        "each epoch.",
    )
    recipe: str | None = setting(
        None,
        "from_scratch, nas_bench_201, modern or fine_tuning; modern:flip,crop or modern:none set the "
        "augmentation.",
        unset="from_scratch; of pretrained networks fine_tuning; of space=nas_bench_201 the benchmark's",
        heading="How",
    )
    epochs: int | None = setting(None, "Length of the training.", unset="that of the recipe")
    hours: float | None = setting(
        None,
        "Time limit of the training in hours; its epochs are reduced to meet it.",
        unset="no limit",
    )
    seed: int = setting(0, "Seed of the first weights, of the order and of the augmentation.")
    processes: int = setting(1, "Processes that train together, each on a GPU of its own.")
    accelerator: str = setting(
        "auto",
        "Processor or GPU that trains: auto, cpu, cuda or cuda:<number>; auto: a GPU if there is one.",
    )
    out: str = setting(
        "runs", "Folder of all runs, if run= is not set.", heading="Where results go", unit="path"
    )

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
