"""`python -m nas.measure`: Hydra composes, the networks are timed, a table and its origin remain."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from rich.console import Console
from rich.progress import track

from edgenas_core.command.console import PlainConsole, say
from edgenas_core.command.exit_status import plain_interrupts
from edgenas_core.command.hydra_command import typed_hydra_command
from edgenas_core.command.interruption import unheard
from edgenas_core.command.json_output import add_result
from edgenas_core.files.atomic_file import remove_unfinished
from edgenas_core.files.file_lock import held
from edgenas_core.files.lines import cut_lines
from latency.devices.registry import id_of_statistic
from latency.measuring.boards import LiveBoards
from latency.measuring.folder import MeasurementFolder
from latency.measuring.journal import append, judged, layers_of, read
from latency.measuring.machine import ThisMachine
from latency.measuring.settings import MeasureConfig
from latency.models.layer_table import FEWEST_NETWORKS, has_layers
from latency.models.layers import choose_doubtful
from latency.probe.layer_times import LayerTime
from latency.sources.layers import layers_in_space
from latency.sources.transfer import require_new
from nas.measure.plan import completed, plan
from nas.measure.serial import measure_serial
from nas.measure.table import (
    FAST,
    Rows,
    doubted,
    write_layers,
    write_measured_table,
    write_predicted_table,
)
from nas.spaces.base import SearchSpace, task_named
from nas.spaces.registry import space_named

_CANDIDATES = 3
"""Networks among which each is chosen by the layers that are least known; of all, the choice is no better."""
_MOST_CANDIDATES = 60  # each is exported for its layers, a second or more
_TOLD_AFTER = 10
"""Exported candidates after which the user is shown how many are."""


_ABOUT = """
Measure how long the networks of a space take on this machine, or on a board, into a latency table.

  python -m nas.measure board=my-board networks=200 on_disturbance=flag
  python -m nas.measure device=ssh://jetson probes=10 transfer=true
  python -m nas.measure device=stm32h747/cubeai/int8 serial=/dev/ttyACM0 out=my-board

Then:  NAS_DATA=<folder with the table> python -m nas.search device=<board>/...
"""


def main(words: Sequence[str] | None = None) -> None:
    """Run the command line's measurement."""
    typed_hydra_command("nas.measure", "measure", MeasureConfig, _run, words=words, about=_ABOUT)


def _run(config: MeasureConfig) -> None:
    words = HydraConfig.get().overrides.task
    add_result(file=measure(config, words, PlainConsole()))


def measure(config: MeasureConfig, words: Sequence[str], console: Console) -> Path:
    """Measure what is pending, and write the table; returns its path.

    `words` are the settings as on the command line.

    Raises:
      UserError: if a setting cannot work, or the machine or board cannot be measured.
      OSError: if a file cannot be written.
    """
    space = space_named(config.space)
    task = task_named(space, config.dataset)
    if config.serial is not None:
        return measure_serial(
            config.serial, config.addresses, space, task, Path(config.out), console
        )
    config = completed(config, task)
    architectures = plan(config, space)
    order = [space.text(architecture) for architecture in architectures]
    tell = partial(say, console)

    subject: LiveBoards | ThisMachine = (
        LiveBoards(config, space, task, tell)
        if config.is_remote
        else ThisMachine(config, space, task, tell)
    )
    if config.transfer:
        require_new(space, id_of_statistic(subject.device_id, config.statistic), "board")
    folder = MeasurementFolder(config, subject.device_id, subject.deciding)
    folder.require_same()
    with held(folder.settings), _told_how_to_go_on(tell):
        remove_unfinished(folder.path, folder.settings.name)
        fast = _measure_pending(config, subject, space, folder, order, console)
        if fast:
            tell(
                f"{len(fast)} times are implausibly fast by those of the other networks, such as of {fast[0]}: "
                f"they are taken again"
            )
            _measure_pending(config, subject, space, folder, order, console)
        if config.layers:
            return write_layers(config, space, folder, facts=subject.facts(), console=console)
        if config.transfer:
            write_predicted_table(
                config,
                space,
                folder,
                order=architectures,
                facts=subject.facts(),
                console=console,
            )
            return folder.transferred
        write_measured_table(
            config, space, folder, facts=subject.facts(), words=words, console=console
        )
    return folder.table


@contextmanager
def _told_how_to_go_on(tell: Callable[[str], None]) -> Iterator[None]:
    try:
        with plain_interrupts():
            yield
    except KeyboardInterrupt:
        with unheard():
            tell("what was measured is kept; the same command goes on")
        raise


