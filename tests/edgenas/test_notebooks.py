"""The notebooks of the tutorials run from the first cell to the last."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorial"

QUICKER = {
    "first-search.ipynb": {"BUDGET = 5000": "BUDGET = 40"},
    "your-images.ipynb": {"HOURS = 0.05": "HOURS = 0.005"},
    "your-board.ipynb": {
        "NETWORKS = 10": "NETWORKS = 3",
        'LIMIT = "20ms"': 'LIMIT = "10s"',  # whatever the machine takes now
        '{"on_disturbance": "flag"}': str(
            {"repeats": 0, "timing.samples": 3, "timing.settle_s": 0.01}
            | dict.fromkeys(("control_drift", "other_load", "stolen"), 1000)
        ),
    },
    "your-network.ipynb": {
        'T="0.1ms"': 'T="10s"',
        "EPOCHS, HOURS = 12, 0.02": "EPOCHS, HOURS = 2, 0.003",
    },
    "your-task.ipynb": {'T="0.1ms"': 'T="10s"', "HOURS = 0.02": "HOURS = 0.01"},
}
"""Settings of a notebook that are changed for the test."""


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(TUTORIALS.glob("*.ipynb")), ids=lambda path: path.stem)
@pytest.mark.usefixtures("one_thread")
def test_it_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NAS_DATA", raising=False)
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    for before, after in QUICKER[path.name].items():
        assert before in code
        code = code.replace(before, after)

    exec(compile(code, path.name, "exec", dont_inherit=True), {"__name__": path.stem})  # noqa: S102 - our own notebook
