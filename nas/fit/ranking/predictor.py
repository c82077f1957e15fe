"""A predictor of the order of candidates, which learns from the trainings that have finished."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

_REACH, _NOISE = 3.0, 1.0
"""Settings of the Gaussian process: correlation of opposite rows, and residual variance."""


@final
@dataclass(frozen=True)
class Predictor:
    """Expected log rank of every candidate's accuracy: that by proxies, corrected by trainings.

    The best of the trained is given the best log rank that one of them has by the proxies, and so on:
    ranks among the few that were trained, which may be promising ones, are no ranks among all. A
    Gaussian process over the choices of the architectures predicts the difference.
    """

    architectures: Int64[ndarray, "n D"]  # `normal` rows
    prior: Float64[ndarray, "n"]  # log rank by proxies

    def after(
        self, trained: Int64[ndarray, "k"], accuracy: Float64[ndarray, "k"]
    ) -> Float64[ndarray, "n"]:
        """Learn from these candidates' accuracies, and predict all candidates."""
        by_proxies = self.prior[trained]
        place = np.argsort(np.argsort(accuracy, kind="stable"))
        missed = np.sort(by_proxies)[place] - by_proxies
        near = self._correlation(trained)
        gram = near[trained] + _NOISE * np.eye(len(trained))
        weights = np.linalg.solve(gram, missed - missed.mean())
        predicted: Float64[ndarray, "n"] = self.prior + missed.mean() + near @ weights
        return predicted

    def _correlation(self, trained: Int64[ndarray, "k"]) -> Float64[ndarray, "n k"]:
        """Prior correlation of every candidate with these."""
        rows = self.architectures
        differing = [(rows != rows[candidate]).mean(-1) for candidate in trained]
        return np.exp(-_REACH * np.stack(differing, axis=-1))


def log_rank(values: Float64[ndarray, "n"]) -> Float64[ndarray, "n"]:
    """log(rank / n), the best being 0; equal values share their mean rank."""
    from scipy.stats import rankdata  # noqa: PLC0415 - half a second that a table does not need

    logs: Float64[ndarray, "n"] = np.log(rankdata(values) / len(values))
    return logs
