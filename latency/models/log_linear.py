"""A new device's latency from a few timed networks, as a log-linear function of known devices'.

log(ms) = level + weights x standardised log(ms) of each known device, by ridge regression. Known devices
that are predicted by linear models have no noise, and what they agree on is what a network costs. It
predicts held-out devices from ten networks as well as the Gaussian process of `latency.models.process`
does (`mobilenet_v3/benchmarks/results/latency.md`), and a network without the rest of its space.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

_RIDGE = 1.0  # of standardised inputs
_LEVEL_SD = 3.0  # of the level, which is free, beside weights of 1


@final
@dataclass(frozen=True)
class LogLinear:
    """Weights of the known devices for a new one."""

    centre: Float64[ndarray, " devices"]  # of the logarithms, over a sample of the space
    spread: Float64[ndarray, " devices"]
    weights: Float64[ndarray, " devices"]
    level: float

    def predict_ms(self, known_ms: Float64[ndarray, "n devices"]) -> Float64[ndarray, " n"]:
        """Milliseconds of networks with these latencies on the known devices."""
        inputs = (np.log(known_ms) - self.centre) / self.spread
        return np.asarray(np.exp(inputs @ self.weights + self.level))


def fit(
    sample_ms: Float64[ndarray, "sample devices"],
    known_ms: Float64[ndarray, "networks devices"],
    latency_ms: Float64[ndarray, " networks"],
) -> LogLinear:
    """Fit the times of a few networks; the sample of the space says how latencies spread."""
    logs = np.log(sample_ms)
    centre, spread = logs.mean(axis=0), logs.std(axis=0)
    inputs, target = (np.log(known_ms) - centre) / spread, np.log(latency_ms)
    middle, mean = inputs.mean(axis=0), float(target.mean())
    centred = inputs - middle
    gram = centred.T @ centred + _RIDGE * np.eye(inputs.shape[1])
    weights = np.linalg.solve(gram, centred.T @ (target - mean))
    return LogLinear(centre, spread, weights, float(mean - middle @ weights))


def held_out_ms(
    sample_ms: Float64[ndarray, "sample devices"],
    known_ms: Float64[ndarray, "networks devices"],
    latency_ms: Float64[ndarray, " networks"],
) -> Float64[ndarray, " networks"]:
    """Each network predicted from the others."""
    predicted = np.empty_like(latency_ms)
    for held_out in range(len(latency_ms)):
        others = np.arange(len(latency_ms)) != held_out
        model = fit(sample_ms, known_ms[others], latency_ms[others])
        predicted[held_out] = model.predict_ms(known_ms[[held_out]])[0]
    return predicted


def choose(sample_ms: Float64[ndarray, "sample devices"], count: int) -> Int64[ndarray, " count"]:
    """Networks of the sample to time: each lowers the mean variance of all predictions most (A-optimal)."""
    logs = np.log(sample_ms)
    inputs = (logs - logs.mean(axis=0)) / logs.std(axis=0)
    inputs = np.concatenate([inputs, np.full((len(inputs), 1), _LEVEL_SD)], axis=1)
    covariance = np.eye(inputs.shape[1]) / _RIDGE
    chosen: list[int] = []
    for _ in range(count):
        across = inputs @ covariance
        variance = np.einsum("nd,nd->n", across, inputs)
        gain = ((across @ (inputs.T @ inputs)) * across).sum(axis=1) / (1 + variance)
        gain[chosen] = -1.0
        best = int(np.argmax(gain))
        covariance -= np.outer(across[best], across[best]) / (1 + variance[best])
        chosen.append(best)
    return np.array(chosen, np.int64)
