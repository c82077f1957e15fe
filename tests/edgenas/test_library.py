"""`import edgenas`: the commands as functions."""

from __future__ import annotations

import inspect
import os
import sys
from dataclasses import dataclass, fields
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import hydra
import numpy as np
import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

import edgenas
import edgenas.api
import nas.search.command
from controller.uniform import UniformConfig
from edgenas_core.command import plug_ins
from edgenas_core.command.hydra_command import word
from edgenas_core.types.errors import UserError
from latency.measuring.settings import MeasureConfig
from nas.config.build import NAMES, SearchConfig
from nas.export.config import ExportConfig
from nas.fit.config import FitConfig
from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from nas.spaces.registry import space_named
from nas.study.config import StudyConfig
from nas.train.config import TrainConfig
from nas.transfer import TransferConfig
from rewards.base import Reward


@dataclass
class FasterIsBetter(Reward):
    weight: float = 1.0

    def score(self, accuracy, latency_ms):
        return accuracy + self.weight * self.target_ms / latency_ms


class Enough(Exception):  # noqa: N818 - a user's own
    pass


def own_accuracy(rows):
    return rows.mean(1) / 4


def twenty(seen):
    """A progress callback that stops the search after 20 trials."""

    def progress(trials):
        seen.append(trials)
        if trials.number[-1] >= 20:
            raise Enough

    return progress


@pytest.fixture
def search(tmp_path, monkeypatch):
    monkeypatch.delenv("NAS_DATA", raising=False)

    def call(**given):
        common = {"T": "11ms", "budget": 40, "quiet": True}
        return edgenas.search(**{"out": tmp_path, **common, **given})

    return call


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """A search with parts of one's own, interrupted and resumed."""
    runs = tmp_path_factory.mktemp("it's a [run]")
    own = {
        "reward": FasterIsBetter(weight=0.25),
        "accuracy": own_accuracy,
        "latency": lambda rows: 1.0 + rows.sum(1),
        "controller": lambda space, seeds: UniformConfig().build(space, seeds),
    }
    with pytest.raises(Enough):
        edgenas.search(
            **own,
            T="11ms",
            device="my-board",
            budget=40,
            out=runs,
            quiet=True,
            progress=twenty([]),
        )
    (folder,) = runs.glob("*/*")
    result = edgenas.search(resume=folder, **own, quiet=True)
    assert result.folder == folder
    return result


def test_a_search_asks_what_the_command_asks(search, in_process, tmp_path):
    seen = []

    with pytest.raises(Enough):
        search(seed=3, settings={"controller.batch_size": 4}, progress=twenty(seen))
    words = ["T=11ms", "budget=40", "seed=3", "controller.batch_size=4"]
    status, _, _ = in_process(nas.search.command.main, ["", *words, f"out={tmp_path / 'runs'}"])

    (folder,) = (tmp_path / "runs").glob("*/*")
    by_command = edgenas.Found(folder)
    assert status == 0
    rewards = np.concatenate([trials.rewards.ravel() for trials in seen])
    assert by_command.trials["reward"].to_pylist()[: len(rewards)] == rewards.tolist()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"T": "17"}, "T=17 has no unit"),
        ({"reward": "propsed"}, "did you mean proposed?"),
        ({"settings": {"budgt": 3}}, "did you mean budget?"),
        ({"device": "jetson-nan/fp32/b1"}, "jetson-nano"),
        ({"device": "stm32h74/cubeai/int8"}, "stm32h747/cubeai/int8"),
        ({"space": 3}, "space: int is no search space; it lacks"),
        ({"reward": 3}, "reward=int is no Reward"),
        ({"resume": "nowhere"}, "resume=nowhere is not the folder of a run"),
        ({"accuracy": lambda rows: rows.sum(1)}, "which is not between 0 and 1"),
        ({"latency": lambda rows: rows.sum(1) + 1e8}, "1e-05"),
        ({"controller": lambda *_: None}, "NoneType"),
        ({"settings": [("budget", 3)]}, "settings="),
        ({"settings": {1: 3}}, "settings="),
        ({"settings": {"controller": []}}, "controller"),
        ({"hours": 1}, "hours= is a setting of nas.fit"),
        ({"report": False}, "report= was removed"),
        ({"out": "a\0b"}, "out"),
        ({"out": "\ud800"}, "out"),
    ],
)
def test_what_the_command_refuses_in_a_line_is_an_exception(search, given, said):
    with pytest.raises(edgenas.UserError, match=r"^[^\n]*$") as raised:
        search(**given)

    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "data is not set"),
        ({"data": "digits", "hours": 10**400}, "hours"),
        ({"data": "digits", "hours": "many"}, "hours"),
        ({"data": "digits", "T": "50%", "networks_handed": 3}, "T=50%"),
        ({"data": "digits", "start": "staged"}, "scratch"),
        ({"data": "digits", "settings": {"budget": 3}}, "nas.search"),
        ({"data": "digits", "settings": {"dat": 3}}, "did you mean data?"),
        ({"data": "digits", "start": "pretrained", "space": "residual"}, "start=scratch"),
        ({"resume": "nowhere"}, "resume=nowhere is not the folder of a run"),
    ],
)
def test_what_a_fit_refuses_in_a_line_is_an_exception(tmp_path, given, said):
    with pytest.raises(edgenas.UserError, match=r"^[^\n]*$") as raised:
        edgenas.fit(out=tmp_path, quiet=True, **given)

    assert said in str(raised.value)


