"""The next queries, and the room that the limits leave for them.

The most promising architecture is often beyond a limit. Evaluating it is fine now and then, but
the mean cost of the samples is to stay within every limit. So each replica keeps an account of its
last samples, plans one query that may be expensive and one that is expected to be within the
limits, and where there is room for neither makes room by repeating the best it knows, which costs
no query.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from controller.rows import keys_of

NONE = -1  # in the first position: no architecture
_ARRAYS = ("queries", "query_costs", "best", "best_cost", "spent", "samples")


@final
class QueryPlan:
    """The next `depth` queries of each of R replicas. A cost is the largest share of its limit."""

    def __init__(
        self, replicas: int, positions: int, *, depth: int, window: int, margin: float
    ) -> None:
        self._target = 1 - margin
        # the most promising, and the most promising within the limits
        self.queries = np.full((replicas, depth, 2, positions), NONE)
        self.query_costs = np.zeros((replicas, depth, 2))  # expected
        self.best = np.full((replicas, positions), NONE)  # known
        self.best_cost = np.full(replicas, np.inf)
        self.spent = np.zeros((replicas, window))  # costs of the last samples; 0 before any
        self.samples = np.zeros(replicas, np.int64)  # number of samples in the account so far

    def make(
        self,
        replica: int,
        queries: Int64[ndarray, "n D"],
        costs: Float64[ndarray, "n"],
        best: Int64[ndarray, "D"],
        best_cost: float,
    ) -> None:
        """Plan the first of these queries; `costs` are the expected ones."""
        self.queries[replica] = NONE
        for kind, most in enumerate((np.inf, self._target)):
            chosen = np.flatnonzero(costs <= most)[: self.queries.shape[1]]
            self.queries[replica, : len(chosen), kind] = queries[chosen]
            self.query_costs[replica, : len(chosen), kind] = costs[chosen]
        self.best[replica], self.best_cost[replica] = best, best_cost

    def book(self, replica: int, costs: Float64[ndarray, "B"]) -> None:
        """Enter the costs of samples into the account, from the first plan on."""
        if self.best[replica, 0] != NONE:
            window = self.spent.shape[1]
            self.spent[replica] = np.append(self.spent[replica], costs)[-window:]
            self.samples[replica] += len(costs)

    def affordable(
        self, count: int, pending: Sequence[Collection[bytes]]
    ) -> Int64[ndarray, "R B D"]:
        """Up to `count` queries there is room for now; NONE where nothing is planned.

        `pending` are the keys of architectures whose trials each replica waits for.
        """
        queries, costs = self.queries, self.query_costs
        if any(pending):
            queries, costs = self._without(pending)
        queries, costs = queries[:, :count], costs[:, :count]
        length = np.minimum(self.samples + 1, self.spent.shape[1])
        room = self._target * length - self.spent[:, 1:].sum(-1)
        fits = (costs <= room[:, None, None])[..., None]
        makes_room = (costs[..., 1] <= self.best_cost[:, None])[..., None]
        within = np.where(fits[..., 1, :] | makes_room, queries[..., 1, :], self.best[:, None])
        found: Int64[ndarray, "R B D"] = np.where(fits[..., 0, :], queries[..., 0, :], within)
        return found

    def _without(
        self, pending: Sequence[Collection[bytes]]
    ) -> tuple[Int64[ndarray, "R N 2 D"], Float64[ndarray, "R N 2"]]:
        """The planned queries and their costs, without those that are pending."""
        queries, costs = np.full_like(self.queries, NONE), np.zeros_like(self.query_costs)
        for replica, waiting in enumerate(pending):
            for kind in (0, 1):
                planned = self.queries[replica, :, kind]
                free = np.array([key not in waiting for key in keys_of(planned)])
                queries[replica, : free.sum(), kind] = planned[free]
                costs[replica, : free.sum(), kind] = self.query_costs[replica, free, kind]
        return queries, costs

    def state(self) -> dict[str, ndarray]:
        """The plan and the account."""
        return {f"plan_{name}": getattr(self, name).copy() for name in _ARRAYS}

    def restore(self, state: Mapping[str, ndarray]) -> None:
        """Go on where `state` was taken."""
        for name in _ARRAYS:
            setattr(self, name, state[f"plan_{name}"].copy())
