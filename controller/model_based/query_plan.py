"""What to ask for next, and when the limits leave room for it.

What promises most often lies beyond a limit. Asking for it is fine now and then, but the mean cost
of what a policy samples is to stay within every limit. So each replica keeps an account of its last
samples, plans one query that may be dear and one that is expected to be within the limits, and
where there is room for neither makes room by repeating the best it knows, which costs no query.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

NONE = -1  # no architecture
_ARRAYS = ("queries", "query_costs", "best", "best_cost", "spent", "samples")


@final
class QueryPlan:
    """B queries of each of R replicas, by number. A cost is the largest share of its limit."""

    def __init__(self, replicas: int, batch_size: int, window: int, margin: float) -> None:
        self._target = 1 - margin
        # the most promising, and the most promising within the limits
        self.queries = np.full((replicas, batch_size, 2), NONE)
        self.query_costs = np.zeros((replicas, batch_size, 2))  # as is expected
        self.best = np.full(replicas, NONE)  # known
        self.best_cost = np.full(replicas, np.inf)
        self.spent = np.zeros((replicas, window))  # costs of the last samples; 0 before any
        self.samples = np.zeros(replicas, np.int64)  # how many have been booked

    def make(
        self,
        replica: int,
        queries: Int64[ndarray, "n"],
        costs: Float64[ndarray, "n"],
        best: int,
        best_cost: float,
    ) -> None:
        """Plan the first of these queries, which come with the costs that are expected of them."""
        self.queries[replica] = NONE
        for kind, most in enumerate((np.inf, self._target)):
            chosen = np.flatnonzero(costs <= most)[: self.queries.shape[1]]
            self.queries[replica, : len(chosen), kind] = queries[chosen]
            self.query_costs[replica, : len(chosen), kind] = costs[chosen]
        self.best[replica], self.best_cost[replica] = best, best_cost

    def book(self, replica: int, costs: Float64[ndarray, "B"]) -> None:
        """Take in what samples have cost, from the first plan on."""
        if self.best[replica] != NONE:
            window = self.spent.shape[1]
            self.spent[replica] = np.append(self.spent[replica], costs)[-window:]
            self.samples[replica] += len(costs)

    def affordable(self) -> Int64[ndarray, "R B"]:
        """What there is room for now; NONE where nothing is planned."""
        length = np.minimum(self.samples + 1, self.spent.shape[1])
        room = self._target * length - self.spent[:, 1:].sum(-1)
        fits = self.query_costs <= room[:, None, None]
        makes_room = self.query_costs[..., 1] <= self.best_cost[:, None]
        within = np.where(fits[..., 1] | makes_room, self.queries[..., 1], self.best[:, None])
        found: Int64[ndarray, "R B"] = np.where(fits[..., 0], self.queries[..., 0], within)
        return found

    def state(self) -> dict[str, ndarray]:
        """The plan and the account."""
        return {f"plan_{name}": getattr(self, name).copy() for name in _ARRAYS}

    def restore(self, state: Mapping[str, ndarray]) -> None:
        """Plan what was planned when `state` was taken."""
        for name in _ARRAYS:
            setattr(self, name, state[f"plan_{name}"].copy())