def test_a_search_on_own_data_is_handed_over_with_todays_names(monkeypatch):
    seen = []
    monkeypatch.setattr(
        edgenas.api,
        "_run",
        lambda module, _file, _kind, chosen, *_, **__: seen.append((module, chosen)),
    )

    edgenas.search(
        data="digits", accuracy="staged", report=False, quiet=True,
        settings={"accuracy.recipe": "adamw", "side": 8, "verbose": True},
    )  # fmt: skip

    settings = {"data": "digits", "start": "scratch", "recipe": "adamw", "side": 8}
    assert seen == [("nas.fit", settings)]


def test_an_interrupted_search_goes_on_with_the_same_parts(found):
    assert found.trials["sample"].to_pylist() == list(range(40))
    assert found.trials.column_names[:3] == ["sample", "index", "arch"]
    assert found.summary.resumed_at_sample >= 20
    assert '<iframe sandbox="allow-scripts" ' in found.report._repr_html_()


def test_a_notebook_shows_the_page_without_the_program_of_its_charts(found):
    assert len(found.report.path.read_bytes()) > 4_000_000
    assert len(found.report._repr_html_()) < 500_000


def test_the_trials_are_a_data_frame_or_the_extra_is_named(found, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(edgenas.UserError, match=r"\[notebook\]"):
        edgenas.Found(found.folder).frame  # noqa: B018 - the property imports
    monkeypatch.undo()
    pytest.importorskip("pandas")

    assert len(found.frame) == 40


def test_a_folder_is_named_by_its_text_and_one_that_is_missing_refused(found, tmp_path):
    assert edgenas.Found(str(found.folder)) == found
    for read in (
        lambda: edgenas.Found(tmp_path).summary,
        lambda: edgenas.Found(tmp_path).trials,
        lambda: edgenas.Found(f"{tmp_path}/no")._repr_html_(),
        lambda: edgenas.Study(str(tmp_path)).results,
    ):
        with pytest.raises(edgenas.UserError, match=str(tmp_path)):
            read()
    for no_folder in (None, 7):
        with pytest.raises(edgenas.UserError, match=str(no_folder)):
            edgenas.Found(no_folder)


def test_the_library_lists_its_functions_and_classes():
    assert {*edgenas._MODULES["edgenas.api"], "export", "train", "Found", "UserError"} <= {
        *dir(edgenas)
    }


def test_a_reward_of_ones_own_is_an_object_with_settings(found):
    table = found.trials
    ratio = 11 / table["latency_ms"].to_numpy()
    assert found.summary.settings.reward == "FasterIsBetter"
    assert np.allclose(table["reward"], table["accuracy"].to_numpy() + 0.25 * ratio)


def test_functions_of_ones_own_answer_and_are_never_called_measured(found):
    row = space_named("nas_bench_201").parse(found.best.arch)
    assert found.best.accuracy_searched == row.mean() / 4
    assert found.best.latency_ms == 1 + row.sum() <= 11
    assert found.best.latency.kind.is_predicted
    assert found.summary.accuracy_source == "own_accuracy"


def test_with_a_latency_of_ones_own_no_device_is_needed(search):
    from torch import nn  # noqa: PLC0415 - most tests need no torch

    def widths(task, width, depth):
        layers = [nn.Conv2d(width, width, 1) for _ in range(depth)]
        head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, task.num_classes)
        return nn.Sequential(nn.Conv2d(task.channels, width, 3), *layers, *head)

    space = edgenas.space(widths, width=[2, 4, 8], depth=[1, 2])

    result = search(
        space=space, accuracy=lambda rows: rows.sum(1) / 4, latency=lambda rows: 10.0 + rows.sum(1),
        controller="uniform", budget=20,
    )  # fmt: skip

    assert result.best.latency_ms == 11.0
    assert result.summary.device == "unnamed device"
    with pytest.raises(edgenas.UserError, match="device is not set"):
        search(space=space, accuracy=lambda rows: rows.sum(1) / 4)


