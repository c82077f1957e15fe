"""`python -m runtime.map` from end to end."""

import json
import sys

import commands
import pytest

from runtime.mapping import command

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
    words = [sys.executable, "-m", "runtime.map", "tasks=tasks.csv", "frame_ms=60"]
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

    monkeypatch.setattr("runtime.mapping.solving.slack.longest_slack", interrupted)
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
        (["tasks=tasks.csv", "platform=nope.yaml"], ("platform=nope.yaml", "this", "tasks.yaml")),
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
        ((), "give either tasks="),
        (("tasks=xavier", "profile=there.csv"), "tasks= and profile="),
        (("tasks=nowhere.csv",), "nowhere.csv"),
        (("tasks=xavier", "platform=nowhere.yaml"), "nowhere.yaml"),
        (("tasks=xavier", "platform=this"), "CPU2 is not a variant"),
        (("tasks=xavier", "networks=[DNN2]"), "networks=DNN2"),
        (("tasks=xavier", "configurations=[TPU]"), "configurations=TPU"),
        (("tasks=xavier", "configurations=[DLA1]"), "RNN1"),
        (("tasks=xavier", "frame_ms=0"), "frame_ms=0.0"),
        (("tasks=xavier", "margin=-1"), "margin=-1.0"),
        (("tasks=xavier", "bound=p99"), "[min, mean, max]"),
        (("profile=x.csv", "profiling.samples=0"), "profiling.samples=0"),
        (("profile=x.csv", "profiling.variants=[RC4]"), "RC4 is not a variant"),
        (("profile=x.csv", "profiling.variants=[]"), "profiling.variants=[]"),
        (
            ("profile=x.csv", "profiling.variants=[cpu/t1/eager/fp32,cpu/t4096/eager/fp32]"),
            "cpu/t4096/eager/fp32",
        ),
        (
            ("profile=x.csv", "profiling.variants=[cuda/sm4096/graph/fp32]"),
            "cuda/sm4096/graph/fp32",
        ),
        (("profile=x.csv", "profiling.networks=[lenet]"), "networks=lenet"),
    ],
)
def test_invalid_settings_are_refused_in_one_line(words, named, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)

    status, out, err = run(monkeypatch, capsys, *words)

    assert status == 2
    assert "Traceback" not in out + err
    assert err.count("\n") == 1
    assert named in err


NETS = """
import torch

class Noise(torch.nn.Module):
    def forward(self, x):
        return torch.rand_like(x)

def noise():
    return Noise(), torch.ones(1, 9)

def camera():
    return torch.nn.Linear(3, 2), torch.ones(1, 3)

def boom():
    raise RuntimeError("no\\nweights")

def broken():
    return torch.nn.Linear(3, 2), torch.ones(1, 4)
"""


@pytest.fixture
def profiled(tmp_path, monkeypatch, capsys):
    """Profile networks of the user's own, in a few samples."""
    (tmp_path / "my_nets.py").write_text(NETS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_nets", raising=False)

    def profile(names, *variants):
        words = (f"networks=[my_nets:{names}]", f"variants=[{','.join(variants)}]")
        quick = ("samples=3", "settle_s=0", "compared=2")
        settings = [f"profiling.{word}" for word in (*words, *quick)]
        return run(monkeypatch, capsys, f"profile={tmp_path / 'here.csv'}", *settings)

    return profile


@pytest.mark.parametrize(
    ("names", "status"), [("camera,my_nets:boom,my_nets:broken,no_nets:net", 1), ("boom", 2)]
)
def test_a_network_that_cannot_be_profiled_leaves_the_others(names, status, profiled, tmp_path):
    ended, out, err = profiled(names, "cpu/t1/eager/fp32")

    assert ended == status
    assert "networks=my_nets:boom" in out + err
    table = tmp_path / "here.csv"
    assert table.exists() == ("runtime.map" in out) == (status == 1)
    if status == 1:
        assert err == ""
        assert "networks=my_nets:broken" in out
        assert "networks=no_nets:net" in out
        assert "my_nets:camera,cpu/t1/eager/fp32," in table.read_text()


def test_a_profile_without_a_mappable_variant_suggests_no_next_command(profiled):
    status, out, _ = profiled("noise", "cpu/t1/eager/fp32")

    assert status == 0
    assert "0.05" in out
    assert "my_nets:noise" in out
    assert "next:" not in out


def test_a_profile_of_this_machine_can_be_mapped(profiled, tmp_path, monkeypatch, capsys):
    status, out, err = profiled("camera", "cpu/t1/eager/fp32", "cpu/t1/torchscript/fp32")
    assert (status, err) == (0, "")
    assert "cpu/t1/torchscript/fp32" in out
    record = json.loads((tmp_path / "here.json").read_text())
    assert [len(one["ms"]) for one in record["samples"][:2]] == [3, 3]

    status, out, err = run(monkeypatch, capsys, f"tasks={tmp_path / 'here.csv'}", "json=true")
    assert (status, err) == (0, "")
    assert json.loads(out)["timetable"][0]["network"] == "my_nets:camera"
    assert 0 < json.loads(out)["left"][0]["ms"] <= 100
