"""Each experiment from end to end on two cores, as small as it goes."""

import json
import pickle
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from bench_settings import bench_config
from rich.console import Console

from benchmarks.papers import command
from benchmarks.papers import decompose as decomposing
from benchmarks.papers import steps as driver
from benchmarks.papers.command import experiment_of
from benchmarks.papers.config import ExperimentName
from benchmarks.papers.coschedule import policies as coschedule
from benchmarks.papers.dispatch.modes import DispatchMode
from benchmarks.papers.optimum import distance as optimal
from benchmarks.papers.pages import print_results, results_page
from benchmarks.papers.placement import reuse as memory
from benchmarks.papers.placement.experiment import MEMORY
from benchmarks.papers.predictor import layers_and_choices as predicting
from benchmarks.papers.qs import dispatch_modes as qs
from benchmarks.papers.qs.experiment import QS
from benchmarks.papers.results import Results, read_results, summary
from benchmarks.papers.sharing import kept_trace
from benchmarks.papers.simulator import makespan_error as simulating
from benchmarks.papers.steps import Control, Step, interleaved, run_steps
from benchmarks.papers.workloads import MIXES, QS_PUBLISHED, QS_WORKLOADS, Model, Scale, source
from runtime.network.decompose import Rule
from runtime.scheduling.schedule import Schedule