def test_a_study_compares_a_plug_in_with_an_object_and_a_broken_plug_in_is_named(
    search, monkeypatch, tmp_path
):
    points = [
        EntryPoint("faster", f"{__name__}:FasterIsBetter", "edgenas.rewards"),
        EntryPoint("broken", "nowhere:Thing", "edgenas.rewards"),
        EntryPoint("leaving", "exits_on_import", "edgenas.rewards"),
    ]
    module = sys.modules[FasterIsBetter.__module__]
    monkeypatch.setitem(sys.modules, __name__, module)
    monkeypatch.setattr(plug_ins, "every_entry_point", lambda: EntryPoints(points))

    compared = edgenas.study(
        rewards=["faster", FasterIsBetter(weight=0.0)],
        reference="faster",
        controllers=["uniform"],
        limits=["11ms"],
        seeds=2,
        budget=10,
        workers=1,
        out=tmp_path / "study",
        quiet=True,
    )

    assert len(compared.results["settings"]) == 2
    assert "<iframe" in compared._repr_html_()
    for alone in (0.0, "faster", FasterIsBetter(weight=0.0)):
        with pytest.raises(edgenas.UserError, match="rewards="):
            edgenas.study(rewards=alone, quiet=True)
    with pytest.raises(edgenas.UserError, match=r"reward=broken.* nowhere:Thing"):
        search(reward="broken")
    (tmp_path / "exits_on_import.py").write_text("raise SystemExit(3)")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(edgenas.UserError, match=r"reward=leaving"):
        search(reward="leaving")


def test_a_study_takes_sources_of_ones_own_and_gives_every_sample(tmp_path):
    settings = {"controllers": ["uniform"], "rewards": ["mnasnet"], "reference": "mnasnet"}
    settings |= {"limits": ["11ms"], "devices": ["mine"], "seeds": 2, "budget": 10, "workers": 1}
    own = {"accuracy": own_accuracy, "latency": lambda rows: 1.0 + rows.sum(1)}

    folder = edgenas.study(**settings, **own, out=tmp_path, quiet=True).folder
    table = edgenas.study(resume=folder, **own, quiet=True).trials

    space = space_named("nas_bench_201")
    rows = np.array([space.parse(arch) for arch in table["arch"].to_pylist()])
    assert table["accuracy"].to_pylist() == own_accuracy(rows).tolist()
    assert table["latency_ms"].to_pylist() == (1.0 + rows.sum(1)).tolist()
    assert table["seed"].to_pylist() == [0] * 10 + [1] * 10
    assert table["sample"].to_pylist() == [*range(10), *range(10)]


def test_samples_of_a_study_about_a_whole_space_have_its_numbers(search, tmp_path, monkeypatch):
    study = edgenas.study(
        controllers=["uniform", "evolution"],
        rewards=["mnasnet"],
        reference="uniform",
        limits=["11ms"],
        seeds=1,
        budget=10,
        workers=1,
        out=tmp_path / "study",
        quiet=True,
    )
    device = study.trials["device"][0].as_py()
    alone = search(device=device, reward="mnasnet", controller="uniform", budget=10)

    for name in ("arch", "accuracy", "accuracy_kind", "latency_ms", "latency_kind"):
        assert study.trials[name].to_pylist()[:10] == alone.trials[name].to_pylist()
    assert study.trials["controller"].to_pylist() == ["uniform"] * 10 + ["evolution"] * 10
    # other tables do not change a finished study
    (tmp_path / "tables").mkdir()
    own_ms = [
        f"{text},{7.5 + number % 9}" for number, text in enumerate(NAS_BENCH_201.strings[:99])
    ]
    (tmp_path / "tables" / "own.csv").write_text("\n".join([f"arch,{device}", *own_ms]))
    monkeypatch.setenv("NAS_DATA", str(tmp_path / "tables"))
    assert edgenas.Study(study.folder).trials == study.trials
    (study.folder / "answers.npz").unlink()
    with pytest.raises(UserError, match="resume="):
        edgenas.Study(study.folder).trials  # noqa: B018 - the property reads them


def test_a_search_runs_inside_a_hydra_application_and_leaves_it_as_it_was(search, tmp_path):
    (tmp_path / "mine.yaml").write_text("a: 1\n")

    with hydra.initialize_config_dir(str(tmp_path), version_base="1.3"):
        found = search(budget=10)
        mine = hydra.compose("mine")

    assert found.trials.num_rows == 10
    assert mine == {"a": 1}


