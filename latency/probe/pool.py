"""Several boards of one kind with one queue: whichever is free takes the next network."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import final

from edgenas_core.machine.stability import StabilityConfig, drifted
from latency.probe.board import BoardError, LiveBoard, Timed, UnrunnableError
from latency.probe.connection import LostConnectionError


@final
@dataclass(frozen=True)
class ProbeOutcome:
    """Times of one network, or the reason why there are none."""

    network: str  # text of the architecture
    board: str  # address
    timed: Timed | None
    refused: str = ""
    disturbances: tuple[str, ...] = ()  # while it was timed, and timed once more for those


@final
class BoardPool:
    """Equal boards. A lost board is left out as long as there is another."""

    def __init__(
        self, boards: Sequence[LiveBoard], quiet: StabilityConfig, tell: Callable[[str], None]
    ) -> None:
        """Compare the boards.

        Raises:
          BoardError: if they are not of one kind.
        """
        first, *others = boards
        for other in others:
            if other.identity != first.identity:
                raise BoardError(
                    f"{first.address} is {first.identity}; {other.address} is {other.identity}: "
                    f"their times are not of one device; probe them in two runs"
                )
            if drifted(other.control_ms, first.control_ms, quiet.control_drift):
                tell(
                    f"warning: the reference network takes {other.control_ms:.3f} ms on "
                    f"{other.address} and {first.control_ms:.3f} ms on {first.address}"
                )
        self._boards = list(boards)
        self._quiet = quiet
        self._tell = tell

    @property
    def boards(self) -> tuple[LiveBoard, ...]:
        """Boards still in use."""
        return tuple(self._boards)

    def measure(
        self, networks: Sequence[str], export: Callable[[str, str], bytes]
    ) -> Iterator[ProbeOutcome]:
        """Outcomes as they come; `export` writes a network in a format.

        Raises:
          LostConnectionError, BoardError: if no board is left; what was yielded before is not lost.
        """
        if len(self._boards) == 1:
            for network in networks:
                yield self._take(self._boards[0], network, export)
        else:
            yield from self._share(networks, export)

    def _take(
        self, board: LiveBoard, network: str, export: Callable[[str, str], bytes]
    ) -> ProbeOutcome:
        """Time one network; once more if the board was under load."""
        content = export(network, board.takes)
        try:
            for _ in range(2):
                timed = board.measure(content)
                disturbances = board.disturbances(timed, self._quiet)
                if not disturbances:
                    break
        except UnrunnableError as error:
            return ProbeOutcome(network, board.address, None, str(error))
        return ProbeOutcome(network, board.address, timed, disturbances=disturbances)

    def _share(
        self, networks: Sequence[str], export: Callable[[str, str], bytes]
    ) -> Iterator[ProbeOutcome]:
        lock = threading.Lock()  # torch exports one network at a time

        def locked(network: str, takes: str) -> bytes:
            with lock:
                return export(network, takes)

        shared = _Shared(lambda board, network: self._take(board, network, locked))
        for network in networks:
            shared.waiting.put(network)
        for board in self._boards:
            threading.Thread(target=shared.work, args=(board,), daemon=True).start()
        left = len(networks)
        try:
            while left:
                outcome = shared.done.get()
                if isinstance(outcome, ProbeOutcome):
                    left -= 1
                    yield outcome
                else:
                    self._leave_out(outcome)
                    shared.waiting.put(outcome.network)
        finally:
            shared.stop.set()

    def _leave_out(self, lost: _Lost) -> None:
        self._boards.remove(lost.board)
        lost.board.close()
        if not isinstance(lost.error, (LostConnectionError, BoardError)) or not self._boards:
            raise lost.error
        others = len(self._boards)
        self._tell(f"{lost.error}; going on with {others} board{'s' if others > 1 else ''}")


@final
@dataclass(frozen=True)
class _Lost:
    """A board that ended with an error, and the network it was at."""

    board: LiveBoard
    network: str
    error: Exception


@final
class _Shared:
    """Queues between the thread of each board and the caller."""

    def __init__(self, take: Callable[[LiveBoard, str], ProbeOutcome]) -> None:
        self.waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.done: queue.SimpleQueue[ProbeOutcome | _Lost] = queue.SimpleQueue()
        self.stop = threading.Event()
        self._take = take

    def work(self, board: LiveBoard) -> None:
        """Time networks until `stop` is set or the board is lost."""
        while not self.stop.is_set():
            with suppress(queue.Empty):
                network = self.waiting.get(timeout=0.05)
                try:
                    self.done.put(self._take(board, network))
                except Exception as error:  # noqa: BLE001 - raised again by the thread that waits
                    self.done.put(_Lost(board, network, error))
                    return
