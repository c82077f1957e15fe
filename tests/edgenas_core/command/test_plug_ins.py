"""Parts of other packages: what is missing names the extra that installs it."""

import importlib.metadata
import sys
from importlib.metadata import EntryPoint, EntryPoints
from types import SimpleNamespace

import pytest
from hydra.core.config_store import ConfigStore

import edgenas.__main__ as console
import nas.measure.command
import nas.search.command
from edgenas_core.command import plug_ins
from edgenas_core.command.plug_ins import how_to_install
from edgenas_core.types.errors import UserError


@pytest.fixture
def without_extras(monkeypatch):
    """As if no other distribution than edgenas were installed."""
    installed = importlib.metadata.distribution("edgenas").entry_points
    monkeypatch.setattr(plug_ins, "every_entry_point", lambda: EntryPoints(installed))
    for group, name in (("latency", "mapped"), ("latency", "blocks"), ("accuracy", "ofa")):
        names = ConfigStore.instance().repo.get(group, {})
        monkeypatch.delitem(names, f"{name}.yaml", raising=False)  # of an earlier test


@pytest.fixture
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("main", "words", "extra"),
    [
        (console.main, ["map", "tasks=xavier"], "runtime"),
        (nas.search.command.main, ["latency=mapped", "T=8ms"], "runtime"),
        (
            nas.measure.command.main,
            ["scenario=small_memory", "board=x", "networks=2"],
            "runtime",
        ),
        (
            nas.search.command.main,
            ["space=mobilenet_v3", "T=8ms"],
            "mobilenet-v3",
        ),
        (nas.search.command.main, ["latency=blocks", "T=8ms"], "mobilenet-v3"),
        (nas.search.command.main, ["accuracy=ofa", "T=8ms"], "mobilenet-v3"),
    ],
)
@pytest.mark.usefixtures("without_extras", "in_folder")
def test_what_the_extra_brings_is_refused_in_one_line(main, words, extra, in_process, tmp_path):
    status, _, error = in_process(main, ["edgenas", *words])

    named = f"edgenas {words[0]}" if main is console.main else words[0]

    assert status == 2
    assert error.startswith(f"edgenas: {named} needs edgenas-{extra}: ")
    assert plug_ins.how_to_install(extra) in error
    assert error.count("\n") == 1
    assert not any(tmp_path.iterdir())


@pytest.mark.usefixtures("without_extras")
def test_help_lists_no_command_that_is_not_installed(in_process):
    status, help_, _ = in_process(console.main, ["edgenas", "--help"])

    assert status == 0
    assert "  search " in help_
    assert "  map " not in help_


def test_a_command_of_another_package_is_listed_and_run(in_process, tmp_path, monkeypatch):
    (tmp_path / "other_package.py").write_text(
        "from edgenas_core.command.plug_ins import Command\n"
        "COMMAND = Command('other_package', 'greet somebody')\n"
        "def main(words):\n    print('hello', *words)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    point = EntryPoint("greet", "other_package:COMMAND", plug_ins.COMMANDS)
    points = EntryPoints([point])
    monkeypatch.setattr(plug_ins, "every_entry_point", lambda: points)

    assert "  greet      greet somebody\n" in in_process(console.main, ["edgenas"])[1]
    assert in_process(console.main, ["edgenas", "greet", "you"])[1] == "hello you\n"
    sys.modules.pop("other_package")


def test_a_part_that_cannot_be_imported_is_named_with_its_reason(monkeypatch):
    point = EntryPoint("streamed", "no_such_package:f", plug_ins.INFERENCE)
    points = EntryPoints([point])
    monkeypatch.setattr(plug_ins, "every_entry_point", lambda: points)

    with pytest.raises(UserError, match=r"scenario=x: .*no_such_package:f .*No module named"):
        plug_ins.optional(plug_ins.INFERENCE, "streamed", "scenario=x")


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, "pip install 'edgenas[networks]'"),
        (
            '{"url": "file:///a%20b", "dir_info": {"editable": true}}',
            "pip install -e '/a b[networks]'",
        ),
        (
            '{"url": "https://x.example/e.whl", "archive_info": {}}',
            "pip install 'edgenas[networks] @ https://x.example/e.whl'",
        ),
    ],
)
def test_an_extra_is_installed_as_edgenas_was(origin, command, monkeypatch):
    monkeypatch.setattr(
        "edgenas_core.command.plug_ins.distribution",
        lambda _: SimpleNamespace(read_text=lambda _: origin),
    )

    assert how_to_install("networks") == command
