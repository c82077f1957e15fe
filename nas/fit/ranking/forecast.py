"""What each pretrained network would reach in a time, by published accuracies and the trials so far.

Let `f` be the accuracy of a network's frozen features, `p` its published accuracy, and `n` epochs of tuning at a
depth with the share `s`.

- Line: `l = SLOPE * p + mean(f - SLOPE * p)`, over networks whose frozen features were evaluated.
- Frozen features, shrunk toward the line: `l + w * (f - l) / (1 + seen / FADES_IN)`, with
  `w = SPREAD**2 / (SPREAD**2 + noise)` and `seen` the images of n epochs, in proportion to s.
- Tuning corrects a share of the errors `e` that are left: `e * s * n / (n + half)`.
- Trials correct the share by one factor for all networks, the duration of an epoch by one ratio for all, and the
  accuracy of their own network; each correction is shrunk by its noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from nas.accuracy.slow import Fidelity
from nas.fit.ranking.candidates import Candidates
from nas.fit.ranking.stages import Result, StageJob, trained
from nas.fit.starts.fine_tuning.trial import FrozenPass

# Fitted to 95 fine-tunings by an older recipe: 24 networks and sides, three sets of 1,500 photos of five classes,
# 3 to 24 epochs (residual 2.1 points, of which 1.2 are the test images'). By `benchmarks/results/fine_tuning.csv`
# twelve epochs correct 0.24 (1,000 images) to 0.43 (5,000) of the errors and not 0.26, which the trials
# of a search tell; larger constants ordered the networks no better. The costs are estimates by hand.
COSTS = (0.6, 1.0, 2.0)
"""Time of an epoch beside that of one pass over the images, by depth of tuning."""

SHARES = (0.0, 0.16, 0.32)
"""Share of the errors of frozen features that tuning corrects in the end, by its depth."""

HALF_EPOCHS, FITTED_IMAGES = 3.0, 5_000
"""Epochs that correct half of that, of so many images at most; of more, by the root of their number fewer.

Of 45,000, MobileNetV2 0.5 at 96 had corrected 0.40, 0.53, 0.57 of the errors after 1, 3, 4: half by about one.
"""

SLOPE = 0.2
"""Difference in accuracy on the user's images for a difference of 1 in published accuracy."""

FADES_IN = 25_000
"""Images seen in tuning all layers after which half is left of what frozen features had above that line.

By `benchmarks.fine_tuning_replay`, on three sets: 15,000 to 40,000 do about as well on each.
"""

SPREAD, CHANGE = 0.025, 0.018
"""Standard deviations of frozen accuracies about that line, and of tuned ones about their forecast."""

_SPEED_UP, _MOST_BESIDE = 2.0, 4.0
"""Images a second of trainings side by side, as a multiple of one's, and most that each takes longer by.

A guess until trials have shown it: large batches fill a GPU, small ones leave it mostly idle.
"""

SHARE_SD = 0.5
"""Standard deviation of the factor by which the shares are off."""


@final
@dataclass(frozen=True)
class TuningTimes:
    """What is known of durations beside the trials."""

    parallel: int = 1  # trainings at once
    timed: tuple[int, float] | None = None  # a candidate, and its seconds of an epoch, alone
    frozen_s: float = math.inf  # for the features of one network, of fewer images if need be
    frozen_pass: Callable[[int], FrozenPass | None] = lambda _head: None


ALONE = TuningTimes()
"""One training at a time, and nothing timed."""


