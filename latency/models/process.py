"""A new device from a few timed cells: what other devices have in common, as a Gaussian process.

The logarithm of a device's latency is taken for a draw from a process over cells. Its mean is the
mean of the known devices. Its covariance is what they differ in (Bonilla et al., NeurIPS 2007, with
an empirical covariance) and, for a device that differs otherwise, a kernel over what cells consist
of; what that is, the caller says. The level of a device is free: it comes from its probes alone.

Every constant was chosen by predicting HELP's nine training devices from each other and its four
validation devices from them (`benchmarks/results/transfer.md`); around these values the error hardly moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

FEWEST_PROBES = 3
"""Fewer leave nothing to hold out."""

_SHAPE_SD = 0.5  # of the factor that stretches the mean of the known devices, around 1
_DIFFERENCE_SD = 0.5  # of a device along what known ones differ in, in their standard deviations
_COUNTS_SD, _COUNTS_LENGTH = 0.1, 5.0
_KNOWN_SD, _KNOWN_LENGTH = 0.1, 2.0  # smooth, not linear, in what known devices say of a cell

_NOISES = (0.02, 0.04, 0.08, 0.16, 0.3)  # of one time, relative
_SCALES = (0.5, 1.0, 2.0)  # how far this device is from what is expected
_DESIGN_NOISE = 0.1
_DESIGN_LEVEL_SD = 3.0
_DESIGN_CELLS = 1500  # that the designed probes are to predict
_MOST_FOLDS = 20
_SEED = 201

_Z_90 = 1.645  # of a normal distribution
_UNLIKE_QUANTILE = 0.95


@final
@dataclass(frozen=True)
class Prior:
    """What is expected of a new device at some cells, before its first probe."""

    mean: Float64[ndarray, " n"]  # of the logarithm, up to the device's level
    linear: Float64[ndarray, "n features"]
    counts: Float64[ndarray, "n counts"]
    known: Float64[ndarray, "n known"]

    def covariance(self, others: Prior) -> Float64[ndarray, "n others"]:
        """Of these cells with others, both of the same known devices."""
        return np.asarray(
            self.linear @ others.linear.T
            + _COUNTS_SD**2 * _bell(self.counts, others.counts, _COUNTS_LENGTH)
            + _KNOWN_SD**2 * _bell(self.known, others.known, _KNOWN_LENGTH)
        )

    @property
    def variance(self) -> Float64[ndarray, " n"]:
        """The diagonal of the covariance of these cells with themselves."""
        return np.asarray((self.linear**2).sum(axis=1) + _COUNTS_SD**2 + _KNOWN_SD**2)


@final
@dataclass(frozen=True)
class HeldOut:
    """The probes, each predicted from the others."""

    predicted_ms: Float64[ndarray, " probes"]
    latency_ms: Float64[ndarray, " probes"]
    inside: Bool[ndarray, " probes"]  # whether the time lay in its interval

    @property
    def rms(self) -> float:
        """Root mean square of the error of the logarithm."""
        return float(np.sqrt((np.log(self.predicted_ms / self.latency_ms) ** 2).mean()))


@final
@dataclass(frozen=True)
class Transfer:
    """The prediction for every cell, with an interval that holds 90 % of single times."""

    latency_ms: Float64[ndarray, " cells"]
    low_ms: Float64[ndarray, " cells"]
    high_ms: Float64[ndarray, " cells"]


@final
@dataclass(frozen=True)
class Known:
    """Devices whose latencies are known, and what the cells consist of."""

    boards: tuple[str, ...]  # one a device; several devices may share one
    log_ms: Float64[ndarray, "devices cells"]
    linear: Float64[ndarray, "cells features"]  # unit weight is the standard deviation expected
    counts: Float64[ndarray, "cells counts"]
    wanted: Bool[ndarray, " cells"]  # which cells the probes are chosen for
    eligible: Bool[ndarray, " cells"]  # which cells may be probes

    @cached_property
    def _centred(self) -> Float64[ndarray, "devices cells"]:
        return np.asarray(self.log_ms - self.log_ms.mean(axis=1, keepdims=True))

    @cached_property
    def _gram(self) -> Float64[ndarray, "devices devices"]:
        return np.asarray(self._centred @ self._centred.T)

    def prior(
        self, cells: Int64[ndarray, " n"], devices: Int64[ndarray, " some"] | None = None
    ) -> Prior:
        """The prior at some cells, of some of the devices or of all."""
        devices = np.arange(len(self.boards)) if devices is None else devices
        many = len(devices)
        gram = self._gram[np.ix_(devices, devices)]
        differ = np.eye(many) - 1 / many
        variances, directions = np.linalg.eigh(differ @ gram @ differ)
        kept = variances > 1e-9 * max(variances[-1], 1e-300)
        spread = np.sqrt(gram.mean() / self.log_ms.shape[1])  # of the mean over cells

        here = self._centred[np.ix_(devices, cells)]
        mean = here.mean(axis=0)
        differences = (here - mean).T @ directions[:, kept] / np.sqrt(max(many - 1, 1))
        return Prior(
            mean=mean,
            linear=np.concatenate(
                [
                    self.linear[cells],
                    _SHAPE_SD * mean[:, None],
                    _DIFFERENCE_SD * differences,
                ],
                axis=1,
            ),
            counts=self.counts[cells],
            known=np.concatenate([mean[:, None], differences], axis=1) / spread,
        )

    @cached_property
    def _everywhere(self) -> Prior:
        return self.prior(np.arange(self.log_ms.shape[1]))

    def choose(self, probes: int, seed: int = _SEED) -> Int64[ndarray, " probes"]:
        """Cells to time: each lowers the variance left in the space most, after those before it.

        Sequential A-optimal design of the process, over a sample of the wanted cells that the seed
        draws.

        Raises:
          ValueError: if there are fewer eligible cells.
        """
        candidates = np.flatnonzero(self.eligible)
        if probes > len(candidates):
            raise ValueError(f"{probes} probes of {len(candidates)} cells that may be probes")
        rng = np.random.default_rng(seed)
        wanted = np.flatnonzero(self.wanted)
        targets = rng.choice(wanted, min(_DESIGN_CELLS, len(wanted)), replace=False)
        prior = self.prior(candidates)
        level = _DESIGN_LEVEL_SD**2
        with_targets = self.prior(targets).covariance(prior) + level
        left = prior.variance + level
        chosen: list[int] = []
        columns = np.zeros((len(candidates), 0))
        for _ in range(probes):
            gain = np.einsum("tc,tc->c", with_targets, with_targets) / (left + _DESIGN_NOISE**2)
            gain[chosen] = -1.0
            best = int(np.argmax(gain))
            one = self.prior(candidates[[best]])
            with_best = one.covariance(prior)[0] + level - columns @ columns[best]
            total = left[best] + _DESIGN_NOISE**2
            with_targets -= np.outer(with_targets[:, best] / total, with_best)
            left = left - with_best**2 / total
            columns = np.concatenate([columns, (with_best / np.sqrt(total))[:, None]], axis=1)
            chosen.append(best)
        return np.asarray(candidates[chosen])

    def transfer(
        self, cells: Int64[ndarray, " probes"], latency_ms: Float64[ndarray, " probes"]
    ) -> Transfer:
        """Predict every cell from the times of a few."""
        mean, sd = _posterior(self.prior(cells), np.log(latency_ms), self._everywhere)
        return Transfer(np.exp(mean), np.exp(mean - _Z_90 * sd), np.exp(mean + _Z_90 * sd))

    def held_out(
        self,
        cells: Int64[ndarray, " probes"],
        latency_ms: Float64[ndarray, " probes"],
        devices: Int64[ndarray, " some"] | None = None,
    ) -> HeldOut:
        """Predict each probe from the others; beyond 20 probes, from those outside its fold."""
        prior, log_ms = self.prior(cells, devices), np.log(latency_ms)
        fold = np.arange(len(cells)) % _MOST_FOLDS
        mean, sd = np.empty_like(log_ms), np.empty_like(log_ms)
        for out in (fold == number for number in np.unique(fold)):
            rest = _rows(prior, ~out)
            mean[out], sd[out] = _posterior(rest, log_ms[~out], _rows(prior, out))
        return HeldOut(np.exp(mean), latency_ms, np.abs(log_ms - mean) <= _Z_90 * sd)

    def held_out_of_known(self, cells: Int64[ndarray, " probes"]) -> Float64[ndarray, " devices"]:
        """`HeldOut.rms` of each known device at these probes, were its board not known."""
        boards = np.array(self.boards)
        return np.array(
            [
                self.held_out(
                    cells, np.exp(self.log_ms[device, cells]), np.flatnonzero(boards != board)
                ).rms
                for device, board in enumerate(self.boards)
            ]
        )


def unlike(rms: float, of_known: Float64[ndarray, " devices"]) -> bool:
    """Whether a device's held-out error is beyond that of 95 % of the known devices."""
    return bool(rms > np.quantile(of_known, _UNLIKE_QUANTILE))


