"""How much slower a network is by the bandwidth that others take: a curve of two numbers.

    slowdown(b) = 1 + a * b / (1 - b / s)

At small b it is a line of slope `a`; towards `s`, where the others alone fill the memory, it grows
without bound, as the wait in a queue does. The form is ours: of a processor's memory and of a GPU's
it fits what we measured with few numbers, and it can be read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

LEAST_LEVELS = 3
_BEYOND = 1.1
"""Hogs reach a few per cent more or less from day to day."""
_SATURATIONS = np.geomspace(1.2, 100, 200)
"""Candidates for s, as multiples of the most that was taken."""


@final
@dataclass(frozen=True)
class Sensitivity:
    """Of one network on one device."""

    per_gb_per_s: float  # a: relative slowdown by each GB/s of little traffic
    saturation_gb_per_s: float  # s
    most_gb_per_s: float  # beyond which nothing was measured

    def slowdown(self, stolen_gb_per_s: Float64[ndarray, "*n"]) -> Float64[ndarray, "*n"]:
        """Latency beside hogs over latency alone, at least 1.

        Args:
          stolen_gb_per_s: what all hogs take together; a GB has 10 ** 9 bytes.

        Raises:
          ValueError: if it is negative, or beyond what was measured.
        """
        stolen = np.asarray(stolen_gb_per_s, float)
        if stolen.size and not 0 <= stolen.min() <= stolen.max() <= _BEYOND * self.most_gb_per_s:
            raise ValueError(
                f"a slowdown is known from 0 to {self.most_gb_per_s:.3g} GB/s, not at "
                f"{stolen.min():.3g} to {stolen.max():.3g}"
            )
        return 1 + self.per_gb_per_s * _loaded(stolen, self.saturation_gb_per_s)


def fit(stolen_gb_per_s: Float64[ndarray, " n"], slowdown: Float64[ndarray, " n"]) -> Sensitivity:
    """The curve with the least squares of relative errors.

    Args:
      stolen_gb_per_s: of each measurement.
      slowdown: of each, against the network alone.

    Raises:
      ValueError: if there are fewer than three different levels.
    """
    stolen, slower = np.asarray(stolen_gb_per_s, float), np.asarray(slowdown, float)
    if len(np.unique(stolen)) < LEAST_LEVELS:
        raise ValueError(
            f"a curve needs {LEAST_LEVELS} levels of stolen bandwidth or more, and has "
            f"{len(np.unique(stolen))}"
        )
    most = float(stolen.max())
    candidates = most * _SATURATIONS
    loaded = _loaded(stolen, candidates[:, None]) / slower  # (candidates, n)
    wanted = (slower - 1) / slower
    slopes = np.maximum((loaded * wanted).sum(1) / (loaded**2).sum(1), 0.0)
    errors = ((slopes[:, None] * loaded - wanted) ** 2).sum(1)
    # of curves as good as each other the straightest: noise bends none
    best = int(np.flatnonzero(errors <= errors.min() * (1 + 1e-9))[-1])
    return Sensitivity(float(slopes[best]), float(candidates[best]), most)


def held_out_errors(
    stolen_gb_per_s: Float64[ndarray, " n"], slowdown: Float64[ndarray, " n"]
) -> Float64[ndarray, " n"]:
    """Relative error at each level by the curve of the other levels; at the highest, beyond them.

    Raises:
      ValueError: if there are fewer than four different levels.
    """
    stolen, slower = np.asarray(stolen_gb_per_s, float), np.asarray(slowdown, float)
    errors = np.empty_like(slower)
    for level in np.unique(stolen):
        out = stolen == level
        curve = fit(stolen[~out], slower[~out])
        # the highest level lies beyond the curve's own; it may not lie beyond its saturation
        reach = min(float(level), 0.999 * curve.saturation_gb_per_s)
        told = 1 + curve.per_gb_per_s * float(_loaded(np.array(reach), curve.saturation_gb_per_s))
        errors[out] = told / slower[out] - 1
    return errors


def _loaded(
    stolen: Float64[ndarray, "*n"], saturation: float | Float64[ndarray, "k 1"]
) -> Float64[ndarray, "..."]:
    loaded: Float64[ndarray, "..."] = stolen / (1 - stolen / saturation)
    return loaded
