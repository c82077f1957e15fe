"""The program on the board: receives networks over standard input, times them, answers with samples.

It is one file, sent as text to a Python 3.6 or newer that has nothing but its standard library, so
that nothing is installed on the board but an inference runtime; that is looked for here, and
imported when it is used. Nothing is written but temporary files, and no port is opened.

The client imports this module too, for the form of a message: `encode` and `Decoder`.
"""

import io
import json
import os
import platform
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Callable, ContextManager, Dict, Iterator, List, Optional, Sequence, Tuple

VERSION = 2
"""Version of the messages and of the timing method: 2 calls a network several times in a row."""

MAGIC = b"\xf5edgenas"
"""Starts a message. Text, such as a login banner, never holds its first byte in UTF-8."""

LONGEST_HEADER = 1 << 20
LONGEST_PAYLOAD = 1 << 30

_PREFIX = struct.Struct(">BII")  # version, bytes of the header, bytes of the payload
_CHECK = struct.Struct(">I")

_RESEND_S = 1.0  # between two signs of life
_LONGEST_IMPORT_S = 600.0  # of a runtime, from a slow card

_JETPACK_TRTEXEC = "/usr/src/tensorrt/bin/trtexec"  # where NVIDIA's images put it, not on the path


class ProtocolError(Exception):
    """Bytes that are no message of this version."""


def encode(header: Dict[str, Any], payload: bytes = b"") -> bytes:
    """A message: magic, version and lengths, JSON, the payload, and a CRC-32 of all but the magic."""
    text = json.dumps(header).encode()
    body = _PREFIX.pack(VERSION, len(text), len(payload)) + text + payload
    return MAGIC + body + _CHECK.pack(zlib.crc32(body) & 0xFFFFFFFF)


class Decoder:
    """Cuts a stream into messages; what lies before one, such as a login banner, is skipped."""

    def __init__(self, longest_payload: int = LONGEST_PAYLOAD) -> None:
        self._longest_payload = longest_payload
        self._buffer = bytearray()
        self.skipped = bytearray()  # the last of what was no message, for a report

    def feed(self, data: bytes) -> None:
        """Take in the next bytes of the stream."""
        self._buffer += data

    def next(self) -> Optional[Tuple[Dict[str, Any], bytes]]:
        """The next whole message, header and payload, or None while there is none.

        Raises:
          ProtocolError: if it is damaged, or of another version.
        """
        self._skip_to_magic()
        start = len(MAGIC)
        if len(self._buffer) < start + _PREFIX.size:
            return None
        version, header_length, payload_length = _PREFIX.unpack_from(self._buffer, start)
        if version != VERSION:
            raise ProtocolError(
                f"the other side speaks version {version} of the protocol, this side {VERSION}"
            )
        if header_length > LONGEST_HEADER or payload_length > self._longest_payload:
            raise ProtocolError("a message was damaged on its way: impossible lengths")
        payload_at = start + _PREFIX.size + header_length
        end = payload_at + payload_length
        if len(self._buffer) < end + _CHECK.size:
            return None
        body = bytes(self._buffer[start:end])
        (check,) = _CHECK.unpack_from(self._buffer, end)
        del self._buffer[: end + _CHECK.size]
        if zlib.crc32(body) & 0xFFFFFFFF != check:
            raise ProtocolError("a message was damaged on its way: its checksum is wrong")
        header = json.loads(body[_PREFIX.size : payload_at - start].decode())
        if not isinstance(header, dict):
            raise ProtocolError("a message has no names in its header")
        return header, body[payload_at - start :]

    def _skip_to_magic(self) -> None:
        start = self._buffer.find(MAGIC)
        if start < 0:  # keep what may be its beginning
            start = max(0, len(self._buffer) - len(MAGIC) + 1)
            first = self._buffer.find(MAGIC[:1], start)
            start = len(self._buffer) if first < 0 else first
        self.skipped += self._buffer[:start]
        del self.skipped[:-2000]
        del self._buffer[:start]


class RefusedError(Exception):
    """A network that cannot be timed."""


# ---- timing, as edgenas_core/machine/timing.py does it


