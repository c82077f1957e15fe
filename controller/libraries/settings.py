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
    """Settings of Optuna's TPE, which has its own defaults."""

    def build(self, space: Choices, seeds: Sequence[int]) -> ReplicatedController:
        """Make the controller, with one replica for each seed.

        Raises:
          ValueError: if Optuna is not installed.
        """
        with _extra("tpe", "Optuna"):
            from controller.libraries.optuna_tpe import OptunaTpe  # noqa: PLC0415 - an extra
        return ReplicatedController(space, partial(OptunaTpe, space), seeds)


@final
@dataclass
class Nsga2Config(ControllerConfig):
    """Settings of pymoo's NSGA-II."""

    population_size = 50

    def search_front(self) -> None:
        """Keep the settings: the front is all that it searches for."""

    def build(self, space: Choices, seeds: Sequence[int]) -> ReplicatedController:
        """Make the controller, with one replica for each seed.

        Raises:
          ValueError: if pymoo is not installed.
        """
        with _extra("nsga2", "pymoo"):
            from controller.libraries.pymoo_nsga2 import PymooNsga2  # noqa: PLC0415 - an extra
        search = partial(PymooNsga2, space, size=self.population_size)
        return ReplicatedController(space, search, seeds)
