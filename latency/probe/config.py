"""How live boards are reached, and the networks that they are sent, which are written here.

What a board is, `latency/probe/` knows; docs/how-to/search-on-a-live-board.md is for its user.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Int64
from numpy import ndarray

from latency.probe.address import Connect, command_of, split_addresses
from latency.probe.board import Board, Patience
from latency.probe.farm import Farm
from latency.probe.link import Link
from latency.probe.oracle import Networks
from latency.probe.settings import Precision, Runtime, Settings
from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from runtime.machine.stability import StabilityConfig
from runtime.machine.timing import TimingConfig
from runtime.network.task import Task
from runtime.shell.errors import UserError, require_at_least_1

OPSET = 13
"""Of the ONNX files: what TensorRT 8.2 of JetPack 4.6 reads, and all that is newer."""

_CONTROL = int(NAS_BENCH_201.numbers(NAS_BENCH_201.from_operations(["nor_conv_3x3"] * 6)))
"""The slowest network of the space, as in `nas.measure`."""

_MOST = 100_000
"""Of any setting that is a time: charts have a bin a millisecond."""

_WRITTEN = 8
"""Networks that are held in memory as files, up to 6 MB each: a board may have to be sent one again."""


@final
@dataclass(frozen=True)
class Connected:
    """Boards that answer, what they were asked with, and what they can be asked."""

    farm: Farm
    settings: Settings
    networks: Networks


@dataclass
class BoardsConfig:
    """Which runtime of a board is asked, how it is reached, and how long it is waited for."""

    runtime: Runtime = Runtime.auto
    python: str | None = None
    ssh_config: Path | None = None
    connect_s: float = 20.0
    silence_s: float = 120.0
    tries: int = 5
    backoff_s: float = 2.0

    def connect(
        self,
        device: str,
        task: Task,
        tell: Callable[[str], None],
        *,
        precision: Precision,
        batch_size: int,
        threads: int,
        core: int | None,
        timing: TimingConfig,
        quiet: StabilityConfig,
    ) -> Connected:
        """Connect to the boards at the addresses in `device`.

        Raises:
          UserError: if an address or a setting is malformed.
          LinkError, BoardError: if a board cannot be used.
        """
        require_at_least_1({"latency.tries": self.tries})
        require_times({"latency.connect_s": self.connect_s, "latency.silence_s": self.silence_s})
        if not 0 <= self.backoff_s <= _MOST:
            raise UserError(
                f"latency.backoff_s={self.backoff_s:g} must not be negative, {_MOST:,} at most"
            )
        side = task.image_side
        shape = (batch_size, 3, side, side)
        settings = Settings(self.runtime, precision, shape, threads, core, timing)
        export = lru_cache(_WRITTEN)(partial(_exported, task, batch_size))
        control = cache(partial(export, _CONTROL))
        patience = Patience(self.silence_s, self.tries, self.backoff_s)
        boards = [
            Board(
                address,
                open_link,
                settings=settings,
                control=control,
                patience=patience,
                tell=tell,
            )
            for address, open_link in self._links(device)
        ]
        networks = Networks(_number_of, _own_number_of, export, NAS_BENCH_201.strings.__getitem__)
        return Connected(Farm(boards, quiet, tell), settings, networks)

    def _links(self, device: str) -> list[tuple[str, Callable[[], Link]]]:
        connect = Connect(
            self.python,
            None if self.ssh_config is None else self.ssh_config.expanduser(),
            self.connect_s,
        )
        try:
            return [
                (address, partial(Link, address, command_of(address, connect), self.connect_s))
                for address in split_addresses(device)
            ]
        except ValueError as error:
            raise UserError(str(error)) from error


def addresses(device: object) -> str:
    """What the user wrote as `device`, a list's addresses separated by space."""
    return " ".join(map(str, device)) if isinstance(device, list) else str(device)


def require_times(settings: dict[str, float | None]) -> None:
    """Refuse what is no time, or a longer one than anyone waits.

    Raises:
      UserError: for the first of them.
    """
    for name, number in settings.items():
        if number is not None and not 0 < number <= _MOST:
            raise UserError(f"{name}={number:g} must be positive, {_MOST:,} at most")


def _number_of(architectures: Int64[ndarray, "*n 6"]) -> Int64[ndarray, "*n"]:
    return np.asarray(NAS_BENCH_201.network_class[_own_number_of(architectures)])


def _own_number_of(architectures: Int64[ndarray, "*n 6"]) -> Int64[ndarray, "*n"]:
    return np.asarray(NAS_BENCH_201.numbers(architectures))


def _exported(task: Task, batch_size: int, number: int, takes: str) -> bytes:
    """An architecture's untrained network, as ONNX or as TorchScript."""
    import torch  # noqa: PLC0415 - seconds that a run with a full cache does not pay

    from nas.spaces.nas_bench_201.network import build_network, example_images  # noqa: PLC0415 - imports torch
    from runtime.network.formats.onnx_export import onnx_bytes  # noqa: PLC0415 - imports torch
    from runtime.network.formats.torchscript_export import torchscript_bytes  # noqa: PLC0415 - imports torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)  # idle threads would spin while a board on this machine measures
    try:
        network = build_network(NAS_BENCH_201.rows[number], task)
        images = example_images(task, batch_size=batch_size)
        if takes == "torchscript":
            return torchscript_bytes(network, [images])
        return onnx_bytes(network, [images], opset=OPSET)
    finally:
        torch.set_num_threads(before)
