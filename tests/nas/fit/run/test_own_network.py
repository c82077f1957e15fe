"""`python -m nas.search network=...`: a whole search on digits, and settings that do not go with it."""

import json
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from searching import HERE, one_line, only_run
from stand_in import context, made
from torch import nn

import edgenas
from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from latency.base import Latencies, UnmeasuredError
from nas.accuracy.slow import Fidelity
from nas.fit.data.open import open_images
from nas.fit.own_images import InheritedConfig
from nas.fit.ranking.candidates import Candidates
from nas.fit.ranking.stages import Result, StageJob, Stages
from nas.fit.run.context import Ranking
from nas.fit.run.entries import better
from nas.fit.run.own_network import OwnNetwork
from nas.fit.run.report import baseline_stage
from nas.fit.run.scoring import fit_classifier
from nas.fit.starts.elastic.loading import elastic_space
from nas.fit.starts.supernet.stored import save_supernet
from nas.fit.training.trained_folder import read_training, trained_folder

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


@pytest.mark.parametrize(
    ("accuracies", "fidelity", "accuracy"),
    [((0.5, np.nan), "3 epochs", 0.5), ((np.nan, np.nan), "", 0.1), ((0.6, 0.5), "9 epochs", 0.5)],
)
def test_a_failed_training_of_the_baseline_does_not_stand_for_it(accuracies, fidelity, accuracy):
    results = {StageJob(0, at): Result(each, 1.0) for at, each in enumerate(accuracies)}
    fidelities = (Fidelity("3 epochs", 3), Fidelity("9 epochs", 9))
    drawn = made(Candidates, architectures=np.zeros((1, 1), int))
    ranking = made(
        Ranking, candidates=drawn, jobs=made(Stages, fidelities=fidelities), results=results
    )
    parts = context(problem={"space": SimpleNamespace(text=str)})

    stage = baseline_stage(parts, ranking, 0, list(results), 0.1)

    assert (stage.fidelity, stage.accuracy, stage.seconds) == (fidelity, accuracy, 2.0)


def test_a_search_ends_with_a_part_of_the_network_beside_the_baseline(fit_here, tmp_path, network):
    runs = tmp_path / "runs"
    settings = (
        f"network={network}",
        *ON_DIGITS,
        "T=1s",
        "executor=threads",
        "hours=0.002",
        "epochs=2",
        "networks=6",
    )

    done = fit_here(runs, *settings)

    assert done.returncode == 0, done.stderr
    run = only_run(runs)
    summary = json.loads((run / "summary.json").read_text())
    stages = {stage["name"] for stage in summary["stages"]}
    assert {"draw", "supernet", "rule", "full"} <= stages
    training = read_training(trained_folder(run, summary["best"]["arch"]))
    assert "Net" in training.recipe["start"]
    assert summary["settings"]["space"] == f"elastic:{network},,16"
    assert f"run={run} network={network}" in done.stdout
    texts = pq.read_table(run / "samples.parquet").column("arch").to_pylist()
    whole = [f"side={side} width=16-32" for side in (8, 12, 16)]  # the baseline of each side
    assert set(whole) <= set(texts)


def test_a_gpu_without_memory_for_one_image_ends_the_search_in_one_line(
    fit_here, tmp_path, network
):
    path = tmp_path / "net.py"
    hungry = """
    steps = 0

    def forward(self, images):
        type(self).steps += self.training
        if self.training and type(self).steps > 2:  # the rehearsal trains two networks for a step
            raise torch.OutOfMemoryError("CUDA out of memory. 8 MiB is free. Process 7 has more")
        return super().forward(images)
"""
    path.write_text(SOURCE.replace("    pass\n", hungry))
    settings = "T=1s", "executor=threads", "hours=0.002", "epochs=2", "networks=6"

    line = one_line(fit_here(tmp_path / "runs", f"network={network}", *ON_DIGITS, *settings))

    assert "(CUDA out of memory. 8 MiB is free)" in line
    assert "workers=" in line
    assert f"go on with resume={only_run(tmp_path / 'runs')}" in line


@pytest.mark.parametrize(
    ("settings", "hint"),
    [
        ([*ON_DIGITS, "T=0.00001ms"], "raise T"),
        ([*ON_DIGITS, "T=1s", "P=10", "RAM=1B"], "raise T, P and RAM"),
        ([*ON_DIGITS, "space=residual", "weights=none.pt"], "none.pt"),
        ([*ON_DIGITS, "space=nas_bench_201"], "network="),
        ([*ON_DIGITS, "networks=3"], "networks=3"),
        ([*ON_DIGITS, 'weights="a,b.pt"'], "a,b.pt: "),
        ([*ON_DIGITS, "multiple=0"], "multiple=0"),
        ([*ON_DIGITS, "multiple=64"], "no part"),
        (["device=here", "side=16"], "data="),
        ([*ON_DIGITS[:-1]], "side="),
    ],
)
def test_settings_that_do_not_go_with_a_network_are_one_line(
    fit_here, tmp_path, network, settings, hint
):
    settings = [f"network={network}", *settings]

    assert hint in one_line(fit_here(tmp_path, *settings))


