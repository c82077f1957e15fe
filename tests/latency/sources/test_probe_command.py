"""`python -m nas.search latency=probe`: a real search on a live board, a process of this machine."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from contextlib import suppress

import psutil
import pyarrow.parquet as pq
import pytest

import nas.search.command
from nas.report.number import amount

QUICK = (
    "latency=probe",
    "latency.runtime=onnxruntime",
    f"latency.python={sys.executable}",
    "latency.timing.samples=3",
    "latency.tolerance=20000",  # other processes may run beside the tests
    "reward=constrained",
)


def search(*overrides, data):
    return subprocess.Popen(
        [sys.executable, "-m", "nas.search", *overrides],
        env={**os.environ, "NAS_DATA": str(data)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process):
    """Status, standard output, and the one line of standard error."""
    out, error = process.communicate(timeout=600)
    assert "Traceback" not in out + error
    lines = error.splitlines()
    assert len(lines) <= 1, error
    return process.returncode, out, "".join(lines)


@pytest.fixture
def board(tmp_path):
    """A command that runs another while its power is on."""
    (tmp_path / "power").touch()
    script = tmp_path / "board"
    script.write_text(
        '#!/bin/sh\ntest -e "$(dirname "$0")/power" || { echo power is off >&2; exit 1; }\n'
        'echo Welcome to the board\nexec "$@"\n'
    )
    script.chmod(0o755)
    return script


@pytest.mark.slow
def test_a_search_on_a_live_board_survives_the_loss_of_its_board(tmp_path, board, synthetic_tables):
    settings = (
        *QUICK,
        f"device=cmd://{board}",
        "T=1s",
        "budget=8",
        "latency.confirm_top=2",
        f"latency.cache={tmp_path / 'cache'}",
    )
    lost = search(*settings, f"out={tmp_path / 'runs'}", data=synthetic_tables)
    journal = wait_for(lambda: next(iter(tmp_path.glob("runs/*/*/journal.jsonl")), None), lost)
    wait_for(lambda: len(told_in(journal)) > 2, lost)
    (tmp_path / "power").unlink()
    for child in psutil.Process(lost.pid).children(recursive=True):
        child.kill()
    status, out, line = ended(lost)

    assert status == 2, out
    assert "signal 9" in out
    assert f"cmd://{board}: " in line
    assert "(power is off); given up" in line
    assert f"resume={journal.parent}" in line
    kept = told_in(journal)
    assert 3 <= len(kept) < 8

    (tmp_path / "power").touch()
    again = shlex.split(line.partition("go on with ")[2])  # the address of the board, too
    status, out, line = ended(search(*again, data=synthetic_tables))

    assert status == 0, line
    assert "probe: measured live" in out.splitlines()[-1]
    latency_ms = latencies_of(journal.parent)
    assert len(latency_ms) == 8
    assert all(ms in told for ms, told in zip(latency_ms, kept, strict=False))
    summary = json.loads((journal.parent / "summary.json").read_text())
    assert summary["samples"] == 8
    assert summary["latency_source"] == "probe"
    assert summary["device"].endswith("/onnxruntime/fp32/b1")
    assert len(summary["confirmation"]) == 2
    assert summary["best"]["latency_again_ms"] == summary["confirmation"][0]["latency_again_ms"]
    best = summary["best"]
    assert best["latency_ms"] == best["latency_again_ms"]
    assert best["latency_first_ms"] == latency_ms[best["sample"] - 1]
    (cache,) = (tmp_path / "cache").iterdir()
    measured = [json.loads(line)["network"] for line in cache.read_text().split("\n\n")[1:]]
    assert len(measured) == len(set(measured)) >= summary["distinct_networks"]


def told_in(journal):
    """Numbers of every answer in a journal, those of one trial in one list."""
    lines = [line for line in journal.read_text().splitlines(keepends=True) if line.endswith("\n")]
    events = [json.loads(line.partition("\t")[0]) for line in lines[1:]]
    return [
        [each for column in event[1:] for each in flat(column)]
        for event in events
        if event[0] == "told"
    ]


def flat(value):
    """The numbers within lists."""
    return [x for one in value for x in flat(one)] if isinstance(value, list) else [value]


def latencies_of(folder):
    return pq.read_table(folder / "samples.parquet")["latency_ms"].to_pylist()


def page_of(folder):
    return (folder / "report.html").read_text(encoding="utf-8")


def test_the_networks_of_a_search_are_timed_and_the_best_timed_again_before_one_wins(
    in_process, tmp_path, synthetic_tables, monkeypatch
):
    monkeypatch.setenv("NAS_DATA", str(synthetic_tables))
    settings = ("device=cmd://", "T=1s", "budget=3", "latency.confirm_top=2")
    folders = (f"latency.cache={tmp_path / 'cache'}", f"out={tmp_path / 'runs'}")

    status, out, error = in_process(
        nas.search.command.main, ["nas.search", *QUICK, *settings, *folders]
    )

    assert status == 0, error
    assert "probe: measured live" in out.splitlines()[-1]
    (folder,) = tmp_path.glob("runs/*/*")
    summary = json.loads((folder / "summary.json").read_text())
    latency_ms = latencies_of(folder)
    best, (first, second) = summary["best"], summary["confirmation"]
    assert (summary["latency_source"], summary["optimum"]) == ("probe", None)
    assert best["latency_first_ms"] == first["latency_ms"] == latency_ms[first["sample"] - 1]
    assert best["latency_ms"] == best["latency_again_ms"] == first["latency_again_ms"] > 0
    assert f"{amount(best['latency_first_ms'], 'ms')} at first" in page_of(folder)
    assert first["accuracy_searched"] >= second["accuracy_searched"]
    (cache,) = (tmp_path / "cache").iterdir()
    times = [json.loads(line)["ms"] for line in cache.read_text().split("\n\n")[1:]]
    assert {sorted(ms)[1] for ms in times} >= set(latency_ms)


def wait_for(condition, process):
    for _ in range(6_000):
        with suppress(OSError):
            is_met = condition()
            if is_met:
                return is_met
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    raise AssertionError("it takes too long")


def test_a_board_that_cannot_be_reached_is_one_line_and_leaves_no_run_behind(
    in_process, tmp_path, synthetic_tables, monkeypatch
):
    monkeypatch.setenv("NAS_DATA", str(synthetic_tables))
    runs = tmp_path / "runs"

    status, _, error = in_process(
        nas.search.command.main,
        ["nas.search", "latency=probe", "device=cmd://false", f"out={runs}"],
    )

    assert status == 2
    assert error.startswith("edgenas: cmd://false: ")
    assert error.count("\n") == 1
    assert not runs.exists()
