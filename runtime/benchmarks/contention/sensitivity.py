"""Slowdown of a network as a function of the bandwidth that others take: a curve of two parameters.

    slowdown(b) = 1 + a * b / (1 - b / s)

At small b it is a line of slope `a`; towards `s`, where the others saturate the memory, it grows
without bound, like the waiting time of a queue. The form is empirical: it fits our measurements of
CPU and GPU memory with two interpretable parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

LEAST_LEVELS = 3
_BEYOND = 1.1
"""Tolerated extrapolation: the bandwidth of hogs varies by a few per cent from day to day."""
_SATURATIONS = np.geomspace(1.2, 100, 200)
"""Candidates for s, as multiples of the highest measured level."""


@final
@dataclass(frozen=True)
class Sensitivity:
    """Slowdown curve of one network on one device."""

    per_gb_per_s: float  # a: relative slowdown per GB/s at low traffic
    saturation_gb_per_s: float  # s
    most_gb_per_s: float  # highest measured level

    def slowdown(self, stolen_gb_per_s: Float64[ndarray, "*n"]) -> Float64[ndarray, "*n"]:
        """Return latency beside hogs over latency alone, at least 1.

        The bandwidth is that of all hogs together; a GB has 10 ** 9 bytes.

        Raises:
          ValueError: if it is negative, or above the measured range.
        """
        stolen = np.asarray(stolen_gb_per_s, float)
        if stolen.size and not 0 <= stolen.min() <= stolen.max() <= _BEYOND * self.most_gb_per_s:
            raise ValueError(
                f"the slowdown was measured from 0 to {self.most_gb_per_s:.3g} GB/s, not at "
                f"{stolen.min():.3g} to {stolen.max():.3g}"
            )
        return 1 + self.per_gb_per_s * _loaded(stolen, self.saturation_gb_per_s)


def fit(stolen_gb_per_s: Float64[ndarray, " n"], slowdown: Float64[ndarray, " n"]) -> Sensitivity:
    """Fit the curve by least squares of the relative errors.

    Raises:
      ValueError: if there are fewer than three different levels.
    """
    stolen, slower = np.asarray(stolen_gb_per_s, float), np.asarray(slowdown, float)
    if len(np.unique(stolen)) < LEAST_LEVELS:
        raise ValueError(
            f"a slowdown curve needs at least {LEAST_LEVELS} levels of stolen bandwidth, got "
            f"{len(np.unique(stolen))}"
        )
    most = float(stolen.max())
    candidates = most * _SATURATIONS
    loaded = _loaded(stolen, candidates[:, None]) / slower  # (candidates, n)
    wanted = (slower - 1) / slower
    slopes = np.maximum((loaded * wanted).sum(1) / (loaded**2).sum(1), 0.0)
    errors = ((slopes[:, None] * loaded - wanted) ** 2).sum(1)
    # among equally good curves the straightest, so that noise bends none
    best = int(np.flatnonzero(errors <= errors.min() * (1 + 1e-9))[-1])
    return Sensitivity(float(slopes[best]), float(candidates[best]), most)


def held_out_errors(
    stolen_gb_per_s: Float64[ndarray, " n"], slowdown: Float64[ndarray, " n"]
) -> Float64[ndarray, " n"]:
    """Return the relative error at each level, predicted by a curve fitted to the other levels.

    Raises:
      ValueError: if there are fewer than four different levels.
    """
    stolen, slower = np.asarray(stolen_gb_per_s, float), np.asarray(slowdown, float)
    errors = np.empty_like(slower)
    for level in np.unique(stolen):
        out = stolen == level
        curve = fit(stolen[~out], slower[~out])
        # the highest level is extrapolated, but never beyond the saturation of the curve
        reach = min(float(level), 0.999 * curve.saturation_gb_per_s)
        loaded = float(_loaded(np.array(reach), curve.saturation_gb_per_s))
        errors[out] = (1 + curve.per_gb_per_s * loaded) / slower[out] - 1
    return errors


def _loaded(
    stolen: Float64[ndarray, "*n"], saturation: float | Float64[ndarray, "k 1"]
) -> Float64[ndarray, "..."]:
    loaded: Float64[ndarray, "..."] = stolen / (1 - stolen / saturation)
    return loaded
