"""`import edgenas`: the commands as functions."""

from __future__ import annotations

import inspect
import subprocess
import sys
from dataclasses import dataclass, fields
from importlib.metadata import EntryPoint

import numpy as np
import pytest

import edgenas
import nas.search.command
from controller.uniform import UniformConfig
from latency.measuring.settings import MeasureConfig
from nas.config.build import NAMES, SearchConfig, register
from nas.export.config import ExportConfig
from nas.spaces.registry import space_named
from nas.study.config import StudyConfig
from nas.train.config import TrainConfig
from nas.transfer import TransferConfig
from rewards.base import Reward
from runtime.shell import plug_ins
from runtime.shell.hydra_command import called, word


@dataclass
class FasterIsBetter(Reward):
    weight: float = 1.0

    def score(self, accuracy, latency_ms):
        return accuracy + self.weight * self.target_ms / latency_ms


@pytest.fixture
def search(synthetic_tables, tmp_path, monkeypatch):
    monkeypatch.setenv("NAS_DATA", str(synthetic_tables))

    def call(**given):
        common = {"device": "synthetic-board", "T": "11ms", "budget": 40, "quiet": True}
        return edgenas.search(runs=tmp_path / "it's a [run]", **{**common, **given})

    return call


def test_a_search_finds_what_the_command_finds(search, in_process, tmp_path):
    seen = []

    found = search(seed=3, settings={"controller.batch_size": 4}, progress=seen.append)
    words = ["device=synthetic-board", "T=11ms", "budget=40", "seed=3", "controller.batch_size=4"]
    status, told, _ = in_process(nas.search.command.main, ["", *words, f"runs={tmp_path / 'runs'}"])

    assert status == 0
    assert found.best.arch in told
    assert sum(map(len, seen)) == found.trials.num_rows == 40
    assert found.trials.column_names[:3] == ["sample", "index", "arch"]
    assert "<iframe" in found.report._repr_html_()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"T": "17"}, "T=17 has no unit"),
        ({"reward": "propsed"}, "did you mean proposed?"),
        ({"settings": {"budgt": 3}}, "did you mean budget?"),
        ({"device": "synthetic-bord"}, "synthetic-board"),
        ({"space": 3}, "space: int is no search space; it lacks"),
        ({"reward": 3}, "reward=int is no Reward"),
        ({"resume": "nowhere"}, "resume=nowhere is not the folder of a run"),
        ({"accuracy": lambda rows: rows.sum(1)}, "which is not between 0 and 1"),
    ],
)
def test_what_the_command_refuses_in_a_line_is_an_exception(search, given, said):
    with pytest.raises(edgenas.UserError, match=r"^[^\n]*$") as raised:
        search(**given)

    assert said in str(raised.value)


def test_a_reward_of_ones_own_is_an_object_with_settings(search):
    found = search(reward=FasterIsBetter(weight=0.25))

    table = found.trials
    ratio = 11 / table["latency_ms"].to_numpy()
    assert found.summary.settings.reward == "FasterIsBetter"
    assert np.allclose(table["reward"], table["accuracy"].to_numpy() + 0.25 * ratio)


def test_functions_of_ones_own_answer_and_are_never_called_measured(search):
    def my_accuracy(rows):
        return rows.mean(1) / 4

    found = search(
        accuracy=my_accuracy,
        latency=lambda rows: 1.0 + rows.sum(1),
        reward=lambda accuracy, latency_ms: accuracy - latency_ms / 100,
        controller=lambda space, seeds: UniformConfig(1).build(space, seeds),
        device="my-board",
    )

    rows = space_named("nas_bench_201").parse(found.best.arch)
    assert found.best.accuracy_searched == rows.mean() / 4
    assert found.best.latency_ms == 1 + rows.sum() <= 11
    assert found.best.latency_is_predicted
    assert found.summary.accuracy_source == "my_accuracy"


def test_an_interrupted_search_goes_on_with_the_same_parts(search, tmp_path):
    class Enough(Exception):  # noqa: N818 - a user's own
        pass

    def stop(trials):
        if trials.number[-1] >= 20:
            raise Enough

    own = FasterIsBetter(weight=0.25)
    with pytest.raises(Enough):
        search(reward=own, progress=stop)
    (folder,) = tmp_path.glob("*/*/*")
    found = edgenas.search(resume=folder, reward=own, quiet=True)

    assert found.folder == folder
    assert found.trials["sample"].to_pylist() == list(range(40))
    assert found.summary.resumed_at_sample >= 20
    assert found.summary.settings.reward == "FasterIsBetter"


def test_a_plug_in_adds_a_name_and_a_broken_one_is_named_when_it_is_chosen(search, monkeypatch):
    points = [
        EntryPoint("faster", f"{__name__}:FasterIsBetter", "edgenas.rewards"),
        EntryPoint("broken", "nowhere:Thing", "edgenas.rewards"),
    ]
    module = sys.modules[FasterIsBetter.__module__]
    monkeypatch.setitem(sys.modules, __name__, module)
    monkeypatch.setattr(
        plug_ins, "entry_points", lambda group: [one for one in points if one.group == group]
    )

    assert search(reward="faster").summary.settings.reward == "faster"
    with pytest.raises(edgenas.UserError, match="its plug-in nowhere:Thing cannot be imported"):
        search(reward="broken")


@pytest.mark.parametrize(
    ("function", "schema", "other"),
    [
        (edgenas.search, SearchConfig, {"settings", "progress", "quiet"}),
        (edgenas.front, SearchConfig, {"limits", "settings", "quiet"}),
        (edgenas.study, StudyConfig, {"settings", "experiment", "quiet"}),
        (edgenas.measure, MeasureConfig, {"settings", "quiet"}),
        (edgenas.transfer, TransferConfig, {"quiet"}),
        (edgenas.train, TrainConfig, {"settings", "quiet"}),
        (edgenas.export, ExportConfig, {"settings", "quiet"}),
    ],
)
def test_every_argument_is_a_setting_of_the_command_and_has_no_default_of_its_own(
    function, schema, other
):
    given = inspect.signature(function).parameters

    assert given.keys() - other <= {field.name for field in fields(schema)} | NAMES.keys()
    assert {given[name].default for name in given.keys() - other} <= {None, inspect.Parameter.empty}


@pytest.mark.parametrize(
    "value",
    ["17ms", "2024", "1e3", "null", "it's", "a\\", "a\\'b", "[x, y]", "a=b,c", "$", "", 3, 0.5],
)
def test_a_value_arrives_as_it_was_given(value):
    register()

    with called("nas.search", "search", [word("device", value)]) as (composed, _):
        assert composed.device == value


@pytest.mark.slow
def test_an_architecture_is_exported_without_a_run(tmp_path):
    folder = edgenas.export(
        arch=1462, out=tmp_path / "out", settings={"timing.samples": 2}, quiet=True
    )

    assert (folder / "export.json").is_file()


@pytest.mark.slow
def test_calibration_networks_are_chosen(tmp_path):
    path = edgenas.transfer(choose=3, out=tmp_path / "probes.csv", quiet=True)

    assert len(path.read_text().splitlines()) == 4


def test_the_import_is_quick():
    """Neither NumPy nor Hydra is imported before they are needed."""
    heavy = "{'numpy', 'hydra', 'torch', 'rich'}"
    code = f"import sys, edgenas; sys.exit(bool({heavy} & sys.modules.keys()))"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