def warm_up(
    take_ms: Callable[[], float], timing: Dict[str, Any], alive: Callable[[], None]
) -> Tuple[int, bool]:
    """Call until the medians of two windows in a row agree; the calls, and whether they do."""
    window = timing["warm_up_window"]
    taken: List[float] = []
    while len(taken) < max(timing["warm_up_most"], 2 * window):
        taken.append(take_ms())
        alive()
        if len(taken) >= 2 * window:
            before, now = _median(taken[-2 * window : -window]), _median(taken[-window:])
            if abs(now - before) <= timing["warm_up_tolerance"] * before:
                return len(taken), True
    return len(taken), False


def time_in_turns(
    subjects: Sequence[Callable[[], float]], timing: Dict[str, Any], alive: Callable[[], None]
) -> List[Dict[str, Any]]:
    """Warm every subject up, then time all of them in turns, in a new order each round.

    A turn is a few calls in a row after one that does not count: others have emptied the caches.
    """
    warmed = [warm_up(subject, timing, alive) for subject in subjects]
    ms: List[List[float]] = [[] for _ in subjects]
    places = list(range(len(subjects)))
    shuffle = random.Random(0).shuffle  # noqa: S311 - an order, not a secret
    for start in range(0, timing["samples"], timing["turn"]):
        shuffle(places)
        for place in places:
            subjects[place]()
            for _ in range(min(timing["turn"], timing["samples"] - start)):
                ms[place].append(subjects[place]())
                alive()
    return [
        {"ms": row, "warm_up_calls": calls, "is_stable": stable}
        for row, (calls, stable) in zip(ms, warmed)
    ]


def stopwatch(
    call: Callable[[], object], synchronise: Callable[[], object] = lambda: None
) -> Callable[[], float]:
    """Milliseconds of one call, from an idle device to an idle device."""

    def take_ms() -> float:
        synchronise()
        start = time.perf_counter()
        call()
        synchronise()
        return (time.perf_counter() - start) * 1e3

    return take_ms


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


# ---- runtimes: each loads a network, and times loaded ones in turns


class _InProcess:
    """A runtime whose networks are called from here."""

    def time(
        self,
        loaded: Sequence[Callable[[], float]],
        timing: Dict[str, Any],
        alive: Callable[[], None],
    ) -> List[Dict[str, Any]]:
        """Samples of each loaded network, in turns."""
        return time_in_turns(loaded, timing, alive)


