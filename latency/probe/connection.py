"""One connection to one board: the agent is sent, then messages go there and back.

Every wait has a limit, and every way in which a connection can break is a `LostConnectionError`.
"""

from __future__ import annotations

import itertools
import os
import re
import selectors
import signal
import subprocess
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, final

from edgenas_core.types.printable import printable
from latency.probe import agent

_CHUNK = 1 << 16
_ERROR = re.compile(r"error|unknown|denied|not found|no such|cannot|refused|failed", re.IGNORECASE)
_CHECKED_S = 0.25  # between two looks whether the command is still there
_FIRST_TOLD_S = 10.0  # of a long wait, after which what is waited for is printed
_KEPT = _CHUNK  # bytes kept of output that is no message
LONGEST = 15
"""Longest task of a board, in times of the longest silence: half an hour by default."""


class LostConnectionError(ConnectionError):
    """The connection failed or broke; one line that begins with the board's address."""


class SilentError(LostConnectionError):
    """No message for too long: the cable was pulled, or the agent was stopped or hangs."""


class EndedError(LostConnectionError):
    """The command ended: the agent was killed, the board rebooted, or it was never reached."""


class GarbledError(LostConnectionError):
    """The received bytes are no message of this version."""


def agent_source() -> bytes:
    """The agent's file."""
    return Path(agent.__file__).read_bytes()


