"""Ask and tell: a search whose networks a loop of the user's own evaluates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, final

import numpy as np
from jaxtyping import Int64
from numpy import ndarray

from controller.base import Controller
from edgenas.found import data_frame
from edgenas_core.command.hydra_command import user_errors
from edgenas_core.types.answers import real_numbers
from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from nas.accuracy.base import Accuracies
from nas.report.samples import record
from nas.runs.command import USER_ERRORS
from nas.trials.problem import RewardedProblem
from nas.trials.trial import State, Trials

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_MOST = 100_000
"""Architectures that may be asked for at once."""


@final
@dataclass(frozen=True)
class Suggestions:
    """Architectures that a controller proposes, as rows of choice indices, and the results that it was given."""

    problem: RewardedProblem  # `space`, `task`, and `oracle.answer(rows).ms` of the device
    controller: Controller
    _told: list[Trials] = field(default_factory=list)

    def ask(self, count: int = 1) -> Int64[ndarray, "n D"]:
        """The next architectures to evaluate; more may be asked for before the results of these are given.

        Raises:
          UserError: if the policy has diverged, or the count is none.
        """
        if not (isinstance(count, int) and 0 < count <= _MOST):
            raise UserError(f"ask({count!r:.40}) must be for 1 to {_MOST:,} architectures")
        with user_errors("nas.search", *USER_ERRORS):
            architectures: Int64[ndarray, "n D"] = self.controller.sample(count)[0]
            return architectures

    def tell(self, architectures: Int64[ndarray, "n D"], accuracy: Sequence[float]) -> None:
        """Learn the accuracies of architectures, asked before or not, in any order.

        Args:
          architectures: rows.
          accuracy: a fraction for each; NaN where the evaluation failed.

        Raises:
          UserError: if the values are none of these, or the device has no latency of a row.
        """
        problem, space = self.problem, self.problem.space
        with user_errors("nas.search", TypeError):
            shape = len(accuracy), len(space.num_choices)
        rows = real_numbers("architectures =", architectures, shape).astype(np.int64)
        if not np.array_equal(rows, architectures) or not space.valid(rows).all():
            raise UserError(f"architectures = {rows.tolist()} are not all in space={space.name}")
        fraction = real_numbers("accuracy =", accuracy, shape[:1])
        failed = np.isnan(fraction)
        if not ((fraction >= 0) & (fraction <= 1) | failed).all():
            raise UserError(f"accuracy = {fraction.tolist()} must lie between 0 and 1, or be NaN")
        if not len(rows):
            return
        kinds = np.where(failed, Kind.missing, Kind.own).astype(np.int8)
        with user_errors("nas.search", *USER_ERRORS):
            judged = problem.judge(
                sum(map(len, self._told)),
                rows[None],
                problem.oracle.answer(rows[None]),
                Accuracies(fraction[None], kinds[None]),
                np.nan,
            )
            trials = replace(
                judged,
                state=np.where(failed, State.failed, State.done).astype(np.int8)[None],
                error=np.where(failed, "no accuracy", "").astype(object)[None],
            )
            self.controller.learn(trials, problem.score)
        self._told.append(trials.replica(0))

    @property
    def best(self) -> Int64[ndarray, "D"] | None:
        """The most accurate architecture within every limit; None if there is none yet."""
        if not self._told:
            return None
        trials = Trials.joined(self._told)
        trials = trials.rows(self.problem.feasible(trials))
        return trials.architectures[trials.accuracy.argmax()] if len(trials) else None

    @property
    def trials(self) -> pa.Table:
        """All results, a row each.

        Raises:
          UserError: if there is none.
        """
        if not self._told:
            raise UserError("no result was given yet")
        return record(Trials.joined(self._told), self.problem)

    @property
    def frame(self) -> pd.DataFrame:
        """The trials as a data frame, as that of `Found`."""
        return data_frame(self.trials)