def small_space(side):
    layers = nn.Conv2d(3, 16, 3, 4, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    return elastic_space(nn.Sequential(*layers, nn.Linear(16, 10)), side=side)


def adapted_on_digits():
    torch.manual_seed(0)
    images = open_images("digits", side=8)
    space = small_space(side=8)
    shared = space.supernet(images.task)
    fit_classifier(shared, images)
    return images, space, shared


def own_network(space, images, folder):
    """A fit of the parts of a network on images."""
    problem = {"space": space, "task": images.task, "oracle": None}
    return OwnNetwork(context(problem=problem, images=images, folder=folder), space)


def ranking_of(rows, **jobs):
    columns = (
        np.ones(len(rows)),
        np.zeros(len(rows), np.int8),
        np.ones(len(rows)),
        np.zeros(len(rows)),
    )
    counts = len(rows), len(rows), len(rows), 0.0, 0.0
    candidates = Candidates(rows, *columns, *counts)
    return Ranking(candidates, Stages(candidates, (), {"short": 0.0}, **jobs), {})


@pytest.mark.parametrize("winner", [0, 1])
def test_the_trained_network_wins_where_the_best_part_begins_worse(tmp_path, winner):
    images, space, shared = adapted_on_digits()
    fitted, spoilt = (space.whole[-1], shared.network[-1])[:: 2 * winner - 1]
    fitted.load_state_dict(shared.network[-1].state_dict())
    nn.init.zeros_(spoilt.weight)
    save_supernet(tmp_path / "supernet.safetensors", shared)
    rows = np.stack([space.smallest(), space.control()])
    kind = own_network(space, images, tmp_path)

    decided = kind.entries(ranking_of(rows), None, 0.0)[0].plan()

    assert decided.arch == space.text(rows[winner])
    network = kind.start(decided).network(rows[winner], images.task)
    is_trained_one = torch.equal(network[0].weight, space.whole[0].weight)
    assert is_trained_one == bool(winner)


def test_of_each_side_the_part_that_inherits_most_is_trained_early(tmp_path):
    space = small_space(side=16)
    texts = [f"side={side} width={width}" for side in (8, 16) for width in (8, 16)]
    accuracies, rows = np.array([0.3, 0.4, 0.8, 0.7]), np.stack([*map(space.parse, texts)])
    columns = np.ones(4), np.full(4, Kind.regression, np.int8), np.ones(4), accuracies
    problem = {"space": space, "task": space.tasks[space.default_task]}
    rule = InheritedConfig("fine_tuning")
    parts = context(problem=problem, images=open_images("digits"), folder=tmp_path, rule=rule)

    jobs = OwnNetwork(parts, space).jobs(
        Candidates(rows, *columns, 4, 4, 4, 0.0, 0.0), is_decided=False
    )

    assert [texts[at] for at in jobs.early] == ["side=16 width=8", "side=8 width=16"]


def test_baselines_are_alternatives_with_the_accuracy_that_they_had_when_they_were_ranked(tmp_path):
    images, space, shared = adapted_on_digits()
    save_supernet(tmp_path / "supernet.safetensors", shared)
    rows = np.stack([space.smallest(), space.control()])

    (entry,) = own_network(space, images, tmp_path).alternatives(
        ranking_of(rows, always=(1,)), None
    )

    assert entry.plan().arch == space.text(rows[1])
    assert 0 < entry.accuracy < 1
    assert better([entry], 0.0) == [entry]
    assert better([entry], 1.0) == []


class Board:
    """Takes longer by the choices, and cannot run the largest networks."""

    device = source = description = "board"
    instant = False

    def known(self, rows):
        return np.ones(rows.shape[:-1], bool)

    def answer(self, rows):
        if (rows.sum(-1) > 3).any():
            raise UnmeasuredError
        return Latencies(1.0 + rows.sum(-1), np.full(rows.shape[:-1], Kind.measured, np.int8))


def test_a_network_that_does_not_run_is_cut_to_the_only_part_within_the_limit(tmp_path):
    torch.manual_seed(0)
    narrow, classifier = nn.Conv2d(32, 32, 1), nn.Conv2d(32, 10, 1)
    pooled = nn.AdaptiveAvgPool2d(1), nn.Flatten()
    module = nn.Sequential(nn.Conv2d(3, 32, 3, 4, 1), nn.ReLU(), narrow, classifier, *pooled)
    settings = {"side": 8, "networks": 6, "executor": "threads", "epochs": 1}

    found = edgenas.fit(
        network=module, data="digits", device="board", latency=Board(), T="1.5ms", hours=0.001,
        quiet=True, out=tmp_path, settings=settings,
    )  # fmt: skip

    assert found.best.arch == "side=8 width=8-8"
    assert found.best.latency_ms == 1.0


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

    found = edgenas.fit(
        network=module, data="digits", device="here", latency="probe", T="1s", hours=0.0015, quiet=True,
        out=tmp_path, settings=settings,
    )  # fmt: skip

    assert found.best.arch.startswith("side=8 width=")
    assert "original" in {stage.name for stage in found.summary.stages}
    folder = found.export(out=tmp_path / "files", quiet=True)
    assert (folder / "network.onnx").is_file()


def test_what_is_no_module_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"torch\.nn\.Module"):
        edgenas.fit(network=3, data="digits", out=tmp_path, quiet=True)
