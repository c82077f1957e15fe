"""Rewards, controllers and sources of a user's own, as dataclasses of settings.

Each may be a dataclass of settings, like those of the package, an object that satisfies the protocol,
or a function: `reward(accuracy, latency_ms)`, `accuracy(architectures)`, `latency(architectures)`,
`controller(space, seeds)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, make_dataclass
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray
from omegaconf import MISSING

from controller.base import Controller, ControllerConfig
from edgenas_core.types.answers import real_numbers
from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from latency.base import Latencies, LatencyConfig, LatencyOracle
from nas.accuracy.base import Accuracies, Accuracy, AccuracyConfig, Split
from rewards.base import Reward

_BASES: Mapping[str, type[Any]] = {
    "reward": Reward,
    "controller": ControllerConfig,
    "accuracy": AccuracyConfig,
    "latency": LatencyConfig,
}
"""Class that the settings of each group inherit from."""


def values_of(part: Any) -> dict[str, Any]:
    """Settings that an object of a dataclass holds; none of a class, a function or another object."""
    if isinstance(part, type) or not is_dataclass(part):
        return {}
    values = {field.name: getattr(part, field.name) for field in fields(part)}
    return {name: value for name, value in values.items() if value != MISSING}


def config_of(group: str, part: Any) -> type[Any]:
    """The dataclass of settings that stands for a part of the user's own.

    Raises:
      UserError: if it is none of what the group takes.
    """
    base = _BASES[group]
    kind = part if isinstance(part, type) else type(part)
    if issubclass(kind, base):
        if not is_dataclass(kind):
            raise UserError(f"{group}={kind.__name__} must be a dataclass: add @dataclass")
        return kind
    if isinstance(part, type) or not (callable(part) or isinstance(part, Accuracy | LatencyOracle)):
        raise UserError(
            f"{group}={_name(part)} is no {base.__name__}, no object and no function that "
            f"{group}= takes (docs/how-to/bring-your-own-data.md)"
        )
    methods: dict[str, Callable[..., Any]] = {
        "reward": lambda _, accuracy, latency_ms: part(accuracy, latency_ms),
        "controller": lambda _, space, seeds: _controller(part, space, seeds),
        "accuracy": lambda *_: part if isinstance(part, Accuracy) else FunctionAccuracy(part),
        "latency": lambda _, device, *__: (
            part if isinstance(part, LatencyOracle) else FunctionLatency(part, device)
        ),
    }
    namespace: dict[str, Any] = {"score" if group == "reward" else "build": methods[group]}
    if group == "latency":
        namespace["needs_device"] = False
    made: type[Any] = make_dataclass(
        _name(part).replace("lambda", "own"),
        [],
        bases=(base,),
        namespace=namespace,
    )
    return made


def _name(part: Any) -> str:
    """Name of a class, a function, or an object's class, as a setting takes it."""
    return str(getattr(part, "__name__", type(part).__name__)).strip("<>")


def _controller(function: Callable[..., Any], space: Any, seeds: Any) -> Controller:
    controller = function(space, seeds)
    if not isinstance(controller, Controller):
        raise UserError(
            f"{_name(function)} returned a {type(controller).__name__}, not a Controller"
        )
    return controller


class _OwnFunction:
    """A function from rows of choice indices `(n, D)` to n numbers."""

    instant = False  # so the whole space is not asked for

    def __init__(self, function: Callable[[Int64[ndarray, "n D"]], Any]) -> None:
        self._function = function
        self.source = _name(function)
        self.description = f"by the function {self.source}"

    def known(self, architectures: Int64[ndarray, "*n D"]) -> Bool[ndarray, "*n"]:
        """Return True for every architecture."""
        return np.ones(architectures.shape[:-1], bool)

    def _numbers(
        self, architectures: Int64[ndarray, "*n D"]
    ) -> tuple[Float64[ndarray, "*n"], ndarray]:
        rows = architectures.reshape(-1, architectures.shape[-1]).copy()
        numbers = real_numbers(f"{self.source} returned", self._function(rows), rows.shape[:1])
        shape = architectures.shape[:-1]
        return numbers.reshape(shape), np.full(shape, Kind.own, np.int8)


@final
class FunctionAccuracy(_OwnFunction):
    """An accuracy source of the user's own function, which returns fractions."""

    split = Split.valid

    def answer(self, architectures: Int64[ndarray, "*n D"]) -> Accuracies:
        """Ask the function; UserError if it returns no numbers."""
        return Accuracies(*self._numbers(architectures))

    def test(self, architectures: Int64[ndarray, "*n D"]) -> Float64[ndarray, "*n"]:
        """Return NaN: the function knows one split."""
        return np.full(architectures.shape[:-1], np.nan)


@final
class FunctionLatency(_OwnFunction):
    """A latency source of the user's own function, which returns milliseconds."""

    def __init__(self, function: Callable[[Int64[ndarray, "n D"]], Any], device: str) -> None:
        super().__init__(function)
        self.device = device

    def answer(self, architectures: Int64[ndarray, "*n D"]) -> Latencies:
        """Ask the function; UserError if it returns no numbers."""
        return Latencies(*self._numbers(architectures))
