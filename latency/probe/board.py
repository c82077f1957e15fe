"""One board: connected on demand and again after a loss; times one network at a time."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from edgenas_core.machine.monitors import loaded
from edgenas_core.machine.stability import StabilityConfig, clock_dropped, drifted
from edgenas_core.types.errors import UserError
from edgenas_core.types.printable import printable
from edgenas_core.types.units import require_ms
from latency.probe.connection import Connection, EndedError, LostConnectionError
from latency.probe.layer_times import LayerTime, layer_times
from latency.probe.settings import BoardPrecision, ProbeSettings, Runtime

_LONGEST_NAME = 200
"""Characters of a board's name that are used: it becomes part of a file's name."""

_LONGEST_WAIT_S = 60.0

LEAST_ONNXRUNTIME_OF_LAYERS = (1, 11)
"""Version from which ONNX Runtime's profile states the shapes of a layer's inputs and outputs."""

LEAST_VERSIONS = {"onnxruntime": (1, 6), "torch": (1, 9), "tflite_runtime": (2, 11)}
"""Oldest versions that read our files: opset 13, TorchScript of a torch of today, operations of TFLite."""

_MOST_WORK = 1.5
"""Times of one answer, added up, as a multiple of the wait for it by this machine's clock; `trtexec` overlaps copies."""

_GPU_CLOCK = re.compile(r"gpu|g[mpva]\d+b")
"""Matches the names of Jetson's GPU clocks: 57000000.gpu, 17000000.gv11b and 17000000.ga10b."""

_ON_GPU = ("tensorrt", "onnxruntime-cuda", "torch-cuda")

_SENSELESS = (AttributeError, KeyError, OverflowError, TypeError, ValueError)
"""Errors that a malformed answer raises."""


class UnrunnableError(Exception):
    """The board works, but cannot run this network; the message says why."""


class BoardError(ConnectionError):
    """The board cannot be used with any network; one line that begins with its address."""


@final
@dataclass(frozen=True)
class Identity:
    """Facts that are the same for all times of one device."""

    board: str
    runtime: str
    version: str  # of the runtime
    power_mode: str  # empty where it has none
    highest_khz: tuple[str, ...]

    def __str__(self) -> str:
        clocks = f"up to {', '.join(self.highest_khz)} kHz" if self.highest_khz else ""
        runtime = f"{self.runtime} {self.version}".strip()
        return ", ".join(filter(None, (self.board, runtime, self.power_mode, clocks)))

    def device(self, settings: ProbeSettings) -> str:
        """Board / runtime / precision / batch; more threads than one are another runtime."""
        threads = "" if settings.threads == 1 else f"-t{settings.threads}"
        board = re.sub(r"[^a-z0-9.]+", "-", self.board.lower()).strip("-") or "unknown"
        return f"{board}/{self.runtime}{threads}/{settings.precision.value}/b{settings.shape[0]}"


@final
@dataclass(frozen=True)
class BoardState:
    """Clock and load reported by the board right after a timing."""

    clock_mhz: float | None  # of the fastest processor that runs the networks; None if unknown
    other_load: float  # processors that others kept busy meanwhile; 0 if unknown


UNKNOWN = BoardState(None, 0.0)


@final
@dataclass(frozen=True)
class Timed:
    """Times of one network, and of the reference network in turns with it."""

    ms: Float64[ndarray, " n"]
    control_ms: Float64[ndarray, " m"]
    warm_up_calls: int
    is_stable: bool  # whether times settled during the warm-up
    report: dict[str, Any] = field(default_factory=dict)  # clocks, temperatures after the timing
    state: BoardState = UNKNOWN  # the part of the report that is watched
    layers: tuple[LayerTime, ...] = ()  # where they were asked for

    @property
    def control_median_ms(self) -> float:
        """Median of the reference network's times."""
        return float(np.median(self.control_ms))


@final
@dataclass(frozen=True)
class Patience:
    """Time limits and number of attempts for a board."""

    silence_s: float = 120.0
    tries: int = 5
    backoff_s: float = 2.0  # before the second try; doubles each time, up to a minute