def _posterior(
    probes: Prior, log_ms: Float64[ndarray, " probes"], cells: Prior
) -> tuple[Float64[ndarray, " n"], Float64[ndarray, " n"]]:
    """Mean and standard deviation of the logarithm of one time of each cell.

    Noise and scale are averaged over, each with its likelihood; the level has a flat prior.
    """
    values, basis = np.linalg.eigh(probes.covariance(probes))  # one basis for every noise and scale
    across = cells.covariance(probes) @ basis
    residual, ones = basis.T @ (log_ms - probes.mean), basis.sum(axis=0)
    means, variances, log_likelihoods = [], [], []
    for scale in _SCALES:
        for noise in _NOISES:
            precision = 1 / (scale**2 * np.maximum(values, 0) + noise**2)
            certainty = float(precision @ ones**2)
            level = float(precision @ (ones * residual)) / certainty
            off = residual - level * ones
            log_likelihoods.append(
                (np.log(precision).sum() - precision @ off**2 - np.log(certainty)) / 2
            )
            means.append(cells.mean + level + scale**2 * across @ (precision * off))
            variances.append(
                scale**2 * cells.variance
                - scale**4 * across**2 @ precision
                + (1 - scale**2 * across @ (precision * ones)) ** 2 / certainty
                + noise**2
            )
    share = np.exp(np.array(log_likelihoods) - max(log_likelihoods))
    share /= share.sum()
    mean = share @ np.array(means)
    variance = share @ (np.array(variances) + (np.array(means) - mean) ** 2)
    return mean, np.sqrt(variance)


def _rows(prior: Prior, which: Bool[ndarray, " n"]) -> Prior:
    return Prior(prior.mean[which], prior.linear[which], prior.counts[which], prior.known[which])


def _bell(
    a: Float64[ndarray, "n features"], b: Float64[ndarray, "m features"], length: float
) -> Float64[ndarray, "n m"]:
    """exp(-|a - b|^2 / (2 length^2)) of each pair of rows."""
    squared = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T
    return np.asarray(np.exp(-np.maximum(squared, 0) / (2 * length**2)))
