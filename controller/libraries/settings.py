"""Settings of the searchers of other libraries, which are an extra and slow to import."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import final

from controller.base import Choices, ControllerConfig
from controller.replicated import ReplicatedController
from edgenas_core.command.plug_ins import how_to_install


@contextmanager
def _extra(controller: str, library: str) -> Iterator[None]:
    """Name the extra where the library is not installed; ValueError says so."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ValueError(
            f"controller={controller} needs {library}, which is not installed; "
            f"{how_to_install('searchers')}"
        ) from error


@final
@dataclass
class TpeConfig(ControllerConfig):
    """Settings of Optuna's TPE, by its names; conf/controller/tpe.yaml holds their defaults."""

    n_startup_trials: int  # random ones before the first model
    n_ei_candidates: int  # drawn from the model of the good trials for each choice

    def build(self, space: Choices, seeds: Sequence[int]) -> ReplicatedController:
        """Make the controller, with one replica for each seed.

        Raises:
          ValueError: if a setting lies outside its range, or Optuna is not installed.
        """
        self.require_at_least(n_startup_trials=1, n_ei_candidates=1)
        with _extra("tpe", "Optuna"):
            from controller.libraries.optuna_tpe import OptunaTpe  # noqa: PLC0415 - an extra
        search = partial(
            OptunaTpe,
            space,
            n_startup_trials=self.n_startup_trials,
            n_ei_candidates=self.n_ei_candidates,
        )
        return ReplicatedController(space, search, seeds)


@final
@dataclass
class Nsga2Config(ControllerConfig):
    """Settings of pymoo's NSGA-II; conf/controller/nsga2.yaml holds their defaults."""

    population_size: int
    constrained: bool  # an architecture within the limits dominates one beyond (Deb, section VI)

    def search_front(self) -> None:
        """Keep the settings: the front is all that it searches for."""

    def build(self, space: Choices, seeds: Sequence[int]) -> ReplicatedController:
        """Make the controller, with one replica for each seed.

        Raises:
          ValueError: if a setting lies outside its range, or pymoo is not installed.
        """
        self.require_at_least(population_size=2)
        with _extra("nsga2", "pymoo"):
            from controller.libraries.pymoo_nsga2 import PymooNsga2  # noqa: PLC0415 - an extra
        search = partial(PymooNsga2, space, size=self.population_size, constrained=self.constrained)
        return ReplicatedController(space, search, seeds)
