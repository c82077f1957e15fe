"""`latency=probe`: the networks of the search are exported here and timed on a live board.

`latency/probe/` connects to the board; docs/how-to/search-on-a-live-board.md is for its user.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, final

import platformdirs

from edgenas_core.command.console import PlainConsole, say
from edgenas_core.command.exit_status import reason
from edgenas_core.command.settings import group, setting
from edgenas_core.machine.stability import OnDisturbance, StabilityConfig
from edgenas_core.machine.timing import Statistic, TimingSettings
from edgenas_core.types.errors import UserError, require_at_least_1
from edgenas_core.types.task import Task
from latency.base import LatencyConfig, Space
from latency.models.plausibility import faster_than_others_say
from latency.probe import agent
from latency.probe.address import spoken
from latency.probe.cache import Cache, CacheError, require_writable
from latency.probe.config import BoardsConfig, exported
from latency.probe.oracle import ProbeLatency
from latency.probe.settings import BoardPrecision

_MOST_MS = 100_000
"""Charts have a bin for each millisecond."""


@final
@dataclass
class ProbeLatencyConfig(BoardsConfig, StabilityConfig, LatencyConfig):
    """Settings of `latency=probe`: the board, its timing, and the statistic of its times."""

    precision: BoardPrecision = setting(BoardPrecision.fp32, "Number format of the networks.")
    batch_size: int = setting(1, "Images of one inference.")
    threads: int = setting(1, "Threads within one operation.")
    core: int | None = setting(None, "Processor that the agent is pinned to.")
    statistic: Statistic = setting(
        Statistic.median, "Statistic of the times that is compared with T."
    )
    timing: TimingSettings = group(TimingSettings)
    on_disturbance: OnDisturbance = setting(
        OnDisturbance.stop,
        "What to do with a measurement under load: stop, or flag it; it then confirms no network.",
    )
    confirm_top: int = setting(5, "Best networks that are timed again at the end.")
    unrunnable_ms: float | None = setting(
        None,
        "Latency, beyond T, of a network that the board cannot run.",
        unit="ms",
        unset="it ends the search",
    )
    cache: Path | None = setting(
        None, "Folder of the times of earlier runs.", unset="in the user's cache"
    )
    is_live: ClassVar[bool] = True

    def require_limit(self, limit_ms: float) -> None:
        """Refuse a network that the board cannot run to count as one within the limit."""
        if self.unrunnable_ms and self.unrunnable_ms <= limit_ms:
            raise UserError(
                f"latency.unrunnable_ms={self.unrunnable_ms:g} is within T; a network that "
                f"the board cannot run must count as slower"
            )

    def build(self, device: str, space: Space, task: Task) -> ProbeLatency:
        """Connect to the boards at the addresses in `device`.

        Raises:
          UserError: if an address or a setting is malformed, or the cache cannot be written.
          LostConnectionError, BoardError: if a board cannot be used.
        """
        self._check()
        folder = (self.cache or Path(platformdirs.user_cache_dir("edgenas")) / "probe").expanduser()
        try:
            return self._build(device, space, task, folder)
        except CacheError as error:
            raise UserError(
                f"measured times cannot be stored: {reason(error)}; name another folder with "
                f"latency.cache=<folder>"
            ) from error

    def _build(self, device: str, space: Space, task: Task, folder: Path) -> ProbeLatency:
        require_writable(folder)  # before a board is kept busy
        tell = partial(say, PlainConsole())
        connected = self.connect(
            device,
            space,
            task,
            tell,
            precision=self.precision,
            batch_size=self.batch_size,
            threads=self.threads,
            core=self.core,
            timing=self.timing.config(),
            quiet=self,
        )
        settings, boards = connected.settings, connected.pool.boards
        identity = boards[0].identity
        about = {board.address: board.facts for board in boards}
        key: dict[str, Any] = {
            "space": space.name,
            "device": identity.device(settings),
            "identity": asdict(identity),
            "settings": settings.request(identity.runtime),
            "dataset": task.name,
            "agent": agent.VERSION,
        }
        kept = Cache(folder, key, about)
        where = ", ".join(spoken(board.address) for board in boards)
        oracle = ProbeLatency(
            device=identity.device(settings),
            description=(
                f"probe: measured live on {identity.board} ({where}), {identity.runtime} "
                f"{identity.version}, {self.threads} thread{'s' if self.threads > 1 else ''}, "
                f"{self.statistic.value} of {self.timing.samples}"
            ),
            pool=connected.pool,
            cache=kept,
            space=space,
            export=connected.export,
            export_fp32=partial(exported, space, task, self.batch_size),
            tell=tell,
            statistic=self.statistic,
            quiet=self,
            on_disturbance=self.on_disturbance,
            unrunnable_ms=self.unrunnable_ms,
            confirm_top=self.confirm_top,
            too_fast=partial(faster_than_others_say, space),
        )
        stale = sum(not oracle.still_holds(timed) for timed in kept.all())
        if stale:
            tell(
                f"{stale:,} of {len(kept):,} latencies of earlier runs are measured again, because the "
                f"reference network takes over {self.control_drift:.0%} more or less time now"
            )
        return oracle

    def _check(self) -> None:
        require_at_least_1(
            {
                "latency.batch_size": self.batch_size,
                "latency.threads": self.threads,
            }
        )
        self.require_sensible("latency.tolerance")
        if self.unrunnable_ms is not None and not 0 < self.unrunnable_ms <= _MOST_MS:
            raise UserError(
                f"latency.unrunnable_ms={self.unrunnable_ms:g} must be positive, {_MOST_MS:,} at most"
            )
        if self.confirm_top < 0:
            raise UserError("latency.confirm_top must not be negative")
