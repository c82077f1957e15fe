"""Bounds that decide most mapping programs without a solver, for many sets of networks at once.

Lagrangian bound (the dual of the relaxed program): given prices of the units, if every network takes
its cheapest place and the total still exceeds the price of all units over the frame, no mapping
exists. Local search, which moves one network at a time to even out the loads, finds mappings. Sets
that neither decides are left to the solver, so that answers are exact.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float64, Int8, Int64
from numpy import ndarray

from runtime.mapping.model.choices import MappingChoices, interchangeable_units

FITS, OPEN, DOES_NOT_FIT = 1, 0, -1

_PRICINGS = 60
_STEP = 0.5  # step size of a price, relative to the overload of its unit
_SWEEPS = 4  # over all networks, for each power
_POWERS = (
    2,
    6,
    12,
)  # the sum of loads ** power is minimised; high powers see the largest load only
_RESTARTS = 30
_PERTURBED = 0.3  # share of networks placed at random before each restart

_Loads = Float64[ndarray, "sets units"]


def screen(
    choices: MappingChoices,
    ms: Float64[ndarray, "sets n places"],
    frame_ms: float,
    generator: np.random.Generator,
) -> tuple[Int8[ndarray, " sets"], Int64[ndarray, "sets n"]]:
    """Return FITS, DOES_NOT_FIT or OPEN for each set of networks, and the place of each network.

    The places are a mapping that fits where the answer is FITS.

    Times are 0 everywhere for a missing network.
    """
    occupies = choices.occupies.astype(np.float64)
    answers: Int8[ndarray, " sets"] = np.zeros(len(ms), np.int8)
    answers[~(ms.min(2) <= frame_ms).all(1)] = DOES_NOT_FIT
    ms = np.where(ms <= frame_ms, ms, np.inf)
    groups = interchangeable_units(choices.platform, [*choices.platform.configurations])
    pending = np.nonzero(answers == OPEN)[0]
    chosen = np.zeros(ms.shape[:2], np.int64)
    answers[pending], chosen[pending] = _priced(ms[pending], occupies, groups, frame_ms)
    for start in range(_RESTARTS):
        pending = np.nonzero(answers == OPEN)[0]
        if not len(pending):
            break
        begin = chosen[pending]
        if start:
            begin = _perturbed(ms[pending], begin, generator)
        fits, moved = _moved(ms[pending], begin, occupies, frame_ms, generator)
        answers[pending[fits]] = FITS
        chosen[pending[fits]] = moved[fits]
    return answers, chosen


def _perturbed(
    ms: Float64[ndarray, "sets n places"],
    chosen: Int64[ndarray, "sets n"],
    generator: np.random.Generator,
) -> Int64[ndarray, "sets n"]:
    anywhere = np.where(np.isfinite(ms), generator.random(ms.shape), -1.0).argmax(2)
    moved: Int64[ndarray, "sets n"]
    moved = np.where(generator.random(chosen.shape) < _PERTURBED, anywhere, chosen)
    return moved


def _priced(
    ms: Float64[ndarray, "sets n places"],
    occupies: Float64[ndarray, "places units"],
    groups: Sequence[Sequence[int]],
    frame_ms: float,
) -> tuple[Int8[ndarray, " sets"], Int64[ndarray, "sets n"]]:
    answers: Int8[ndarray, " sets"] = np.zeros(len(ms), np.int8)
    prices = np.ones((len(ms), occupies.shape[1]))
    chosen = np.zeros(ms.shape[:2], np.int64)
    active = np.arange(len(ms))
    for _ in range(_PRICINGS):
        own_ms = ms[active]
        paid = own_ms * (prices[active] @ occupies.T)[:, None, :]
        chosen[active] = paid.argmin(2)
        total = paid.min(2).sum(1)
        too_much = total > frame_ms * prices[active].sum(1) * (1 + 1e-9)
        loads = _loads(own_ms, chosen[active], occupies)
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
    return answers, chosen


def _loads(
    ms: Float64[ndarray, "sets n places"],
    chosen: Int64[ndarray, "sets n"],
    occupies: Float64[ndarray, "places units"],
) -> _Loads:
    taken_ms = np.take_along_axis(ms, chosen[:, :, None], 2)
    loads: _Loads = (taken_ms * occupies[chosen]).sum(1)
    return loads


def _moved(
    ms: Float64[ndarray, "sets n places"],
    chosen: Int64[ndarray, "sets n"],
    occupies: Float64[ndarray, "places units"],
    frame_ms: float,
    generator: np.random.Generator,
) -> tuple[Bool[ndarray, " sets"], Int64[ndarray, "sets n"]]:
    """Local search from `chosen`: return which sets fit now, and their places."""
    chosen, best = chosen.copy(), chosen.copy()
    sets = np.arange(len(ms))
    loads = _loads(ms, chosen, occupies)
    fits: Bool[ndarray, " sets"] = loads.max(1) <= frame_ms
    for power in _POWERS:
        for _ in range(_SWEEPS):
            for i in generator.permutation(ms.shape[1]):
                its_loads = ms[sets, i, chosen[:, i]][:, None] * occupies[chosen[:, i]]
                others = loads - its_loads
                would = others[:, None, :] + np.where(occupies > 0, ms[:, i, :, None], 0.0)
                chosen[:, i] = ((would / frame_ms) ** power).sum(2).argmin(1)
                loads = would[sets, chosen[:, i]]
            now = np.logical_and(~fits, loads.max(1) <= frame_ms)
            best[now] = chosen[now]
            fits = np.logical_or(fits, now)
            if fits.all():
                return fits, best
    return fits, best
