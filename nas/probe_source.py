"""`latency=probe`: the search's networks are written here, and timed on a live board.

What the board is and how it is reached, `latency/probe/` knows; docs/probe.md is for its user.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, final

import numpy as np
import platformdirs
from jaxtyping import Int64
from numpy import ndarray
from rich.console import Console

from latency.probe.address import Connect, command_of, split_addresses
from latency.probe.board import Board, Patience
from latency.probe.cache import Cache
from latency.probe.farm import Farm
from latency.probe.link import Link
from latency.probe.oracle import Networks, OnDisturbance, ProbeLatency
from latency.probe.settings import Precision, Runtime, Settings
from nas.accuracy.base import Dataset
from nas.errors import UserError
from nas.latency_sources import LatencyConfig
from nas.search_space import NAS_BENCH_201
from runtime.timing import Statistic, TimingConfig

OPSET = 13
"""Of the ONNX files: what TensorRT 8.2 of JetPack 4.6 reads, and all that is newer."""

_CONTROL = int(NAS_BENCH_201.index(NAS_BENCH_201.from_operations(["nor_conv_3x3"] * 6)))
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


@final
@dataclass
class ProbeLatencyConfig(LatencyConfig):
    """How a board is reached and asked."""

    runtime: Runtime = Runtime.auto
    precision: Precision = Precision.fp32
    batch_size: int = 1
    threads: int = 1
    core: int | None = None
    statistic: Statistic = Statistic.median
    timing: TimingConfig = field(default_factory=TimingConfig)
    control_drift: float = 0.05
    on_disturbance: OnDisturbance = OnDisturbance.flag
    confirm_top: int = 5
    unrunnable_ms: float | None = None  # beyond T
    python: str | None = None
    ssh_config: Path | None = None
    connect_s: float = 20.0
    silence_s: float = 120.0
    tries: int = 5
    backoff_s: float = 2.0
    cache: Path | None = None

    def connect(self, device: str, dataset: Dataset, tell: Callable[[str], None]) -> Connected:
        """Connect to the boards at the addresses in `device`.

        Raises:
          UserError: if an address or a setting is malformed.
          LinkError, BoardError: if a board cannot be used.
        """
        self._check()
        side = dataset.image_size
        settings = Settings(
            self.runtime,
            self.precision,
            (self.batch_size, 3, side, side),
            self.threads,
            self.core,
            self.timing,
        )
        export = lru_cache(_WRITTEN)(partial(_exported, dataset, self.batch_size))
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
        networks = Networks(_number_of, export, NAS_BENCH_201.strings.__getitem__)
        return Connected(Farm(boards, self.control_drift, tell), settings, networks)

    def build(self, device: str, dataset: Dataset) -> ProbeLatency:
        """The oracle over the boards at the addresses in `device`.

        Raises:
          UserError: if an address or a setting is malformed.
          LinkError, BoardError: if a board cannot be used.
        """
        console = Console(highlight=False)

        def tell(line: str) -> None:
            console.print(line, soft_wrap=True, markup=False)

        connected = self.connect(device, dataset, tell)
        settings, boards = connected.settings, connected.farm.boards
        found = boards[0].identity
        about = {board.address: board.facts for board in boards}
        folder = self.cache or Path(platformdirs.user_cache_dir("edgenas")) / "probe"
        key: dict[str, Any] = {
            "device": found.device(settings),
            "identity": asdict(found),
            "settings": settings.request(found.runtime),
            "dataset": dataset.value,
        }
        kept = Cache(folder.expanduser(), key, about)
        where = ", ".join(board.address for board in boards)
        oracle = ProbeLatency(
            device=found.device(settings),
            description=(
                f"probe: measured live on {found.board} ({where}), {found.runtime} "
                f"{found.version}, {self.threads} thread{'s' if self.threads > 1 else ''}, "
                f"{self.statistic.value} of {self.timing.samples}; {len(kept):,} networks in "
                f"{kept.path}"
            ),
            farm=connected.farm,
            cache=kept,
            networks=connected.networks,
            tell=tell,
            statistic=self.statistic,
            control_drift=self.control_drift,
            on_disturbance=self.on_disturbance,
            unrunnable_ms=self.unrunnable_ms,
            confirm_top=self.confirm_top,
        )
        stale = sum(not oracle.still_holds(timed) for timed in kept.all())
        if stale:
            tell(
                f"{stale:,} of {len(kept):,} cached times were taken when the control network took "
                f"more than {self.control_drift:.0%} longer or shorter: they are taken again"
            )
        return oracle

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

    def _check(self) -> None:
        for name, value in (
            ("batch_size", self.batch_size),
            ("threads", self.threads),
            ("tries", self.tries),
            ("timing.samples", self.timing.samples),
            ("timing.warm_up_window", self.timing.warm_up_window),
        ):
            if value < 1:
                raise UserError(f"latency.{name}={value} must be at least 1")
        for name, number in (
            ("connect_s", self.connect_s),
            ("silence_s", self.silence_s),
            ("control_drift", self.control_drift),
            ("unrunnable_ms", self.unrunnable_ms),
        ):
            if number is not None and not 0 < number <= _MOST:
                raise UserError(f"latency.{name}={number:g} must be positive, {_MOST:,} at most")
        if self.confirm_top < 0 or not 0 <= self.backoff_s < np.inf:
            raise UserError("latency.confirm_top and latency.backoff_s must not be negative")


def _number_of(architectures: Int64[ndarray, "*n 6"]) -> Int64[ndarray, "*n"]:
    return np.asarray(NAS_BENCH_201.network_class[NAS_BENCH_201.index(architectures)])


def _exported(dataset: Dataset, batch_size: int, number: int, takes: str) -> bytes:
    """An architecture's untrained network, as ONNX or as TorchScript."""
    import torch  # noqa: PLC0415 - seconds that a run with a full cache does not pay

    from nas.network import build_network, example_images  # noqa: PLC0415 - imports torch
    from runtime.onnx_export import onnx_bytes  # noqa: PLC0415 - imports torch
    from runtime.torchscript_export import torchscript_bytes  # noqa: PLC0415 - imports torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)  # idle threads would spin while a board on this machine measures
    try:
        network = build_network(NAS_BENCH_201.architectures[number], dataset)
        images = example_images(dataset, batch_size=batch_size)
        if takes == "torchscript":
            return torchscript_bytes(network, [images])
        return onnx_bytes(network, [images], opset=OPSET)
    finally:
        torch.set_num_threads(before)
