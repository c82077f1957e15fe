"""Hogs that run as processes: CPU memory, a spinner (the control), and networks.

The memory hog is a C program, compiled once by this machine's compiler into the user's cache folder.
"""

from __future__ import annotations

import os
import platform
import select
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import final

import platformdirs

from edgenas_core.contention.hogs.hog import Hog, HogContext, RunningHog

TIMES_THE_CACHE = 8
"""Ratio of the array to the last-level cache, as in the source."""
LEAST_TIMES_THE_CACHE = 2
SPINNER_BYTES = 2**14
_READY_S = 30.0
BESIDE = ("nb201", "resnet50")
"""The networks of `edgenas_core.contention.networks` that can run beside another."""
SOURCE = Path(__file__).with_name("hog.c")
COMPILERS = ("cc", "gcc", "clang")
_KIB = {"K": 1, "M": 1024, "G": 1024**2}
_DEFAULT_CACHE_BYTES = 32 * 2**20
"""Assumed where the system does not report it, as on many boards and outside Linux."""


@final
@dataclass(frozen=True)
class MemoryHog(Hog):
    """Takes bandwidth of the CPU's memory, from one core."""

    name: str = field(default="memory", init=False)
    bytes: int | None = None  # size of its array; None: 8 times the last-level cache

    def start(self, context: HogContext, number: int) -> RunningHog:
        """Start the compiled program."""
        size = self.bytes if self.bytes is not None else _array_bytes(self.core or 0)
        return _start_program(context, number, size, self.core)


@final
@dataclass(frozen=True)
class Spinner(Hog):
    """Control condition: keeps a core as busy as a memory hog does, within the core's own cache."""

    name: str = field(default="spin", init=False)

    def start(self, context: HogContext, number: int) -> RunningHog:
        """Start the memory hog with an array that fits into the cache."""
        return _start_program(context, number, SPINNER_BYTES, self.core)


@final
@dataclass(frozen=True)
class NetworkHog(Hog):
    """A network with random weights that runs without pause beside the measured one.

    On a CPU it is a process with one core and one thread; on a GPU a captured graph on its own
    stream, launched by a thread. Each inference counts the bytes of the weights as moved, the minimum
    that it reads.
    """

    name: str = ""  # of BESIDE
    gpu: bool = False

    def start(self, context: HogContext, number: int) -> RunningHog:
        """Build the network (on a GPU: capture it) and run it in a loop."""
        if self.gpu:
            from edgenas_core.contention.hogs import gpu_hogs  # noqa: PLC0415 - imports torch

            return gpu_hogs.start_network(context, number, self.name, self.core)
        arguments = hog_arguments(context, number, 0, self.core)
        python = [sys.executable, "-m", "edgenas_core.contention.hogs.python_hog"]
        return HogProcess([*python, *arguments, self.name], context)


def _start_program(context: HogContext, number: int, size: int, core: int | None) -> RunningHog:
    return HogProcess([str(compiled_hog()), *hog_arguments(context, number, size, core)], context)


def hog_arguments(context: HogContext, number: int, size: int, core: int | None) -> list[str]:
    """Return the arguments that every program of a hog takes (hog.c describes them)."""
    arguments = (context.page.file, number, size, -1 if core is None else core, os.getpid())
    return [str(argument) for argument in arguments]


def _array_bytes(core: int) -> int:
    import psutil  # noqa: PLC0415 - a command line's help does not wait for it

    cache = last_level_bytes(core)
    spare = psutil.virtual_memory().available // 8
    if spare < LEAST_TIMES_THE_CACHE * cache:
        raise ValueError(
            f"a hog needs an array of {LEAST_TIMES_THE_CACHE} x {cache / 2**20:.0f} MiB (last-level "
            f"cache), but may take only {spare / 2**20:.0f} MiB of the free memory; end other programs"
        )
    return min(TIMES_THE_CACHE * cache, spare)


@final
class HogProcess(RunningHog):
    """A hog in a process of its own, which says "ready" once it has what it needs."""

    def __init__(self, command: Sequence[str], context: HogContext) -> None:
        """Start the command and wait until it is ready.

        Raises:
          ValueError: if it does not start.
        """
        here = str(Path(__file__).resolve().parents[3])
        places = [here, *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = subprocess.Popen(  # noqa: S603 - a program of our own
            command,
            stdin=subprocess.PIPE,  # the hog ends when this closes
            stdout=subprocess.PIPE,
            pass_fds=[context.page.file],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
            text=True,
        )
        reply = self._first_line()
        if reply != "ready":
            self.close()
            raise ValueError(f"a hog did not start: {reply or 'its process ended'}")

    @property
    def process_id(self) -> int:
        """Id of its process."""
        return self._process.pid

    @property
    def fault(self) -> str | None:
        """Reason why it ended by itself; None while it runs."""
        status = self._process.poll()
        return None if status is None else f"its process ended with status {status}"

    def close(self) -> None:
        """End the process."""
        self._process.kill()  # also ends a stopped process
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def _first_line(self) -> str:
        output = self._process.stdout
        assert output is not None
        if not select.select([output], [], [], _READY_S)[0]:
            return f"no reply within {_READY_S:.0f} s"
        return output.readline().strip()


def compiled_hog() -> Path:
    """Return the path of the compiled hog.

    Raises:
      ValueError: if no compiler could build it.
      OSError: if the cache directory cannot be written.
    """
    source = SOURCE.read_bytes()
    digest = sha256(source + platform.machine().encode()).hexdigest()[:16]
    path = Path(platformdirs.user_cache_dir("edgenas")) / "contention" / f"hog-{digest}"
    if path.exists():
        return path
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise ValueError(f"a hog is a C program; install a compiler ({', '.join(COMPILERS)})")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    command = [compiler, "-O2", "-pthread", str(SOURCE), "-o", str(temporary), "-lm"]
    try:
        subprocess.run(command, capture_output=True, timeout=120, check=True)  # noqa: S603 - the system's compiler, a source of our own
        temporary.replace(path)
    except subprocess.SubprocessError as error:
        raise ValueError(f"{compiler} cannot compile a hog: {error}") from error
    finally:
        temporary.unlink(missing_ok=True)
    return path


def last_level_bytes(core: int = 0, system: Path = Path("/sys/devices/system/cpu")) -> int:
    """Return the size of the largest cache of a core; 32 MB if the system does not report it."""
    sizes = [0]
    for path in (system / f"cpu{core}" / "cache").glob("index*/size"):
        text = path.read_text(encoding="ascii").strip()
        if text[-1:] in _KIB and text[:-1].isdigit():
            sizes.append(int(text[:-1]) * _KIB[text[-1]] * 1024)
    return max(sizes) or _DEFAULT_CACHE_BYTES
