"""Latency of a new device from a few timed networks and from other devices, as a Gaussian process.

The logarithm of a device's latency is modelled as a draw from a process over architectures. Its mean
is the mean of the known devices. Its covariance is that of the differences between known devices
(Bonilla et al., NeurIPS 2007, with an empirical covariance) plus a kernel over features of the
architectures, for a device that differs in other ways. The level of a device is free: it comes from
its calibration networks alone. Some runtimes run an architecture as it is written, others the network
that is left without what the output does not need: both are predicted, each with its likelihood.

A space that cannot be listed is stood for by a sample: it says how the known devices differ, and other
architectures are predicted when they are asked for.

Every constant was chosen by predicting HELP's nine training devices from each other and its four
validation devices from them (`benchmarks/results/transfer.md`); around these values the error hardly moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from latency.models.confidence import ResidualUncertainty

FEWEST_NETWORKS = 3
"""Smallest number of calibration networks: with fewer, none can be held out."""

_SHAPE_SD = 0.5  # of the factor that stretches the mean of the known devices, around 1
_DIFFERENCE_SD = 0.5  # of a device along what known ones differ in, in their standard deviations
_PRUNED_SD = 0.5  # of the share that a device saves of what known ones lose on unneeded operations
_COUNTS_SD, _COUNTS_LENGTH = 0.1, 5.0
_KNOWN_SD, _KNOWN_LENGTH = 0.1, 2.0  # smooth, not linear, in the latencies of known devices

_NOISES = (0.02, 0.04, 0.08, 0.16, 0.3)  # of one time, relative
_SCALES = (0.5, 1.0, 2.0)  # how far this device is from what is expected
_DESIGN_NOISE = 0.1
_DESIGN_LEVEL_SD = 3.0
_DESIGN_TARGETS = 1500  # architectures that the calibration networks are chosen to predict
_MOST_FOLDS = 20
_SEED = 201

Z_90 = 1.96
"""Least half width of a 90 % interval in standard deviations; a normal distribution has 1.645.

With it, or with what the calibration networks ask for if that is more (`HeldOut.half_width`), the intervals of 45 of 46
known devices, each predicted from those that share neither board nor runtime with it, hold at least 90 % of the times
(`benchmarks/results/transfer.md`).
"""

_PER_SD = ResidualUncertainty(
    0.99, (0.31, 0.65, 0.8, 0.98, 1.05, 1.14, 1.24, 1.37, 1.51, 1.69, 2.09, 2.61, 3.92)
)
"""Errors of the same devices in their median standard deviation; those of 95 % are smaller.

With those of three in four, 8 % of answers were beyond a T that is asked for with a confidence of 0.95.
"""

_UNLIKE_QUANTILE = 0.95


@final
@dataclass(frozen=True)
class Prior:
    """Prior of a new device's latency at some architectures."""

    mean: Float64[ndarray, " n"]  # of the logarithm, up to the device's level
    linear: Float64[ndarray, "n features"]
    counts: Float64[ndarray, "n counts"]
    device_features: Float64[ndarray, "n device_features"]

    def covariance(self, others: Prior) -> Float64[ndarray, "n others"]:
        """Covariance of these architectures with others, both of the same known devices."""
        return np.asarray(
            self.linear @ others.linear.T
            + _COUNTS_SD**2 * _bell(self.counts, others.counts, _COUNTS_LENGTH)
            + _KNOWN_SD**2 * _bell(self.device_features, others.device_features, _KNOWN_LENGTH)
        )

    @property
    def variance(self) -> Float64[ndarray, " n"]:
        """Diagonal of the covariance of these architectures with themselves."""
        return np.asarray((self.linear**2).sum(axis=1) + _COUNTS_SD**2 + _KNOWN_SD**2)


