"""The wheel holds all that a search needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[1]


def python(*words, **options):
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, check=True, **options
    ).stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Folder into which the wheel was unpacked."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    files = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for name in filter(None, files.split("\0")):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    # as pip builds it, without pip's own three starts
    program = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"
    python("-c", program, folder, cwd=source)
    (wheel,) = folder.glob("edgenas-*.whl")
    with ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


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
