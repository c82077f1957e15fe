"""pymoo's NSGA-II (Deb et al., IEEE TEVC 2002): a front of accuracy against every cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from controller.base import Choices, ControllerConfig
from controller.libraries.extra import missing_extra
from controller.replicated import ReplicatedController


@final
@dataclass
class Nsga2Config(ControllerConfig):
    """Settings of NSGA-II; conf/controller/nsga2.yaml holds their defaults."""

    population_size: int
    constrained: (
        bool  # the paper's section VI: an architecture within the limits dominates one beyond
    )

    def build(self, space: Choices, seeds: Sequence[int]) -> ReplicatedController:
        """Make the controller, with one replica for each seed.

        Raises:
          ValueError: if a setting lies outside its range, or pymoo is not installed.
        """
        self.require_at_least(population_size=2)
        try:
            from controller.libraries.pymoo_nsga2 import (  # noqa: PLC0415 - an extra, and slow to import
                PymooNsga2,
            )
        except ModuleNotFoundError as error:
            raise missing_extra("nsga2", "pymoo") from error

        def begin(generator: np.random.Generator) -> PymooNsga2:
            return PymooNsga2(
                space, generator, size=self.population_size, constrained=self.constrained
            )

        return ReplicatedController(space, begin, seeds)
