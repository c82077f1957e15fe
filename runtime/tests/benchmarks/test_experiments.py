"""Each experiment from end to end on two cores, as small as it goes."""

import json
import pickle
import sys
import time

import numpy as np
import pytest
import torch
from bench_settings import bench_config
from rich.console import Console

from benchmarks import command
from benchmarks import steps as driver
from benchmarks.coschedule import policies as coschedule
from benchmarks.dispatch.modes import DispatchMode
from benchmarks.pages import print_results
from benchmarks.placement import reuse as memory
from benchmarks.placement.experiment import MEMORY
from benchmarks.predictor import layers_and_choices as predicting
from benchmarks.qs import dispatch_modes as qs
from benchmarks.results import PaperResults, summary
from benchmarks.simulator import makespan_error as simulating
from benchmarks.steps import Control, ExperimentStep, interleaved, run_steps
from benchmarks.workloads import MIXES, QS_PUBLISHED, QS_WORKLOADS, Model, Scale, source
from edgenas_runtime.network.decompose import Rule

STEPS = {
    "qs": (qs, "nb201-1"),
    "coschedule": (coschedule, "nb201"),
    "simulator": (simulating, "nb201"),
    "memory": (memory, "corun"),
    "predictor": (predicting, "nb201"),
}
QUIET = Console(quiet=True)


def config(experiment, **changes):
    return bench_config(experiment, jobs=6, **changes)


@pytest.fixture(scope="module")
def control():
    made = Control(config("qs").device, config("qs").scale)
    yield made
    made.close()


def measured(experiment, control, path, **changes):
    module, workload = STEPS[experiment]
    asked = config(
        experiment, out=str(path.parent), workloads=[workload], modes=["eager"], **changes
    )
    results = PaperResults(experiment, {"seen": 1}, {"cpu": "a core", "versions": {}})
    steps = module.steps(asked)
    last = steps if experiment == "predictor" else steps[-1:]  # which needs the others' times
    run_steps(last, results, path, control, minutes=5, console=QUIET)
    assert results.faults == []
    return results


SLOW = {"coschedule", "predictor", "qs", "simulator"}


@pytest.mark.parametrize(
    "experiment",
    [pytest.param(one, marks=[pytest.mark.slow] if one in SLOW else []) for one in STEPS],
)
def test_an_experiment_leaves_rows_tables_and_a_page(experiment, control, tmp_path):
    path = tmp_path / f"{experiment}.json"

    results = measured(experiment, control, path)

    assert results.is_complete
    assert results.rows
    assert json.loads(path.read_text()) == json.loads(results.json())
    assert len(results.controls) == (6 if experiment == "predictor" else 2)
    shown = command.EXPERIMENTS[experiment]
    assert all(table.rows for table in shown.shown(results.rows))
    print_results(results, shown, path, QUIET)
    assert path.with_suffix(".html").exists()
    for row in results.rows:
        if "ms" in row:
            assert row["low_ms"] <= row["ms"] <= row["high_ms"]
            assert len(row["samples_ms"]) == 2
        if experiment == "simulator":
            assert row["bound_ms"] <= row["simulated_ms"] * 1.0001


@pytest.mark.slow
def test_every_way_stands_beside_q_s_and_what_was_published(control, tmp_path):
    rows = measured("qs", control, tmp_path / "qs.json").rows

    assert {row["way"] for row in rows} == {way.value for way in DispatchMode}
    assert all(row["error"] is None for row in rows)
    assert all(row["largest_difference"] < 1e-4 for row in rows)
    (line,) = qs.compared(rows)
    by_way = {row["way"]: row["ms"] for row in rows}
    ratio = by_way["queue_stream"] / by_way["multi_context"]
    assert line["against_mc"] == pytest.approx(ratio - 1)
    rows = [{**row, "workload": "vgg15"} for row in rows]
    assert qs.compared(rows)[0]["published_mc"] == -0.408


def test_the_workloads_are_those_of_the_source():
    assert QS_PUBLISHED.keys() <= QS_WORKLOADS.keys()
    assert [QS_WORKLOADS[name].size for name in QS_PUBLISHED] == [15, 15, 15, 15, 16, 15, 16]
    assert [MIXES[name].size for name in ("mix-8-8-2-2", "mix-5-5-5-5")] == [20, 20]
    assert dict(MIXES["mix-8-8-2-2"].counts)[Model.vgg16] == 2


def test_weights_by_channel_change_nothing_but_their_place():
    plain, turned = (
        source(Model.vgg16, scale=Scale(1 / 16), rule=Rule.WHOLE, by_channel=by_channel)
        for by_channel in (False, True)
    )

    assert plain.module.network.state_dict().keys() == turned.module.network.state_dict().keys()
    first = next(parameter for parameter in turned.module.parameters() if parameter.dim() == 4)
    assert first.is_contiguous(memory_format=torch.channels_last)
    again = pickle.loads(pickle.dumps(turned)).module  # noqa: S301 - our own
    with torch.inference_mode():
        expected = plain.module(plain.x)
        torch.testing.assert_close(turned.module(turned.x), expected)
        torch.testing.assert_close(again(turned.x), expected)


