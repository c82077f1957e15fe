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
    assert re.fullmatch(r"edgenas \d+\.\d+\S*\n", command("--version")[1])
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


HIDING = ("nas", "controller", "rewards", "latency")
"""Names of packages of ours that a file of the user may have as well."""
HARMLESS = ("common", "runtime", "conf", "utils")
"""Names that no command of ours imports."""


def own_file(folder, name, *, is_package=False):
    path = folder / name / "__init__.py" if is_package else folder / f"{name}.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text("raise SystemExit('the user's own')")
    return path


def test_the_console_command_imports_no_file_of_the_users_folder(script, tmp_path):
    for name in (*HIDING, *HARMLESS):
        own_file(tmp_path, name)

    installed = start(script, "transfer", "--help", cwd=tmp_path)

    assert installed.returncode == 0, installed.stderr
    assert "calibration networks" in installed.stdout


@pytest.mark.parametrize("is_package", [False, True])
def test_files_of_common_names_are_not_in_the_way(tmp_path, is_package):
    for name in HARMLESS:
        own_file(tmp_path, name, is_package=is_package)
    (tmp_path / "mine.py").write_text("import edgenas; edgenas.search; print(edgenas.__version__)")

    own = start(sys.executable, "mine.py", cwd=tmp_path)
    module = start(sys.executable, "-m", "nas.transfer", "--help", cwd=tmp_path)

    assert (own.returncode, module.returncode) == (0, 0), own.stderr + module.stderr


@pytest.mark.parametrize("name", HIDING)
def test_what_hides_what_is_one_line(tmp_path, name):
    path = own_file(tmp_path, name, is_package=name == "latency")
    (tmp_path / "mine.py").write_text("import edgenas")

    own = start(sys.executable, "mine.py", cwd=tmp_path)
    notebook = start(sys.executable, "-c", "import edgenas", cwd=tmp_path)
    module = start(sys.executable, "-m", "edgenas", "search", cwd=tmp_path)

    line = f"edgenas: {path} hides the package {name} of edgenas; "
    assert (own.returncode, notebook.returncode, module.returncode) == (1, 1, 2)
    for stderr in (own.stderr, notebook.stderr):
        assert stderr.splitlines()[-1].startswith(f"ImportError: {line}")
    assert module.stderr.startswith(line)
    assert module.stderr.count("\n") == 1


def test_the_console_command_names_what_the_users_path_hides(script, tmp_path):
    path = own_file(tmp_path, "rewards")

    installed = start(script, "search", cwd=tmp_path, env={"PYTHONPATH": f"{tmp_path}:{ROOT}"})

    assert installed.returncode == 2
    assert installed.stderr.startswith(f"edgenas: {path} hides the package rewards of edgenas; ")
    assert installed.stderr.count("\n") == 1


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