def _measure_pending(  # noqa: PLR0917 - called above alone
    config: MeasureConfig,
    subject: LiveBoards | ThisMachine,
    space: SearchSpace,
    folder: MeasurementFolder,
    order: list[str],
    console: Console,
) -> list[str]:
    """Measure what is pending; returns networks whose times are implausibly fast and not yet confirmed."""
    for journal in subject.journals(folder):
        cut_lines(journal)
    before = _rows(config, subject, space, folder)
    quiet = [
        row for row in before if not row["disturbances"] and (layers_of(row) or not config.layers)
    ]  # the folder may be of a command without layers
    profiled = [layers_of(row) for row in quiet]
    pending = _told_pending(order, before, quiet, folder, console)

    def is_enough() -> bool:
        """Whether as many distinct layers as asked for were timed on a quiet machine."""
        return config.layers is not None and has_layers(profiled, config.layers)

    if not pending or is_enough():
        return []
    until_s = time.monotonic() + 60 * (math.inf if config.minutes is None else config.minutes)
    total, rounds = subject.rounds(pending, folder)
    ended = done = 0
    due = FEWEST_NETWORKS if config.layers and subject.keeps_order else math.inf
    choose = partial(_doubtful_first, config, space, folder.device_id, until_s, console)
    with closing(rounds):  # whatever ends this, hogs end with it
        for journal, measured in track(rounds, "measuring", total=total, console=console):
            append(journal, measured)
            ended += 1
            profiled += [
                list(each.layers) for each in measured if each.is_undisturbed and each.layers
            ]
            for line in (
                line for each in measured[:1] for line in (*each.drift, *each.disturbances)
            ):
                say(console, f"flagged: {line}")
            if is_enough():
                break
            done += max(1, len(measured))
            if ended == total:
                continue
            if len(profiled) >= due and time.monotonic() < until_s:
                due = 2 * len(profiled)
                pending[done:] = choose(pending[done:], profiled)
            if time.monotonic() >= until_s:
                console.print(
                    f"minutes={config.minutes:g} are over; the same command goes on "
                    f"({ended:,} of {total:,} rounds are done)"
                )
                return []
    lines = _rows(config, subject, space, folder)
    undisturbed = {row["arch"] for row in lines if not row["disturbances"]}
    return sorted({row["arch"] for row in lines if row["disturbances"] == FAST} - undisturbed)


def _rows(
    config: MeasureConfig,
    subject: LiveBoards | ThisMachine,
    space: SearchSpace,
    folder: MeasurementFolder,
) -> Rows:
    """Lines of all journals; those taken under load, or that the others contradict, are marked."""
    journals = [read(path) for path in subject.journals(folder)]
    return doubted(
        [row for lines in journals for row in judged(lines, config.control_drift)], space
    )


def _told_pending(
    order: list[str], before: Rows, quiet: Rows, folder: MeasurementFolder, console: Console
) -> list[str]:
    """Networks still to be measured, as is printed; those that were timed under load are among them."""
    pending = _pending(order, [row["arch"] for row in quiet])
    disturbed = {row["arch"] for row in before if row["disturbances"]} & {*pending}
    again = (
        f", {len(disturbed):,} measured again, as they were measured under load"
        if disturbed
        else ""
    )
    console.print(
        f"{folder.device_id}: {len(order):,} measurements of {len(set(order)):,} networks, "
        f"{len(pending):,} to go{again} -> {folder.path}",
        soft_wrap=True,
    )
    return pending


def _doubtful_first(  # noqa: PLR0917 - called above alone
    config: MeasureConfig,
    space: SearchSpace,
    device: str,
    until_s: float,
    console: Console,
    pending: list[str],
    profiled: list[list[LayerTime]],
) -> list[str]:
    """Pending networks with those first, of three times as many as are profiled, whose layers are least known.

    When the time is over while candidates are exported, the order stays.
    """
    task = task_named(space, config.dataset)
    candidates = [*dict.fromkeys(pending)][: min(_CANDIDATES * len(profiled), _MOST_CANDIDATES)]
    say(
        console,
        f"choosing which of {len(candidates)} networks to time next, by the layers of {len(profiled)}",
    )
    layers: list[list[str]] = []
    for text in candidates:
        if time.monotonic() >= until_s:
            return pending
        layers.append(layers_in_space(device, space, task, space.parse(text)))
        if len(layers) % _TOLD_AFTER == 0 and len(layers) < len(candidates):
            say(console, f"{len(layers)} of {len(candidates)} are exported")
    chosen = choose_doubtful(profiled, layers, sum(map(len, profiled)))
    first = [candidates[number] for number in chosen]
    return first + _pending(pending, first)


def _pending(order: list[str], measured: list[str]) -> list[str]:
    """The rest of the order: each network as often as it has not been measured yet."""
    left = Counter(order) - Counter(measured)
    pending = []
    for arch in reversed(order):
        if left[arch] > 0:
            left[arch] -= 1
            pending.append(arch)
    return pending[::-1]
