"""`python -m nas.search` as a user meets it: what the tests beside this file start and look at."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from zlib import crc32

import commands
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

ON_TABLES = ("device=synthetic-board", "T=11ms")

XEON = "xeon-emerald-rapids/onnxruntime/fp32/b1"
"""Of our own tables, with some cells that were not measured."""

HERE = (
    "device=here",
    "latency.timing.samples=3",
    "latency.tolerance=20000",
)
"""Of a search on this machine, which takes few samples and lets other processes run beside it."""

LONG = ("budget=500", "controller.batch_size=2")
"""Of a search that takes long enough to be interrupted."""


def command(runs, *overrides, module="nas.search"):
    return [sys.executable, "-m", module, *overrides, f"out={runs}"]


def resume(folder, *overrides, data, module="nas.search"):
    environment = {k: v for k, v in os.environ.items() if k != "NAS_DATA"}
    if data is not None:
        environment["NAS_DATA"] = str(data)
    return commands.run(
        [*command(folder, module=module)[:3], f"resume={folder}", *overrides], env=environment
    )


def search(runs, *overrides, data=None, **options):
    environment = {k: v for k, v in os.environ.items() if k != "NAS_DATA"}
    if data is not None:
        environment["NAS_DATA"] = str(data)
    return commands.run(command(runs, *overrides), env=environment, **options)


def signed(*events, space="nas_bench_201", version=4):
    """Text of a journal with these events, as JSON or as values, whose checksums are right."""
    header = {"journal": version, "space": space}
    lines = [
        event if isinstance(event, str) else json.dumps(event, separators=(",", ":"))
        for event in (header, *events)
    ]
    return "".join(f"{line}\t{crc32(line.encode()):08x}\n" for line in lines)


def events_of(folder, within=""):
    events = EventAccumulator(str(folder / "tensorboard" / within), {"images": 0, "scalars": 0})
    return events.Reload()


def only_run(runs):
    (folder,) = runs.glob("*/*")
    return folder


def one_line(finished):
    """The error a user sees, after checking that it is one line and nothing else."""
    assert finished.returncode == 2, finished.stdout + finished.stderr
    assert "Traceback" not in finished.stdout + finished.stderr
    lines = finished.stderr.splitlines()
    assert len(lines) == 1, finished.stderr
    assert lines[0].startswith("edgenas: ")
    return lines[0]


def wait_until(condition, process):
    """Wait for what a process is to do, but neither for one that has ended nor for ever."""
    end_s = time.monotonic() + 600
    while not condition():
        assert process.poll() is None, "the process ended before it could be interrupted"
        assert time.monotonic() < end_s, "the process took ten minutes"
        time.sleep(0.03)


def interrupted(runs, data, when, *overrides, module="nas.search", send=signal.SIGKILL, resumed=()):
    """Start a run, or resume one, and stop it as soon as `when(folder)` holds.

    A resumed search is not stopped before it printed where it goes on.
    """
    settings = {text.split("=")[0]: text for text in (*ON_TABLES, *overrides)}.values()
    words = command(runs, *settings, module=module)
    if resumed:
        words = [*words[:3], *resumed]
    output = runs.with_suffix(".out")
    with output.open("w") as file:
        process = subprocess.Popen(
            words,
            env={**os.environ, "NAS_DATA": str(data), "PYTHONUNBUFFERED": "1"},
            stdout=file,
            stderr=subprocess.PIPE,
            text=True,
        )

    def is_due():
        is_going_on = not resumed or "going on from trial" in output.read_text()
        return is_going_on and any(map(when, runs.glob("*/*")))

    with process:
        try:
            wait_until(is_due, process)
            process.send_signal(send)
            _, err = process.communicate(timeout=600)
        finally:
            process.kill()
    return only_run(runs), output.read_text(), err, process.returncode


def has_sampled(count):
    """Whether the journal holds the answers to that many trials."""

    def when(folder):
        return sampled(folder) >= max(count, 1)

    return when


def sampled(folder):
    """Trials whose answers are in the journal."""
    try:
        lines = (folder / "journal.jsonl").read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return 0
    told = (line for line in lines if line.startswith(b'["told"') and line.endswith(b"\n"))
    return sum(len(json.loads(line.split(b"\t")[0])[1]) for line in told)