@final
class Connection:
    """A running agent. Not for use by several threads at once."""

    def __init__(
        self,
        address: str,
        command: list[str],
        timeout_s: float,
        source: Callable[[], bytes] = agent_source,
    ) -> None:
        """Start the command and send it the agent.

        Raises:
          LostConnectionError: if that cannot be done within the time.
        """
        self._address = address
        self._decoder = agent.Decoder(longest_payload=0)  # a board sends no files
        self._errors = bytearray()
        self.tell: Callable[[str], object] = lambda _line: None  # of a long wait
        self._doing = ""  # what the agent says that it is doing
        self._numbers = itertools.count(1)  # of requests: an answer repeats that of its request
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the user's own command, and no shell reads it
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,  # Ctrl-C is for the search, which then ends this itself
            )
        except OSError as error:
            raise LostConnectionError(
                f"{address}: cannot run {command[0]}: {error.strerror}"
            ) from error
        self.close = weakref.finalize(self, _end, self._process)
        for pipe in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(pipe.fileno(), False)
        try:
            self._start(source(), timeout_s)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Process id of the local command."""
        return self._process.pid

    def request(
        self, header: dict[str, Any], payload: bytes = b"", *, silence_s: float
    ) -> dict[str, Any]:
        """The answer to a message.

        The wait is for a sign of life, of which a long task gives many, but not for ever: `LONGEST`
        times as long.

        Raises:
          LostConnectionError: if the connection breaks; it is of no use then.
        """
        try:
            number = next(self._numbers)
            message = agent.encode({**header, "id": number}, payload)
            return self._request(message, number, silence_s)
        except BaseException:
            self.close()
            raise

    def _request(self, message: bytes, number: int, silence_s: float) -> dict[str, Any]:
        outgoing = memoryview(message)
        began_s = time.monotonic()
        deadline_s = began_s + silence_s
        self._doing, told_s = "", _FIRST_TOLD_S
        while time.monotonic() - began_s <= LONGEST * silence_s:
            answer = self._next()
            if answer is not None and answer.get("type") == "alive":
                self._doing = printable(str(answer.get("doing") or ""))[:100]
                waited_s = time.monotonic() - began_s
                if self._doing and waited_s > told_s:
                    self.tell(f"{self._address}: {self._doing}, {waited_s:.0f} s so far")
                    told_s *= 4
            if answer is not None and answer.get("type") != "alive":
                if answer.get("id") != number:  # unasked, or a second one to an earlier request
                    raise GarbledError(
                        f"{self._address}: an answer to request {printable(str(answer.get('id')))[:40]} "
                        f"came when {number} was asked"
                    )
                return answer
            left = len(outgoing)
            if answer is None:
                outgoing = self._exchange(outgoing, deadline_s, silence_s)
            if answer is not None or len(outgoing) < left:  # bytes that say nothing do not count
                deadline_s = time.monotonic() + silence_s
        raise SilentError(
            f"{self._address}: alive, but without an answer for {LONGEST * silence_s:g} s, "
            f"{LONGEST} times the longest silence"
        )

    def _next(self) -> dict[str, Any] | None:
        try:
            message = self._decoder.next()
        except (agent.ProtocolError, ValueError) as error:
            raise GarbledError(f"{self._address}: {error}") from error
        except RecursionError:
            raise GarbledError(f"{self._address}: an answer is nested too deeply") from None
        return None if message is None else message[0]

    def _start(self, source: bytes, timeout_s: float) -> None:
        """Send the agent once the interpreter is ready: it discards what it has buffered before that."""
        deadline_s = time.monotonic() + timeout_s
        ready = b"edgenas-agent-%d" % len(source)
        # an error of the agent ends the process: the console that reads this line would print it and wait
        program = (
            f"try:\n exec(compile(sys.stdin.buffer.read({len(source)}),'edgenas_agent.py','exec'),"
            f"{{'__name__':'edgenas_agent'}})\nexcept BaseException as e:\n import os\n"
            f" sys.stderr.write('%s: %s\\n'%(type(e).__name__,e));sys.stderr.flush();os._exit(3)"
        )
        line = (  # an echo of it is not what it prints
            f"import sys;s='edgenas-agent-%d'%{len(source)};sys.stdout.write(s);"
            f"sys.stdout.flush();exec({program!r})\n"
        )
        outgoing = memoryview(line.encode())
        heard = self._decoder.skipped
        while ready not in heard:
            outgoing = self._exchange(outgoing, deadline_s, timeout_s, heard)
            del heard[:-_KEPT]
        heard.clear()
        outgoing = memoryview(source)
        while outgoing:
            outgoing = self._exchange(outgoing, deadline_s, timeout_s)

    def _exchange(
        self,
        outgoing: memoryview,
        deadline_s: float,
        limit_s: float,
        heard: bytearray | None = None,
    ) -> memoryview:
        """Write and read what can be without waiting, after waiting until something can be.

        Returns what is left to write.
        """
        files = self._ready(writes=bool(outgoing), deadline_s=deadline_s, limit_s=limit_s)
        if self._stderr in files:
            self._read_errors()
        if self._stdout in files:
            data = os.read(self._stdout.fileno(), _CHUNK)
            if not data:
                raise self._ended()
            if heard is None:
                self._decoder.feed(data)
            else:
                heard += data
        if self._stdin in files:
            try:
                written = os.write(self._stdin.fileno(), outgoing[:_CHUNK])
            except BrokenPipeError:
                raise self._ended() from None
            return outgoing[written:]
        return outgoing

    def _ready(self, *, writes: bool, deadline_s: float, limit_s: float) -> list[Any]:
        """Pipes that can be read or written without waiting; none after a quarter of a second."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._stdout, selectors.EVENT_READ)
            if not self._stderr.closed:
                selector.register(self._stderr, selectors.EVENT_READ)
            if writes:
                selector.register(self._stdin, selectors.EVENT_WRITE)
            left_s = deadline_s - time.monotonic()
            ready = selector.select(max(0.0, min(left_s, _CHECKED_S)))
        if not ready and self._process.poll() is not None:  # whoever else holds its output open
            raise self._ended()
        if left_s <= 0 or (not ready and left_s <= _CHECKED_S):
            raise SilentError(
                f"{self._address}: silent for {limit_s:g} s{self._waiting()}{self._complaint()}"
            )
        return [key.fileobj for key, _ in ready]

    def _read_errors(self) -> None:
        data = os.read(self._stderr.fileno(), _CHUNK)
        self._errors += data
        del self._errors[:-_KEPT]
        if not data:
            self._stderr.close()

    def _ended(self) -> EndedError:
        try:
            status = self._process.wait(0.5)
        except subprocess.TimeoutExpired:
            status = None
        with suppress(BlockingIOError):  # somebody else holds it open
            while not self._stderr.closed:
                self._read_errors()
        how = "closed its output" if status is None else f"ended with status {status}"
        if status is not None and status < 0:
            how = f"was killed by signal {-status}"
        return EndedError(f"{self._address}: the command {how}{self._complaint()}")

    def _waiting(self) -> str:
        """What the agent said last that it was doing."""
        return f", {self._doing}" if self._doing else ""

    def _complaint(self) -> str:
        """The last line that speaks of an error, else the last line, of standard error and of standard output.

        Either may hold a banner that says nothing, so both are shown.
        """
        lines = []
        for heard in (self._errors, self._decoder.skipped):
            printed = [
                line for line in heard.decode("utf-8", "replace").split("\n") if line.strip()
            ]
            telling = [line for line in printed if _ERROR.search(line)] or printed
            lines += [printable(" ".join(line.split()))[:300] for line in telling[-1:]]
        return f" ({'; '.join(lines)})" if lines else ""

    @property
    def _stdin(self) -> IO[bytes]:
        return _pipe(self._process.stdin)

    @property
    def _stdout(self) -> IO[bytes]:
        return _pipe(self._process.stdout)

    @property
    def _stderr(self) -> IO[bytes]:
        return _pipe(self._process.stderr)


def _pipe(file: IO[bytes] | None) -> IO[bytes]:
    assert file is not None  # each was asked for
    return file


def _end(process: subprocess.Popen[bytes]) -> None:
    """Close the pipes: the agent ends with its input. One that does not is killed."""
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    try:
        process.wait(0.5)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # it leads a session of its own
        process.wait()
