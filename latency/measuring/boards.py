"""Measuring live boards: the agent that is sent to them times the networks."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, final

from edgenas_core.machine.description import versions
from edgenas_core.machine.monitors import loaded
from edgenas_core.machine.stability import OnDisturbance, Watch
from edgenas_core.machine.timing import Samples
from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task
from latency.base import Space
from latency.measuring.folder import MeasurementFolder, settings_of
from latency.measuring.journal import Measurement, read
from latency.measuring.settings import MeasureConfig
from latency.probe import agent
from latency.probe.board import BoardError, Timed
from latency.probe.connection import LostConnectionError
from latency.probe.pool import ProbeOutcome
from latency.probe.settings import BoardPrecision


@final
class LiveBoards:
    """Measures networks on one board, or on several of one kind with one queue."""

    def __init__(
        self, config: MeasureConfig, space: Space, task: Task, tell: Callable[[str], None]
    ) -> None:
        """Connect; `tell` prints a line for the user.

        Raises:
          UserError: if an address or a setting is malformed.
          LostConnectionError, BoardError: if a board cannot be used.
        """
        names = [precision.value for precision in BoardPrecision]
        if config.precision.value not in names:
            raise UserError(
                f"precision={config.precision.value} is none of {', '.join(names)}, which boards know"
            )
        self._config, self._tell = config, tell
        connected = config.connect(
            config.addresses,
            space,
            task,
            tell,
            precision=BoardPrecision(config.precision.value),
            batch_size=config.batch_size,
            threads=config.threads,
            core=config.core,
            timing=config.timing.config(),
            quiet=config,
            layers=config.layers is not None,
        )
        self._pool, self._export = connected.pool, connected.export
        self._boards = connected.pool.boards
        self.keeps_order = len(self._boards) == 1  # several share a queue that is full at once
        identity = self._boards[0].identity
        board, _, runtime = identity.device(connected.settings).partition("/")
        self.device_id = f"{config.board or board}/{runtime}"
        self.deciding: dict[str, Any] = {
            "identity": asdict(identity),
            "asked": connected.settings.request(identity.runtime),
            "space": space.name,
            "dataset": task.name,
            "agent": agent.VERSION,
        }
        self._states: dict[str, dict[str, Any]] = {}

    def facts(self) -> dict[str, Any]:
        """Facts that the agents reported, for the origin of the table."""
        return {
            "measured": "on live boards, by the agent that is sent to them",
            **self.deciding,
            "boards": {board.address: board.facts for board in self._boards},
            "states_at_the_end": self._states,
            "exported_with": versions(),
            "settings": settings_of(self._config),
        }

    def journals(self, folder: MeasurementFolder) -> list[Path]:
        """Journals of all boards, earlier ones too: their networks need not be measured again."""
        return folder.journals

    def rounds(
        self, pending: Sequence[str], folder: MeasurementFolder
    ) -> tuple[int, Generator[tuple[Path, list[Measurement]], None, None]]:
        """Number of rounds, and each round as it ends: its journal and its measurements.

        Raises:
          UserError: if no board is left, or one is under load or cannot run a network where the
            config says to stop; nothing that was yielded before is lost.
        """
        return len(pending), self._measured(pending, folder)

    def _measured(
        self, pending: Sequence[str], folder: MeasurementFolder
    ) -> Generator[tuple[Path, list[Measurement]], None, None]:
        journals = {board.address: folder.journal_of(board.address) for board in self._boards}
        watches = {address: self._watch(journal) for address, journal in journals.items()}
        try:
            for outcome in self._pool.measure(pending, self._export):
                address = outcome.board
                if outcome.timed is None:
                    self._refuse(outcome)
                    yield journals[address], []
                    continue
                measured = self._judged(outcome.network, outcome.timed, address, watches[address])
                yield journals[address], [measured]
        except (LostConnectionError, BoardError) as error:
            raise UserError(
                f"{error}; what was measured is kept, run the same command again to go on"
            ) from error
        finally:
            for board in self._boards:
                board.close()

    def _watch(self, journal: Path) -> Watch:
        rows = read(journal)
        return Watch(
            self._config,
            [],
            control_ms={float(row["control_ms"]) for row in rows},
            clock_mhz=float(rows[0]["clock_mhz"]) if rows and rows[0]["clock_mhz"] else None,
        )

    def _judged(self, network: str, timed: Timed, address: str, watch: Watch) -> Measurement:
        self._states[address] = timed.report
        mhz = timed.state.clock_mhz
        drift = tuple(watch.drift(timed.control_median_ms))
        disturbances = (
            *watch.disturbances(mhz),
            *loaded(timed.state.other_load, self._config.other_load),
        )
        self._config.require_quiet(drift, disturbances, address)
        samples = Samples(timed.ms, timed.warm_up_calls, timed.is_stable)
        return Measurement(
            network,
            samples,
            timed.control_median_ms,
            mhz,
            drift,
            disturbances,
            layers=timed.layers,
        )

    def _refuse(self, outcome: ProbeOutcome) -> None:
        sentence = f"{outcome.board} cannot run {outcome.network}: {outcome.refused}"
        if self._config.on_disturbance is OnDisturbance.stop:
            raise UserError(
                f"{sentence}; on_disturbance=flag leaves its field empty and goes on, and what was "
                f"measured is kept"
            )
        self._tell(f"flagged: {sentence}; its field stays empty")
