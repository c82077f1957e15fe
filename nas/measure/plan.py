"""The networks that `nas.measure` times, in their order."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
from jaxtyping import Int64
from numpy import ndarray

from edgenas_core.inference.backend import Precision
from edgenas_core.types.architectures import Enumerable
from edgenas_core.types.errors import UserError, require_at_least_1
from edgenas_core.types.task import Task
from latency.base import EnumerableSpace, Space, every_architecture
from latency.measuring.settings import MeasureConfig
from latency.models.process import FEWEST_NETWORKS
from latency.probe.settings import Runtime
from latency.sources.transfer import choose_networks

_BOARD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

_REPEATS, _REPEATS_OF_CALIBRATION = 20, 3
_CALIBRATION = 10
_MOST_DRAWS = 1000
"""Attempts to draw one more distinct network before a space counts as exhausted."""


def completed(config: MeasureConfig, task: Task) -> MeasureConfig:
    """The settings with the name of the task, and the number of calibration networks for a transfer.

    Raises:
      UserError: if a setting is below 1, or two of them exclude each other.
    """
    require_at_least_1(
        {
            "batch_size": config.batch_size,
            "threads": config.threads,
            "timing.samples": config.timing.samples,
        }
    )
    config.require_sensible()
    if config.minutes is not None and not 0 < config.minutes < math.inf:
        raise UserError(f"minutes={config.minutes:g} must be above 0")
    if config.seed < 0:
        raise UserError(f"seed={config.seed} must not be negative")
    if config.board is not None and not _BOARD.fullmatch(config.board):
        raise UserError(
            f"board={config.board} must be letters, digits, '.', '_' and '-', and begin with a letter "
            f"or a digit: it becomes part of device ids and file names"
        )
    if not config.out:
        raise UserError("out= is empty; name the folder of the measurement")
    config = replace(config, dataset=task.name)
    if config.transfer and config.probes is None:
        config = replace(config, probes=_CALIBRATION)
    if config.probes is not None and config.networks is not None:
        raise UserError(
            f"networks={config.networks} draws them, probes={config.probes} chooses them: "
            f"give one of the two"
        )
    if config.layers is not None:
        config = _completed_for_layers(config)
    if config.scenario is not None and config.is_remote:
        raise UserError(
            f"scenario={config.scenario}: hogs run beside the networks of this machine; install "
            f"edgenas on the board and measure there, with device=cpu or device=cuda"
        )
    return config


def _completed_for_layers(config: MeasureConfig) -> MeasureConfig:
    """The settings of a measurement of layers: by ONNX Runtime's profile, or in graphs of this machine's GPU."""
    named, runtime = f"layers={config.layers}", config.runtime
    if (config.layers or 0) < 1:
        raise UserError(f"{named} must be at least 1: the number of distinct layers to time")
    if config.probes is not None:
        raise UserError(f"{named} chooses the networks itself; leave out probes= and transfer=true")
    if config.is_remote:
        if runtime not in {Runtime.auto, Runtime.onnxruntime}:
            raise UserError(
                f"{named}: runtime={runtime.name} times no layers; take runtime=onnxruntime"
            )
        return replace(config, repeats=config.repeats or 0, runtime=Runtime.onnxruntime)
    if config.addresses != "cuda":
        raise UserError(
            f"{named}: device={config.addresses} times no layers; take device=cmd:// for this machine's processor, "
            f"the address of a board, or device=cuda runtime=graph"
        )
    if runtime is not Runtime.graph or config.precision is not Precision.fp32:
        raise UserError(
            f"{named}: runtime={runtime.name} precision={config.precision.value} times no layers; of a GPU take "
            f"runtime=graph precision=fp32"
        )
    if config.scenario is not None:
        raise UserError(f"{named}: layers are timed alone; leave out scenario={config.scenario}")
    return replace(config, repeats=config.repeats or 0)


def plan(config: MeasureConfig, space: Space) -> Int64[ndarray, "n D"]:
    """Architectures in the order they are measured: one of each network, and the repeats.

    Repeats are spread over the second half, so that an interrupted measurement has some, and half of
    all networks lie between a network and its repeat: their difference holds the noise of minutes.

    Raises:
      UserError: if there are not that many networks.
    """
    chosen = _chosen(config, space)
    order = np.arange(len(chosen))
    repeats = config.repeats
    if repeats is None:
        repeats = min(len(order), _REPEATS if config.probes is None else _REPEATS_OF_CALIBRATION)
    if not 0 <= repeats <= len(order):
        setting = "networks" if config.probes is None else "probes"
        raise UserError(f"repeats={repeats} is not between 0 and {setting}={len(order)}")
    again, half = order[:repeats], len(order) // 2
    step = max(1.0, (len(order) - half) / max(1, len(again)))
    when = np.concatenate([order, half + (1 + np.arange(len(again))) * step - 1])
    spread = np.concatenate([order, again])[np.argsort(when, kind="stable")]
    return np.asarray(chosen[spread])


def _chosen(config: MeasureConfig, space: Space) -> Int64[ndarray, "n D"]:
    if config.probes is not None:
        if config.probes < FEWEST_NETWORKS:
            raise UserError(
                f"probes={config.probes} must be at least {FEWEST_NETWORKS}; {_CALIBRATION} are good"
            )
        return choose_networks(space, config.probes, "probes")
    if isinstance(space, Enumerable):
        numbers = distinct(space)
        count = min(config.layers or len(numbers), len(numbers))
        count = count if config.networks is None else config.networks
        if not 1 <= count <= len(numbers):
            raise UserError(f"networks={count} is not between 1 and {len(numbers):,}")
        order = np.random.default_rng(config.seed).permutation(numbers)
        return space.architectures(order[:count])
    return _sample(config, space)


def distinct(space: EnumerableSpace) -> Int64[ndarray, " n"]:
    """Numbers of the canonical architectures, in ascending order."""
    return np.unique(space.numbers(space.canonical(every_architecture(space))))


def _sample(config: MeasureConfig, space: Space) -> Int64[ndarray, "n D"]:
    """Distinct canonical architectures of a space that cannot be listed, drawn by the seed."""
    count = config.layers if config.networks is None else config.networks
    if count is None:
        raise UserError(f"space={space.name} cannot be listed; add networks=200, say")
    if count < 1:
        raise UserError(f"networks={config.networks} must be at least 1")
    generator = np.random.default_rng(config.seed)
    distinct_rows: dict[bytes, Int64[ndarray, "D"]] = {}
    for _ in range(_MOST_DRAWS):
        missing = count - len(distinct_rows)
        for row in space.canonical(space.sample(generator, missing)):
            distinct_rows.setdefault(row.tobytes(), row)
        if len(distinct_rows) == count:
            break
    if config.networks in {None, len(distinct_rows)}:
        return np.stack(list(distinct_rows.values()))
    raise UserError(
        f"networks={config.networks}: only {len(distinct_rows):,} distinct networks of space={space.name} were "
        f"found; ask for fewer"
    )


def chosen_in_words(config: MeasureConfig, space: Space, timed: set[str]) -> str:
    """The choice of the networks in words, for the table's origin.

    `timed` are the texts of all of them; some may be of commands before this one, in the same folder.
    """
    planned = {space.text(row) for row in plan(config, space)}
    others = len(timed - planned)
    before = f"; and {others:,} that other commands measured into the same folder" if others else ""
    if not isinstance(space, Enumerable):
        return (
            f"{config.networks:,} distinct networks, drawn at random (seed {config.seed}){before}"
        )
    count = len(distinct(space))
    if config.probes is not None:
        return (
            f"{config.probes:,} of the {count:,} distinct networks, the first architecture of each: the "
            f"calibration networks that nas.transfer chooses{before}"
        )
    networks = count if config.networks is None else config.networks
    return (
        f"{networks:,} of the {count:,} distinct networks, the first architecture of each, in a random "
        f"order (seed {config.seed}){before}"
    )
