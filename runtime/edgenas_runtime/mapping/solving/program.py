"""The 0/1 program of a mapping (R. Pujol Torramorell, MSc thesis, UPC/BSC, 2020, section 5.2).

Each network has one place, and the times on each unit sum to at most the frame. The source states the
mutual exclusion of configurations in words only; here a network loads every unit of its place (gang
scheduling). The linear relaxation is solved first: it is fast, and if it is infeasible so is the
program.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from edgenas_runtime.mapping.model.choices import MappingChoices, frame_loads, interchangeable_units

TIME_LIMIT_S = 3.0
"""Time limit of the solver, after which the answer is unknown."""

ROUNDING_MS = 1e-3
"""Tolerated excess over the frame: the solver treats a fraction of 1e-6 as 0."""

_TIME_IS_UP = 1
_INFEASIBLE = 2


class Feasibility(Enum):
    """Whether the networks fit into the frame."""

    feasible = "feasible"
    infeasible = "infeasible"  # proven
    unknown = "unknown"  # the time limit was reached


@final
@dataclass(frozen=True)
class Solution:
    """Answer of the solver, with a mapping if the networks fit."""

    answer: Feasibility
    chosen: Int64[ndarray, " networks"] | None = None
    """Index of the place of each network; None without a mapping."""
    slack_ms: float = 0.0
    """Slack for one more network, if requested."""
    bound_ms: float = 0.0
    """Upper bound on the slack; larger than it only if the time limit was reached."""


def solve(
    choices: MappingChoices,
    frame_ms: float,
    *,
    any_will_do: bool = False,
    time_limit_s: float = TIME_LIMIT_S,
) -> Solution:
    """Find the mapping with the least sum of times (the source's objective), or any mapping."""
    if not len(choices.ms):
        return Solution(Feasibility.feasible, np.zeros(0, np.int64))
    program = _Program(choices, frame_ms)
    if program.is_infeasible:
        return Solution(Feasibility.infeasible)
    program.break_symmetry()
    weight = 0.0 if any_will_do else 1.0
    return program.solved(weight * program.ms, time_limit_s)


def maximise_slack(
    choices: MappingChoices,
    frame_ms: float,
    place: Bool[ndarray, " units"],
    *,
    time_limit_s: float = TIME_LIMIT_S,
) -> Solution:
    """Find the largest slack for one more network at a place, over all mappings of the others.

    `place` is the mask of the units that the additional network would occupy. After the time limit
    `slack_ms` is the best found, and `bound_ms` its upper bound.
    """
    if not len(choices.ms):
        return Solution(Feasibility.feasible, np.zeros(0, np.int64), frame_ms, frame_ms)
    program = _Program(choices, frame_ms, place)
    program.break_symmetry()
    return program.solved(np.zeros(len(program.ms)), time_limit_s)


@final
class _Program:
    """Columns: each network at each of its places, and the slack if it is requested."""

    def __init__(
        self, choices: MappingChoices, frame_ms: float, place: Bool[ndarray, " units"] | None = None
    ) -> None:
        self._among, self._frame_ms, self._place = choices, frame_ms, place
        self._network, self._at = np.nonzero(choices.ms <= frame_ms)
        self.ms = choices.ms[self._network, self._at]
        networks, units = len(choices.ms), len(choices.platform.units)
        columns = len(self.ms) + (place is not None)
        once = np.zeros((networks, columns))
        once[self._network, np.arange(len(self.ms))] = 1
        loads = np.zeros((units, columns))
        loads[:, : len(self.ms)] = (choices.occupies[self._at] * self.ms[:, None]).T
        if place is not None:
            loads[:, -1] = place
        self._rows = [(once, 1.0, 1.0), (loads, -np.inf, frame_ms)]
        self._loads = loads
        self._has_homeless = len(np.unique(self._network)) < networks

    @property
    def is_infeasible(self) -> bool:
        """Whether the linear relaxation is infeasible."""
        if self._has_homeless:
            return True
        columns = self._loads.shape[1]
        return int(self._run(np.zeros(columns), np.zeros(columns), 60.0).status) == _INFEASIBLE

    def break_symmetry(self) -> None:
        """Order the loads of interchangeable units, so that the first has the largest."""
        names = self._among.platform.configurations
        for group in interchangeable_units(self._among.platform, [*names]):
            if self._place is not None and len({*self._place[group]}) > 1:
                continue  # the slack distinguishes them
            order = np.diff(self._loads[group], axis=0)
            self._rows.append((order, -np.inf, 0.0))

    def solved(self, cost: Float64[ndarray, " columns"], time_limit_s: float) -> Solution:
        """Solve the integer program at minimum cost; the slack has a negative cost."""
        has_more = self._place is not None
        whole = np.ones(len(self.ms))
        if has_more:
            cost, whole = np.append(cost, -1.0), np.append(whole, 0.0)
        result = self._run(cost, whole, time_limit_s)
        if result.x is None:
            is_none = int(result.status) == _INFEASIBLE
            return Solution(Feasibility.infeasible if is_none else Feasibility.unknown)
        taken = result.x[: len(self.ms)] > 0.5
        chosen = np.zeros(len(self._among.ms), np.int64)
        chosen[self._network[taken]] = self._at[taken]
        loads_ms = frame_loads(chosen, self._among)
        if loads_ms.max() > self._frame_ms + ROUNDING_MS:
            raise RuntimeError(
                f"the solver's mapping occupies a unit for {loads_ms.max()} ms of {self._frame_ms}"
            )
        if self._place is None:
            return Solution(Feasibility.feasible, chosen)
        slack_ms = max(0.0, float(self._frame_ms - loads_ms[self._place].max()))
        bound_ms = slack_ms
        if int(result.status) == _TIME_IS_UP:
            bound_ms = max(slack_ms, float(-result.mip_dual_bound))
        return Solution(Feasibility.feasible, chosen, slack_ms, bound_ms)

    def _run(
        self,
        cost: Float64[ndarray, " columns"],
        whole: Float64[ndarray, " columns"],
        limit_s: float,
    ) -> Any:
        from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415 - half a second

        most = np.ones(len(cost))
        if self._place is not None:
            most[-1] = self._frame_ms
        return milp(
            cost,
            integrality=whole,
            bounds=Bounds(0, most),
            constraints=[LinearConstraint(*rows) for rows in self._rows],
            options={"time_limit": limit_s, "mip_rel_gap": 0},
        )
