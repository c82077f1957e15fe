"""Choice of samples that keeps their mean cost within the limit, by a linear model of the cost.

After the safety layer of Dalal et al. (arXiv 1801.08757), whose linear model corrects unsafe actions;
here it chooses among several draws of the policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from controller.rows import keys_of, packed, unpacked

WINDOW = 100  # samples whose mean cost is kept within the limit
_DEVIATIONS = 0.5  # added to a predicted cost: standard deviations of the model's last errors
_MARGIN = 0.01  # share of the limit that is left free


@final
class Pacing:
    """Known and predicted costs of each replica, as a share of the limit, and its last samples."""

    def __init__(self, replicas: int, num_choices: tuple[int, ...]) -> None:
        self._positions = len(num_choices)
        exists = np.arange(max(num_choices)) < np.array(num_choices)[:, None]
        self._position, self._option = np.nonzero(exists)
        features = len(self._option)
        self._gram = np.tile(np.eye(features), (replicas, 1, 1))  # ridge regression, penalty 1
        self._moment = np.zeros((replicas, features, 1))
        self._weights = np.zeros((replicas, features, 1))
        self._costs = np.zeros((replicas, WINDOW))
        self._errors = np.zeros((replicas, WINDOW))  # 0 of samples whose cost was known
        self._known: list[dict[bytes, float]] = [{} for _ in range(replicas)]

    def _features(self, architectures: Int64[ndarray, "R B D"]) -> Float64[ndarray, "R B F"]:
        one_hot: Float64[ndarray, "R B F"] = (
            architectures[..., self._position] == self._option
        ).astype(float)
        return one_hot

    def predicted(self, architectures: Int64[ndarray, "R B D"]) -> Float64[ndarray, "R B"]:
        """Costs by the linear model."""
        return (self._features(architectures) @ self._weights)[..., 0]

    def choose(
        self,
        candidates: Int64[ndarray, "R N D"],
        count: int,
        guarded: Bool[ndarray, "R"],
    ) -> Int64[ndarray, "R B D"]:
        """Take the first candidates that are new and affordable, then known affordable ones.

        Where a replica is guarded and too few are affordable, the cheapest fill the batch.
        """
        predicted = self.predicted(candidates)
        predicted += _DEVIATIONS * self._errors.std(-1, keepdims=True)
        # sum of the window's costs that stay when the batch has 1, 2, ... samples
        leaving = np.zeros((len(guarded), count))
        leaving[:, :WINDOW] = self._costs[:, :count]
        staying = self._costs.sum(-1, keepdims=True) - leaving.cumsum(-1)
        sizes = np.maximum(WINDOW, np.arange(1, count + 1))
        affordable = np.where(guarded[:, None], sizes * (1 - _MARGIN) - staying, np.inf)
        chosen = np.empty((*candidates.shape[:1], count, self._positions), np.int64)
        for replica, rows in enumerate(candidates):
            which = self._choose(
                keys_of(rows),
                predicted[replica].tolist(),
                self._known[replica],
                affordable[replica].tolist(),
            )
            chosen[replica] = rows[which]
        return chosen

    @staticmethod
    def _choose(
        keys: list[bytes],
        costs: list[float],
        known: dict[bytes, float],
        affordable: list[float],
    ) -> list[int]:
        """Numbers of the chosen candidates, which become known.

        `affordable` is the most that the first, the first two, ... of them may cost together.
        """
        count = len(affordable)
        new = [key not in known for key in keys]
        costs = [known.get(key, cost) for key, cost in zip(keys, costs, strict=True)]
        chosen: list[int] = []
        spent, asked = 0.0, set()
        for wanted in (True, False):
            for i, key in enumerate(keys):
                if len(chosen) == count:
                    break
                fits = spent + costs[i] <= affordable[len(chosen)]
                if fits and new[i] == wanted and key not in asked:
                    chosen.append(i)
                    spent += costs[i]
                    if wanted:
                        asked.add(key)
        if len(chosen) < count:
            cheapest = sorted(set(range(len(keys))) - set(chosen), key=costs.__getitem__)
            chosen += cheapest[: count - len(chosen)]
        for i in chosen:
            known.setdefault(keys[i], costs[i])
        return chosen

    def add(self, architectures: Int64[ndarray, "R B D"], costs: Float64[ndarray, "R B"]) -> None:
        """Learn the costs of evaluated architectures, the last ones last; NaN where unknown."""
        predicted = self.predicted(architectures)
        unknown = np.isnan(costs)
        costs = np.where(unknown, predicted, costs)
        features = self._features(architectures) * ~unknown[..., None]
        transposed = features.swapaxes(-1, -2)
        self._gram += transposed @ features
        self._moment += transposed @ costs[..., None]
        self._weights[:] = np.linalg.solve(self._gram, self._moment)
        self._costs = np.concatenate([self._costs, costs], axis=1)[:, -WINDOW:]
        errors = costs - predicted
        for replica, known in enumerate(self._known):
            for i, key in enumerate(keys_of(architectures[replica])):
                if known.get(key) == costs[replica, i]:
                    errors[replica, i] = 0
                known[key] = float(costs[replica, i])
        self._errors = np.concatenate([self._errors, errors], axis=1)[:, -WINDOW:]

    def state(self) -> dict[str, ndarray]:
        """Its arrays."""
        return {
            "gram": self._gram.copy(),
            "moment": self._moment.copy(),
            "weights": self._weights.copy(),
            "window_costs": self._costs.copy(),
            "window_errors": self._errors.copy(),
            **packed("known", self._known, self._positions),
            "known_costs": np.array([cost for known in self._known for cost in known.values()]),
        }

    def restore(self, state: Mapping[str, ndarray]) -> None:
        """Go on where `state` was taken."""
        self._gram = state["gram"].copy()
        self._moment = state["moment"].copy()
        self._weights = state["weights"].copy()
        self._costs = state["window_costs"].copy()
        self._errors = state["window_errors"].copy()
        costs = iter(state["known_costs"].tolist())
        self._known = [
            {key: next(costs) for key in keys_of(rows)} for rows in unpacked("known", state)
        ]
