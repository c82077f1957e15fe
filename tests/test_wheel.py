"""The wheel holds all that a search needs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from wheels import install, python

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Folder into which the wheel was unpacked."""
    return install(ROOT, tmp_path_factory.mktemp("wheel"))


def test_an_installed_wheel_searches_on_a_bare_machine(installed, tmp_path):
    kept = {name: value for name, value in os.environ.items() if name != "NAS_DATA"}
    environment = {**kept, "PYTHONPATH": str(installed)}

    where = python("-c", "import nas; print(nas.__file__)", cwd=tmp_path, env=environment)
    python("-m", "nas.search", "budget=20", cwd=tmp_path, env=environment)

    assert where.startswith(str(installed))
    assert list(tmp_path.glob("runs/*/*/summary.json"))


def test_it_carries_no_tests_and_no_runs(installed):
    assert {path.name for path in installed.iterdir() if path.is_dir()} >= {"nas", "conf"}
    assert (installed / "edgenas" / "py.typed").is_file()
    (programs,) = installed.glob("edgenas-*.dist-info/entry_points.txt")
    assert "edgenas = edgenas.__main__:main" in programs.read_text()
    assert not (installed / "tests").exists()
    assert not (installed / "runs").exists()
    assert not (installed / "edgenas_runtime").exists()
