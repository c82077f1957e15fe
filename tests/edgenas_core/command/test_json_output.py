"""`--json` of every command: one document on standard output, with the status and what was made."""

import json
import shlex
import sys

import pytest

from edgenas_core.command.exit_status import run_command


@pytest.fixture
def run(tmp_path, monkeypatch, capfd):
    """Runs a command in an empty folder; returns its status and its document."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NAS_DATA", raising=False)  # predictions, no tables

    def run(module, *words):
        monkeypatch.setattr(sys, "argv", ["edgenas"])
        status = 0
        try:
            run_command(module, [*words, "--json"])
        except SystemExit as error:
            status = error.code
        return status, json.loads(capfd.readouterr().out)

    return run


def test_a_search_prints_its_network_its_files_and_nothing_else(run):
    words = ("budget=20", "T=17ms", "controller=uniform", "out=my runs")
    status, document = run("nas.search.command", *words)

    (result,) = document["results"]
    assert (status, document["status"], document["error"]) == (0, 0, None)
    assert (document["schema"], document["command"]) == (1, "search")
    with open(result["summary"], encoding="utf-8") as file:  # noqa: PTH123 - of the working folder
        best = json.load(file)["optimum"]
    assert result["network"]["arch"] == best["arch"]
    assert result["network"]["latency"]["value"] == best["latency_ms"]
    assert not result["network"]["latency"]["is_measured"]
    assert not result["is_confirmed"]
    _, _, name, *words = shlex.split(result["network"]["export_command"])
    assert (name, words[1:]) == ("nas.export", ["which=optimum", "--json"])
    assert words[0] == f"run={result['folder']}"


def test_a_sweep_prints_a_result_a_run(run):
    _, document = run("nas.search.command", "-m", "budget=20", "seed=0,1")

    assert [result["settings"][-1] for result in document["results"]] == ["seed=0", "seed=1"]


@pytest.mark.parametrize(
    ("module", "words", "named"),
    [
        ("nas.search.command", ["budgt=20"], "budget"),
        ("nas.fit.command", ["data=nowhere/"], "nowhere"),
        ("nas.ui.command", ["one", "two"], "two"),
        ("nas.data.command", ["fetch", "--too"], "--too"),
    ],
)
def test_an_error_is_in_the_document(run, module, words, named):
    status, document = run(module, *words)

    assert status == document["status"] == 2
    assert named in document["error"]
    assert document["results"] == []
