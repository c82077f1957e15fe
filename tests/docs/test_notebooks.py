"""Every notebook of the tutorials runs from its first cell to its last."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).parents[2] / "docs" / "tutorial"

QUICKER = {
    "your-images.ipynb": {"HOURS = 0.05": "HOURS = 0.005", 'LIMIT = "17ms"': 'LIMIT = "6ms"'},
}
"""Settings of a notebook that are changed for the test."""


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_it_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    for before, after in QUICKER[path.name].items():
        assert before in code
        code = code.replace(before, after)

    exec(compile(code, path.name, "exec"), {})  # noqa: S102 - our own notebook
