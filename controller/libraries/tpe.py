"""Optuna's TPE (Bergstra et al., NeurIPS 2011), with every limit as a constraint."""

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
class TpeConfig(ControllerConfig):
    """Settings of TPE, by Optuna's names; conf/controller/tpe.yaml holds their defaults."""

    n_startup_trials: int  # random ones before the first model
    n_ei_candidates: int  # drawn from the model of the good trials for each choice

    def build(self, space: Choices, seeds: Sequence[int]) -> ReplicatedController:
        """Make the controller, with one replica for each seed.

        Raises:
          ValueError: if a setting lies outside its range, or Optuna is not installed.
        """
        self.require_at_least(n_startup_trials=1, n_ei_candidates=1)
        try:
            from controller.libraries.optuna_tpe import (  # noqa: PLC0415 - an extra, and slow to import
                OptunaTpe,
            )
        except ModuleNotFoundError as error:
            raise missing_extra("tpe", "Optuna") from error

        def begin(generator: np.random.Generator) -> OptunaTpe:
            return OptunaTpe(
                space,
                generator,
                n_startup_trials=self.n_startup_trials,
                n_ei_candidates=self.n_ei_candidates,
            )

        return ReplicatedController(space, begin, seeds)
