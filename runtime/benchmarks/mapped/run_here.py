"""Runs the mapped frame and its baselines.

Timetables are interleaved: some frames of each per round, in random order. A frame begins when the
previous candidate has ended and its period is over. Before each turn every network gets another input;
after it every output is compared with fp32.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import final

import numpy as np
import torch
from rich.console import Console
from torch import Tensor

from benchmarks.machine_state import experiment_facts
from benchmarks.mapped.baselines import Method
from benchmarks.mapped.build_variant import unsupported_reason
from benchmarks.mapped.candidates import Candidate, MappedBoard, candidates
from benchmarks.mapped.config import MappedConfig
from benchmarks.mapped.frames import Frame, FrameBuilder
from benchmarks.mapped.named_networks import build_network, check_name
from benchmarks.mapped.place_lanes import PlaceLanes
from benchmarks.mapped.rows import result_rows
from benchmarks.mapped.variant import parse_variant
from benchmarks.mapped.variant_profile import reference
from benchmarks.results import PaperResults
from benchmarks.steps import ends_by, time_is_left
from edgenas_core.inference.backend import Device
from edgenas_runtime.lanes.watch import watch_disturbances
from edgenas_runtime.mapping.printed import print_lines

EXPERIMENT = "mapped"

_RECORDED = ("ways", "margins", "frames", "turn", "minutes", "batch", "width", "tolerance")


def run_here(
    board: MappedBoard,
    config: MappedConfig,
    path: Path,
    console: Console,
    *,
    show: Callable[[PaperResults], None],
) -> PaperResults:
    """Run the frame by every method; results are written after each round.

    `show` is called at the end, also after Ctrl-C.

    Raises:
      ValueError: if a network or unit does not exist, or a network cannot run at its place.
      KeyboardInterrupt: after the measurements have been written.
    """
    names = board.table.networks
    for name in names:
        check_name(name)
    contenders, answers = candidates(board, [Method(name) for name in config.ways], config.margins)
    for margin, answer in answers.items():
        if answer is not answer.feasible:
            console.print(f"margin {margin:g}: no mapping ({answer.value})")
    variants = [
        parse_variant(placed.configuration)
        for candidate in contenders
        for placed in candidate.timetable
    ]
    on_gpu = any(variant.device is Device.cuda for variant in variants)
    settings = {
        "networks": [*names],
        "frame_ms": board.frame_ms,
        "bound": board.bound.value,
        **{name: getattr(config, name) for name in _RECORDED},
        "weights": "random",
    }
    with PlaceLanes(board.platform) as lanes:
        _check(contenders, lanes)  # fails before the slow steps
        print_lines(
            console,
            f"{config.minutes:g} minutes at most; timetables: {'; '.join(one.name for one in contenders)}",
        )
        results = PaperResults(EXPERIMENT, settings, experiment_facts("cuda" if on_gpu else "cpu"))
        flags: list[str] = []

        def write() -> None:
            results.rows = result_rows(board, contenders, answers, config.tolerance)
            for row in results.rows:
                row["flagged"] = flags
            results.write(path)

        known = {
            name: build_network(
                name, batch=config.batch, width=config.width, compared=config.compared
            )
            for name in dict.fromkeys(names)
        }
        references = {name: reference(candidate, variants) for name, candidate in known.items()}
        builder = FrameBuilder([known[name] for name in names], lanes)
        rounds = Rounds(
            contenders,
            [builder.frame(candidate.timetable) for candidate in contenders],
            [references[name] for name in names],
            frame_ms=board.frame_ms,
            tolerance=config.tolerance,
        )
        watch = watch_disturbances(on_gpu=on_gpu)
        try:
            with ends_by(time.monotonic() + 60 * config.minutes):
                for done, count in enumerate(_turns(config)):
                    if done and not time_is_left():
                        break
                    rounds.run(count)
                    write()
        finally:  # also after Ctrl-C
            flags += watch.disturbances()
            _close(results, contenders, config, flags)
            write()
            show(results)
    return results


def _check(contenders: Sequence[Candidate], lanes: PlaceLanes) -> None:
    """Check that this machine can run all candidates.

    Raises:
      ValueError: naming the place or the variant.
    """
    for placed in (placed for candidate in contenders for placed in candidate.timetable):
        variant = parse_variant(placed.configuration)
        lanes.lane(variant, placed.place)
        if (why := unsupported_reason(variant)) is not None:
            raise ValueError(f"{variant.name}: {why}")


def has_run(results: PaperResults) -> bool:
    """Return whether there is a mapping for the least margin and no network failed."""
    margins = [row for row in results.rows if "margin" in row]
    has_mapping = not margins or margins[0]["of"] is not None
    return has_mapping and not results.faults


def _turns(config: MappedConfig) -> list[int]:
    """Return the number of frames of each round."""
    full, rest = divmod(config.frames, config.turn)
    return [config.turn] * full + [rest] * bool(rest)


def _close(
    results: PaperResults, contenders: Sequence[Candidate], config: MappedConfig, flags: list[str]
) -> None:
    results.controls.append({"when": "all of it", "disturbances": flags})
    results.faults += [
        {"step": candidate.name, "error": candidate.error}
        for candidate in contenders
        if candidate.error
    ]
    results.not_measured += [
        f"{config.frames - len(candidate.ms)} frames of {candidate.name}"
        for candidate in contenders
        if len(candidate.ms) < config.frames and not candidate.error
    ]
    results.is_complete = not results.faults and not results.not_measured


_WARM_UP = 2
"""Frames at the beginning of a turn that are not counted, because other timetables used the caches."""


@final
class Rounds:
    """Runs rounds; a round is one turn of each timetable that has not failed."""

    def __init__(
        self,
        contenders: Sequence[Candidate],
        frames: Sequence[Frame],
        references: Sequence[Sequence[Tensor]],
        *,
        frame_ms: float,
        tolerance: float,
    ) -> None:
        """The references are fp32 outputs of each network, for each of its inputs."""
        self._found = contenders
        self._frames = frames
        self._references = references
        self._frame_ms = frame_ms
        self._tolerance = tolerance
        self._order = np.random.default_rng(0)
        self._round = 0

    def run(self, count: int) -> None:
        """Run one more round with `count` frames of each timetable."""
        for i in self._order.permutation(len(self._found)):
            candidate = self._found[i]
            if candidate.error:
                continue
            try:
                self._turn(candidate, self._frames[i], count)
            except RuntimeError as error:
                candidate.error = str(error)
        self._round += 1

    def _turn(self, candidate: Candidate, frame: Frame, count: int) -> None:
        frame.put(self._round)
        next_s = time.perf_counter()
        for k in range(count + _WARM_UP):
            time.sleep(max(0.0, next_s - time.perf_counter()))
            next_s = time.perf_counter() + self._frame_ms / 1e3
            ms = frame.run()
            if k >= _WARM_UP:
                candidate.ms.append(ms)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        differences = frame.differences(self._references, self._round)
        before = 0.0 if candidate.differences is None else candidate.differences
        candidate.differences = np.maximum(differences, before)
        for i, difference in enumerate(differences):
            if not difference <= self._tolerance:  # also if it is NaN
                raise RuntimeError(
                    f"{frame.label(i)}: its output differs from fp32 by {difference:.2g} of the "
                    f"largest output, more than {self._tolerance:g}"
                )
