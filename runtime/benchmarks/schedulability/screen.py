"""Bounds that decide most mapping programs without a solver, for many sets of networks at once.

Lagrangian bound (the dual of the relaxed program): given prices of the units, if every network takes
its cheapest place and the total still exceeds the price of all units over the frame, no mapping
exists; and if these places fit into the frame, they are one. Other sets are left to the solver, so that
answers are exact.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64, Int8, Int64
from numpy import ndarray

from edgenas_runtime.mapping.model.choices import MappingChoices, interchangeable_units

FITS, OPEN, DOES_NOT_FIT = 1, 0, -1

_PRICINGS = 60
_STEP = 0.5  # step size of a price, relative to the overload of its unit

_Loads = Float64[ndarray, "sets units"]


def screen(
    choices: MappingChoices,
    ms: Float64[ndarray, "sets n places"],
    frame_ms: float,
) -> Int8[ndarray, " sets"]:
    """Return FITS, DOES_NOT_FIT or OPEN for each set of networks.

    Times are 0 everywhere for a missing network.
    """
    occupies = choices.occupies.astype(np.float64)
    answers: Int8[ndarray, " sets"] = np.zeros(len(ms), np.int8)
    answers[~(ms.min(2) <= frame_ms).all(1)] = DOES_NOT_FIT
    ms = np.where(ms <= frame_ms, ms, np.inf)
    groups = interchangeable_units(choices.platform, [*choices.platform.configurations])
    pending = np.nonzero(answers == OPEN)[0]
    answers[pending] = _priced(ms[pending], occupies, groups, frame_ms)
    return answers


def _priced(
    ms: Float64[ndarray, "sets n places"],
    occupies: Float64[ndarray, "places units"],
    groups: Sequence[Sequence[int]],
    frame_ms: float,
) -> Int8[ndarray, " sets"]:
    answers: Int8[ndarray, " sets"] = np.zeros(len(ms), np.int8)
    prices = np.ones((len(ms), occupies.shape[1]))
    active = np.arange(len(ms))
    for _ in range(_PRICINGS):
        own_ms = ms[active]
        paid = own_ms * (prices[active] @ occupies.T)[:, None, :]
        chosen = paid.argmin(2)
        total = paid.min(2).sum(1)
        too_much = total > frame_ms * prices[active].sum(1) * (1 + 1e-9)
        loads = _loads(own_ms, chosen, occupies)
        fits = loads.max(1) <= frame_ms
        answers[active[too_much]] = DOES_NOT_FIT
        answers[active[fits]] = FITS
        for group in groups:  # the cheapest of interchangeable units takes all: average their loads
            loads[:, group] = loads[:, group].mean(1, keepdims=True)
        prices[active] *= np.exp(_STEP * (loads / frame_ms - 1).clip(-2, 2))
        prices[active] /= prices[active].sum(1, keepdims=True)
        active = active[~(too_much | fits)]
        if not len(active):
            break
    return answers


def _loads(
    ms: Float64[ndarray, "sets n places"],
    chosen: Int64[ndarray, "sets n"],
    occupies: Float64[ndarray, "places units"],
) -> _Loads:
    taken_ms = np.take_along_axis(ms, chosen[:, :, None], 2)
    loads: _Loads = (taken_ms * occupies[chosen]).sum(1)
    return loads
