"""Processes of the product's commands that begin with its modules imported, as imports cost most of what they do.

A server, one for each process that runs tests, imports them once and forks for each command. The fork takes over
arguments, environment, working folder, cores and streams, then runs `python -m <module>` to the interpreter's own end. It
is a child of the tests (its parent in the server has ended, and they adopt it), so that all of `subprocess.Popen` works.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import gc
import io
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
from pathlib import Path

_ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER of Linux
_PRELOADED = (
    "hydra._internal.core_plugins.basic_sweeper",
    "matplotlib.backends.backend_agg",
    "matplotlib.figure",
    "nas.measure.command",
    "nas.report.event_file",
    "nas.report.run_page",
    "nas.search.command",
    "nas.spaces.nas_bench_201.plugin",
    "nas.study.command",
    "numpy.random",
    "torch",
)
"""None of them starts a thread, as a fork has but one; pyarrow would."""


@functools.cache
def _server() -> socket.socket:
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    words, root = [sys.executable, __file__, str(its.fileno())], Path(__file__).parents[2]
    with its:
        process = subprocess.Popen(words, pass_fds=[its.fileno()], cwd=root)

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


class Popen(subprocess.Popen):  # type: ignore[type-arg]
    """`[sys.executable, "-m", module, ...]`, forked; a new process where the system is not Linux."""

    def _execute_child(self, args, executable, preexec, close, fds, cwd, env, *rest):  # noqa: PLR0917 - its signature
        streams = (rest[3], rest[6], rest[8])  # what the child reads and writes; -1: as ours
        starts_a_session = rest[14]
        is_plain = preexec or fds or starts_a_session or [*args[:2]] != [sys.executable, "-m"]
        if sys.platform != "linux" or is_plain:
            super()._execute_child(args, executable, preexec, close, fds, cwd, env, *rest)
            return
        start = {
            "words": [*map(str, args[2:])],
            "folder": str(cwd or Path.cwd()),
            "environment": {**(os.environ if env is None else env)},
            "cores": [*os.sched_getaffinity(0)],  # a test may have pinned itself
        }
        adopt = ctypes.CDLL(None).prctl
        server = _server()
        adopt(_ADOPT_ORPHANS, 1)
        try:
            passed = [number if fd == -1 else fd for number, fd in enumerate(streams)]
            socket.send_fds(server, [json.dumps(start).encode()], passed)
            self.pid = int(server.recv(100))
            server.recv(100)  # it is an orphan now
        except (OSError, ValueError):  # the server has ended
            super()._execute_child(args, executable, preexec, close, fds, cwd, env, *rest)
            return
        finally:
            adopt(_ADOPT_ORPHANS, 0)
        self._child_created = True
        self._close_pipe_fds(*rest[3:9])


def run(words, *, check=False, timeout=600, **options):
    """As `subprocess.run`, with both streams captured as text."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with Popen(words, **{**pipes, **options}) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        finally:
            process.kill()
    finished = subprocess.CompletedProcess(words, process.returncode, out, err)
    if check:
        finished.check_returncode()
    return finished


def _next_command(connection: socket.socket) -> list[str] | None:
    """Fork for each request; returns in the fork, with the words of its command, and None at the end."""
    while True:
        message, fds, *_ = socket.recv_fds(connection, 2**20, 3)
        if not message:
            return None
        between = os.fork()
        if not between and (process := os.fork()):
            connection.send(str(process).encode())
            os._exit(0)
        if not between:
            connection.close()
            start = json.loads(message)
            for number, fd in enumerate(fds):
                os.dup2(fd, number)
                os.close(fd)
            os.chdir(start["folder"])
            os.environ.clear()
            os.environ.update(start["environment"])
            os.sched_setaffinity(0, start["cores"])
            return start["words"]
        os.waitpid(between, 0)
        connection.send(b"adopted")
        for fd in fds:
            os.close(fd)


def _stream(fd: int, *, errors: str, lines: bool) -> io.TextIOWrapper:
    now = "PYTHONUNBUFFERED" in os.environ
    binary = open(fd, "wb", buffering=0 if now else -1, closefd=False)  # noqa: SIM115 - to the end of the process
    return io.TextIOWrapper(binary, "utf-8", errors, line_buffering=lines, write_through=now)


if __name__ == "__main__":
    sys.path[0] = str(Path.cwd())
    for module in _PRELOADED:
        __import__(module)
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the tests, and they the server
    words = _next_command(socket.socket(fileno=int(sys.argv[1])))
    if words is not None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.stdout = _stream(1, errors="strict", lines=os.isatty(1))
        sys.stderr = _stream(2, errors="backslashreplace", lines=True)
        sys.path[0], sys.argv = str(Path.cwd()), words
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
