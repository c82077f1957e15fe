"""Runs an experiment step by step, with a control run around each step and results after each."""

from __future__ import annotations

import gc
import math
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import final

import torch
from rich.console import Console

from benchmarks.config import BenchConfig
from benchmarks.dispatch.modes import DispatchMode, open_executor
from benchmarks.dispatch.prepared import Setup
from benchmarks.machine_state import current_state
from benchmarks.results import PaperResults, Row
from benchmarks.workloads import Model, Scale, source
from edgenas_core.command.progress import progress_bar
from edgenas_core.inference.backend import Device
from edgenas_core.machine.monitors import OtherLoad, Throttles
from edgenas_core.machine.stability import StabilityConfig, Watch
from edgenas_runtime.lanes.report import makespan_ms
from edgenas_runtime.mapping.printed import print_lines
from edgenas_runtime.network.decompose import Rule

_CONTROL_INFERENCES = 20


@final
@dataclass
class Deadline:
    """Deadline of a step, on the clock of `time.monotonic`."""

    until_s: float = math.inf
    has_cut: bool = False
    """True if a loop ended early because of the deadline."""


_DEADLINE: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


@contextmanager
def ends_by(until_s: float) -> Iterator[Deadline]:
    """Set the deadline of the block."""
    deadline = Deadline(until_s)
    token = _DEADLINE.set(deadline)
    try:
        yield deadline
    finally:
        _DEADLINE.reset(token)


def time_is_left() -> bool:
    """Return True if a loop may begin another round; to be called only if there is one."""
    deadline = _DEADLINE.get()
    if deadline is None or time.monotonic() < deadline.until_s:
        return True
    deadline.has_cut = True
    return False


@final
@dataclass(frozen=True)
class ExperimentStep:
    """A part of an experiment; results are written after it."""

    name: str
    run: Callable[[], Iterable[Row]]


@final
class Control:
    """The control run: one NAS-Bench-201 network alone, whose time no workload should change."""

    def __init__(self, device: Device, scale: Scale) -> None:
        """Prepare the network and warm it up."""
        self._device = device
        control = source(Model.nas_bench_201, scale=scale, device=device.value, rule=Rule.WHOLE)
        self._executor = open_executor(DispatchMode.SERIAL, [control], Setup(device))
        for _ in range(3):
            self._once_ms()
        self._config = StabilityConfig()
        first_ms = median(self._once_ms() for _ in range(5))
        self._watch = Watch(self._config, [Throttles()], control_ms=[first_ms])

    def row(self, when: str) -> Row:
        """Time the network; return its time, the machine's state and the disturbances."""
        others = OtherLoad(self._config.other_load, cores=())  # while nothing of a workload runs
        control_ms = median(self._once_ms() for _ in range(5))
        disturbances = [*self._watch.drift(control_ms), *self._watch.disturbances(), *others()]
        return {
            "when": when,
            "control_ms": round(control_ms, 4),
            "disturbances": disturbances,
            **current_state(self._device.value),
        }

    def _once_ms(self) -> float:
        outcome = self._executor.run(_CONTROL_INFERENCES, each_job=False)
        return makespan_ms(outcome.schedule) / _CONTROL_INFERENCES

    def close(self) -> None:
        """Release the network."""
        self._executor.close()


def measure(
    steps: Callable[[BenchConfig], list[ExperimentStep]],
    config: BenchConfig,
    results: PaperResults,
    path: Path,
    console: Console,
) -> None:
    """Measure step by step, with a control run around each, and write the results to the path.

    Raises:
      ValueError: if nothing can be measured here.
    """
    try:
        chosen = steps(config)
        announce(chosen, config, console)
        control = Control(config.device, config.scale)
    except RuntimeError as error:  # of torch and CUDA: no driver, no free memory
        raise ValueError(
            f"device={config.device.value} cannot be measured here: {one_line(error)}"
        ) from error
    try:
        run_steps(chosen, results, path, control, minutes=config.most_minutes, console=console)
    finally:  # after Ctrl-C, too
        with suppress(RuntimeError):  # a GPU that is lost, as the results say
            control.close()


