"""`python -m nas.search network=...`: a whole search on digits, and settings that do not go with it."""

import json

import pytest
import torch
from searching import one_line, only_run, search
from torch import nn

import edgenas
from common.types.errors import UserError
from nas.accuracy.training.trained_folder import read_training, trained_folder

pytest.importorskip("torch_pruning")

HERE = ("data=digits", "device=here", "latency.on_disturbance=flag", "latency=probe", "side=16")

SOURCE = """
import torch
from torch import nn

class Net(nn.Sequential):
    pass

def build():
    torch.manual_seed(0)
    return Net(
        nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 3),
    )
"""


@pytest.fixture
def network(tmp_path):
    """A network of three classes, with the weights of a seed."""
    path = tmp_path / "net.py"
    path.write_text(SOURCE)
    return f"{path}:build"


def test_a_search_ends_with_a_part_of_the_network_beside_the_rule_of_thumb(tmp_path, network):
    runs = tmp_path / "runs"
    settings = (
        f"network={network}",
        *HERE,
        "T=1000ms",
        "executor=threads",
        "hours=0.016",
        "epochs=2",
        "networks=6",
    )

    done = search(runs, *settings)

    assert done.returncode == 0, done.stderr
    run = only_run(runs)
    summary = json.loads((run / "summary.json").read_text())
    stages = {stage["name"] for stage in summary["stages"]}
    assert {"draw", "supernet", "rule", "full"} <= stages
    training = read_training(trained_folder(run, summary["best"]["arch"]))
    assert "Net" in training.recipe["start"]
    assert summary["settings"]["space"] == f"elastic:{network},,16"
    assert f"run={run} space=elastic:{network},,16" in done.stdout


@pytest.mark.parametrize(
    ("settings", "hint"),
    [
        ([*HERE, "T=0.00001ms"], "the smallest sub-network"),
        ([*HERE, "space=residual", "weights=none.pt"], "weights=none.pt"),
        ([*HERE, "space=nas_bench_201"], "network="),
        ([*HERE, "networks=3"], "networks=3"),
        (["device=here", "side=16"], "data="),
        ([*HERE[:-1]], "side="),
    ],
)
def test_settings_that_do_not_go_with_a_network_are_one_line(
    search_here, tmp_path, network, settings, hint
):
    settings = [f"network={network}", *settings]

    assert hint in one_line(search_here(tmp_path, *settings))


def test_a_module_of_the_process_is_searched_and_exported(tmp_path):
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(3, 16, 3, 4, 1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )
    settings = {"side": 8, "networks": 6, "executor": "threads", "latency.on_disturbance": "flag"}

    found = edgenas.search(
        network=module, data="digits", device="here", latency="probe", T="1000ms", hours=0.006, quiet=True,
        runs=tmp_path, settings={**settings, "epochs": 1},
    )  # fmt: skip

    assert found.best.arch.startswith("side=8 width=")
    assert "original" in {stage.name for stage in found.summary.stages}
    folder = found.export(out=tmp_path / "files", quiet=True)
    assert (folder / "network.onnx").is_file()


def test_what_is_no_module_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"torch\.nn\.Module"):
        edgenas.search(network=3, data="digits", runs=tmp_path, quiet=True)