@final
class LiveBoard:
    """Connects on construction; connects again after a loss, or raises."""

    def __init__(
        self,
        address: str,
        open_connection: Callable[[], Connection],
        *,
        settings: ProbeSettings,
        control: Callable[[str], bytes],
        patience: Patience,
        tell: Callable[[str], None],
    ) -> None:
        """Connect, choose the runtime and time the reference network.

        Args:
          address: for messages.
          open_connection: starts the agent.
          settings: of every measurement.
          control: the reference network in a format (onnx, tflite, torchscript).
          patience: with this board.
          tell: prints a line for the user.

        Raises:
          LostConnectionError: if the board cannot be reached.
          BoardError: if it has no runtime, or cannot run the reference network.
        """
        self.address = address
        self._open_connection = open_connection
        self._settings = settings
        self._control = control
        self._patience = patience
        self._tell = tell
        self._connection: Connection | None
        # the reference network's median and the clock are those to which later ones are compared
        self._connection, self.facts, self.identity, self.control_ms, self._clock_mhz = (
            self._connect()
        )

    @property
    def takes(self) -> str:
        """Format of networks for this board's runtime."""
        return _takes(self.identity.runtime)

    @property
    def pid(self) -> int | None:
        """Process id of the local command, or None if disconnected."""
        return None if self._connection is None else self._connection.pid

    def measure(self, network: bytes) -> Timed:
        """Time a network; a lost board is waited for and connected again.

        Raises:
          UnrunnableError: if the board refuses the network, or its agent dies of it each time.
          LostConnectionError: if the board does not come back.
          BoardError: if it comes back as another, or its clock is broken: it says more than fits into the wait.
        """
        deaths, tries = 0, self._patience.tries
        for attempt in range(1, tries + 1):
            try:
                connection = self._connected()
            except LostConnectionError as error:
                self._wait(error, attempt)
                continue
            asked_s = time.monotonic()
            try:
                answer = connection.request(
                    {"type": "measure", **self._settings.request(self.identity.runtime)},
                    network,
                    silence_s=self._patience.silence_s,
                )
            except LostConnectionError as error:
                self._connection = None
                deaths += isinstance(error, EndedError)
                if deaths == tries:
                    raise UnrunnableError(
                        f"the agent ended at each of {tries} tries to time it, as it does where "
                        f"memory is short: {error}"
                    ) from error
                self._wait(error, attempt)
                continue
            return self._timed(answer, network, time.monotonic() - asked_s)
        raise AssertionError  # the last attempt raises

    def disturbances(self, timed: Timed, quiet: StabilityConfig) -> tuple[str, ...]:
        """Reasons not to trust a time, a line each; () if there are none."""
        return (
            *drifted(timed.control_median_ms, self.control_ms, quiet.control_drift),
            *clock_dropped(timed.state.clock_mhz, self._clock_mhz, quiet.clock_drop),
            *loaded(timed.state.other_load, quiet.other_load),
        )

    def close(self) -> None:
        """End the agent."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _wait(self, error: LostConnectionError, attempt: int) -> None:
        tries = self._patience.tries
        if attempt == tries:
            raise LostConnectionError(f"{error}; given up after {tries} tries") from error
        wait_s = min(self._patience.backoff_s * 2.0 ** min(attempt - 1, 32), _LONGEST_WAIT_S)
        self._tell(f"{error}; trying again in {wait_s:g} s ({attempt} of {tries - 1})")
        time.sleep(wait_s)

    def _connected(self) -> Connection:
        if self._connection is None:
            connection, _, identity, *_ = self._connect()
            # a hot board lowers its highest clocks; `disturbances` compares the clock of each time
            if replace(identity, highest_khz=self.identity.highest_khz) != self.identity:
                connection.close()
                raise BoardError(
                    f"{self.address}: it came back as another: {identity}; it was {self.identity}"
                )
            self._connection = connection
        return self._connection

    def _connect(self) -> tuple[Connection, dict[str, Any], Identity, float, float | None]:
        connection = self._open_connection()
        connection.tell = self._tell
        silence_s = self._patience.silence_s
        here = connection.request({"type": "hello"}, silence_s=silence_s)
        if here.get("type") == "failed":
            connection.close()
            raise BoardError(f"{self.address}: {printable(str(here.get('message')))}")
        try:
            facts: dict[str, Any] = here["facts"]
            runtimes: dict[str, str] = here["runtimes"]
            runtime = self._choose(runtimes, here.get("broken", {}))
            identity = Identity(
                _name(facts["board"]),
                runtime,
                _name(runtimes.get(runtime, "")),
                _name(facts.get("power_mode", "")),
                tuple(map(_name, facts.get("highest_khz", ()))),
            )
        except _SENSELESS as error:
            raise self._senseless(here) from error
        self._require_version(identity)
        asked_s = time.monotonic()
        prepared = connection.request(
            {"type": "prepare", **self._settings.request(runtime)},
            self._control(_takes(runtime)),
            silence_s=silence_s,
        )
        if prepared.get("type") == "failed":
            raise BoardError(
                f"{self.address}: {runtime} there cannot run the reference network: "
                f"{printable(str(prepared.get('message')))}"
            )
        try:
            times_ms = self._times(prepared["control"]["ms"])
            self._require_possible(float(times_ms.sum()) / 1e3, time.monotonic() - asked_s)
            control_ms = float(np.median(times_ms))
            clock_mhz = _state_of(prepared.get("state", {}), runtime).clock_mhz
        except _SENSELESS as error:
            raise self._senseless(prepared) from error
        return connection, {**facts, "runtimes": runtimes}, identity, control_ms, clock_mhz

    def _require_version(self, identity: Identity) -> None:
        """Refuse a runtime that cannot read our files, or whose profile has no shapes, by which layers are told apart."""
        numbers = tuple(int(number) for number in re.findall(r"\d+", identity.version)[:2])
        package = identity.runtime.partition("-")[0]
        if identity.version.startswith("tflite_runtime"):  # LiteRT's older package
            package = "tflite_runtime"
        layers = self._settings.layers
        least = LEAST_ONNXRUNTIME_OF_LAYERS if layers else LEAST_VERSIONS.get(package, ())
        if numbers and numbers < least:
            why = "whose profile has their shapes" if layers else "which reads our files"
            or_else = ", or time whole networks with networks=" if layers else ""
            raise BoardError(
                f"{self.address}: {'layers are' if layers else 'networks are'} timed with {package} "
                f"{'.'.join(map(str, least))} or newer, {why}; {identity.version} is there: install a newer one{or_else}"
            )

    def _choose(self, runtimes: dict[str, str], broken: dict[str, str]) -> str:
        asked = self._settings.runtime
        if asked is Runtime.auto:
            there = [runtime for runtime in Runtime if runtime.value in runtimes]
            if not there and broken:
                raise BoardError(f"{self.address}: no runtime works there: {_errors_of(broken)}")
            if not there:
                raise BoardError(
                    f"{self.address}: no runtime there: neither trtexec nor, for its Python, "
                    f"onnxruntime, ai_edge_litert, tflite_runtime or torch; install one, or name another Python by latency.python= (of nas.measure python=)"
                )
            asked = there[0]
        elif asked.value not in runtimes and asked is not Runtime.torch_cuda:
            others = _name(", ".join(runtimes)) or "none"
            if asked.value in broken:
                raise BoardError(
                    f"{self.address}: {_errors_of(broken)}; the runtimes that work there are: {others}"
                )
            raise BoardError(
                f"{self.address}: no {asked.value} there; the runtimes there are: {others}"
            )
        if self._settings.precision is BoardPrecision.fp16 and asked is not Runtime.tensorrt:
            raise BoardError(
                f"{self.address}: precision fp16 needs tensorrt, and the runtime is {asked.value}"
            )
        is_of_files = asked in {Runtime.onnxruntime, Runtime.litert}
        if self._settings.precision is BoardPrecision.int8 and not is_of_files:
            raise BoardError(
                f"{self.address}: precision int8 needs onnxruntime or litert, and the runtime is "
                f"{asked.value}: set latency.runtime= (of nas.measure runtime=)"
            )
        return asked.value

    def _timed(self, answer: dict[str, Any], onnx: bytes, waited_s: float) -> Timed:
        if answer.get("type") != "measured":
            raise UnrunnableError(printable(str(answer.get("message") or answer)))
        try:
            network, control = answer["network"], answer["control"]
            report = dict(answer.get("state", {}))
            network_ms, control_ms = self._times(network["ms"]), self._times(control["ms"])
            self._require_possible(float(network_ms.sum() + control_ms.sum()) / 1e3, waited_s)
            return Timed(
                network_ms,
                control_ms,
                int(network["warm_up_calls"]),
                bool(network["is_stable"]),
                report,
                _state_of(report, self.identity.runtime),
                layer_times(answer.get("layers", []), onnx),
            )
        except _SENSELESS as error:
            raise self._senseless(answer) from error

    def _require_possible(self, said_s: float, waited_s: float) -> None:
        """Refuse times that cannot have passed while this machine waited for them."""
        if said_s > _MOST_WORK * waited_s:
            raise BoardError(
                f"{self.address}: its times add up to {said_s:.3g} s, and its answer came after {waited_s:.3g} s, so "
                f"the board's clock is broken; nothing it says is used"
            )

    def _senseless(self, answer: dict[str, Any]) -> BoardError:
        text = printable(str(answer))[:200]
        return BoardError(f"{self.address}: the agent's answer makes no sense: {text}")

    def _times(self, ms: Any) -> Float64[ndarray, " n"]:
        try:
            return require_ms([*ms] or [None], "an inference took")
        except UserError as error:
            raise BoardError(
                f"{self.address}: {error}, so the board's clock is broken; nothing it says is used"
            ) from error


def _name(text: object) -> str:
    return printable(str(text))[:_LONGEST_NAME]


def _takes(runtime: str) -> str:
    formats = {"litert": "tflite", "torch": "torchscript", "torch-cuda": "torchscript"}
    return formats.get(runtime, "onnx")


def _state_of(reported: dict[str, Any], runtime: str) -> BoardState:
    """State from the report of an agent, for the runtime that it uses.

    Raises:
      AttributeError, OverflowError, TypeError, ValueError: if the report is malformed.
    """
    hertz = (
        [
            float(hz)
            for name, hz in reported.get("devfreq_hz", {}).items()
            if _GPU_CLOCK.search(name)
        ]
        if runtime in _ON_GPU
        else [1000 * float(khz) for khz in reported.get("khz", [])]
    )
    state = BoardState(max(hertz) / 1e6 if hertz else None, float(reported.get("other_load", 0.0)))
    if not all(math.isfinite(number) for number in (*hertz, state.other_load)):
        raise ValueError("a clock or a load is no number")
    return state


def _errors_of(broken: dict[str, str]) -> str:
    """Runtimes that are installed and do not work, each with its error."""
    return "; ".join(
        f"{printable(name)}: {printable(str(why))[:300]}" for name, why in broken.items()
    )
