"""Commands of the README and of the first pages, as they stand, but for a small budget and a local mirror."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

import nas.data.command
import nas.measure.command
import nas.search.command
from nas.spaces.nas_bench_201.public.data import FILES

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    "docs/tutorial/first-search.md",
    "docs/how-to/bring-your-own-data.md",
    "docs/how-to/look-at-runs.md",
)


def commands_of(page):
    """Command lines of a page, of `.venv` whether they say so or not."""
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    lines = [re.sub(r"\s+#.*", "", line) for block in blocks for line in block.splitlines()]
    lines = [re.sub(r"^edgenas (\w)", r"python -m nas.\1", line) for line in lines if line]
    return [re.sub(r"^(python|tensorboard) ", r".venv/bin/\1 ", line) for line in lines]


COMMANDS = list(dict.fromkeys(command for page in PAGES for command in commands_of(page)))


def commands(start):
    found = [command for command in COMMANDS if command.startswith(start)]
    assert found, f"the README has no command {start}"
    return found


def run(command, folder, *more):
    words = [
        sys.executable if word == ".venv/bin/python" else word for word in shlex.split(command)
    ]
    kept = {name: value for name, value in os.environ.items() if name != "NAS_DATA"}
    return subprocess.run(
        [*words, *more],
        cwd=folder,
        env=kept,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


@pytest.fixture
def run_here(in_process, tmp_path, monkeypatch):
    """Runner of a README command by the `main` of its module, in this process: no imports anew."""
    mains = {
        "nas.search": nas.search.command.main,
        "nas.data": nas.data.command.main,
        "nas.measure": nas.measure.command.main,
    }

    def call(command, *more, data=None):
        monkeypatch.chdir(tmp_path)
        monkeypatch.delenv("NAS_DATA", raising=False)
        if data is not None:
            monkeypatch.setenv("NAS_DATA", str(data))
        _python, _m, *words = shlex.split(command)
        return in_process(mains[words[0]], [*words, *more])

    return call


NOT_RUN = {
    "source .venv/bin/activate": "the tests' own interpreter is used",
    ".venv/bin/python -m nas.fit": "it needs photos and pretrained weights; tests/nas/fit has fits of its own",
}


def test_every_command_is_of_a_kind_that_a_test_here_runs_or_is_listed_as_not_run():
    kinds = ("make ", ".venv/bin/python -m nas.search", *NOT_RUN)

    for command in commands_of("README.md"):
        assert command.startswith(kinds), command


FIRST, *SEARCHES = commands(".venv/bin/python -m nas.search")


def is_sweep(command):
    return "-m" in command.split("nas.search")[1].split()


def test_the_first_search_runs_as_it_stands(tmp_path):
    finished = run(FIRST, tmp_path, "budget=40")

    assert finished.returncode == 0, finished.stderr
    assert list(tmp_path.glob("runs/*/*/summary.json"))


@pytest.mark.parametrize(
    "command",
    [
        # a sweep is many runs, and tests/nas/search has another
        pytest.param(one, marks=[pytest.mark.slow] if is_sweep(one) else [])
        for one in SEARCHES
    ],
)
def test_any_other_search_runs(command, run_here, tmp_path):
    more = () if "--help" in command else ("budget=40",)

    status, told, error = run_here(command, *more)

    assert status == 0, error
    if more:
        assert list(tmp_path.glob("runs/*/*/summary.json"))
    else:
        assert "python -m nas.search" in told


@pytest.mark.parametrize("command", commands("make "))
def test_a_make_target_has_its_recipe(command):
    """Not run from here: they set up the environment that this test runs in, or this test."""
    finished = run(command, ROOT, "--dry-run")

    assert finished.returncode == 0, finished.stderr
    assert ".venv/bin/python -m" in finished.stdout


def test_tensorboard_listens_on_loopback_only(tmp_path):
    (command,) = commands(".venv/bin/tensorboard")
    (tmp_path / "runs").mkdir()
    words = [sys.executable, "-m", "tensorboard.main", *shlex.split(command)[1:], "--port", "0"]
    with subprocess.Popen(
        words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        said = ""
        end_s = time.monotonic() + 600
        while "CTRL+C" not in said and time.monotonic() < end_s:
            said += process.stdout.readline()
        process.terminate()

    assert "http://localhost:" in said


def test_the_list_of_data_runs(run_here, synthetic_tables):
    (command,) = commands(".venv/bin/python -m nas.data list")

    status, told, error = run_here(command, data=synthetic_tables)

    assert status == 0, error
    assert "synthetic-board" in told


def test_verify_runs(run_here, synthetic_tables):
    (command,) = commands(".venv/bin/python -m nas.data verify")

    status, told, _ = run_here(command, data=synthetic_tables)

    # the tables are whole, but their numbers are synthetic, not those that were published
    assert "published is" in told
    assert status == 2


@pytest.mark.data
def test_fetch_runs(run_here, tmp_path, nas_data, mirror):
    (command,) = commands(".venv/bin/python -m nas.data fetch")
    mirror.files = {f"/{f.address}": (nas_data / "raw" / f.name).read_bytes() for f in FILES}

    status, _, error = run_here(command, "--mirror", mirror.url, "--to", str(tmp_path / "tables"))

    assert status == 0, error
    assert (tmp_path / "tables" / "nb201_accuracy.csv").is_file()


def test_measure_runs(run_here, tmp_path, monkeypatch):
    page = "docs/how-to/measure-a-machine.md"
    (command,) = (line for line in commands_of(page) if "measure board=my-board" in line)
    quick = ("networks=1", "repeats=0", "timing.samples=2", "on_disturbance=flag")
    busy = ("tolerance=20000",)

    monkeypatch.setenv("OMP_WAIT_POLICY", "")  # the command sets it; what was there comes back

    status, _, error = run_here(command, *quick, *busy)

    assert status == 0, error
    assert (tmp_path / "measurements" / "my-board-torch-fp32-b1_ms.csv").is_file()


def test_import_reads_the_archive_that_is_named(run_here, tmp_path, archive_folder):
    (command,) = commands(".venv/bin/python -m nas.data import")
    archive_folder.rename(tmp_path / command.split()[-1])

    status, _, error = run_here(command, "--to", str(tmp_path / "tables"))

    assert status == 2
    assert "2 of 15,625 cells" in error
