"""The notebooks of the tutorials run from the first cell to the last."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorial"

QUICKER = {
    "search-from-python.ipynb": {"BUDGET = 5000": "BUDGET = 40"},
    "fit-from-python.ipynb": {"HOURS = 0.05": "HOURS = 0.005"},
    "your-network.ipynb": {
        'T="0.1ms"': 'T="10s"',
        "EPOCHS, HOURS = 12, 0.02": "EPOCHS, HOURS = 2, 0.003",
    },
    "your-task.ipynb": {'T="0.1ms"': 'T="10s"', "HOURS = 0.02": "HOURS = 0.01"},
}
"""Settings of a notebook that are changed for the test."""


NOTEBOOKS = sorted(TUTORIALS.glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_its_outputs_are_stored(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]

    assert outputs, f"make notebooks stores the outputs of {path.name}"
    assert not any(output["output_type"] == "error" for output in outputs)


@pytest.mark.parametrize(
    "path",
    [
        # the others train networks
        pytest.param(path, marks=[] if path.stem == "search-from-python" else [pytest.mark.slow])
        for path in NOTEBOOKS
    ],
    ids=lambda path: path.stem,
)
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
