"""Features of architectures from their choices alone, for spaces that write none of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

_PAIRED = 12  # positions, of more no pairs are multiplied


def names(choices: Mapping[str, Sequence[Any]]) -> tuple[str, ...]:
    """Name of each feature: every option, and every pair of positions."""
    hot = [f"{position}={option}" for position, options in choices.items() for option in options]
    return (*hot, *(f"{list(choices)[a]} * {list(choices)[b]}" for a, b in _pairs(len(choices))))


def features(
    choices: Mapping[str, Sequence[Any]],
    architectures: Int64[ndarray, "*n D"],
    on: Bool[ndarray, "*n D"],
) -> Float64[ndarray, "*n F"]:
    """One-hot choices, and products of numbers; zeros where a position is switched off.

    An option that is no number stands as its place among the options of its position.
    """
    hot, numbers = [], []
    for position, options in enumerate(choices.values()):
        choice, is_on = architectures[..., position], on[..., position]
        hot.append((choice[..., None] == np.arange(len(options))) & is_on[..., None])
        places = range(1, len(options) + 1)
        is_numeric = all(isinstance(option, int | float) for option in options)
        values = np.array(options if is_numeric else places, float)
        numbers.append(np.where(is_on, values[choice] / (np.abs(values).max() or 1), 0))
    products = [(numbers[a] * numbers[b])[..., None] for a, b in _pairs(len(choices))]
    return np.concatenate([*hot, *products], axis=-1).astype(float)


def _pairs(positions: int) -> list[tuple[int, int]]:
    return list(combinations_with_replacement(range(positions), 2)) if positions <= _PAIRED else []