STEPS = {
    "qs": (qs, "nb201-1"),
    "coschedule": (coschedule, "nb201"),
    "decompose": (decomposing, "nas_bench_201"),
    "simulator": (simulating, "nb201"),
    "optimum": (optimal, "nb201-2"),
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
    results = Results(experiment, {"seen": 1}, {"cpu": "a core", "versions": {}})
    steps = module.steps(asked)
    last = steps if experiment == "predictor" else steps[-1:]  # which needs the others' times
    run_steps(last, results, path, control, minutes=5, console=QUIET)
    assert results.faults == []
    return results


SLOW = {"coschedule", "decompose", "optimum", "predictor", "qs", "simulator"}


@pytest.mark.parametrize(
    "experiment",
    [pytest.param(one, marks=[pytest.mark.slow] if one in SLOW else []) for one in STEPS],
)
def test_an_experiment_leaves_rows_tables_and_a_page(experiment, control, tmp_path):
    path = tmp_path / f"{experiment}.json"

    results = measured(experiment, control, path)

    assert results.is_complete
    assert results.rows
    assert read_results(path).rows == json.loads(results.json())["rows"]
    assert len(results.controls) == (6 if experiment == "predictor" else 2)
    assert all(table.rows for table in experiment_of(results).shown(results.rows))
    html = results_page(read_results(path), experiment_of(results)).html()
    assert "default-src 'none'" in html
    for row in results.rows:
        if "ms" in row:
            assert row["low_ms"] <= row["ms"] <= row["high_ms"]
            assert len(row["samples_ms"]) == 2
        if experiment in {"qs", "coschedule", "decompose", "simulator"}:
            trace = json.loads((tmp_path / row["trace"]).read_text())
            assert {event["ph"] for event in trace["traceEvents"]} == {"M", "X", "b", "e"}
        if experiment in {"qs", "coschedule"}:
            assert 0 < row["fairness"] <= 1
            assert row["stp"] > 0
        if experiment in {"simulator", "optimum"}:
            assert row["bound_ms"] <= row["simulated_ms"] * 1.0001
        if experiment == "optimum":
            assert row["above_optimum"] >= -1e-6


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

    results, path = Results("qs", {}, {}), tmp_path / "qs.json"
    steps = [Step("long", measured), Step("next", list)]
    run_steps(steps, results, path, control, minutes=0.01, console=QUIET)

    assert seen == ["a"] * 2  # one unrecorded, one round
    found = read_results(path)
    assert found.rows[0]["samples_ms"] == [1.0]
    assert (found.cut_short, found.not_measured) == (["long"], ["next"])
    assert not found.is_complete
    html = results_page(Results("qs", {}, {"cpu": "a core"}, cut_short=["long"]), QS).html()
    assert "during long" in html


def test_a_step_that_has_done_all_when_the_time_ends_is_not_cut_short(control, tmp_path):
    def measured():
        time.sleep(0.7)
        yield summary(interleaved({"a": lambda: 1.0}, 1)["a"])

    results = Results("qs", {}, {})

    run_steps(
        [Step("short", measured)],
        results,
        tmp_path / "qs.json",
        control,
        minutes=0.01,
        console=QUIET,
    )

    assert results.cut_short == []
    assert results.is_complete


def test_a_step_that_raises_and_an_interrupt_lose_nothing(control, tmp_path):
    def broken():
        yield {"kept": 1}
        raise ValueError("the step is broken")

    def interrupted():
        yield {"kept": 2}
        raise KeyboardInterrupt

    path = tmp_path / "qs.json"
    results = Results("qs", {}, {})
    steps = [Step("broken", broken), Step("interrupted", interrupted), Step("never", list)]
    with pytest.raises(KeyboardInterrupt):
        run_steps(steps, results, path, control, minutes=1, console=QUIET)

    found = read_results(path)
    assert [row["kept"] for row in found.rows] == [1, 2]
    assert found.faults == [{"step": "broken", "error": "ValueError: the step is broken"}]
    assert not found.is_complete


def test_a_device_that_is_lost_ends_no_run_in_a_traceback(control, tmp_path, monkeypatch):
    def lost(*_):
        raise RuntimeError("CUDA error: the launch timed out")

    monkeypatch.setattr(Control, "row", lost)
    results = Results("qs", {}, {})
    path = tmp_path / "qs.json"

    run_steps(
        [Step("one", lambda: [{"kept": 1}])], results, path, control, minutes=1, console=QUIET
    )

    (row,) = read_results(path).rows
    assert row["kept"] == 1
    assert "RuntimeError: CUDA error" in row["flagged"][0]


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


def test_a_file_that_holds_no_results_keeps_no_others_from_being_drawn(
    tmp_path, monkeypatch, capsys
):
    machine = {"cpu": "a core", "versions": {}}
    Results("qs", {}, machine).write(tmp_path / "qs.json")
    Results("other", {}, machine).write(tmp_path / "other.json")
    (tmp_path / "memory_profile.json").write_text("{}")
    odd = [{"of": "another program"}]
    Results("decompose", {}, machine, rows=odd).write(tmp_path / "decompose.json")
    texts = [{"network": "n", "mode": "m", "rule": "r", "jobs": 1, "ms": "slow"}]
    Results("decompose", {}, machine, rows=texts).write(tmp_path / "texts.json")
    Results("optimum", {}, {}).write(tmp_path / "nowhere.json")
    monkeypatch.setattr(sys, "argv", ["bench", "experiment=page", f"out={tmp_path}"])

    command.main()

    told = capsys.readouterr().out
    assert (tmp_path / "qs.html").exists()
    assert "memory_profile.json" in told
    assert "experiment=other" in told
    assert "decompose.json" in told
    assert "texts.json" in told
    assert "an unknown machine" in (tmp_path / "nowhere.html").read_text()


WHOLE = {"schema": 1, "experiment": "qs", "settings": {}, "machine": {}}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "it is empty"),
        ("{", "JSONDecodeError"),
        ("[" * 100_000, "RecursionError"),
        (b"\xff\xfe", "JSONDecodeError"),
        ("[]", "holds no results"),
        ('{"schema": 1}', "missing"),
        ({**WHOLE, "machine": []}, "its machine is []"),
        ({**WHOLE, "experiment": ["qs"]}, "its experiment is ['qs']"),
        ({**WHOLE, "rows": 3}, "its rows are 3"),
        ({**WHOLE, "rows": ["a"]}, "its rows are ['a']"),
        ({**WHOLE, "cut_short": [1]}, "its cut_short are [1]"),
        ({**WHOLE, "colour": "blue"}, "colour"),
    ],
)
def test_results_that_are_none_are_told_in_one_line(tmp_path, monkeypatch, capsys, content, told):
    if not isinstance(content, bytes):
        content = (content if isinstance(content, str) else json.dumps(content)).encode()
    (tmp_path / "qs.json").write_bytes(content)
    monkeypatch.setattr(sys, "argv", ["bench", "experiment=page", f"out={tmp_path}"])

    with pytest.raises(SystemExit) as left:
        command.main()

    assert left.value.code == 2
    error = capsys.readouterr().err
    assert str(tmp_path / "qs.json") in error
    assert told in error
    assert error.count("\n") == 1


def test_a_file_in_place_of_the_folder_of_results_is_told(tmp_path, monkeypatch, capsys):
    (tmp_path / "qs.json").touch()
    monkeypatch.setattr(sys, "argv", ["bench", "experiment=page", f"out={tmp_path / 'qs.json'}"])

    with pytest.raises(SystemExit):
        command.main()

    assert "qs.json is a file" in capsys.readouterr().err