@final
@dataclass(frozen=True)
class HeldOut:
    """Calibration networks, each predicted from the others."""

    predicted_ms: Float64[ndarray, " networks"]
    latency_ms: Float64[ndarray, " networks"]
    deviations: Float64[
        ndarray, " networks"
    ]  # of the logarithm's error from 0, in standard deviations

    @property
    def inside(self) -> Bool[ndarray, " networks"]:
        """Whether each time lies in the interval that known devices ask for."""
        return np.asarray(self.deviations <= Z_90)

    @property
    def half_width(self) -> float:
        """Half width of a 90 % interval in standard deviations: that of known devices, or of this one if it is wider.

        This one's is split conformal (Vovk et al., 2005): of n held-out deviations the ceil(0.9 (n + 1))-th, or the
        largest of fewer than ten.
        """
        rank = min(len(self.deviations), -(-9 * (len(self.deviations) + 1) // 10))
        return max(Z_90, float(np.sort(self.deviations)[rank - 1]))

    @property
    def rms(self) -> float:
        """Root mean square of the error of the logarithm."""
        return float(np.sqrt((np.log(self.predicted_ms / self.latency_ms) ** 2).mean()))


@final
@dataclass(frozen=True)
class Transfer:
    """Predictions, with an interval that holds 90 % of single times."""

    latency_ms: Float64[ndarray, " architectures"]
    low_ms: Float64[ndarray, " architectures"]
    high_ms: Float64[ndarray, " architectures"]

    @property
    def uncertainty(self) -> ResidualUncertainty:
        """Uncertainty of the predictions, as wide as their intervals are in the median."""
        return uncertainty_of(self.latency_ms, self.high_ms)


@final
@dataclass(frozen=True)
class Known:
    """Devices with known latencies, and features of the architectures."""

    boards: tuple[str, ...]  # one a device; several devices may share one
    runtimes: tuple[str, ...]  # or the source of a table that does not state one
    log_ms: Float64[ndarray, "devices architectures"]
    linear: Float64[
        ndarray, "architectures features"
    ]  # scaled so that unit weight is the expected standard deviation
    counts: Float64[ndarray, "architectures counts"]
    canonical: Int64[ndarray, " architectures"]  # the first architecture that is the same network
    wanted: Bool[ndarray, " architectures"]  # calibration networks: of these and chosen for these
    sampled: int | None = None  # so many, the first ones, stand for a space that cannot be listed

    @cached_property
    def _centred(self) -> Float64[ndarray, "devices architectures"]:
        return np.asarray(self.log_ms - self.log_ms[:, : self.sampled].mean(axis=1, keepdims=True))

    @cached_property
    def _gram(self) -> Float64[ndarray, "devices devices"]:
        of_space = self._centred[:, : self.sampled]
        return np.asarray(of_space @ of_space.T)

    def prior(
        self, index: Int64[ndarray, " n"], devices: Int64[ndarray, " some"] | None = None
    ) -> Prior:
        """The prior at some architectures, from some of the devices or from all."""
        devices = np.arange(len(self.boards)) if devices is None else devices
        many = len(devices)
        gram = self._gram[np.ix_(devices, devices)]
        differ = np.eye(many) - 1 / many
        variances, directions = np.linalg.eigh(differ @ gram @ differ)
        kept = variances > 1e-9 * max(variances[-1], 1e-300)
        spread = np.sqrt(gram.mean() / self.log_ms[:, : self.sampled].shape[1])  # of the mean

        here = self._centred[np.ix_(devices, index)]
        mean = here.mean(axis=0)
        unneeded = mean - self._centred[np.ix_(devices, self.canonical[index])].mean(axis=0)
        differences = (here - mean).T @ directions[:, kept] / np.sqrt(max(many - 1, 1))
        return Prior(
            mean=mean,
            linear=np.concatenate(
                [
                    self.linear[index],
                    _SHAPE_SD * mean[:, None],
                    _DIFFERENCE_SD * differences,
                    _PRUNED_SD * unneeded[:, None],
                ],
                axis=1,
            ),
            counts=self.counts[index],
            device_features=np.concatenate([mean[:, None], differences], axis=1) / spread,
        )

    def _forms(
        self, index: Int64[ndarray, " n"], devices: Int64[ndarray, " some"] | None = None
    ) -> tuple[Prior, Prior]:
        """Priors of the architectures as written, and of their canonical networks."""
        return self.prior(index, devices), self.prior(self.canonical[index], devices)

    @cached_property
    def _everywhere(self) -> tuple[Prior, Prior]:
        return self._forms(np.arange(self.log_ms.shape[1]))

    def choose(self, count: int, seed: int = _SEED) -> Int64[ndarray, " networks"]:
        """Choose calibration networks: each lowers the remaining variance most, given those before it.

        Sequential A-optimal design of the process, over a sample of the wanted architectures that the
        seed draws. One in five, the third and so on, is no canonical network, so that its time tells whether
        the device runs architectures as they are written.

        Raises:
          ValueError: if fewer architectures are wanted.
        """
        candidates = np.flatnonzero(self.wanted)
        if count > len(candidates):
            raise ValueError(f"{count} calibration networks of {len(candidates)} architectures")
        rng = np.random.default_rng(seed)
        targets = rng.choice(candidates, min(_DESIGN_TARGETS, len(candidates)), replace=False)
        prior = self.prior(candidates)
        level = _DESIGN_LEVEL_SD**2
        with_targets = self.prior(targets).covariance(prior) + level
        left = prior.variance + level
        chosen: list[int] = []
        columns = np.zeros((len(candidates), 0))
        is_copy = self.canonical[candidates] != candidates
        for step in range(count):
            gain = np.einsum("tc,tc->c", with_targets, with_targets) / (left + _DESIGN_NOISE**2)
            gain[is_copy == (step % 5 != FEWEST_NETWORKS - 1)] -= gain.max()
            gain[chosen] = -np.inf
            best = int(np.argmax(gain))
            added = self.prior(candidates[[best]])
            with_best = added.covariance(prior)[0] + level - columns @ columns[best]
            total = left[best] + _DESIGN_NOISE**2
            with_targets -= np.outer(with_targets[:, best] / total, with_best)
            left = left - with_best**2 / total
            columns = np.concatenate([columns, (with_best / np.sqrt(total))[:, None]], axis=1)
            chosen.append(best)
        return np.asarray(candidates[chosen])

    def transfer(
        self,
        index: Int64[ndarray, " networks"],
        latency_ms: Float64[ndarray, " networks"],
        of: Int64[ndarray, " some"] | None = None,
    ) -> Transfer:
        """Predict some architectures, or every one, from the times of a few."""
        others = self._everywhere if of is None else self._forms(of)
        mean, sd = _posterior(self._forms(index), np.log(latency_ms), others)
        half = self.held_out(index, latency_ms).half_width * sd
        return Transfer(np.exp(mean), np.exp(mean - half), np.exp(mean + half))

    def held_out(
        self,
        index: Int64[ndarray, " networks"],
        latency_ms: Float64[ndarray, " networks"],
        devices: Int64[ndarray, " some"] | None = None,
    ) -> HeldOut:
        """Predict each network from the others; of more than 20, from those outside its fold."""
        forms, log_ms = self._forms(index, devices), np.log(latency_ms)
        fold = np.arange(len(index)) % _MOST_FOLDS
        mean, sd = np.empty_like(log_ms), np.empty_like(log_ms)
        for out in (fold == number for number in np.unique(fold)):
            others, alone = ([_rows(form, which) for form in forms] for which in (~out, out))
            mean[out], sd[out] = _posterior(others, log_ms[~out], alone)
        return HeldOut(np.exp(mean), latency_ms, np.abs(log_ms - mean) / sd)

    def strangers(self, device: int) -> Int64[ndarray, " some"]:
        """Devices that share neither board nor runtime with a device; if none, those on other boards."""
        other_board = np.array(self.boards) != self.boards[device]
        neither = other_board & (np.array(self.runtimes) != self.runtimes[device])
        return np.flatnonzero(neither if neither.any() else other_board)

    def held_out_of_known(self, index: Int64[ndarray, " networks"]) -> Float64[ndarray, " devices"]:
        """`HeldOut.rms` of each known device at these networks, were its board and runtime not known."""
        return np.array(
            [
                self.held_out(index, np.exp(self.log_ms[device, index]), self.strangers(device)).rms
                for device in range(len(self.boards))
            ]
        )


def uncertainty_of(
    latency_ms: Float64[ndarray, " n"], high_ms: Float64[ndarray, " n"]
) -> ResidualUncertainty:
    """The uncertainty of predictions with these upper ends of their 90 % intervals."""
    return _PER_SD.scaled(float(np.median(np.log(high_ms / latency_ms))) / Z_90)


def unlike(rms: float, of_known: Float64[ndarray, " devices"]) -> bool:
    """Whether a device's held-out error is beyond that of 95 % of the known devices."""
    return bool(rms > np.quantile(of_known, _UNLIKE_QUANTILE))


def _posterior(
    timed: Sequence[Prior], log_ms: Float64[ndarray, " timed"], others: Sequence[Prior]
) -> tuple[Float64[ndarray, " n"], Float64[ndarray, " n"]]:
    """Mean and standard deviation of the logarithm of one time of each architecture.

    Forms, noise and scale are averaged over, each with its likelihood; the level has a flat prior.
    """
    means, variances, log_likelihoods = [], [], []
    for here, there in zip(timed, others, strict=True):
        values, basis = np.linalg.eigh(here.covariance(here))  # for every noise and scale
        across = there.covariance(here) @ basis
        residual, ones = basis.T @ (log_ms - here.mean), basis.sum(axis=0)
        for scale, noise in product(_SCALES, _NOISES):
            precision = 1 / (scale**2 * np.maximum(values, 0) + noise**2)
            certainty = float(precision @ ones**2)
            level = float(precision @ (ones * residual)) / certainty
            off = residual - level * ones
            log_likelihoods.append(
                (np.log(precision).sum() - precision @ off**2 - np.log(certainty)) / 2
            )
            means.append(there.mean + level + scale**2 * across @ (precision * off))
            variances.append(
                scale**2 * there.variance
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
    return Prior(
        prior.mean[which], prior.linear[which], prior.counts[which], prior.device_features[which]
    )


def _bell(
    a: Float64[ndarray, "n features"], b: Float64[ndarray, "m features"], length: float
) -> Float64[ndarray, "n m"]:
    """exp(-|a - b|^2 / (2 length^2)) of each pair of rows."""
    squared = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T
    return np.asarray(np.exp(-np.maximum(squared, 0) / (2 * length**2)))