class OnnxRuntime(_InProcess):
    """ONNX Runtime's Python package, on the processor or on CUDA."""

    def __init__(self, provider: str, threads: int) -> None:
        self._provider = provider
        self._threads = threads

    def load(self, content: bytes, _shape: Sequence[int]) -> Callable[[], float]:
        """A session with an input of noise; each call is one inference, in milliseconds."""
        session, inputs = self._session(content)
        return stopwatch(lambda: session.run(None, inputs))

    def layers(
        self, content: bytes, runs: int, alive: Callable[[], None] = lambda: None
    ) -> List[Tuple[str, str, float]]:
        """Name, operator with its tensors, and microseconds of each layer, as the runtime has fused them.

        They are of ONNX Runtime's own profile: means of the shortest 60 % of the runs, as it counts whole
        microseconds, after three that do not count.
        """
        with tempfile.TemporaryDirectory(prefix="edgenas-") as folder:
            session, inputs = self._session(content, str(Path(folder) / "profile"))
            for _ in range(3 + runs):
                session.run(None, inputs)
                alive()
            events = json.loads(Path(session.end_profiling()).read_text())
        us: Dict[str, List[float]] = {}
        words = {}
        for event in events:
            if event["cat"] == "Node" and event["name"].endswith("_kernel_time"):
                name = event["name"][: -len("_kernel_time")]
                us.setdefault(name, []).append(event["dur"])
                words[name] = _layer_in_words(name, event["args"])
        shortest = {name: sorted(each[3:])[: max(1, runs * 6 // 10)] for name, each in us.items()}
        return [(name, words[name], sum(low) / len(low)) for name, low in shortest.items()]

    def _session(self, content: bytes, profile: Optional[str] = None) -> Tuple[Any, Dict[str, Any]]:
        """A session, and its inputs of noise; `profile` begins the path of its profile."""
        import numpy as np
        import onnxruntime

        options = onnxruntime.SessionOptions()
        if profile:
            options.enable_profiling = True
            options.profile_file_prefix = profile
        options.intra_op_num_threads = self._threads
        options.inter_op_num_threads = 1
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(content, options, providers=[self._provider])
        if self._provider not in session.get_providers():  # it falls back to the processor unasked
            raise RuntimeError(f"{self._provider} does not start")
        noise = np.random.RandomState(0)
        inputs = {}
        for tensor in session.get_inputs():
            kind = tensor.type[len("tensor(") : -1]  # ONNX's names are NumPy's, but for two
            kind = {"float": "float32", "double": "float64"}.get(kind, kind)
            numbers = noise.standard_normal(tensor.shape)
            inputs[tensor.name] = (numbers if "float" in kind else abs(numbers)).astype(kind)
        return session, inputs


def _layer_in_words(name: str, profiled: Dict[str, Any]) -> str:
    """Operator, its layout where it is not the usual one, inputs and outputs with their shapes."""
    inputs, outputs = (
        [
            kind + str(shape).replace(" ", "")
            for tensor in profiled.get(f"{way}_type_shape", [])
            for kind, shape in tensor.items()
        ]
        for way in ("input", "output")
    )
    layout = ".nchwc" if "_nchwc" in name else ""
    return " ".join([profiled["op_name"] + layout, *inputs, ">", *outputs])


class Litert(_InProcess):
    """LiteRT's Python package, which runs .tflite files."""

    def __init__(self, threads: int) -> None:
        self._threads = threads

    def load(self, content: bytes, _shape: Sequence[int]) -> Callable[[], float]:
        """An interpreter with an input of noise; each call is one inference, in milliseconds."""
        import numpy as np

        try:
            from ai_edge_litert.interpreter import Interpreter
        except ImportError:  # 32-bit systems have its predecessor alone
            from tflite_runtime.interpreter import Interpreter

        interpreter = Interpreter(model_content=content, num_threads=self._threads)
        interpreter.allocate_tensors()
        noise = np.random.RandomState(0)
        for tensor in interpreter.get_input_details():
            numbers = noise.standard_normal(tensor["shape"])
            if tensor["dtype"] == np.int8:
                numbers = np.clip(numbers * 40, -128, 127)
            interpreter.set_tensor(tensor["index"], numbers.astype(tensor["dtype"]))
        return stopwatch(interpreter.invoke)


class Torch(_InProcess):
    """A traced TorchScript module, as torch itself reads no ONNX."""

    def __init__(self, device: str, threads: int) -> None:
        self._device = device
        self._threads = threads

    def load(self, content: bytes, shape: Sequence[int]) -> Callable[[], float]:
        """A module with an input of noise; each call is one inference, in milliseconds."""
        import torch

        torch.set_num_threads(self._threads)
        module = torch.jit.load(io.BytesIO(content), map_location=self._device)
        images = torch.randn(*shape).to(self._device)

        def call() -> object:
            with torch.no_grad():
                return module(images)

        if self._device == "cuda":
            return stopwatch(call, torch.cuda.synchronize)
        return stopwatch(call)


class TensorRT:
    """NVIDIA's own `trtexec`: it builds an engine once, and times it a part of the samples a turn."""

    turns = 3

    def __init__(self, trtexec: str, precision: str, alive: Callable[[], None]) -> None:
        self._command = [trtexec] + (["--fp16"] if precision == "fp16" else [])
        self._alive = alive
        self._folder = Path(tempfile.mkdtemp(prefix="edgenas-"))
        self._engine = "control.engine"  # the first to be built stays; the others follow each other

    def load(self, content: bytes, _shape: Sequence[int]) -> Path:
        """The engine's file."""
        network = self._folder / "network.onnx"
        network.write_bytes(content)
        engine = self._folder / self._engine
        self._engine = "network.engine"
        self._run(
            [
                f"--onnx={network}",
                f"--saveEngine={engine}",
                "--iterations=1",
                "--duration=0",
                "--warmUp=0",
            ]
        )
        return engine

    def time(
        self, loaded: Sequence[Path], timing: Dict[str, Any], _alive: Callable[[], None]
    ) -> List[Dict[str, Any]]:
        """Samples of each engine, a process a turn; `trtexec` warms up for 200 ms itself."""
        times = self._folder / "times.json"
        each = -(-timing["samples"] // self.turns)
        ms: List[List[float]] = [[] for _ in loaded]
        for turn in range(self.turns):
            for place in range(len(loaded))[:: 1 if turn % 2 else -1]:
                self._run(
                    [
                        f"--loadEngine={loaded[place]}",
                        f"--exportTimes={times}",
                        f"--iterations={each}",
                        "--duration=0",
                        "--warmUp=200",
                        "--avgRuns=1",
                    ]
                )
                rows = json.loads(times.read_text())
                ms[place] += [float(row["latencyMs"]) for row in rows][-each:]
        return [
            {
                "ms": row[: timing["samples"]],
                "warm_up_calls": 0,
                "is_stable": abs(_median(row[-each:]) - _median(row[:each]))
                <= timing["warm_up_tolerance"] * _median(row[:each]),
            }
            for row in ms
        ]

    def close(self) -> None:
        """Remove the temporary files."""
        shutil.rmtree(str(self._folder), ignore_errors=True)

    def _run(self, arguments: List[str]) -> None:
        with (self._folder / "log").open("w+b") as log:
            process = subprocess.Popen(
                self._command + arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
            try:
                while process.poll() is None:  # building an engine takes minutes on a small board
                    time.sleep(0.02)
                    self._alive()
            finally:
                process.kill()  # the client is gone; one that has ended is left alone
            if process.returncode:
                log.seek(0)
                lines = log.read().decode("utf-8", "replace").splitlines()
                errors = [line for line in lines if "[E]" in line] or lines
                raise RuntimeError(
                    f"trtexec ended with {process.returncode}: {' '.join(errors[-2:])[-500:]}"
                )


def find_runtimes(
    doing: Callable[[str], ContextManager[None]],
) -> Tuple[Dict[str, str], Dict[str, str]]:
    """Version of each runtime that works here, by name, and the error of each that is here and does not.

    The best for a board comes first. `doing` says what is waited for.
    """
    versions: Dict[str, str] = {}
    broken: Dict[str, str] = {}
    trtexec = _trtexec()
    if trtexec:
        versions["tensorrt"] = _tensorrt_version()
    if find_spec("onnxruntime"):
        with doing("importing onnxruntime"):
            tried = _tried(
                "import onnxruntime as o; print(o.__version__, *o.get_available_providers())"
            )
        if tried[0]:
            broken["onnxruntime"] = tried[0]
        else:
            version, *providers = tried[1].split()
            if "CUDAExecutionProvider" in providers:
                versions["onnxruntime-cuda"] = version
            versions["onnxruntime"] = version
    for package in ("ai_edge_litert", "tflite_runtime"):
        if find_spec(package) and "litert" not in versions:
            with doing(f"importing {package}"):
                error = _tried(f"from {package}.interpreter import Interpreter")[0]
            if error:
                broken["litert"] = error
            else:
                number = _package_version(package.replace("_", "-"))
                is_older = package == "tflite_runtime"  # numbers of the two are not comparable
                versions["litert"] = f"{package} {number}" if is_older else number
    spec = find_spec("torch")
    if spec and spec.origin:  # read, not imported: that takes seconds on a board
        try:
            text = Path(spec.origin).with_name("version.py").read_text()
        except OSError:
            text = ""
        stated = re.search(r"__version__\s*(?::.*)?=\s*['\"]([^'\"]+)", text)
        versions["torch"] = stated.group(1) if stated else "unknown"
    return versions, broken


def _tried(program: str) -> Tuple[str, str]:
    """Error and output of a program in a Python of its own: a runtime that crashes does not end this one."""
    code = f"import sys; sys.path[:] = {sys.path!r}\n{program}"
    try:
        done = subprocess.run(  # noqa: PLW1510, UP022 - a status is an answer; Python 3.6 captures no output
            [sys.executable, "-I", "-c", code],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=_LONGEST_IMPORT_S,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"{type(error).__name__}: {error}", ""
    if done.returncode < 0:
        return f"its import was killed by signal {-done.returncode}", ""
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"]
        return lines[-1][:300], ""
    return "", done.stdout.decode("utf-8", "replace")


def _package_version(name: str) -> str:
    try:
        from importlib.metadata import version

        return version(name)
    except Exception:  # noqa: BLE001 - an older Python has no such module, a system's package no such entry
        return "unknown"


def _trtexec() -> Optional[str]:
    return shutil.which("trtexec") or (
        _JETPACK_TRTEXEC if os.access(_JETPACK_TRTEXEC, os.X_OK) else None
    )


def _tensorrt_version() -> str:
    listed = _output(["dpkg-query", "-W", "-f=${Version}", "tensorrt"]) or _output(
        ["dpkg-query", "-W", "-f=${Version}", "libnvinfer-bin"]
    )
    return listed or "unknown"


# ---- what the board is, and how it is now


def board_facts() -> Dict[str, Any]:
    """Facts that do not change while the board is up; those that cannot be read are left out."""
    facts = {
        "board": _read("/proc/device-tree/model") or _processor() or platform.node(),
        "processor": _processor(),
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "host": platform.node(),
        "memory": _memory(),
        "l4t": _read("/etc/nv_tegra_release").split("\n")[0],
        "power_mode": " ".join(_output(["nvpmodel", "-q"]).split()),
        "governors": sorted(
            {
                _read(p)
                for p in _paths("/sys/devices/system/cpu", "cpu[0-9]*/cpufreq/scaling_governor")
            }
        ),
        "highest_khz": sorted(
            {
                _read(p)
                for p in _paths("/sys/devices/system/cpu", "cpu[0-9]*/cpufreq/scaling_max_freq")
            }
        ),
        "highest_devfreq_hz": {
            p.parent.name: _read(p) for p in _paths("/sys/class/devfreq", "*/max_freq")
        },
        "tegrastats": _tegrastats(),
    }
    return {name: value for name, value in facts.items() if value}


def board_state() -> Dict[str, Any]:
    """Clocks and temperatures now, as far as the system tells."""
    zones = {}
    for path in _paths("/sys/class/thermal", "thermal_zone*/temp"):
        try:
            zones[_read(path.with_name("type")) or path.parent.name] = int(_read(path)) / 1000
        except ValueError:  # noqa: PERF203 - a zone that is switched off
            continue
    state = {
        "celsius": zones,
        "khz": [
            int(text)
            for text in map(
                _read, _paths("/sys/devices/system/cpu", "cpu[0-9]*/cpufreq/scaling_cur_freq")
            )
            if text.isdigit()
        ],
        "devfreq_hz": {
            p.parent.name: int(_read(p))
            for p in _paths("/sys/class/devfreq", "*/cur_freq")
            if _read(p).isdigit()
        },
    }
    return {name: value for name, value in state.items() if value}


class BoardLoad:
    """Processors that others have kept busy since this was made, where the system tells."""

    LEAST_S = 0.3  # the system counts in steps of 10 ms

    def __init__(self) -> None:
        self._began = self._read()

    def processors(self) -> Optional[float]:
        """Average number of busy processors; None if unknown."""
        began, now = self._began, self._read()
        if began is None or now is None:
            return None
        return max(0.0, (now[1] - began[1]) / max(now[0] - began[0], self.LEAST_S))

    def _read(self) -> Optional[Tuple[float, float]]:
        """The time, and the busy time of all processors without our own; seconds."""
        words = _read("/proc/stat").split("\n")[0].split()
        if words[:1] != ["cpu"] or len(words) < 8:
            return None
        user, nice, system, _idle, _iowait, interrupts, soft_interrupts = map(int, words[1:8])
        busy = user + nice + system + interrupts + soft_interrupts
        own_s = sum(os.times()[:4])  # of children that have ended too
        return time.monotonic(), busy / os.sysconf("SC_CLK_TCK") - own_s


def _paths(folder: str, pattern: str) -> List[Path]:
    try:
        return sorted(Path(folder).glob(pattern))
    except OSError:  # closed to this login
        return []


def _read(path: Any) -> str:
    try:
        return Path(str(path)).read_bytes().decode("utf-8", "replace").strip("\0 \n")
    except OSError:
        return ""


def _processor() -> str:
    for line in _read("/proc/cpuinfo").split("\n"):
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Hardware", "Processor"):
            return value.strip()
    return _arm_cores() or platform.processor()


def _arm_cores() -> str:
    """The kinds of cores of an Arm processor, as its identification registers say."""
    found: Dict[str, str] = {}
    cores = set()
    for line in _read("/proc/cpuinfo").split("\n"):
        name, _, value = line.partition(":")
        found[name.strip()] = value.strip()
        if name.strip() == "CPU part":
            cores.add(f"{found.get('CPU implementer', '')} {value.strip()}")
    return "Arm " + ", ".join(sorted(cores)) if cores else ""


def _memory() -> str:
    first = _read("/proc/meminfo").split("\n")[0]
    return " ".join(first.split()[1:])


def _output(command: List[str]) -> str:
    """Output of a command; empty if there is no such command, or it takes too long."""
    if shutil.which(command[0]) is None:
        return ""
    try:
        done = subprocess.run(  # noqa: PLW1510 - a status is an answer
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=5,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else ""


def _tegrastats() -> str:
    """One line of NVIDIA's monitor, which prints for ever."""
    if shutil.which("tegrastats") is None:
        return ""
    return _output(
        ["timeout", "-s", "INT", "2", "sh", "-c", "tegrastats --interval 200 | head -n 1"]
    )


# ---- the conversation


def _in_words(error: BaseException) -> str:
    text = " ".join(str(error).split())[:500]
    return f"{type(error).__name__}: {text}".rstrip(": ")


class Agent:
    """Answers requests until the other side is gone."""

    def __init__(self, receive: Callable[[], bytes], send: Callable[[bytes], object]) -> None:
        self._receive = receive
        self._send = send
        self._decoder = Decoder()
        self._runtime: Any = None
        self._control: Any = None
        self._shape: Sequence[int] = ()
        self._said_s = time.monotonic()

    def serve(self) -> None:
        """Answer each message; a client that ends the connection ends this."""
        while True:
            message = self._decoder.next()
            if message is not None:
                self._send(encode(self._answer(*message)))
                continue
            data = self._receive()
            if not data:
                return
            self._decoder.feed(data)

    def close(self) -> None:
        """Remove what was written."""
        if isinstance(self._runtime, TensorRT):
            self._runtime.close()

    def _answer(self, request: Dict[str, Any], payload: bytes) -> Dict[str, Any]:
        """The answer to a request, with the id of the request."""
        return {**self._done(request, payload), "id": request.get("id")}

    def _done(self, request: Dict[str, Any], payload: bytes) -> Dict[str, Any]:
        answer = {
            "hello": self._hello,
            "prepare": self._prepare,
            "measure": self._measure,
        }.get(request.get("type", ""))
        if answer is None:
            return {"type": "failed", "message": f"unknown: {request!r}"}
        try:
            return answer(request, payload)
        except RefusedError as error:
            return {"type": "failed", "message": str(error)}
        except BrokenPipeError:  # of a sign of life: the client is gone
            raise
        except Exception as error:  # noqa: BLE001 - the other side shall read it, whatever it is
            return {"type": "failed", "message": _in_words(error)}

    def _hello(self, _request: Dict[str, Any], _payload: bytes) -> Dict[str, Any]:
        runtimes, broken = find_runtimes(self._doing)
        return {
            "type": "here",
            "runtimes": runtimes,
            "broken": broken,
            "facts": board_facts(),
            "state": board_state(),
        }

    def _prepare(self, request: Dict[str, Any], control: bytes) -> Dict[str, Any]:
        """Choose the runtime, pin the process, load the reference network and time it."""
        core, threads = request["core"], request["threads"]
        if core is not None:
            cores = set(range(core, core + threads))
            try:
                os.sched_setaffinity(0, cores)
                missing = cores - os.sched_getaffinity(0)  # what is not there is passed over
            except (OSError, AttributeError) as error:
                raise RefusedError(f"it cannot pin to core {core}: {error}") from error
            if missing:
                raise RefusedError(f"it cannot pin to core {min(missing)}: there is none for it")
        name = request["runtime"]
        if name == "tensorrt":
            trtexec = _trtexec()
            if trtexec is None:
                raise RefusedError("there is no trtexec")
            self._runtime = TensorRT(trtexec, request["precision"], self._alive)
        elif name.startswith("onnxruntime"):
            provider = "CUDA" if name.endswith("cuda") else "CPU"
            self._runtime = OnnxRuntime(provider + "ExecutionProvider", threads)
        elif name == "litert":
            self._runtime = Litert(threads)
        else:
            self._runtime = Torch("cuda" if name.endswith("cuda") else "cpu", threads)
        self._shape = request["shape"]
        with self._doing(f"importing {name} and loading the reference network"):
            self._control = self._load(control)
        (timed,) = self._time([self._control], request["timing"])
        return {"type": "prepared", "control": timed, "state": board_state()}

    def _measure(self, request: Dict[str, Any], network: bytes) -> Dict[str, Any]:
        load = BoardLoad()
        loaded = self._load(network)
        control, timed = self._time([self._control, loaded], request["timing"])
        state = board_state()
        busy = load.processors()
        if busy is not None:
            state["other_load"] = round(busy, 3)
        answer = {"type": "measured", "network": timed, "control": control, "state": state}
        if request.get("layers"):
            runs = request["timing"]["samples"]
            answer["layers"] = self._guard(lambda: self._runtime.layers(network, runs, self._alive))
        return answer

    def _load(self, content: bytes) -> Any:
        return self._guard(lambda: self._runtime.load(content, self._shape))

    def _time(self, loaded: Sequence[Any], timing: Dict[str, Any]) -> List[Dict[str, Any]]:
        return self._guard(lambda: self._runtime.time(loaded, timing, self._alive))  # type: ignore[no-any-return]  # of the one runtime

    def _guard(self, work: Callable[[], Any]) -> Any:
        """Do what a runtime may fail in. Its errors share no base class."""
        try:
            return work()
        except BrokenPipeError:  # of a sign of life: the client is gone
            raise
        except Exception as error:
            raise RefusedError(_in_words(error)) from error

    @contextmanager
    def _doing(self, what: str) -> Iterator[None]:
        """Say once a second what is done here in one piece, but not for ever: it may hang."""
        done = threading.Event()

        def say() -> None:
            until_s = time.monotonic() + _LONGEST_IMPORT_S
            try:
                while not done.wait(_RESEND_S) and time.monotonic() < until_s:
                    self._send(encode({"type": "alive", "doing": what}))
            except OSError:  # the client is gone, which the main thread will notice
                pass

        thread = threading.Thread(target=say, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _alive(self) -> None:
        """A sign of life, about one a second, between two timed calls."""
        now_s = time.monotonic()
        if now_s - self._said_s >= _RESEND_S:
            self._said_s = now_s
            self._send(encode({"type": "alive"}))


def main() -> None:
    """Serve on standard input and output; what libraries print goes to standard error instead."""
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"  # read when a runtime is imported
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    replies = os.fdopen(os.dup(1), "wb", 0)
    os.dup2(2, 1)
    stdin: Any = sys.stdin.buffer  # buffered, so that it has read1

    lock = threading.Lock()

    def send(message: bytes) -> None:
        view = memoryview(message)
        with lock:
            while view:
                view = view[replies.write(view) :]

    agent = Agent(lambda: stdin.read1(1 << 16), send)
    status = 0
    try:
        _find_what_isolation_hides()
        agent.serve()
    except BrokenPipeError:  # the client is gone
        status = 1
    except BaseException as error:  # noqa: BLE001 - the console that runs this would print it and wait
        what = str(error) if isinstance(error, ProtocolError) else _in_words(error)
        sys.stderr.write(f"edgenas agent: {what}\n")
        sys.stderr.flush()
        status = 3
    finally:
        agent.close()
    os._exit(status)


def _find_what_isolation_hides() -> None:
    """Add the users' package folders. Python is started with -I, lest a `code.py` at home is imported."""
    import site

    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [path for path in paths if path]
    user = site.getusersitepackages()
    if Path(user).is_dir():
        site.addsitedir(user)


if __name__ == "edgenas_agent":
    main()