def announce(steps: Sequence[ExperimentStep], config: BenchConfig, console: Console) -> None:
    """Print one line on what is going to be measured, and how long that takes at most."""
    names = ", ".join(step.name for step in steps)
    print_lines(
        console,
        f"experiment={config.experiment.value}, device={config.device.value}, "
        f"{config.most_minutes:g} minutes at most (minutes= changes that), {len(steps)} "
        f"step{'s' * (len(steps) != 1)}: {names}",
    )


def run_steps(
    steps: Sequence[ExperimentStep],
    results: PaperResults,
    path: Path,
    control: Control,
    *,
    minutes: float,
    console: Console,
) -> None:
    """Run all steps for which there is time; a step that raises is recorded, and the next one runs.

    The step that runs when the time is over ends after its round. Measured rows of a step are flagged
    if a control run beside it reports a disturbance. Results are written after each step, also when
    it is interrupted.

    Raises:
      KeyboardInterrupt: after the results have been written.
      OSError: if it cannot be written.
    """
    until_s = time.monotonic() + 60 * minutes
    results.write(path)
    with progress_bar(console) as bar:
        task = bar.add_task("", total=len(steps))
        for done, step in enumerate(steps):
            bar.update(task, completed=done, description=step.name)
            if time.monotonic() >= until_s:
                results.not_measured.append(step.name)
                continue
            if not console.is_terminal:
                console.print(f"{done + 1} of {len(steps)}: {step.name}", soft_wrap=True)
            try:
                with ends_by(until_s) as deadline:
                    _run_step(step, results, control, console)
                if deadline.has_cut:
                    results.cut_short.append(step.name)
            finally:
                results.write(path)
    results.is_complete = not (results.not_measured or results.cut_short or results.faults)
    results.write(path)


def _run_step(
    step: ExperimentStep, results: PaperResults, control: Control, console: Console
) -> None:
    before = _controlled(f"before {step.name}", results, control)
    rows: list[Row] = []
    try:
        rows.extend(step.run())  # what was measured before a fault is kept
    except Exception as error:  # noqa: BLE001 - the other steps have nothing to do with it
        results.faults.append({"step": step.name, "error": one_line(error)})
        print_lines(console, f"{step.name} failed: {one_line(error)}")
    finally:  # Ctrl-C too leaves what was measured
        results.rows += rows
    _free_memory()
    after = _controlled(f"after {step.name}", results, control)
    flags = [*before["disturbances"], *after["disturbances"]]
    timed = [row for row in rows if not row.get("simulated")]
    for row in timed:
        row["flagged"] = flags
    print_lines(console, *(f"flagged: {flag}" for flag in flags if timed or not rows))


def _controlled(when: str, results: PaperResults, control: Control) -> Row:
    """Record a control run; a failed one counts as a disturbance, and the steps go on."""
    try:
        row = control.row(when)
    except RuntimeError as error:  # a GPU that is lost: each further step says so too
        row = {"when": when, "disturbances": [f"the control run failed: {one_line(error)}"]}
    results.controls.append(row)
    return row


def interleaved(
    variants: Mapping[str, Callable[[], float]], repeats: int, *, turn_s: float = 0.0
) -> dict[str, list[float]]:
    """Run each variant once untimed, then all of them in turns: A B A B.

    At least one round is timed; no further round begins after the deadline of the step.

    With `turn_s` a turn repeats its variant for that long and only the last run counts, in a new
    random order each round. The clock that a GPU's power limit allows depends on the work before,
    which is then the same variant.
    """
    for once in variants.values():
        once()
    taken: dict[str, list[float]] = {name: [] for name in variants}
    order = [*variants]
    shuffler = random.Random(0)  # noqa: S311 - of an order
    for done in range(repeats):
        if done and not time_is_left():
            break
        if turn_s:
            shuffler.shuffle(order)
        for name in order:
            taken[name].append(last_of_turn(variants[name], turn_s))
    return taken


def last_of_turn(once: Callable[[], float], turn_s: float) -> float:
    """Run repeatedly for at least `turn_s`, and return the time of the last run."""
    until_s = time.monotonic() + turn_s
    taken_ms = once()
    while time.monotonic() < until_s:
        taken_ms = once()
    return taken_ms


def one_line(error: BaseException) -> str:
    """Class and message of an error, shortened to one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}"


def _free_memory() -> None:
    gc.collect()
    with suppress(RuntimeError):  # a GPU that is lost says so in the next step
        if torch.cuda.is_available():
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