def test_a_trace_that_cannot_be_written_loses_no_measurement(tmp_path):
    (tmp_path / "traces").write_text("a file where the folder should be")
    nothing = Schedule((), (), (), ())

    row = kept_trace(config("qs", out=str(tmp_path)), "one", lambda: nothing)

    assert "Error" in row["trace_error"]


def test_steps_for_which_no_time_is_left_are_named(control, tmp_path):
    results = Results("qs", {}, {})
    run_steps(
        [Step("one", list)], results, tmp_path / "qs.json", control, minutes=1e-9, console=QUIET
    )
    assert results.not_measured == ["one"]


def test_the_schema_of_the_results_is_what_readers_know(tmp_path):
    path = tmp_path / "qs.json"
    Results("qs", {}, {}, rows=[summary([1.0, 3.0, 2.0])]).write(path)

    content = json.loads(path.read_text())

    assert [*content] == [
        "schema",
        "experiment",
        "settings",
        "machine",
        "rows",
        "controls",
        "faults",
        "not_measured",
        "cut_short",
        "is_complete",
    ]
    assert content["rows"] == [
        {"ms": 2.0, "low_ms": 1.5, "high_ms": 2.5, "samples_ms": [1.0, 3.0, 2.0]}
    ]
    path.write_text('{"schema": 99}')
    with pytest.raises(ValueError, match="has schema 99"):
        read_results(path)
    path.write_text("[]")
    with pytest.raises(ValueError, match="holds no results"):
        read_results(path)


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("workloads=[vgg]", "workloads=['vgg'] of experiment=qs is unknown; there are alex15"),
        ("repeats=0", "repeats=0 must be at least 1"),
        ("workloads=[]", "workloads=[] of experiment=qs names none; there are alex15"),
        ("throttle=nan", "throttle=nan must be at least 1"),
        ("slices=[0]", "slices=[0] must each have 1 multiprocessor"),
        ("image=1e9", "image=1000000000.0 must be above 0 and at most 4"),
        ("minutes=nan", "minutes=[nan] must be above 0"),
        ("rule=fine", "rule=fine must be one of layer"),
        ("studying.sets=0", "studying.sets=0 must be at least 1"),
        ("experiment=nope", "expected one of [qs"),
        ("experiment=page", "holds no results"),
    ],
)
def test_a_mistake_is_told_in_one_line(override, told, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["bench", override, f"out={tmp_path / 'nothing'}"])

    with pytest.raises(SystemExit) as left:
        command.main()

    assert left.value.code == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("experiment", [one.value for one in ExperimentName if one.value in STEPS])
def test_the_command_runs_captured_too(experiment, tmp_path):
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "benchmarks",
            f"experiment={experiment}",
            f"workloads=[{STEPS[experiment][1]}]",
            "modes=[captured]",
            "repeats=2",
            "minutes=30",  # on a busy machine; its default may not do
            f"out={tmp_path}",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert read_results(tmp_path / f"{experiment}.json").is_complete
    assert (tmp_path / f"{experiment}.html").exists()


def test_numbers_of_numpy_are_written_as_numbers():
    rows = [{"count": np.int64(3), "ms": np.float32(0.5), "never": np.float64("inf")}]

    written = json.loads(Results("qs", {}, {}, rows).json())

    assert written["rows"] == [{"count": 3, "ms": 0.5, "never": None}]


def test_simulated_rows_are_not_flagged_and_their_page_names_their_parameters(
    control, tmp_path, monkeypatch, capsys
):
    busy = {"when": "", "control_ms": 1.0, "disturbances": ["others kept the machine busy"]}
    monkeypatch.setattr(Control, "row", lambda *_: busy)
    settings = config("memory", workloads=["calibration", "corun"])
    results = Results("memory", {}, {"cpu": "a core"})
    path = tmp_path / "memory.json"
    console = Console()

    run_steps(memory.steps(settings), results, path, control, minutes=1, console=console)
    print_results(results, MEMORY, path, console)

    told = "Simulated, with measured parameters of h200; nothing was timed."
    for text in (capsys.readouterr().out, path.with_suffix(".html").read_text(encoding="utf-8")):
        assert told in text
        assert "flagged" not in text
        assert "Every step" not in text
    assert not any("flagged" in row for row in read_results(path).rows)


def test_what_is_to_come_is_told_in_a_line_before_it_begins(capsys):
    settings = config("qs", minutes=3)
    steps = qs.steps(settings)

    driver.announce(steps, settings, Console(width=80))

    line = capsys.readouterr().out
    assert line.count("\n") == 1
    assert f"3 minutes at most (minutes= changes that), {len(steps)} steps: " in line
    assert all(step.name in line for step in steps)
