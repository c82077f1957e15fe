"""The record of trials: architectures, states, answers with their kinds, costs and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int8, Int64
from numpy import ndarray


class State(IntEnum):
    """State of a trial. The values are part of files: new states are appended."""

    asked = 0
    done = 1
    failed = 2


@final
@dataclass(frozen=True)
class Trials:
    """Columns of trials: `(R, B)` in a step of R replicas, `(n,)` in the record of one search.

    What is not known is NaN, and its kind `missing`. Kinds are values of
    `edgenas_core.types.kind.Kind`. The arrays become read-only, as controllers and callbacks get them.
    """

    number: Int64[ndarray, "*n"]  # from 0, in the order in which a replica asked
    architectures: Int64[ndarray, "*n D"]
    state: Int8[ndarray, "*n"]
    accuracy: Float64[ndarray, "*n"]  # on the split that is searched on, a fraction
    accuracy_kind: Int8[ndarray, "*n"]
    latency_ms: Float64[ndarray, "*n"]
    latency_kind: Int8[ndarray, "*n"]
    costs: Float64[ndarray, "*n L"]  # those that have a limit beside the latency, in its unit
    ratios: Float64[ndarray, "*n M"]  # each cost divided by its limit, the latency first
    rewards: Float64[ndarray, "*n"]
    fidelity: Int8[ndarray, "*n"]  # position among the fidelities of the accuracy source
    seconds: Float64[ndarray, "*n"]  # spent on the answers
    error: ndarray  # texts, "*n"; empty where the trial did not fail

    def __post_init__(self) -> None:
        for name in _COLUMNS:
            getattr(self, name).setflags(write=False)

    def __len__(self) -> int:
        """Trials of each replica."""
        return int(self.state.shape[-1])

    @property
    def first(self) -> int:
        """Number of the first of these trials."""
        return int(self.number.reshape(-1)[0])

    @property
    def last(self) -> int:
        """Trials that each replica has after these, where they are asked and answered in turn."""
        return self.first + len(self)

    @property
    def failed(self) -> Bool[ndarray, "*n"]:
        """True where an accuracy is missing for good."""
        return np.asarray(self.state == State.failed)

    def replica(self, number: int) -> Trials:
        """The trials of one replica."""
        return self._each(lambda column: column[number])

    def as_batch(self) -> Trials:
        """The record of one search as a batch of one replica."""
        return self._each(lambda column: column[None])

    def rows(self, which: ndarray | slice) -> Trials:
        """Subset of the trials of one search, by indices or by mask."""
        return self._each(lambda column: column[which])

    @classmethod
    def joined(cls, parts: Iterable[Trials]) -> Trials:
        """Trials one after another."""
        every = list(parts)
        columns = {
            name: np.concatenate([getattr(part, name) for part in every]) for name in _COLUMNS
        }
        return cls(**columns)

    def _each(self, take: Callable[[ndarray], ndarray]) -> Trials:
        return Trials(**{name: take(getattr(self, name)) for name in _COLUMNS})


_COLUMNS = tuple(field.name for field in fields(Trials))
