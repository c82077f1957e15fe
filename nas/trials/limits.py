"""Limits beside the latency's: energy and parameters. With T alone there are none of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from nas.config.energy import energy_of
from nas.spaces.nas_bench_201.costs import parameters
from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from runtime.network.task import Task
from runtime.shell.units import millijoules, parameter_count

_THOUSANDS = 10_000
"""From here on a count is read in millions."""


def cost_text(cost: float, unit: str, digits: int = 3) -> str:
    """A cost to be read: 4.2 mJ, or where it is a count 10, 1,500 and 0.86 M."""
    rounded = float(f"{cost:.{digits}g}")  # 1000 and not 1e+03
    if unit:
        return f"{rounded:g} {unit}"
    return f"{rounded:,g}" if rounded < _THOUSANDS else f"{rounded / 1e6:g} M"


def label_of(symbols: Iterable[str]) -> str:
    """What a network is within, given the symbols beside T: T, or T, E and P."""
    *first, last = ("T", *symbols)
    return f"{', '.join(first)} and {last}" if first else last


@final
@dataclass(frozen=True)
class Limit:
    """What every architecture costs, and how much is allowed."""

    symbol: str  # as the user writes it: E or P
    name: str  # in files: energy_mj or parameters
    unit: str  # mJ, or empty for a count
    bound: float
    source: str  # where the costs come from, in words
    costs: Float64[ndarray, "15625"]  # in official order, positive

    def of(self, architectures: Int64[ndarray, "*n 6"]) -> Float64[ndarray, "*n"]:
        """What these cost."""
        return np.asarray(self.costs[NAS_BENCH_201.numbers(architectures)])

    def text(self, cost: float) -> str:
        """A cost with its unit."""
        return cost_text(cost, self.unit)

    @property
    def title(self) -> str:
        """Its name without underscores, with the unit: energy (mJ)."""
        return f"{self.name.split('_')[0]} ({self.unit})" if self.unit else self.name

    def __str__(self) -> str:
        return f"{self.symbol} = {cost_text(self.bound, self.unit, digits=6)}"


@final
@dataclass(frozen=True)
class Limits:
    """Every limit but the latency's, in a fixed order."""

    each: tuple[Limit, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.each)

    @property
    def symbols(self) -> tuple[str, ...]:
        """As the user writes them, in their order."""
        return tuple(limit.symbol for limit in self.each)

    @property
    def label(self) -> str:
        """What a network is within: T, or T, E and P."""
        return label_of(self.symbols)

    @cached_property
    def all_ratios(self) -> Float64[ndarray, "15625 L"]:
        """Each cost of the whole space divided by its limit."""
        ratios = np.empty((NAS_BENCH_201.size, len(self.each)))
        for column, limit in zip(ratios.T, self.each, strict=True):
            column[:] = limit.costs / limit.bound
        return ratios

    @cached_property
    def all_met(self) -> Bool[ndarray, "15625"]:
        """Which of the whole space are within all of these limits."""
        met = np.ones(NAS_BENCH_201.size, bool)
        for limit in self.each:
            met &= limit.costs <= limit.bound
        return met

    def ratios(self, architectures: Int64[ndarray, "*n 6"]) -> Float64[ndarray, "*n L"]:
        """Each cost divided by its limit."""
        if not self.each:
            return np.empty((*architectures.shape[:-1], 0))
        return np.asarray(self.all_ratios[NAS_BENCH_201.numbers(architectures)])

    def met(self, architectures: Int64[ndarray, "*n 6"]) -> Bool[ndarray, "*n"]:
        """Which are within all of these limits."""
        if not self.each:
            return np.ones(architectures.shape[:-1], bool)
        return np.asarray(self.all_met[NAS_BENCH_201.numbers(architectures)])


NO_FURTHER_LIMITS = Limits()


def limits_of(energy: str | None, count: str | None, device: str, task: Task) -> Limits:
    """The limits that a user wrote as E and P.

    Raises:
      UserError: if one cannot be read, or the device's energy is not known.
    """
    each = []
    if energy is not None:
        bound_mj = millijoules(energy)
        measured = energy_of(device)
        source = measured.source(task)
        each.append(Limit("E", "energy_mj", "mJ", bound_mj, source, measured.values_mj))
    if count is not None:
        counts = parameters(NAS_BENCH_201.rows, task).astype(float)
        source = f"counted, for {task.num_classes} classes"
        each.append(Limit("P", "parameters", "", parameter_count(count), source, counts))
    return Limits(tuple(each))
