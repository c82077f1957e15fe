"""A step that waits for a device that never answers."""

import json
import subprocess
import sys

from benchmarks.papers.watchdog import UNRESPONSIVE

HANGS = """
import sys
from pathlib import Path
from threading import Lock
from rich.console import Console
from benchmarks.papers.steps import Step
from benchmarks.papers.steps import run_steps
from benchmarks.papers.watchdog import Watchdog
from benchmarks.papers.results import Results

class Control:
    def row(self, when):
        return {"when": when, "disturbances": []}

def stuck():
    for at in range(3):
        yield {"at": at}
    silent = Lock()
    silent.acquire()
    silent.acquire()

watchdog = Watchdog(0.5)
steps = [Step("done", lambda: [{"at": -1}], watchdog), Step("stuck", stuck, watchdog), Step("next", list)]
results = Results("contention", {}, {})
run_steps(steps, results, Path(sys.argv[1]), Control(), minutes=1, console=Console())
"""


def test_a_step_that_hangs_ends_the_process_and_its_rows_are_kept(tmp_path):
    path = tmp_path / "contention.json"

    ended = subprocess.run(
        [sys.executable, "-c", HANGS, path],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert ended.returncode == UNRESPONSIVE
    assert "stuck" in ended.stdout
    assert "0.5 s" in ended.stdout
    assert "in stuck" in ended.stderr  # the function in which it hangs
    found = json.loads(path.read_text())
    assert [row["at"] for row in found["rows"]] == [-1, 0, 1, 2]
    (fault,) = found["faults"]
    assert fault["step"] == "stuck"
    assert not found["is_complete"]
