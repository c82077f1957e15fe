"""The console command `edgenas`, run as it is installed: without looking into the user's folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import edgenas.__main__ as console

ROOT = Path(__file__).parents[2]


@pytest.fixture
def command(monkeypatch, capsys):
    def run(*words):
        monkeypatch.setattr(sys, "argv", ["edgenas", *words])
        try:
            console.main()
            status = 0
        except SystemExit as left:
            status = left.code or 0
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def script(tmp_path):
    """The console script, as an installation makes it."""
    path = tmp_path / "bin" / "edgenas"
    path.parent.mkdir()
    path.write_text(f"#!{sys.executable}\nfrom edgenas.__main__ import main\nmain()\n")
    path.chmod(0o755)
    return path


def start(*words, **options):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **options.pop("env", {})}
    return subprocess.run(
        words, env=environment, capture_output=True, text=True, check=False, timeout=600, **options
    )


def test_version_help_and_a_wrong_command(command):
    assert re.fullmatch(r"edgenas \d+\.\d+\.\d+\n", command("--version")[1])
    assert command("search", "--version")[1] == command("--version")[1]
    assert all(name in command()[1] for name in console._COMMANDS)
    status, _, error = command("serch")
    assert (status, error.count("\n")) == (2, 1)
    assert "search?" in error


def test_options_of_hydra_are_those_of_the_module(script, tmp_path):
    words = ["seed=3", "--cfg", "job"]

    installed = start(script, "search", *words, cwd=tmp_path)

    assert (installed.returncode, installed.stderr) == (0, "")
    assert (
        installed.stdout == start(sys.executable, "-m", "nas.search", *words, cwd=tmp_path).stdout
    )


@pytest.mark.parametrize("words", ["--version", "search --version", "completion bash", "data list"])
def test_a_command_works_without_standard_streams(words, tmp_path):
    command = f"{sys.executable} -m edgenas {words} <&- >&- 2>&-"

    assert start("sh", "-c", command, cwd=tmp_path).returncode == 0


HIDING = ("controller.py", "latency.py")
"""Files of a user that have the name of a package of ours."""


def own_files(folder, *names):
    for name in names:
        (folder / name).write_text("raise SystemExit('the user\\'s own')")


def test_the_console_command_imports_no_file_of_the_users_folder(script, tmp_path):
    own_files(tmp_path, *HIDING)

    installed = start(script, "transfer", "--help", cwd=tmp_path)

    assert installed.returncode == 0, installed.stderr
    assert "calibration networks" in installed.stdout


def test_a_module_needs_no_file_of_a_common_name(tmp_path):
    own_files(tmp_path, "common.py", "runtime.py", "utils.py")

    module = start(sys.executable, "-m", "nas.search", "--help", cwd=tmp_path)

    assert module.returncode == 0, module.stderr


@pytest.mark.parametrize("name", HIDING)
def test_a_file_of_the_user_that_is_imported_instead_of_ours_is_named(name, tmp_path):
    own_files(tmp_path, name)

    module = start(sys.executable, "-m", "nas.search", "--help", cwd=tmp_path)

    assert module.returncode == 2
    assert module.stderr.startswith(f"edgenas: {tmp_path / name} ")
    assert module.stderr.count("\n") == 1


def test_the_completion_of_bash_knows_commands_and_settings(command, script):
    asked = {
        "edgenas stu": "edgenas stu",
        "edgenas data ve": "edgenas data ve",
        "edgenas transfer cho": "edgenas transfer cho",
    }
    program = command("completion", "bash")[1] + "".join(
        f'COMP_LINE="{line}"; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); '
        f'COMP_POINT={len(line)}; _edgenas; echo "${{COMPREPLY[*]}}"\n'
        for line, words in asked.items()
    )

    path = f"{script.parent}:{os.environ['PATH']}"
    done = start("bash", "-c", program, env={"PATH": path})

    assert [line.strip() for line in done.stdout.splitlines()] == ["study", "verify", "choose="]
    assert command("completion", "csh")[0] == 2
