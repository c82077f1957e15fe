"""`python -m edgenas_runtime.map` from end to end."""

import json
import sys

import commands
import pytest

from edgenas_runtime.mapping import command

TASKS = """network,configuration,min_ms,mean_ms,max_ms
camera,gpu,20,22,25
camera,cpu,,,
lidar,gpu,9,10,12
lidar,cpu,40,42,45
"""
BOARD = """units: [g, c]
configurations: {gpu: [[g]], cpu: [[c]]}
"""


@pytest.fixture
def board(tmp_path):
    (tmp_path / "tasks.csv").write_text(TASKS)
    (tmp_path / "tasks.yaml").write_text(BOARD)
    return tmp_path


def run(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["map", *words])
    status = 0
    try:
        command.main()
    except SystemExit as end:
        status = end.code
    return status, *capsys.readouterr()


def test_the_time_left_goes_into_a_search(board):
    words = [sys.executable, "-m", "edgenas_runtime.map", "tasks=tasks.csv", "frame_ms=60"]
    done = commands.run(words, cwd=board)

    assert (done.returncode, done.stderr) == (0, "")
    assert "T=35ms" in done.stdout  # lidar on the CPU leaves it on the GPU
    assert "T=60ms" in done.stdout  # or stays on the GPU and leaves the CPU


def test_everything_is_available_as_json(board, monkeypatch, capsys):
    words = (f"tasks={board / 'tasks.csv'}", "frame_ms=60", "bound=mean", "json=true")

    status, out, err = run(monkeypatch, capsys, *words, "margin=0.5")

    found = json.loads(out)
    assert (status, err, found["answer"]) == (0, "", "feasible")
    left = {one["configurations"][0]: one for one in found["left"]}
    assert left["gpu"]["ms"] == pytest.approx(60 - 1.5 * (22 + 10))
    assert left["cpu"]["ms"] == pytest.approx(60)
    assert "T=60ms" in left["cpu"]["search"]


def test_json_says_that_ctrl_c_left_places_out(board, monkeypatch, capsys):
    words = (f"tasks={board / 'tasks.csv'}", "frame_ms=60", "json=true")
    whole = json.loads(run(monkeypatch, capsys, *words)[1])

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("edgenas_runtime.mapping.solving.slack.longest_slack", interrupted)
    status, out, _ = run(monkeypatch, capsys, *words)

    assert (status, whole["interrupted"]) == (0, False)
    assert json.loads(out) == {**whole, "left": [], "interrupted": True}


def test_a_name_may_hold_brackets(board, monkeypatch, capsys):
    (board / "tasks.csv").write_text(TASKS.replace("camera", "camera [left]"))

    _, out, _ = run(monkeypatch, capsys, f"tasks={board / 'tasks.csv'}")

    assert "camera [left]" in out


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("networks=[camera,camera]", "frame_ms=45"), "g for 50.00 ms"),
        (("frame_ms=20",), "25.00 ms"),
    ],
)
def test_networks_that_do_not_fit_are_an_answer_of_status_1(
    board, words, named, monkeypatch, capsys
):
    status, out, err = run(monkeypatch, capsys, f"tasks={board / 'tasks.csv'}", *words)

    assert (status, err) == (1, "")
    assert "infeasible" in out
    assert named in out


def test_the_slack_is_printed_as_exactly_as_its_limit(board, monkeypatch, capsys):
    _, out, _ = run(monkeypatch, capsys, f"tasks={board / 'tasks.csv'}", "frame_ms=4060.0689")

    assert "4060.068 " in out
    assert "T=4060.068ms" in out


@pytest.mark.parametrize("name", ["gpuu", "x9"])
def test_a_configuration_that_the_platform_lacks_is_named(board, name, monkeypatch, capsys):
    (board / "tasks.csv").write_text(f"{TASKS}camera,{name},1,1,1\n")

    status, out, err = run(monkeypatch, capsys, f"tasks={board / 'tasks.csv'}")

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert f"camera,{name} " in err
    assert "tasks: gpu, cpu" in err
    assert ("gpu?" in err) == (name == "gpuu")


def test_a_table_may_have_more_configurations_than_are_chosen(board, monkeypatch, capsys):
    words = (f"tasks={board / 'tasks.csv'}", "configurations=[gpu]")

    status, out, err = run(monkeypatch, capsys, *words)

    assert (status, err) == (0, "")
    assert "cpu" not in out


def test_a_configuration_without_any_time_is_not_offered(board, monkeypatch, capsys):
    (board / "tasks.csv").write_text(f"{TASKS}camera,slow,,,\nlidar,slow,,,\n")
    (board / "tasks.yaml").write_text(
        "units: [g, c]\nconfigurations: {gpu: [[g]], cpu: [[c]], slow: [[g]], new: [[c]]}\n"
    )

    status, out, _ = run(monkeypatch, capsys, f"tasks={board / 'tasks.csv'}", "json=true")

    assert status == 0
    offered = [one["configurations"] for one in json.loads(out)["left"]]
    assert offered == [["gpu"], ["cpu", "new"]]  # no network was tried in the new one


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["tasks=xaver"], ("tasks=xaver", "tasks.csv", "xavier")),
        (["tasks=task.csv"], ("tasks.csv",)),
        (["tasks=tasks.csv", "platform=nope.yaml"], ("platform=nope.yaml", "tasks.yaml")),
        (["tasks=alone.csv"], ("alone.yaml", "platform=<file>.yaml")),
        (["tasks=empty.csv", "platform=tasks.yaml"], ("empty.csv",)),
    ],
)
def test_the_error_of_a_missing_file_lists_the_existing_ones(
    board, words, named, monkeypatch, capsys
):
    (board / "alone.csv").write_text(TASKS)
    (board / "empty.csv").write_text("network,configuration,ms\ncamera,gpu,\ncamera,cpu,\n")
    monkeypatch.chdir(board)

    status, _, err = run(monkeypatch, capsys, *words)

    assert (status, err.count("\n")) == (2, 1)
    assert all(value in err for value in named)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ((), "tasks="),
        (("tasks=nowhere.csv",), "nowhere.csv"),
        (("tasks=xavier", "platform=nowhere.yaml"), "nowhere.yaml"),
        (("tasks=xavier", "networks=[DNN2]"), "networks=DNN2"),
        (("tasks=xavier", "configurations=[TPU]"), "configurations=TPU"),
        (("tasks=xavier", "configurations=[DLA1]"), "RNN1"),
        (("tasks=xavier", "frame_ms=0"), "frame_ms=0.0"),
        (("tasks=xavier", "margin=-1"), "margin=-1.0"),
        (("tasks=xavier", "bound=p99"), "[min, mean, max]"),
    ],
)
def test_invalid_settings_are_refused_in_one_line(words, named, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)

    status, out, err = run(monkeypatch, capsys, *words)

    assert status == 2
    assert "Traceback" not in out + err
    assert err.count("\n") == 1
    assert named in err
