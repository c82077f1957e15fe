"""What a study searches on: devices and limits, and boards of several devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import final

import numpy as np

from latency.base import LatencyOracle
from nas.accuracy.base import Accuracy
from nas.study.boards import Board, combinations, together
from nas.study.config import StudyConfig
from nas.trials.preflight import describe_limit, require_complete
from nas.trials.survey import Landscape, survey
from runtime.shell.errors import UserError
from runtime.shell.units import milliseconds


@final
class Problems:
    """Every device with its limits, and the whole space on it."""

    def __init__(self, config: StudyConfig, accuracy: Accuracy) -> None:
        self.oracles: dict[str, LatencyOracle] = {}  # by device
        self.landscapes: dict[tuple[str, float], Landscape] = {}  # by device and limit in ms
        self.named: dict[str, list[tuple[str, float]]] = {}  # by the device's name in the settings
        self.boards: list[Board] = []
        self._config, self._accuracy = config, accuracy
        self._by_name: dict[str, LatencyOracle] = {}
        for name, limit in _alone(config):
            self._add_named(name, limit)
        for text in config.boards:
            for units in combinations(text):
                self._add_board(units)

    def _add_board(self, units: Sequence[tuple[str, str]]) -> None:
        """Its devices alone, then all of them together."""
        board, mapped = together([self._add_named(name, left) for name, left in units])
        if board not in self.boards:
            if self._config.budget < len(units):
                raise UserError(
                    f"budget={self._config.budget} gives not one sample to each of the {len(units)} "
                    f"devices of a board; raise budget"
                )
            self._add(board.device, mapped, board.limit_ms)
            self.boards.append(board)

    def _add_named(self, name: str, limit: str) -> tuple[LatencyOracle, float]:
        if name not in self._by_name:
            self._by_name[name] = self._config.latency.build(name, self._config.task)
        oracle = self._by_name[name]
        limit_ms = _limit_ms(limit, self._accuracy, oracle)
        self._add(name, oracle, limit_ms)
        return oracle, limit_ms

    def _add(self, name: str, oracle: LatencyOracle, limit_ms: float) -> None:
        landscape = _survey(self._accuracy, oracle, limit_ms)
        describe_limit(landscape, oracle.device)  # refuses a limit that nothing meets
        problem = (oracle.device, limit_ms)
        self.oracles[oracle.device] = oracle
        self.landscapes[problem] = landscape
        known = self.named.setdefault(name, [])
        if problem not in known:
            known.append(problem)


def _alone(config: StudyConfig) -> Iterator[tuple[str, str]]:
    yield from product(config.devices, config.limits)
    for problem in config.problems:
        device, at, limit = problem.rpartition("@")
        if not at:
            raise UserError(f"problems={problem} is not of the form device@limit, as x/b1@17ms")
        yield device, limit


def _limit_ms(text: str, accuracy: Accuracy, oracle: LatencyOracle) -> float:
    """Milliseconds of a time, or of the share of the device's architectures that meet it."""
    if not text.endswith("%"):
        return milliseconds(text)
    try:
        share = float(text[:-1]) / 100
    except ValueError as error:
        raise UserError(f"limits={text} is not a share; write for example 30%") from error
    if not 0 < share <= 1:
        raise UserError(f"limits={text} is not a share between 0% and 100%")
    latency_ms = _survey(accuracy, oracle, np.inf).latency_ms
    return round(float(np.quantile(latency_ms, share)), 4)


def _survey(accuracy: Accuracy, oracle: LatencyOracle, limit_ms: float) -> Landscape:
    landscape = survey(accuracy, oracle, limit_ms)
    if landscape is None:
        raise UserError(
            "a study measures the distance to the exact optimum, so its sources must answer for "
            "the whole space: accuracy=table or surrogate, latency=table or regression"
        )
    require_complete(landscape, oracle.device)
    return landscape
