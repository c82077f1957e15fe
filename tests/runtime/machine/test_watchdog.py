"""A step that waits for what never answers."""

import json
import subprocess
import sys

from runtime.machine.watchdog import STOOD_STILL

STANDS_STILL = """
import sys
from pathlib import Path
from threading import Lock
from rich.console import Console
from runtime.experiments.driver import Step
from runtime.experiments.driver import run_steps
from runtime.machine.watchdog import Pulse
from runtime.page.results import Results

class Control:
    def row(self, when):
        return {"when": when, "disturbances": []}

def stuck():
    for at in range(3):
        yield {"at": at}
    silent = Lock()
    silent.acquire()
    silent.acquire()

pulse = Pulse(0.5)
steps = [Step("done", lambda: [{"at": -1}], pulse), Step("stuck", stuck, pulse), Step("next", list)]
results = Results("contention", {}, {})
run_steps(steps, results, Path(sys.argv[1]), Control(), minutes=1, console=Console())
"""


def test_a_step_that_stands_still_is_told_and_leaves_what_it_had(tmp_path):
    path = tmp_path / "contention.json"

    ended = subprocess.run(
        [sys.executable, "-c", STANDS_STILL, path],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ended.returncode == STOOD_STILL
    assert "stuck: nothing happened for 0.5 s; the process ends" in ended.stdout
    assert "in stuck" in ended.stderr  # where it stood
    found = json.loads(path.read_text())
    assert [row["at"] for row in found["rows"]] == [-1, 0, 1, 2]
    assert found["faults"] == [{"step": "stuck", "error": "nothing happened for 0.5 s"}]
    assert not found["is_complete"]
