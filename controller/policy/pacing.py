"""Choice among the policy's draws that keeps the mean cost of the last 100 samples within the limit.

The cost of an architecture, as a share of the limit, is modelled by ridge regression on one-hot choices,

    c(x) = w . phi(x),    w = (I + sum_i phi(x_i) phi(x_i)^T)^-1 sum_i c_i phi(x_i).

With e the model's root mean square error on new samples, a candidate is predicted to cost c(x) + e. A batch of b
samples is affordable if the sum of its predicted costs and of the last 100 - b known costs is at most
0.98 * max(100, b). The idea follows the safety layer of Dalal et al. (arXiv 1801.08757), whose linear model
corrects unsafe actions; here the model only chooses among several draws.
"""

from __future__ import annotations

from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from controller.rows import keys_of

WINDOW = 100  # samples whose mean cost is kept within the limit
_MARGIN = 0.02  # share of the limit that is kept free


@final
class Pacing:
    """Known and predicted costs of each replica, as shares of the limit, and the costs of its last samples."""

    def __init__(self, replicas: int, num_choices: tuple[int, ...]) -> None:
        self._positions = len(num_choices)
        exists = np.arange(max(num_choices)) < np.array(num_choices)[:, None]
        self._position, self._option = np.nonzero(exists)
        features = len(self._option)
        self._gram = np.tile(np.eye(features), (replicas, 1, 1))  # ridge regression, penalty 1
        self._moment = np.zeros((replicas, features, 1))
        self._weights = np.zeros((replicas, features, 1))
        self._costs = np.zeros((replicas, WINDOW))
        self._squared_error = np.zeros(replicas)  # of the model, mean over about WINDOW new samples
        self._known: list[dict[bytes, float]] = [{} for _ in range(replicas)]

    def _features(self, architectures: Int64[ndarray, "*n D"]) -> Float64[ndarray, "*n F"]:
        one_hot: Float64[ndarray, "*n F"] = (
            architectures[..., self._position] == self._option
        ).astype(float)
        return one_hot

    def predict(self, architectures: Int64[ndarray, "R B D"]) -> Float64[ndarray, "R B"]:
        """Costs by the linear model."""
        return (self._features(architectures) @ self._weights)[..., 0]

    def worth_asking(
        self, replica: int, architectures: Int64[ndarray, "n D"]
    ) -> Bool[ndarray, "n"]:
        """True where an architecture is new and predicted to cost at most 1 + e."""
        costs = self._known[replica]
        predicted = self._features(architectures) @ self._weights[replica, :, 0]
        worth: Bool[ndarray, "n"] = predicted <= 1 + np.sqrt(self._squared_error[replica])
        worth &= np.array([key not in costs for key in keys_of(architectures)], bool)
        return worth

    def choose(
        self,
        candidates: Int64[ndarray, "R N D"],
        count: int,
        guarded: Bool[ndarray, "R"],
    ) -> Int64[ndarray, "R B D"]:
        """Choose `count` candidates of each replica: new affordable ones first, then known affordable ones.

        Replicas that are not `guarded` afford any cost. If too few candidates are affordable, those that cost
        less than the last candidate fill the batch, in order of cost, and then the last candidate, repeated.
        """
        predicted = self.predict(candidates)
        predicted += np.sqrt(self._squared_error)[:, None]
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
        cost_of: dict[bytes, float],
        affordable: list[float],
    ) -> list[int]:
        """Indices of the chosen candidates, whose costs become known.

        `affordable[i]` is the most that the first i + 1 of them may cost together.
        """
        count = len(affordable)
        new = [key not in cost_of for key in keys]
        costs = [cost_of.get(key, cost) for key, cost in zip(keys, costs, strict=True)]
        chosen: list[int] = []
        spent, asked = 0.0, set()
        # affordable candidates, new ones first
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
        # the cheapest of the others
        if len(chosen) < count:
            last = len(keys) - 1
            others = sorted(set(range(last)) - set(chosen), key=costs.__getitem__)
            cheaper = [i for i in others if costs[i] < costs[last]]
            chosen += (cheaper + [last] * count)[: count - len(chosen)]
        for i in chosen:
            cost_of.setdefault(keys[i], costs[i])
        return chosen

    def add(self, architectures: Int64[ndarray, "R B D"], costs: Float64[ndarray, "R B"]) -> None:
        """Update the model with the costs of evaluated architectures, oldest first; NaN where unknown."""
        predicted = self.predict(architectures)
        unknown = np.isnan(costs)
        costs = np.where(unknown, predicted, costs)
        features = self._features(architectures) * ~unknown[..., None]
        transposed = features.swapaxes(-1, -2)
        self._gram += transposed @ features
        self._moment += transposed @ costs[..., None]
        self._weights[:] = np.linalg.solve(self._gram, self._moment)
        self._costs = np.concatenate([self._costs, costs], axis=1)[:, -WINDOW:]
        new = np.zeros(costs.shape, bool)
        for replica, cost_of in enumerate(self._known):
            for i, key in enumerate(keys_of(architectures[replica])):
                new[replica, i] = not unknown[replica, i] and cost_of.get(key) != costs[replica, i]
                cost_of[key] = float(costs[replica, i])
        number = new.sum(-1)
        error = ((costs - predicted) ** 2 * new).sum(-1) / np.maximum(number, 1)
        self._squared_error += np.minimum(number / WINDOW, 1) * (error - self._squared_error)
