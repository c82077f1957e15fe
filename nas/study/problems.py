"""Search problems of a study: devices and limits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import final

import numpy as np

from edgenas_core.types.architectures import Enumerable
from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task
from edgenas_core.types.units import milliseconds
from latency.base import LatencyOracle
from nas.accuracy.base import Accuracy
from nas.spaces.base import SearchSpace
from nas.study.config import StudyConfig
from nas.trials.survey import Survey, describe_limit, require_complete, survey

_LIMIT = re.compile(r"[\d.]+(us|ms|s|%)?")
"""Distinguishes the limit of `device@17ms` from the statistic of `device@p99`."""


@final
class Problems:
    """Every device with its limits, surveyed where the space can be listed and answers are instant.

    Raises:
      UserError: if a limit cannot be met or read, a table is incomplete, or a limit needs answers
        about the whole space and there are none.
    """

    def __init__(
        self, config: StudyConfig, space: SearchSpace, task: Task, accuracy: Accuracy
    ) -> None:
        self.oracles: dict[str, LatencyOracle] = {}  # by device
        self.surveys: dict[tuple[str, float], Survey] = {}  # by device and limit in ms
        self.named: dict[str, list[tuple[str, float]]] = {}  # by the device's name in the settings
        self.why_not_exact = ""  # why the optimum of the space is not known; empty if it is
        self._config, self._space, self._task, self._accuracy = config, space, task, accuracy
        self._by_name: dict[str, LatencyOracle] = {}
        self._whole: dict[str, Survey] = {}  # by device, without a limit
        if not isinstance(space, Enumerable):
            self.why_not_exact = f"space={space.name} cannot be listed"
        elif not accuracy.instant:
            self.why_not_exact = f"accuracy={accuracy.source} does not answer for the whole space"
        for name, limit in _named_limits(config):
            self._add(name, limit)

    def _add(self, name: str, limit: str) -> None:
        if name not in self._by_name:
            latency, scenario = self._config.latency, self._config.scenario
            device = latency.in_scenario(name, scenario, self._space) if scenario else name
            self._by_name[name] = latency.build(device, self._space, self._task)
        oracle = self._by_name[name]
        limit_ms = self._limit_ms(limit, oracle)
        problem = (oracle.device, limit_ms)
        self.oracles[oracle.device] = oracle
        whole = self._survey(oracle)
        if whole is not None:
            self.surveys[problem] = replace(whole, limit_ms=limit_ms)
            describe_limit(self.surveys[problem], oracle.device)  # refuses an infeasible limit
        problems = self.named.setdefault(name, [])
        if problem not in problems:
            problems.append(problem)

    def _limit_ms(self, text: str, oracle: LatencyOracle) -> float:
        """Milliseconds of a time, or of the share of the architectures that meet it on the device."""
        if not text.endswith("%"):
            return milliseconds(text)
        try:
            share = float(text[:-1]) / 100
        except ValueError as error:
            raise UserError(f"limits={text} is not a share; write for example 30%") from error
        if not 0 < share <= 1:
            raise UserError(f"limits={text} is not a share between 0% and 100%")
        whole = self._survey(oracle)
        if whole is None:
            raise UserError(
                f"limits={text} needs answers about the whole space, but {self.why_not_exact}; use "
                f"a time"
            )
        return round(float(np.quantile(whole.latency_ms, share)), 4)

    def _survey(self, oracle: LatencyOracle) -> Survey | None:
        if not self.why_not_exact and not oracle.instant:
            self.why_not_exact = f"latency={oracle.source} does not answer for the whole space"
        if self.why_not_exact:
            return None
        if oracle.device not in self._whole:
            whole = survey(self._space, self._accuracy, oracle, np.inf)
            assert whole is not None
            require_complete(whole, oracle.device)
            self._whole[oracle.device] = whole
        return self._whole[oracle.device]


def _named_limits(config: StudyConfig) -> Iterator[tuple[str, str]]:
    """Each device with its own limit, or with those of all."""
    for name in config.devices:
        device, at, limit = name.rpartition("@")
        if at and _LIMIT.fullmatch(limit):
            yield device, limit
        else:
            yield from product([name], config.limits)