def test_variants_are_measured_in_turns():
    seen = []
    taken = interleaved(
        {"a": lambda: seen.append("a") or 1.0, "b": lambda: seen.append("b") or 2.0}, 3
    )

    assert "".join(seen) == "abababab"
    assert taken == {"a": [1.0] * 3, "b": [2.0] * 3}


def test_a_step_that_is_under_way_at_the_end_of_the_time_ends_after_its_round(control, tmp_path):
    seen = []

    def measured():
        time.sleep(0.7)  # longer than there is
        yield summary(interleaved({"a": lambda: seen.append("a") or 1.0}, 1000)["a"])

    results, path = PaperResults("qs", {}, {}), tmp_path / "qs.json"
    steps = [ExperimentStep("long", measured), ExperimentStep("next", list)]
    run_steps(steps, results, path, control, minutes=0.01, console=QUIET)

    assert seen == ["a"] * 2  # one unrecorded, one round
    written = json.loads(path.read_text())
    assert written["rows"][0]["samples_ms"] == [1.0]
    assert (written["cut_short"], written["not_measured"]) == (["long"], ["next"])
    assert not written["is_complete"]


def test_a_step_that_raises_and_an_interrupt_lose_nothing(control, tmp_path):
    def broken():
        yield {"kept": 1}
        raise ValueError("the step is broken")

    def interrupted():
        yield {"kept": 2}
        raise KeyboardInterrupt

    path = tmp_path / "qs.json"
    results = PaperResults("qs", {}, {})
    steps = [
        ExperimentStep("broken", broken),
        ExperimentStep("interrupted", interrupted),
        ExperimentStep("never", list),
    ]
    with pytest.raises(KeyboardInterrupt):
        run_steps(steps, results, path, control, minutes=1, console=QUIET)

    written = json.loads(path.read_text())
    assert [row["kept"] for row in written["rows"]] == [1, 2]
    assert [fault["step"] for fault in written["faults"]] == ["broken"]
    assert not written["is_complete"]


def test_a_device_that_is_lost_ends_no_run_in_a_traceback(control, tmp_path, monkeypatch):
    def lost(*_):
        raise RuntimeError("CUDA error: the launch timed out")

    monkeypatch.setattr(Control, "row", lost)
    results = PaperResults("qs", {}, {})
    path = tmp_path / "qs.json"

    run_steps(
        [ExperimentStep("one", lambda: [{"kept": 1}])],
        results,
        path,
        control,
        minutes=1,
        console=QUIET,
    )

    (row,) = results.rows
    assert row["kept"] == 1
    assert len(row["flagged"]) == 2


def test_a_device_that_cannot_begin_is_told_in_one_line(tmp_path, monkeypatch, capsys):
    def none_left(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(driver, "Control", none_left)
    monkeypatch.setattr(sys, "argv", ["bench", f"out={tmp_path}"])

    with pytest.raises(SystemExit) as left:
        command.main()

    assert left.value.code == 2
    error = capsys.readouterr().err
    assert "OutOfMemoryError" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("workloads=[vgg]", "workloads=['vgg']"),
        ("repeats=0", "repeats=0"),
        ("workloads=[]", "workloads=[]"),
        ("throttle=nan", "throttle=nan"),
        ("slices=[0]", "slices=[0]"),
        ("image=1e9", "image=1000000000.0"),
        ("minutes=nan", "minutes=[nan]"),
        ("rule=fine", "rule=fine"),
        ("studying.sets=0", "studying.sets=0"),
        ("profile=nano", "profile=nano"),
        ("experiment=nope", "nope"),
    ],
)
def test_a_mistake_is_told_in_one_line(override, named, tmp_path, monkeypatch, capsys):
    experiment = ["experiment=memory"] if "profile" in override else []
    monkeypatch.setattr(
        sys, "argv", ["bench", *experiment, override, f"out={tmp_path / 'nothing'}"]
    )

    with pytest.raises(SystemExit) as left:
        command.main()

    assert left.value.code == 2
    error = capsys.readouterr().err
    assert named in error
    assert error.count("\n") == 1


def test_numbers_of_numpy_are_written_as_numbers():
    rows = [{"count": np.int64(3), "ms": np.float32(0.5), "never": np.float64("inf")}]

    written = json.loads(PaperResults("qs", {}, {}, rows).json())

    assert written["rows"] == [{"count": 3, "ms": 0.5, "never": None}]


def test_simulated_rows_are_not_flagged_and_their_page_names_their_parameters(
    control, tmp_path, monkeypatch, capsys
):
    busy = {"when": "", "control_ms": 1.0, "disturbances": ["others kept the machine busy"]}
    monkeypatch.setattr(Control, "row", lambda *_: busy)
    settings = config("memory", workloads=["calibration", "corun"])
    results = PaperResults("memory", {}, {"cpu": "a core"})
    path = tmp_path / "memory.json"
    console = Console()

    run_steps(memory.steps(settings), results, path, control, minutes=1, console=console)
    print_results(results, MEMORY, path, console)

    assert "h200" in MEMORY.simulated(results.rows)
    assert "flagged" not in capsys.readouterr().out
    assert "flagged" not in path.with_suffix(".html").read_text(encoding="utf-8")
    assert not any("flagged" in row for row in results.rows)
