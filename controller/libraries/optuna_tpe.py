"""One TPE search (Bergstra et al., NeurIPS 2011) through Optuna's ask and tell.

Every limit is a constraint.

The sampler is a new one for each batch, seeded from the replica's own stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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

from controller.base import Choices, Score
from controller.replicated import OneSearch, ReplicaTrials

_ATTEMPTS = 20  # trials that are asked for a valid architecture before it is drawn uniformly
_INVALID = "invalid"  # user attribute of a trial whose architecture was not proposed


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
class OptunaTpe(OneSearch):
    """Maximises the accuracy where no ratio is over 1. Optuna ignores failed trials."""

    def __init__(self, space: Choices, generator: np.random.Generator) -> None:
        self._space = space
        self._generator = generator
        self._distributions: dict[str, BaseDistribution] = {
            f"{d:03d}": CategoricalDistribution(range(k)) for d, k in enumerate(space.num_choices)
        }
        with _without_notices():
            self._study = optuna.create_study(direction="maximize")
        self._pending: list[tuple[bytes, Trial]] = []  # key of each trial's architecture

    def propose(self, count: int) -> Int64[ndarray, "B D"]:
        """Next trials; Optuna's constant liar keeps them apart from pending trials."""
        self._study.sampler = _SamplerOfOneSpace(
            self._distributions,
            # with nothing else running, it would change the speed only
            constant_liar=count > 1 or bool(self._pending),
            seed=int(self._generator.integers(2**32)),
        )
        return np.array([self._ask() for _ in range(count)], np.int64)

    def _ask(self) -> Int64[ndarray, "D"]:
        """Ask for a valid architecture; a trial of an invalid one fails at once."""
        for _ in range(_ATTEMPTS):
            trial = self._study.ask(self._distributions)
            row = self._row(trial.params)
            if self._space.valid(row):
                return self._start(trial)
            trial.set_user_attr(_INVALID, value=True)
            self._study.tell(trial, state=TrialState.FAIL)
        (row,) = self._space.sample(self._generator, 1)
        self._study.enqueue_trial(self._params(row))
        return self._start(self._study.ask(self._distributions))

    def _start(self, trial: Trial) -> Int64[ndarray, "D"]:
        row = self._space.normal(self._row(trial.params))
        self._pending.append((row.tobytes(), trial))
        return row

    def learn(self, trials: ReplicaTrials, score: Score) -> None:  # noqa: ARG002 - it learns from accuracy and costs
        """Tell the study the trials, each limit as a constraint that is met at 0 and below."""
        columns = (trials.accuracy.tolist(), trials.ratios - 1, trials.failed.tolist())
        for row, accuracy, excess, failed in zip(trials.architectures, *columns, strict=True):
            trial = self._pending_with(row.tobytes())
            if trial is None:
                self._add(row, accuracy, excess, failed=failed)
            elif failed:
                self._study.tell(trial, state=TrialState.FAIL)
            else:
                for name, by in _constraints(excess).items():
                    trial.set_constraint(name, by)
                self._study.tell(trial, accuracy)

    def _add(
        self,
        row: Int64[ndarray, "D"],
        accuracy: float,
        excess: Float64[ndarray, "M"],
        *,
        failed: bool,
    ) -> None:
        """Add a trial that the study did not ask for."""
        self._study.add_trial(
            create_trial(
                state=TrialState.FAIL if failed else TrialState.COMPLETE,
                value=None if failed else accuracy,
                params=self._params(row),
                distributions=self._distributions,
                constraints=None if failed else _constraints(excess),
            )
        )

    def _row(self, params: Mapping[str, int]) -> Int64[ndarray, "D"]:
        return np.array([params[name] for name in self._distributions], np.int64)

    def _params(self, row: Int64[ndarray, "D"]) -> dict[str, int]:
        return dict(zip(self._distributions, row.tolist(), strict=True))

    def _pending_with(self, key: bytes) -> Trial | None:
        for place, (ours, trial) in enumerate(self._pending):
            if ours == key:
                del self._pending[place]
                return trial
        return None


def _constraints(excess: Float64[ndarray, "M"]) -> dict[str, float]:
    return {str(i): by for i, by in enumerate(excess.tolist())}


@contextmanager
def _without_notices() -> Iterator[None]:
    """Silence Optuna's message on standard error that a study was made."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