@pytest.mark.parametrize(
    ("controller", "batch_size"), [("guided", 1), ("evolution", 1), ("rnn", 4)]
)
def test_a_loop_of_ones_own_that_asks_and_tells_is_the_search(search, controller, batch_size):
    common = {"T": "11ms", "controller": controller, "seed": 2}
    if batch_size > 1:
        common["settings"] = {"controller.batch_size": batch_size}
    expected = search(**common, accuracy=own_accuracy)

    loop = edgenas.suggest(**common)
    for _ in range(40 // batch_size):
        rows = loop.ask(batch_size)
        loop.tell(rows, own_accuracy(rows).tolist())

    for name in ("sample", "arch", "accuracy", "accuracy_kind", "latency_ms", "feasible", "reward"):
        assert loop.trials[name].equals(expected.trials[name])
    assert loop.problem.space.text(loop.best) == expected.best.arch


def test_the_documented_loop_runs(monkeypatch):
    monkeypatch.delenv("NAS_DATA", raising=False)
    page = (Path(__file__).parents[2] / "docs/how-to/bring-your-own-data.md").read_text()
    (code,) = (
        part for part in page.split("```") if "edgenas.suggest(" in part and "\n" in part[:8]
    )
    names = {"my_training": lambda network: min(1.0, len(list(network.modules())) / 1000)}

    code = code.removeprefix("python").replace("range(20)", "range(2)")
    exec(code, names)  # noqa: S102 - ours

    assert len(names["search"].trials) == 8


def test_failed_evaluations_are_told_as_nan_and_nonsense_is_refused_in_a_line():
    loop = edgenas.suggest(T="11ms", latency=lambda rows: 1.0 + rows.sum(1), controller="uniform")
    assert loop.best is None
    rows = loop.ask(3)

    for wrong, accuracy in (
        (rows, [0.5]),
        (rows, [50, 60, 70]),
        (rows, ["a", "b", "c"]),
        (rows + 0.5, [0.5] * 3),
        (rows + 9, [0.5] * 3),
        (rows[:, 1:], [0.5] * 3),
        (rows[:1], 0.5),
    ):
        with pytest.raises(edgenas.UserError, match=r"^[^\n]*$"):
            loop.tell(wrong, accuracy)
    for count in (0, -1, 1.5, "3", 10**12):
        with pytest.raises(edgenas.UserError, match=r"^ask"):
            loop.ask(count)
    loop.tell(rows[::-1], [np.nan, 0.25, 0.5])
    loop.tell(rows[:0], [])

    assert loop.trials["state"].to_pylist() == ["failed", "done", "done"]
    assert np.isnan(loop.trials["reward"].to_numpy()).tolist() == [True, False, False]


@pytest.mark.usefixtures("one_thread")
def test_this_machine_is_measured_and_the_process_is_as_before(tmp_path):
    import torch  # noqa: PLC0415 - most tests need no torch

    torch.set_num_threads(2)
    cores = os.sched_getaffinity(0)
    quick = {"samples": 3, "settle_s": 0.01}

    path = edgenas.measure(
        board="here",
        dataset="imagenet16",
        networks=1,
        out=tmp_path,
        settings={
            "repeats": 0,
            "tolerance": 20_000,
            **{f"timing.{name}": value for name, value in quick.items()},
        },
        quiet=True,
    )

    assert path.read_text().splitlines()[0] == "index,arch,here/torch/fp32/b1"
    assert (os.sched_getaffinity(0), torch.get_num_threads()) == (cores, 2)


@pytest.mark.usefixtures("one_thread")
def test_a_network_is_trained_in_full(tmp_path):
    side = {"side": 4}
    trained = edgenas.train(
        arch=1835,
        data="digits",
        epochs=1,
        accelerator="cpu",
        out=tmp_path,
        settings=side,
        quiet=True,
    )

    assert (trained / "weights.safetensors").is_file()


@pytest.mark.parametrize(
    ("function", "schema", "other"),
    [
        (edgenas.search, SearchConfig, {"settings", "progress", "quiet"}),
        (edgenas.fit, FitConfig, {"settings", "progress", "quiet"}),
        (edgenas.suggest, SearchConfig, {"settings"}),
        (edgenas.study, StudyConfig, {"settings", "experiment", "quiet"}),
        (edgenas.measure, MeasureConfig, {"settings", "quiet"}),
        (edgenas.transfer, TransferConfig, {"settings", "quiet"}),
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
    override = OverridesParser.create().parse_override(word("device", value))

    assert OmegaConf.create({"device": override.value()}).device == value


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
