"""`python -m nas.search network=...`: a whole search on digits, and settings that do not go with it."""

import json

import pytest
import torch
from searching import HERE, one_line, only_run
from torch import nn

import edgenas
from common.types.errors import UserError
from nas.accuracy.training.trained_folder import read_training, trained_folder

pytest.importorskip("torch_pruning")

ON_DIGITS = ("data=digits", *HERE, "latency=probe", "side=16")

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


def test_a_search_ends_with_a_part_of_the_network_beside_the_rule_of_thumb(
    search_here, tmp_path, network
):
    runs = tmp_path / "runs"
    settings = (
        f"network={network}",
        *ON_DIGITS,
        "T=1s",
        "executor=threads",
        "hours=0.004",
        "epochs=2",
        "networks=6",
    )

    done = search_here(runs, *settings)

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
        ([*ON_DIGITS, "T=0.00001ms"], "the smallest sub-network"),
        ([*ON_DIGITS, "space=residual", "weights=none.pt"], "weights=none.pt"),
        ([*ON_DIGITS, "space=nas_bench_201"], "network="),
        ([*ON_DIGITS, "networks=3"], "networks=3"),
        (["device=here", "side=16"], "data="),
        ([*ON_DIGITS[:-1]], "side="),
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
    quick = dict(word.split("=") for word in HERE[1:])
    settings = {**quick, "side": 8, "networks": 6, "executor": "threads", "epochs": 1}

    found = edgenas.search(
        network=module, data="digits", device="here", latency="probe", T="1s", hours=0.003, quiet=True,
        runs=tmp_path, settings=settings,
    )  # fmt: skip

    assert found.best.arch.startswith("side=8 width=")
    assert "original" in {stage.name for stage in found.summary.stages}
    folder = found.export(out=tmp_path / "files", quiet=True)
    assert (folder / "network.onnx").is_file()


def test_what_is_no_module_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"torch\.nn\.Module"):
        edgenas.search(network=3, data="digits", runs=tmp_path, quiet=True)
