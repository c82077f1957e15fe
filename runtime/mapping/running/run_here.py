"""`python -m runtime.map tasks=here.csv run=<folder>`: frame after frame for real, beside alternatives.

All timetables take turns of some frames, in an order drawn anew each round. A frame begins when the
one before it has ended and its time is over. Before a turn every network gets another input, after it
every output is compared with fp32.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from runtime.machine.facts import machine, usable_cores
from runtime.machine.monitors import OtherLoad, Stolen, Throttles, gpu_throttling
from runtime.machine.stability import QuietConfig, Sense, Watch
from runtime.machine.watchdog import Pulse, ends_without
from runtime.mapping.config import ProfileConfig, RunConfig
from runtime.mapping.model.variant import parse_variant
from runtime.mapping.profiling.build_variant import unsupported_reason
from runtime.mapping.profiling.networks import build_network, check_name
from runtime.mapping.profiling.variant_profile import reference
from runtime.mapping.running.frames import FrameBuilder
from runtime.mapping.running.place_lanes import PlaceLanes
from runtime.mapping.running.rounds import Rounds
from runtime.mapping.running.rows import result_rows
from runtime.mapping.solving.baselines import Method
from runtime.mapping.solving.candidates import Board, Candidate, candidates
from runtime.network.backend import Device
from runtime.page.results import Results

EXPERIMENT = "mapped"


def run_here(
    board: Board,
    config: RunConfig,
    profiling: ProfileConfig,
    path: Path,
    console: Console,
    *,
    tell: Callable[[Results], None],
) -> Results:
    """Runs the frame in every way that was asked for; results are written after each round.

    Args:
      board: networks by names that `subject` knows, and units of this machine.
      config: how often, and in which ways.
      profiling: how the networks were made that the table's times are of.
      path: of the results.
      console: where progress is told.
      tell: is given the results, after Ctrl-C, too.

    Raises:
      ValueError: if a network or a unit is not there, or a network cannot run on one.
      KeyboardInterrupt: after what was measured has been written.
    """
    names = board.table.networks
    for name in names:
        check_name(name)
    found, answers = candidates(board, [Method(name) for name in config.ways], config.margins)
    for margin, answer in answers.items():
        if answer is not answer.feasible:
            console.print(f"margin {margin:g}: no mapping ({answer.value})")
    variants = [parse_variant(placed.configuration) for one in found for placed in one.timetable]
    on_gpu = any(variant.device is Device.cuda for variant in variants)
    settings = {
        "networks": [*names],
        "frame_ms": board.frame_ms,
        "bound": board.bound.value,
        **vars(config),
        "batch": profiling.batch,
        "width": profiling.width,
        "tolerance": profiling.tolerance,
        "weights": "random",
    }
    with PlaceLanes(board.platform) as lanes:
        _check(found, lanes)  # before anything that takes time
        console.print(
            f"made ready: {'; '.join(one.name for one in found)}", soft_wrap=True, markup=False
        )
        results = Results(EXPERIMENT, settings, machine("cuda" if on_gpu else "cpu"))
        flags: list[str] = []

        def write() -> None:
            results.rows = result_rows(board, found, answers, profiling.tolerance)
            for row in results.rows:
                row["flagged"] = flags
            results.write(path)

        known = {
            name: build_network(
                name, batch=profiling.batch, width=profiling.width, compared=profiling.compared
            )
            for name in dict.fromkeys(names)
        }
        references = {name: reference(one, variants) for name, one in known.items()}
        builder = FrameBuilder([known[name] for name in names], lanes)
        rounds = Rounds(
            found,
            [builder.frame(one.timetable) for one in found],
            [references[name] for name in names],
            frame_ms=board.frame_ms,
            tolerance=profiling.tolerance,
        )
        watch = _watch(on_gpu=on_gpu)
        pulse = Pulse()  # who waits for a GPU cannot be interrupted
        try:
            with ends_without(pulse, write):
                for count in _shown(_turns(config), config.minutes, console):
                    rounds.run(count, pulse)
                    write()
        finally:  # after Ctrl-C, too
            flags += watch.disturbances()
            _close(results, found, config, flags)
            write()
            tell(results)
    return results


def _check(found: Sequence[Candidate], lanes: PlaceLanes) -> None:
    """Refuses what this machine cannot run.

    Raises:
      ValueError: naming the place or the variant.
    """
    for placed in (placed for one in found for placed in one.timetable):
        variant = parse_variant(placed.configuration)
        lanes.lane(variant, placed.place)
        if (why := unsupported_reason(variant)) is not None:
            raise ValueError(f"{variant.name}: {why}")


def recorded_settings(path: Path, config: ProfileConfig) -> ProfileConfig:
    """Execution the networks of a table were made, if the record beside it is there to say so.

    Raises:
      OSError: if it cannot be read.
      ValueError: if it is no such record.
    """
    if not path.exists():
        return config
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))["settings"]
        made = replace(
            config,
            batch=int(settings["batch"]),
            width=float(settings["width"]),
            compared=int(settings["compared"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is no record of a profile: {error}; move it away, or profile again"
        ) from error
    made.check()
    return made


def has_run(results: Results) -> bool:
    """Whether there was a mapping for the least margin, and no network failed."""
    margins = [row for row in results.rows if "margin" in row]
    has_mapping = not margins or margins[0]["of"] is not None
    return has_mapping and not results.faults


def _turns(config: RunConfig) -> list[int]:
    """Frames of each round."""
    full, rest = divmod(config.frames, config.turn)
    return [config.turn] * full + [rest] * bool(rest)


def _shown(turns: Sequence[int], minutes: float, console: Console) -> Iterator[int]:
    """The rounds for which there is time, with a bar or a line of how far it is."""
    until_s = time.monotonic() + 60 * minutes
    columns = (BarColumn(20), MofNCompleteColumn(), TextColumn("rounds"))
    with Progress(
        *columns,
        TimeRemainingColumn(compact=True),
        console=console,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task("", total=len(turns))
        began_s = time.monotonic()
        for done, count in enumerate(turns):
            now_s = time.monotonic()
            if now_s > until_s:
                return
            bar.update(task, completed=done)
            if not console.is_terminal and done == 1:
                left_s = (now_s - began_s) * (len(turns) - 1)
                console.print(f"1 of {len(turns)} rounds, about {left_s:.0f} s left")
            yield count


def _close(
    results: Results, found: Sequence[Candidate], config: RunConfig, flags: list[str]
) -> None:
    results.controls.append({"when": "all of it", "disturbances": flags})
    results.faults += [{"step": one.name, "error": one.error} for one in found if one.error]
    results.not_measured += [
        f"{config.frames - len(one.ms)} frames of {one.name}"
        for one in found
        if len(one.ms) < config.frames and not one.error
    ]
    results.is_complete = not results.faults and not results.not_measured


def _watch(*, on_gpu: bool) -> Watch:
    quiet, cores = QuietConfig(), usable_cores()
    senses: list[Sense] = [
        OtherLoad(quiet.other_load, cores),
        Stolen(quiet.stolen, cores),
        Throttles(),
    ]
    return Watch(quiet, [*senses, gpu_throttling] if on_gpu else senses)
