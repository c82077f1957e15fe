"""Settings of live boards, and the export of the networks that they time.

docs/how-to/search-on-a-live-board.md is for its user.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import final

from edgenas_core.command.settings import setting
from edgenas_core.machine.stability import StabilityConfig
from edgenas_core.machine.timing import TimingConfig
from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task
from latency.base import Space
from latency.probe.address import Connect, command_of, is_experimental, split_addresses
from latency.probe.board import LiveBoard, Patience
from latency.probe.connection import Connection
from latency.probe.pool import BoardPool
from latency.probe.settings import EXPERIMENTAL, BoardPrecision, ProbeSettings, Runtime

OPSET = 13
"""ONNX operator set that TensorRT 8.2 of JetPack 4.6 and everything newer reads."""

PATIENCE = Patience()
"""How long a board is waited for."""

_WRITTEN = 8
"""Exported networks that are kept in memory, up to 6 MB each: a board may need one again."""


@final
@dataclass(frozen=True)
class Connected:
    """Boards that answer, the settings of their measurements, and the export of networks."""

    pool: BoardPool
    settings: ProbeSettings
    export: Callable[[str, str], bytes]  # (text of an architecture, format) -> file


@dataclass
class BoardsConfig:
    """Runtime to use on a board, and how to reach it."""

    runtime: Runtime = setting(
        Runtime.auto,
        "Software that runs the networks. auto: torch on this machine; on a board the first of this list that it has. "
        "graph: one CUDA graph, only for nas.measure on this machine.",
        heading="How a board is reached (docs/how-to/search-on-a-live-board.md)",
    )
    env: list[str] = setting([], "Environment of the Python on the board: [OMP_NUM_THREADS=1].")
    python: str | None = setting(None, "Python of the board.", unset="its python3")

    def connect(
        self,
        device: str,
        space: Space,
        task: Task,
        tell: Callable[[str], None],
        *,
        precision: BoardPrecision,
        batch_size: int,
        threads: int,
        core: int | None,
        timing: TimingConfig,
        quiet: StabilityConfig,
        layers: bool = False,
    ) -> Connected:
        """Connect to the boards at the addresses in `device`.

        Raises:
          UserError: if an address or a setting is malformed.
          LostConnectionError, BoardError: if a board cannot be used.
        """
        if self.runtime is Runtime.graph:
            raise UserError("runtime=graph is of this machine's GPU, device=cuda of nas.measure")
        export = lru_cache(_WRITTEN)(
            partial(exported, space, task, batch_size, precision=precision)
        )
        control = space.control()
        shape = tuple(space.example_input(control, task, batch_size).shape)
        settings = ProbeSettings(self.runtime, precision, shape, threads, core, timing, layers)
        first = cache(partial(export, space.text(control)))
        boards = self.boards(device, settings, first, tell)
        return Connected(BoardPool(boards, quiet, tell), settings, export)

    def boards(
        self,
        device: str,
        settings: ProbeSettings,
        control: Callable[[str], bytes],
        tell: Callable[[str], None],
    ) -> list[LiveBoard]:
        """The boards at the addresses in `device`, each of which has timed the reference network in its format.

        Raises:
          UserError: if an address is malformed.
          LostConnectionError, BoardError: if a board cannot be used.
        """
        boards = [
            LiveBoard(
                address,
                open_connection,
                settings=settings,
                control=control,
                patience=PATIENCE,
                tell=tell,
            )
            for address, open_connection in self._connections(device)
        ]
        for board in boards:
            runtime = Runtime(board.identity.runtime)
            if runtime in EXPERIMENTAL or is_experimental(board.address):
                tell(
                    f"experimental: {runtime.value} at {board.address} has been tested with a stand-in "
                    f"only; compare a time with one of your own"
                )
        return boards

    def _connections(self, device: str) -> list[tuple[str, Callable[[], Connection]]]:
        connect = Connect(self.python, env=tuple(self.env))
        return [
            (address, partial(Connection, address, command_of(address, connect), connect.timeout_s))
            for address in split_addresses(device)
        ]


def exported(
    space: Space,
    task: Task,
    batch_size: int,
    text: str,
    takes: str,
    *,
    precision: BoardPrecision = BoardPrecision.fp32,
) -> bytes:
    """An architecture's untrained network, as ONNX, TFLite or TorchScript."""
    import torch  # noqa: PLC0415 - seconds that a run with a full cache does not pay

    from edgenas_core.inference.formats.onnx_export import OPSET as LATEST_OPSET  # noqa: PLC0415 - loaded when needed
    from edgenas_core.inference.formats.onnx_export import onnx_bytes  # noqa: PLC0415 - imports torch
    from edgenas_core.inference.formats.onnx_quantisation import quantised  # noqa: PLC0415 - loaded when needed
    from edgenas_core.inference.formats.tflite_export import (  # noqa: PLC0415 - imports torch
        tflite_bytes,
        tflite_quantised,
        without_names,
    )
    from edgenas_core.inference.formats.tracing import torchscript_bytes  # noqa: PLC0415 - imports torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)  # idle threads would spin while a board on this machine measures
    try:
        architecture = space.parse(text)
        network = space.network(architecture, task)
        images = space.example_input(architecture, task, batch_size)
        if takes == "torchscript":
            control = space.example_input(space.control(), task, batch_size)
            if images.shape != control.shape:  # the agent makes the input of TorchScript networks
                raise UserError(
                    f"networks of space={space.name} take images of several sizes, which a board's "
                    f"torch cannot time; take runtime=onnxruntime or tensorrt"
                )
            return torchscript_bytes(network, [images])
        is_int8, noise = precision is BoardPrecision.int8, [images.numpy()]
        if takes == "tflite":
            tflite = tflite_bytes(network.eval(), images)
            return without_names(tflite_quantised(tflite, noise) if is_int8 else tflite)
        onnx = onnx_bytes(network, [images], opset=OPSET, latest_opset=LATEST_OPSET)
        return quantised(onnx, noise) if is_int8 else onnx
    except (ValueError, RuntimeError) as refused:
        raise UserError(f"{text}: {refused}") from refused
    finally:
        torch.set_num_threads(before)
