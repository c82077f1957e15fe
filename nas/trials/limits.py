"""Limits beside the latency's: energy and parameters. With T alone there are none of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

_THOUSANDS = 10_000
"""Smallest count that is printed in millions."""


def cost_text(cost: float, unit: str, digits: int = 3) -> str:
    """A cost to be read: 4.2 mJ, or where it is a count 10, 1,500 and 0.86 M."""
    rounded = float(f"{cost:.{digits}g}")  # 1000 and not 1e+03
    if unit:
        return f"{rounded:g} {unit}"
    return f"{rounded:,g}" if rounded < _THOUSANDS else f"{rounded / 1e6:g} M"


def share_text(share: float) -> str:
    """A share in percent; one that is neither none nor all is never printed as 0.0% or 100.0%."""
    if 0 < share < 0.0005:
        return "<0.1%"
    return ">99.9%" if 0.9995 <= share < 1 else f"{share:.1%}"


def label_of(symbols: Iterable[str]) -> str:
    """Symbols of all limits, T and these others, as text: T, or T, E and P."""
    *first, last = ("T", *symbols)
    return f"{', '.join(first)} and {last}" if first else last


@final
@dataclass(frozen=True)
class Limit:
    """A cost of every architecture, and how much of it is allowed."""

    symbol: str  # as the user writes it: E or P
    name: str  # in files: energy_mj or parameters
    unit: str  # mJ, or empty for a count
    bound: float
    source: str  # where the costs come from, in words
    cost_of: Callable[[Int64[ndarray, "*n D"]], Float64[ndarray, "*n"]]  # positive
    parts: tuple[float, ...] = ()  # of a fast and a slow memory, whose sum the bound is

    def text(self, cost: float) -> str:
        """A cost with its unit."""
        return cost_text(cost, self.unit)

    @property
    def title(self) -> str:
        """Name without underscores, with the unit: energy (mJ)."""
        return f"{self.name.split('_')[0]} ({self.unit})" if self.unit else self.name

    def __str__(self) -> str:
        bounds = [cost_text(each, self.unit, digits=6) for each in self.parts or (self.bound,)]
        return f"{self.symbol} = {' + '.join(bounds)}"


@final
@dataclass(frozen=True)
class Limits:
    """Every limit but the latency's, in a fixed order."""

    each: tuple[Limit, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.each)

    @property
    def symbols(self) -> tuple[str, ...]:
        """Symbols of the limits as the user writes them, in order."""
        return tuple(limit.symbol for limit in self.each)

    @property
    def label(self) -> str:
        """Symbols of all limits in words: T, or T, E and P."""
        return label_of(self.symbols)

    @cached_property
    def bounds(self) -> Float64[ndarray, "L"]:
        """Bound of each limit, in its unit."""
        return np.array([limit.bound for limit in self.each], np.float64)

    def costs(self, architectures: Int64[ndarray, "*n D"]) -> Float64[ndarray, "*n L"]:
        """Costs of each architecture, a column for each limit."""
        costs = np.empty((*architectures.shape[:-1], len(self.each)))
        for column, limit in enumerate(self.each):
            costs[..., column] = limit.cost_of(architectures)
        return costs

    def least(self, costs: Float64[ndarray, "n L"]) -> str:
        """The lowest cost where a limit refuses all of the networks, in words for an error."""
        words = (
            f"; their smallest {limit.name.split('_')[0]} is {limit.text(low)}, beyond {limit}"
            for limit, low in zip(self.each, costs.min(0, initial=np.inf), strict=True)
            if limit.bound < low < np.inf
        )
        return "".join(words)

    def met(self, costs: Float64[ndarray, "*n L"]) -> Bool[ndarray, "*n"]:
        """True where every cost is within its limit."""
        return np.asarray((costs <= self.bounds).all(-1))


NO_FURTHER_LIMITS = Limits()


@final
@dataclass(frozen=True)
class LimitSet:
    """The time limit and the other limits of one network."""

    limit_ms: float
    limits: Limits
    texts: Mapping[str, str]  # as in settings: T, and RAM and flash where they are named

    def met(
        self, compared_ms: Float64[ndarray, "n"], architectures: Int64[ndarray, "n D"]
    ) -> Bool[ndarray, "n"]:
        """True where a network is within every limit, by its latency with the margin of a prediction."""
        within = np.asarray(compared_ms <= self.limit_ms)
        if self.limits:
            within[within] = self.limits.met(self.limits.costs(architectures[within]))
        return within

    def __str__(self) -> str:
        return ", ".join(f"{symbol} = {text}" for symbol, text in self.texts.items())
