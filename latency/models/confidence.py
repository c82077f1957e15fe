"""Probability that a predicted latency is truly within a limit, from held-out residuals of its model.

A network is taken for within T if its predicted latency times exp(margin) is. The margin is a quantile
of the residuals log(measured / predicted) of architectures that the model was not fitted on. Which
quantile is calibrated on answers: of networks that a search chooses, fewer are beyond T than of all
networks with the same margin, because most leave a part of T unused. Over 38 public devices, each at the
level that the others ask for, as many answers are within T as `LEVELS` says
(`benchmarks/results/confident-answers.md`). A model of a few hundred networks has its largest errors where none was
timed, which quantiles of so few residuals do not show: its margin is a multiple of their spread, `FACTORS`. In a space too large to be listed an answer leaves no part of
T unused, and a search picks networks that are predicted too fast: `LEVELS_WITHOUT_SLACK`. The probability
of the answer in hand is that of its own margin, `WITHIN`. The idea is that of conformal risk control
(Angelopoulos et al., ICLR 2024), the risk being the share of broken limits.
"""

from __future__ import annotations

from bisect import bisect
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

QUANTILES = (0.5, 0.7, 0.75, 0.8, 0.82, 0.84, 0.86, 0.88, 0.9, 0.92, 0.95, 0.975, 0.99)
"""Levels of the residuals' quantiles that are stored."""

LEVELS = {
    0.83: 0.5,
    0.87: 0.7,
    0.91: 0.75,
    0.93: 0.8,
    0.945: 0.86,
    0.95: 0.89,
    0.966: 0.9,
    0.97: 0.92,
    0.978: 0.95,
    0.981: 0.975,
}
"""Level of the quantile by the share of answers that are within T with it as the margin."""

LEVELS_WITHOUT_SLACK = {
    0.44: 0.5,
    0.6: 0.7,
    0.65: 0.75,
    0.68: 0.8,
    0.74: 0.84,
    0.76: 0.88,
    0.77: 0.9,
    0.85: 0.92,
    0.89: 0.95,
    0.949: 0.975,
    0.95: 0.976,
    0.96: 0.99,
}
"""The same share of answers that leave no part of T unused; over 9 devices of MobileNetV3, rounded down by hand."""

WITHIN = (0.26, 0.45, 0.45, 0.45, 0.45, 0.46, 0.46, 0.57, 0.57, 0.84, 0.91, 0.91, 0.95)
"""Share of answers within T whose own margin is a quantile of at least each level of `QUANTILES`.

Lower confidence bounds from half of the boards that hold on the other half, in both spaces
(`python -m benchmarks.confident_answers --reliability`).
"""

FACTORS = {0.75: 0.85, 0.8: 1.0, 0.85: 1.25, 0.9: 1.75, 0.95: 2.0, 0.98: 4.0}
"""Margin in spreads by the share of answers within T, of models fitted on 60 to 500 networks.

The spread is the 90 % quantile of the absolute residuals (`python -m benchmarks.own_tables`).
"""

FACTORS_WITHOUT_SLACK = {0.75: 1.25, 0.85: 1.5, 0.9: 1.75, 0.95: 2.5, 0.98: 4.0}
"""The same in a space too large to be listed, from tables of MobileNetV3; that of 0.95 is a step above what they need."""

LEAST_WITHOUT_SLACK = 1.5
"""Margin in spreads below which nothing is said of an answer in such a space."""

WITHIN_BY_SPREAD = ((0.5, 0.65), (1.0, 0.75), (1.5, 0.82), (2.0, 0.88), (4.0, 0.95))
"""Least margin in spreads, and share of predicted answers with such a margin that are within T, of the same models."""

MOST_CONFIDENCE = max(LEVELS)
_AT_95 = QUANTILES.index(0.95)


@final
@dataclass(frozen=True)
class ResidualUncertainty:
    """Spread of a model's held-out residuals, in logarithms."""

    sd: float  # robust: half of the middle 68 %
    quantiles: tuple[float, ...]  # at `QUANTILES`
    leaves_slack: bool = True  # answers leave a part of T unused: the space can be listed
    spread: float | None = None  # 90 % of absolute residuals; None unless few networks were fitted

    @property
    def most_confidence(self) -> float:
        """The highest confidence that there is a margin for."""
        return max(self._levels)

    @property
    def _levels(self) -> dict[float, float]:
        if self.spread is not None:
            return FACTORS if self.leaves_slack else FACTORS_WITHOUT_SLACK
        return LEVELS if self.leaves_slack else LEVELS_WITHOUT_SLACK

    @property
    def wide(self) -> float:
        """Spread of the residuals, also of a model fitted on many networks."""
        return max(0.0, self.quantiles[_AT_95]) if self.spread is None else self.spread

    def without_slack(self) -> ResidualUncertainty:
        """The same residuals, in a space that is too large to be listed."""
        return replace(self, leaves_slack=False)

    def scaled(self, factor: float) -> ResidualUncertainty:
        """The uncertainty of residuals that are larger by a factor."""
        quantiles = tuple(factor * quantile for quantile in self.quantiles)
        spread = None if self.spread is None else factor * self.spread
        return replace(self, sd=factor * self.sd, quantiles=quantiles, spread=spread)

    def and_of(self, other: ResidualUncertainty | None) -> ResidualUncertainty:
        """The uncertainty of a sum of independent residuals, this one's and another's."""
        if other is None:
            return self
        sd, *both = np.hypot((self.sd, *self.quantiles), (other.sd, *other.quantiles)).tolist()
        of_few = self.spread is not None or other.spread is not None
        spread = float(np.hypot(self.wide, other.wide)) if of_few else None
        return replace(self, sd=sd, quantiles=tuple(both), spread=spread)

    def margin(self, confidence: float) -> float:
        """Logarithm of the factor that a prediction needs below T; not negative, 0 for confidence 0."""
        if confidence <= 0:
            return 0.0
        if self.spread is not None:
            return self.level(confidence) * self.spread
        return max(0.0, float(np.interp(self.level(confidence), QUANTILES, self.quantiles)))

    def level(self, confidence: float) -> float:
        """The level of the residuals' quantile that is the margin; of few networks, the margin in spreads."""
        return float(np.interp(confidence, [*self._levels], [*self._levels.values()]))

    def level_of(self, margin: float) -> float:
        """The level of the quantile that a margin is; 0 below all that are stored."""
        return float(np.interp(margin, np.maximum(self.quantiles, 0.0), QUANTILES, left=0.0))

    def confidence(self, margin: float) -> float:
        """The least probability that an answer with this margin of its own is within T."""
        if self.spread is not None:
            if not self.leaves_slack and margin < LEAST_WITHOUT_SLACK * self.spread:
                return 0.0
            least = [spreads * self.spread for spreads, _ in WITHIN_BY_SPREAD]
            return (0.0, *(share for _, share in WITHIN_BY_SPREAD))[bisect(least, margin)]
        return (0.0, *WITHIN)[bisect(QUANTILES, self.level_of(margin))]


def of_few(residuals: Float64[ndarray, " n"]) -> ResidualUncertainty:
    """The uncertainty of a model of a few hundred networks, from its held-out residuals."""
    spread = float(np.quantile(np.abs(residuals), 0.9))
    return replace(of_residuals(residuals), spread=spread)


def of_residuals(residuals: Float64[ndarray, " n"]) -> ResidualUncertainty:
    """The uncertainty of held-out residuals log(measured / predicted)."""
    low, high = np.quantile(residuals, [0.16, 0.84])
    return ResidualUncertainty(
        float(high - low) / 2, tuple(np.quantile(residuals, QUANTILES).tolist())
    )
