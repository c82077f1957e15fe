"""A predictor of the order of candidates, which learns from the trainings that have finished."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from controller.model_based.gaussian_process import GaussianProcess

_REACH, _NOISE = 3.0, 0.3
"""Of the Gaussian process: correlation of opposite rows, and residual variance."""

_SHRINKAGE = 0.05
"""Variance of the prior, per training, at which its slope is halved."""


@final
@dataclass(frozen=True)
class Predictor:
    """Expected log rank of every candidate's accuracy.

    The log rank is regressed on the proxies' sum of log ranks; a Gaussian process over the choices
    of the architectures predicts what that leaves.
    """

    architectures: Int64[ndarray, "n D"]  # `normal` rows
    prior: Float64[ndarray, "n"]  # log rank by proxies

    def after(
        self, trained: Int64[ndarray, "k"], accuracy: Float64[ndarray, "k"]
    ) -> Float64[ndarray, "n"]:
        """Learn from these candidates' accuracies, and predict all candidates."""
        values = log_rank(accuracy)
        prior = self.prior - self.prior[trained].mean()
        x, y = prior[trained], values - values.mean()
        slope = float(x @ y) / float(x @ x + _SHRINKAGE * len(x))
        process = GaussianProcess(self.architectures.shape[1], _REACH, _NOISE)
        for row in self.architectures[trained]:
            process.add(row)
        process.fit((y - slope * x)[:, None])
        left: Float64[ndarray, "n"] = process.predict(self.architectures)[:, 0]
        predicted: Float64[ndarray, "n"] = values.mean() + slope * prior + left
        return predicted


def log_rank(values: Float64[ndarray, "n"]) -> Float64[ndarray, "n"]:
    """log(rank / n), the best being 0; equal values share their mean rank."""
    from scipy.stats import rankdata  # noqa: PLC0415 - half a second that a table does not need

    logs: Float64[ndarray, "n"] = np.log(rankdata(values) / len(values))
    return logs