@final
@dataclass(frozen=True)
class Forecast:
    """Expected durations and accuracies of all candidates; NaN where nothing was timed yet."""

    candidates: Candidates
    depth: Int64[ndarray, "n"]  # of tuning
    network: Int64[ndarray, "n"]  # number of network and side
    fidelities: tuple[Fidelity, ...]
    images: tuple[int, int]  # that judge frozen features, and tuned networks
    results: Mapping[StageJob, Result]
    times: TuningTimes = ALONE

    @cached_property
    def pass_s(self) -> Float64[ndarray, "n"]:
        """Seconds of a pass over all images without gradients, as timed.

        Of networks that were not timed, in proportion to the multiply-accumulates, as of the fastest.
        """
        flops, at = self.candidates.flops, self._heads
        if not len(at):
            return np.full(len(flops), np.nan)
        seconds = np.array([each.seconds for each in self._passes])
        expected: Float64[ndarray, "n"] = (seconds / flops[at]).min() * flops
        for head, pass_s in zip(at, seconds, strict=True):
            expected[self.network == self.network[head]] = pass_s
        return expected

    @cached_property
    def _passes(self) -> list[FrozenPass]:
        """What it took to judge each of `_heads`."""
        return [
            self.times.frozen_pass(head)
            or FrozenPass(self.results[StageJob(head, 0)].seconds, self.images[0])
            for head in self._heads.tolist()
        ]

    @cached_property
    def epoch_s(self) -> Float64[ndarray, "n"]:
        """Seconds of an epoch of tuning without other trainings beside it, as the winner's."""
        return self._epoch_s(is_alone=True)

    def _epoch_s(self, *, is_alone: bool) -> Float64[ndarray, "n"]:
        seconds: Float64[ndarray, "n"] = self.pass_s * np.array(COSTS)[self.depth]
        ratios = [
            result.seconds / self.fidelities[job.fidelity].epochs / seconds[job.candidate]
            for job, result in self.results.items()
            if job.fidelity
        ]
        if self.times.timed is not None and (not ratios or (is_alone and self.times.parallel > 1)):
            at, epoch_s = self.times.timed
            beside = 1.0 if is_alone else np.clip(self.times.parallel / _SPEED_UP, 1, _MOST_BESIDE)
            ratios = [beside * epoch_s / seconds[at]]
        return seconds * np.median(ratios) if ratios else seconds

    def seconds(self, job: StageJob) -> float:
        """Expected duration of a fine-tuning, beside as many others as there are at once."""
        epoch_s = self._epoch_s(is_alone=False)[job.candidate]
        return float(epoch_s * self.fidelities[job.fidelity].epochs)

    def accuracy(self, epochs: Float64[ndarray, "n"]) -> Float64[ndarray, "n"]:
        """Expected accuracy after so many epochs."""
        tuned = self._faded(epochs) + self._factor * self._gain(epochs)
        return np.asarray(tuned + self._learned[0])

    @cached_property
    def sd(self) -> Float64[ndarray, "n"]:
        """Standard deviation of the true accuracy about the expected one."""
        unseen = ~np.isin(self.network, self.network[self._heads])
        return np.asarray(np.where(unseen, SPREAD + CHANGE, self._learned[1]))

    @cached_property
    def frozen(self) -> Float64[ndarray, "n"]:
        """Expected accuracy of frozen features."""
        return self._faded(np.zeros(len(self.depth)))

    def _faded(self, epochs: Float64[ndarray, "n"]) -> Float64[ndarray, "n"]:
        """Frozen features after so many epochs: `l + w * (f - l) / (1 + seen / FADES_IN)`."""
        at, accuracy = trained(self.results, 0)
        line = SLOPE * self.candidates.prior
        if len(at):
            line += (accuracy - line[at]).mean()
        expected: Float64[ndarray, "n"] = line.copy()
        judges = np.array([each.images for each in self._passes])
        noise = accuracy * (1 - accuracy) / judges + CHANGE**2
        weight = SPREAD**2 / (SPREAD**2 + noise)
        seen = (
            epochs * (self.images[0] - self.images[1]) * np.array(SHARES)[self.depth] / SHARES[-1]
        )
        left = 1 / (1 + seen / FADES_IN)
        for head, moved in zip(at, weight * (accuracy - line[at]), strict=True):
            alike = self.network == self.network[head]
            expected[alike] += moved * left[alike]
        return expected

    @property
    def _heads(self) -> Int64[ndarray, "k"]:
        """Candidates whose frozen features were judged."""
        return trained(self.results, 0)[0]

    def _gain(self, epochs: Float64[ndarray, "n"]) -> Float64[ndarray, "n"]:
        """What tuning is expected to add before a trial has shown it: `e * s * n / (n + half)`."""
        half = HALF_EPOCHS * min(1.0, FITTED_IMAGES / self.images[0]) ** 0.5
        share = np.array(SHARES)[self.depth] * epochs / (epochs + half)
        return np.asarray((1 - self._faded(epochs)) * share)

    @cached_property
    def _tuned(self) -> tuple[Int64[ndarray, "k"], Float64[ndarray, "k"], Float64[ndarray, "k"]]:
        """Candidates of the fine-tunings, what each added to frozen features, and what was expected."""
        jobs = [
            (job.candidate, result.accuracy, float(self.fidelities[job.fidelity].epochs))
            for job, result in self.results.items()
            if job.fidelity and not np.isnan(result.accuracy)
        ]  # of two rates, both: the better one is that of the winner
        at = np.array([job[0] for job in jobs], np.int64)
        lengths = [np.full(len(self.depth), epochs) for _, _, epochs in jobs]
        faded = [self._faded(epochs)[job[0]] for job, epochs in zip(jobs, lengths, strict=True)]
        added = np.array([job[1] for job in jobs]) - faded
        expected = [self._gain(epochs)[job[0]] for job, epochs in zip(jobs, lengths, strict=True)]
        return at, added, np.array(expected)

    @cached_property
    def _factor(self) -> float:
        """How much more the trials have gained than was expected, shrunk toward 1."""
        at, added, expected = self._tuned
        precision = 1 / (CHANGE**2 + _variance(added + self.frozen[at], self.images[1]))
        return float(
            (1 / SHARE_SD**2 + (precision * added * expected).sum())
            / (1 / SHARE_SD**2 + (precision * expected**2).sum())
        )

    @cached_property
    def _learned(self) -> tuple[Float64[ndarray, "n"], Float64[ndarray, "n"]]:
        """By how much trials of its own move a network's forecast, and the spread that is left."""
        at, added, expected = self._tuned
        moved, precision = np.zeros(len(self.depth)), np.full(len(self.depth), 1 / CHANGE**2)
        noise = _variance(added + self.frozen[at], self.images[1])
        for candidate, missed, variance in zip(
            at, added - self._factor * expected, noise, strict=True
        ):
            alike = self.network == self.network[candidate]
            precision[alike] += 1 / variance
            moved[alike] += missed / variance
        return moved / precision, 1 / np.sqrt(precision)

    @cached_property
    def judged(self) -> Bool[ndarray, "n"]:
        """Whether the frozen features of the network were judged."""
        return np.isin(self.network, self.network[self._heads])


def _variance(accuracy: Float64[ndarray, "k"], images: int) -> Float64[ndarray, "k"]:
    """Binomial variance `a (1 - a) / images` of accuracies on this many images."""
    fraction = np.clip(accuracy, 0.02, 0.98)
    return np.asarray(fraction * (1 - fraction) / images)
