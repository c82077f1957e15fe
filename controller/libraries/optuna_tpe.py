"""One TPE search through Optuna's ask and tell.

A study is never stored: it is made again from the trials it was told. That is exact, because its
sampler is a new one for each batch, seeded from the replica's own stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, final

import numpy as np
import optuna
from jaxtyping import Float64, Int64
from numpy import ndarray
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import TPESampler
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial


class _SamplerOfOneSpace(TPESampler):
    """Optuna infers the space from all trials; known beforehand, it costs a new sampler nothing."""

    def __init__(self, space: dict[str, BaseDistribution], **settings: Any) -> None:
        super().__init__(**settings)
        self._space = {name: kind for name, kind in space.items() if not kind.single()}

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """All positions that leave a choice."""
        del study, trial
        return self._space


@final
class OptunaTpe:
    """Maximises the accuracy where no ratio is over 1."""

    def __init__(
        self,
        num_choices: Sequence[int],
        generator: np.random.Generator,
        *,
        n_startup_trials: int,
        n_ei_candidates: int,
    ) -> None:
        self._generator = generator
        self._n_startup_trials = n_startup_trials
        self._n_ei_candidates = n_ei_candidates
        self._distributions: dict[str, BaseDistribution] = {
            f"{d:03d}": CategoricalDistribution(range(k)) for d, k in enumerate(num_choices)
        }
        self._begin()

    def _begin(self) -> None:
        with _without_notices():
            self._study = optuna.create_study(direction="maximize")
        self._asked: list[Trial] = []

    @property
    def shapes(self) -> Mapping[str, tuple[int | None, ...]]:
        """Names and shapes of the arrays of the state."""
        positions = len(self._distributions)
        return {"told": (None, positions), "told_accuracy": (None,), "told_excess": (None, None)}

    def propose(self, count: int) -> Int64[ndarray, "B D"]:
        """The next trials; those of one batch keep apart by Optuna's constant liar."""
        self._study.sampler = _SamplerOfOneSpace(
            self._distributions,
            constant_liar=count > 1,  # with nothing else running, it would change the speed only
            n_startup_trials=self._n_startup_trials,
            n_ei_candidates=self._n_ei_candidates,
            seed=int(self._generator.integers(2**32)),
        )
        asked = [self._study.ask(self._distributions) for _ in range(count)]
        self._asked += asked
        return np.array([self._choices(trial.params) for trial in asked], np.int64)

    def learn(
        self,
        architectures: Int64[ndarray, "B D"],
        accuracy: Float64[ndarray, "B"],
        ratios: Float64[ndarray, "B L"],
    ) -> None:
        """Tell the trials, each limit as a constraint that is met at 0 and below."""
        self._tell(architectures, accuracy, ratios - 1)

    def _tell(
        self,
        architectures: Int64[ndarray, "B D"],
        accuracy: Float64[ndarray, "B"],
        excess: Float64[ndarray, "B L"],
    ) -> None:
        told = zip(architectures.tolist(), accuracy.tolist(), excess.tolist(), strict=True)
        for choices, value, beyond in told:
            params = dict(zip(self._distributions, choices, strict=True))
            constraints = {str(i): by for i, by in enumerate(beyond)}
            trial = self._asked_with(params)
            if trial is None:
                self._study.add_trial(
                    create_trial(
                        value=value,
                        params=params,
                        distributions=self._distributions,
                        constraints=constraints,
                    )
                )
                continue
            for name, by in constraints.items():
                trial.set_constraint(name, by)
            self._study.tell(trial, value)

    def state(self) -> dict[str, ndarray]:
        """The trials that were told, in their order."""
        trials = self._study.get_trials(deepcopy=False, states=[TrialState.COMPLETE])
        told = np.array([self._choices(trial.params) for trial in trials], np.int64)
        excess = np.array([list(trial.constraints.values()) for trial in trials], float)
        return {
            "told": told.reshape(len(trials), len(self._distributions)),
            "told_accuracy": np.array([trial.value for trial in trials], float),
            "told_excess": excess.reshape(len(trials), -1 if excess.size else 0),
        }

    def restore(self, state: Mapping[str, ndarray]) -> None:
        """A new study that is told the same trials."""
        self._begin()
        self._tell(state["told"], state["told_accuracy"], state["told_excess"])

    def _choices(self, params: Mapping[str, int]) -> list[int]:
        return [params[name] for name in self._distributions]

    def _asked_with(self, params: Mapping[str, int]) -> Trial | None:
        for place, trial in enumerate(self._asked):
            if trial.params == params:
                return self._asked.pop(place)
        return None


@contextmanager
def _without_notices() -> Iterator[None]:
    """Optuna tells on standard error that a study was made."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
