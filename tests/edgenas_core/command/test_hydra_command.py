"""The Hydra entry of all commands, with a command of one setting."""

import sys
from dataclasses import dataclass

import pytest

from edgenas_core.command import hydra_command as module
from edgenas_core.command.hydra_command import typed_hydra_command


@dataclass
class Settings:
    count: int
    name: str
    settle_s: float = 2.0


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    (tmp_path / "tiny.yaml").write_text(
        "defaults: [tiny_schema, _self_]\ncount: 1\nname: ???\n"
        "hydra: {output_subdir: null, run: {dir: .}}\n"
    )
    monkeypatch.setattr(module, "CONF", tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "preset").mkdir()
    for name, content in (
        ("broken", b"a: [1\n b: }{"),
        ("bytes", b"\xff\xfe"),
        ("deep", b"[" * 1000),
    ):
        (tmp_path / "preset" / f"{name}.yaml").write_bytes(content)

    def call(*words, task=lambda _settings: None, also=()):
        monkeypatch.setattr(sys, "argv", ["tiny", *words])
        status = 0
        try:
            typed_hydra_command("some.tiny", "tiny", Settings, task, *also)
        except SystemExit as ended:
            status = ended.code
        return status, capsys.readouterr().err

    return call


def test_the_task_gets_the_settings_as_an_object(run):
    seen = []

    assert run("name=a", "count=3", task=seen.append) == (0, "")
    assert seen == [Settings(3, "a")]


@pytest.mark.parametrize("mode", ["-m", "hydra.mode=MULTIRUN"])
def test_a_sweep_runs_the_task_for_each_combination(run, mode):
    seen = []

    assert run(mode, "name=a,b", "count=3", "hydra.sweep.dir=.", task=seen.append) == (0, "")
    assert seen == [Settings(3, "a"), Settings(3, "b")]


@pytest.mark.parametrize("text", ["|a~1|+|b~0|", "Läufe", "a[b", "it's", "a b"])
def test_text_that_hydras_grammar_lacks_needs_no_quotes(run, text):
    seen = []

    assert run(f"name={text}", task=seen.append) == (0, "")
    assert seen == [Settings(1, text)]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ((), "name"),
        (("name=a", "count=many"), "count"),
        (("name=a", "count=[1]"), "count"),
        (("name=a", "count=" + "9" * 30), "count"),
        (("name=a", "count=" + "9" * 5000), "count"),
        (("name=a", "colour=blue"), "colour"),
        (("nme=a",), "did you mean name?"),
        (("name=[", "count=1"), "name=["),
        (("name='a",), "name='a"),
        (("name",), "name"),
        (("-m", "count=a,b", "name=a"), "count"),
        (("name=a", "settle_s=99999999999"), "settle_s"),
        (("name=a", "settle_s=nan"), "settle_s"),
        (("name=a\udcff",), "name"),
        (("name=a\0",), "name"),
        (("name=[{a: b}]",), "name"),
        (("reward=[1]",), "reward"),
        (("-m", "controller=[],[1]"), "controller"),
        (("hydra/launcher=[1]",), "hydra/launcher"),
        (("-sc", "query=bash"), "query=bash"),
        (("--config-dir", ".", "+preset=broken"), "broken"),
        (("--config-dir", ".", "+preset=bytes"), "bytes"),
        (("--config-dir", ".", "+preset=deep"), "deep"),
    ],
)
def test_a_wrong_setting_is_one_line_and_status_2(run, words, named):
    status, error = run(*words)

    assert status == 2
    assert named in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "setting"),
    [
        (["--name", "a"], "name"),
        (["--name=a"], "name"),
        (["-m", "name=a,b", "--count", "3"], "count"),
    ],
)
def test_a_setting_with_dashes_is_refused_in_one_line(run, words, setting):
    status, error = run(*words)

    assert status == 2
    assert f"{setting}=<value>" in error
    assert error.count("\n") == 1


def test_a_working_folder_that_is_no_text_is_refused_before_anything_is_written(
    run, tmp_path, monkeypatch
):
    folder = tmp_path / "n\udcff"
    folder.mkdir()
    monkeypatch.chdir(folder)

    assert run("name=a")[0] == 2
    assert list(folder.iterdir()) == []


def test_errors_of_the_task_end_as_the_command_says(run):
    def fail(error):
        def task(_settings):
            raise error

        return task

    assert run("name=a", task=fail(KeyboardInterrupt())) == (130, "edgenas: interrupted\n")
    assert run("name=a", task=fail(ValueError("odd")), also=[ValueError]) == (2, "edgenas: odd\n")
    with pytest.raises(ValueError, match="a bug"):
        run("name=a", task=fail(ValueError("a bug")))
    status, line = run("name=a", task=fail(RuntimeError("CUDA error: out of memory\nSearch for")))
    assert status == 2
    assert "too little memory (CUDA error: out of memory); end" in line
    with pytest.raises(RuntimeError, match="odd"):
        run("name=a", task=fail(RuntimeError("odd")))
