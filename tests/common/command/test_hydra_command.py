"""The Hydra entry of all commands, with a command of one setting."""

import sys
from dataclasses import dataclass

import pytest
from hydra._internal.hydra import Hydra

from common.command import hydra_command as module
from common.command.hydra_command import typed_hydra_command


@dataclass
class Settings:
    count: int
    name: str


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    (tmp_path / "tiny.yaml").write_text(
        "defaults: [tiny_schema, _self_]\ncount: 1\nname: ???\n"
        "hydra: {output_subdir: null, run: {dir: .}}\n"
    )
    monkeypatch.setattr(module, "CONF", tmp_path)
    monkeypatch.chdir(tmp_path)

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


def test_options_may_stand_between_settings(run):
    seen = []

    assert run(
        "hydra.sweep.dir=.", "-m", "name=a,b", "--config-name", "tiny", "count=3", task=seen.append
    ) == (0, "")
    assert seen == [Settings(3, "a"), Settings(3, "b")]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ((), "name is not set"),
        (("name=a", "count=many"), "count=many is not a whole number"),
        (("name=a", "colour=blue"), "unknown setting colour; see"),
        (("nme=a",), "unknown setting nme; did you mean name?"),
    ],
)
def test_a_wrong_setting_is_one_line_and_status_2(run, words, named):
    status, error = run(*words)

    assert status == 2
    assert named in error
    assert error.count("\n") == 1


def test_errors_of_the_task_end_as_the_command_says(run):
    def fail(error):
        def task(_settings):
            raise error

        return task

    assert run("name=a", task=fail(KeyboardInterrupt())) == (130, "edgenas: interrupted\n")
    assert run("name=a", task=fail(ValueError("odd")), also=[ValueError]) == (2, "edgenas: odd\n")
    with pytest.raises(ValueError, match="a bug"):
        run("name=a", task=fail(ValueError("a bug")))


def test_a_mode_that_a_setting_chooses_is_heeded_though_settings_are_composed_once(
    run, monkeypatch
):
    composed, compose = [], Hydra.compose_config

    def counted(*given, **named):
        composed.append(1)
        return compose(*given, **named)

    monkeypatch.setattr(Hydra, "compose_config", counted)
    run("name=a")
    assert len(composed) == 1
    seen = []

    assert run("name=a,b", "hydra.mode=MULTIRUN", "hydra.sweep.dir=.", task=seen.append)[0] == 0
    assert [settings.name for settings in seen] == ["a", "b"]
