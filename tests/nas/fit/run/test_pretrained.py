"""`python -m nas.search weights=...`: a whole search on digits, and settings that do not go with it."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from rich.console import Console
from safetensors.torch import save_file
from searching import HERE, one_line, only_run
from stand_in import Board, context, made

import edgenas
import latency.probe.config
import nas.fit.run.full_training
import nas.fit.run.pretrained
import nas.train.job
from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from latency.probe.connection import LostConnectionError
from nas.fit.data.open import open_images
from nas.fit.ranking.candidates import Candidates
from nas.fit.ranking.fine_tunings import FineTunings
from nas.fit.run.context import Ranking
from nas.fit.run.full_training import FullTrainings
from nas.fit.run.pretrained import Pretrained
from nas.fit.run.record import Record
from nas.fit.run.winner import Winner, spent_since
from nas.fit.starts.pretrained.libraries import timm
from nas.fit.starts.pretrained.pool import RANDOM_INITIALISATION
from nas.fit.starts.pretrained.space import PretrainedSpace, pretrained_space
from nas.fit.training.checkpoint import Progress, save_checkpoint
from nas.fit.training.train_on import TrainOn
from nas.fit.training.trained_folder import Judged, Training, read_training, trained_folder
from nas.train.command import train_into_folder
from nas.train.config import TrainConfig
from nas.train.job import CHECKPOINT
from nas.trials.limits import NO_FURTHER_LIMITS, LimitSet

UNTIMED = ("hours=10", "executor=threads")
"""Of a search that ends as soon as every network was tuned."""


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A folder of two networks with the weights of a seed, which were not trained; read only."""
    folder = tmp_path_factory.mktemp("weights")
    about = {"side": "48", "mean": "[0.5, 0.5, 0.5]", "sd": "[0.5, 0.5, 0.5]", "licence": "mit"}
    for name in ("test_efficientnet", "test_resnet"):
        torch.manual_seed(0)
        state = timm().create_model(name, num_classes=3).state_dict()
        save_file(state, folder / f"{name}.safetensors", about)
    return folder


@pytest.fixture(scope="module", autouse=True)
def _needs_timm():
    """Imported only where its tests run: it takes seconds."""
    try:
        timm()
    except UserError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module", autouse=True)
def _written_once():
    """The untrained network that a board times is the same file in every search."""
    written, exported = {}, latency.probe.config.exported

    def once(space, *arguments, **options):
        key = (space.name, *arguments, *options.items())
        if key not in written:
            written[key] = exported(space, *arguments, **options)
        return written[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(latency.probe.config, "exported", once)
        yield


@pytest.fixture(autouse=True)
def few_trainings(monkeypatch):
    """Networks at the smallest side, each tuned for one epoch: a search ends before its time does."""
    every_network = PretrainedSpace.every_network

    def at_the_smallest_side(space, *, is_small=False):
        rows = every_network(space, is_small=is_small)
        return rows[rows[:, 1] == rows[:, 1].min(initial=9)]

    monkeypatch.setattr(PretrainedSpace, "every_network", at_the_smallest_side)
    monkeypatch.setattr(nas.fit.run.pretrained, "LENGTHS", (1,))


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Settings of a folder of images that differ in their brightness; read only."""
    noise, folder = np.random.default_rng(0), tmp_path_factory.mktemp("images")
    for name, level in (("dark", 40), ("grey", 120), ("light", 200)):
        (folder / name).mkdir(parents=True)
        for number in range(12):
            pixels = noise.normal(level, 20, (32, 32, 3)).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")
    return f"data={folder}"


def test_a_search_ends_with_a_fine_tuned_network_and_names_its_origin(
    tmp_path, weights, images, fit_here, monkeypatch
):
    monkeypatch.setattr(Pretrained, "plan_beside", lambda *_: None)
    runs = tmp_path / "runs"

    settings = ("T=1s", *UNTIMED, "epochs=1", "precision=int8")
    done = fit_here(runs, images, f"weights={weights}", *HERE, *settings)

    assert done.returncode == 0, done.stderr
    summary = json.loads((only_run(runs) / "summary.json").read_text())
    assert summary["settings"]["reward"] is None
    assert f"{summary['best']['latency_ms']:.3f} ms" in done.stdout.partition("timed again")[2]
    stages = {stage["name"]: stage for stage in summary["stages"]}
    assert {"draw", "frozen", "rule", "full"} <= stages.keys()
    training = read_training(trained_folder(only_run(runs), summary["best"]["arch"]))
    assert "licence mit" in training.recipe["start"]
    assert training.mean == (0.5, 0.5, 0.5)
    assert len(training.confusion) == 3
    assert summary["start"] == training.recipe["start"]
    assert summary["by_class"]
    int8 = summary["int8"]
    assert int8["test_fp32"]["fraction"] == pytest.approx(
        summary["best"]["accuracy_test"], abs=0.01
    )
    assert int8["test"]["images"] == training.test.images
    assert int8["valid"]["fraction"] > 0.5
    assert min(int8["fp32_ms"], int8["int8_ms"]) > 0
    best = summary["best"]
    assert best["latency_again_ms"] == best["latency_ms"] != best["latency_first_ms"]

    trained_longer_from_the_same_weights(only_run(runs), training)


@pytest.fixture
def fitted(tmp_path, weights, images):
    """Folder and summary of a fit for two epochs on a stand-in board, when it is called."""
    settings = {"pool": "test_resnet", "epochs": 2, "executor": "threads"}

    def fit():
        data = images.partition("=")[2]
        edgenas.fit(
            data=data, T="1s", hours=10, device="board", latency=Board(), weights=weights,
            out=tmp_path / "runs", settings=settings, quiet=True,
        )  # fmt: skip
        folder = only_run(tmp_path / "runs")
        return folder, json.loads((folder / "summary.json").read_text())

    return fit


@pytest.fixture
def trained(monkeypatch):
    """Decisions that were trained; the winner, the first with pretrained weights, is made worse than it is."""
    full, trained = nas.fit.run.full_training, []
    train_winner = full.train_winner

    def winner_is_worse(*arguments, **options):
        trained.append(arguments[3])
        training = train_winner(*arguments, **options)
        is_winner = len(trained) == 1 + ("scratch" in trained[0].recipe)
        worse = replace(training.valid, fraction=0.0)
        return replace(training, valid=worse) if is_winner else training

    monkeypatch.setattr(full, "train_winner", winner_is_worse)
    monkeypatch.setattr(nas.fit.run.pretrained, "FROM_SCRATCH_EPOCHS", 1)
    monkeypatch.setattr(nas.fit.run.pretrained, "epochs_within", lambda *_: 2.0)
    monkeypatch.setattr(nas.fit.run.pretrained, "pixel_accuracy", lambda _images: 0.0)
    return trained


def failing(*failures):
    """A training in place of `train_winner` that raises these errors, and then trains."""
    errors, train_winner = iter(failures), nas.fit.run.full_training.train_winner

    def train(*arguments, **options):
        if (error := next(errors, None)) is not None:
            raise error
        return train_winner(*arguments, **options)

    return train


def test_the_baseline_is_returned_as_it_was_ranked_where_the_winner_is_worse(
    fitted, monkeypatch, trained
):
    monkeypatch.setattr(Pretrained, "plan_beside", lambda *_: None)

    folder, summary = fitted()

    rule = next(stage for stage in summary["stages"] if stage["name"] == "rule")
    samples = pq.read_table(folder / "samples.parquet").to_pylist()
    tunings = [s for s in samples if s["fidelity"] in {1, 2} and s["arch"] == rule["favourite"]]
    assert summary["best"]["arch"] == rule["favourite"]
    assert summary["settings"]["epochs"] == 1
    assert summary["best"]["accuracy_searched"] == max(s["accuracy"] for s in tunings)
    assert trained[-1].arch == rule["favourite"]
    names = [stage["name"] for stage in summary["stages"]]
    assert names[-2:] == ["replaced", "full"]
    assert [sample["fidelity"] for sample in samples[-2:]] == [3, 4]


@pytest.mark.parametrize("fit", [0.0, 1.0])
def test_what_no_training_can_reach_in_the_time_left_is_returned_as_it_was_ranked(
    fitted, monkeypatch, fit
):
    monkeypatch.setattr(Pretrained, "plan_beside", lambda *_: None)
    no_claim = lambda *_: np.zeros(100)  # noqa: E731 - as there is no time
    monkeypatch.setattr(nas.fit.run.pretrained, "expected_accuracies", no_claim)
    monkeypatch.setattr(nas.fit.run.pretrained, "epochs_within", lambda *_: fit)
    monkeypatch.setattr(nas.fit.run.winner, "MORE", 1)

    folder, summary = fitted()

    training = read_training(trained_folder(folder, summary["best"]["arch"]))
    samples = pq.read_table(folder / "samples.parquet").to_pylist()
    ranked = [s for s in samples if s["fidelity"] in {1, 2} and s["arch"] == training.arch]
    assert training.epochs == 1 + fit
    assert training.accuracies[0] is None  # an epoch of its ranking, not of its own training
    assert min(s["accuracy"] for s in ranked) <= training.valid.fraction
    assert "replaced" not in {stage["name"] for stage in summary["stages"]}
    if not fit:
        assert training.seconds == 0.0
        assert training.valid.fraction in {s["accuracy"] for s in ranked}


@pytest.mark.usefixtures("trained")
def test_trainings_that_fail_do_not_end_the_fit(fitted, monkeypatch):
    fails = failing(UserError("new"), UserError("winner"))
    monkeypatch.setattr(nas.fit.run.full_training, "train_winner", fails)

    _, summary = fitted()

    stages = {stage["name"]: stage for stage in summary["stages"]}
    assert "scratch" not in stages
    assert stages["full"]["favourite"] == stages["rule"]["favourite"]


def test_a_board_that_is_lost_after_the_winner_was_trained_leaves_the_winner(
    fitted, monkeypatch, trained
):
    measured = Board.measure_again

    def lost_later(board, rows, **options):
        if len(trained) > 1:
            raise LostConnectionError("the board was lost")
        return measured(board, rows, **options)

    monkeypatch.setattr(Board, "measure_again", lost_later)

    _, summary = fitted()

    assert summary["stages"][-1]["favourite"] == trained[1].arch


@pytest.mark.parametrize("claimed", [0.0, 1.0])
def test_a_network_from_scratch_wins_where_pretrained_ones_are_worse(
    fitted, monkeypatch, trained, claimed
):
    claims = lambda *_: np.full(100, claimed)  # noqa: E731 - in place of a function
    monkeypatch.setattr(nas.fit.run.pretrained, "expected_accuracies", claims)
    monkeypatch.setattr(Pretrained, "alternatives", lambda *_: [])
    monkeypatch.setattr(FineTunings, "reached", lambda *_: None)

    _, summary = fitted()

    (scratch,) = (stage for stage in summary["stages"] if stage["name"] == "scratch")
    assert summary["best"]["arch"] == scratch["favourite"]
    assert summary["start"] == RANDOM_INITIALISATION
    assert (trained[1].arch == scratch["favourite"]) is (claimed == 0.0)


def test_a_fit_goes_on_with_the_training_in_which_it_was_interrupted(
    fitted, trained, monkeypatch, tmp_path
):
    def resumed(folder):
        return edgenas.fit(resume=folder, latency=Board(), quiet=True)

    def stops(*_):
        raise KeyboardInterrupt

    progress = nas.train.job.TrainingProgress
    with monkeypatch.context() as patched:
        patched.setattr(progress, "__call__", stops)
        with pytest.raises(KeyboardInterrupt):
            fitted()
    folder = only_run(tmp_path / "runs")
    monkeypatch.setattr(FineTunings, "reached", lambda *_: None)  # else nothing is left to train
    monkeypatch.setattr(nas.fit.run.pretrained, "epochs_within", lambda *_: 3.0)
    with monkeypatch.context() as patched:
        allowed = iter([lambda *_: None] * trained[0].epochs)
        patched.setattr(progress, "__call__", lambda *_: next(allowed, stops)())
        with pytest.raises(KeyboardInterrupt):
            resumed(folder)

    resumed(folder)

    scratch, again, winner, winner_again, *_ = trained
    assert (again, winner_again) == (scratch, winner)
    assert read_training(trained_folder(folder, scratch.arch)).epochs == scratch.epochs


def test_a_network_that_was_trained_for_a_larger_limit_serves_smaller_ones_that_it_meets():
    space = SimpleNamespace(parse=lambda _: np.array([1]))
    problem = {"limit_ms": 5.0, "margin": 0.0, "space": space}
    parts = context(problem=problem, precision=None, export=False)
    smaller = [LimitSet(ms, NO_FURTHER_LIMITS, {"T": f"{ms}ms"}) for ms in (0.3, 0.1)]
    parts.begun.experiment.smaller = smaller
    candidates = made(
        Candidates,
        architectures=np.array([[1]]),
        latency_ms=np.array([0.4]),
        latency_kind=np.array([1], np.int8),
    )
    kind = made(Pretrained)
    object.__setattr__(kind, "entries", lambda *_: [])
    winner = Winner("(1)", "fine_tuning", 9, 0, 0.2, int(Kind.measured))
    training = made(Training, valid=Judged(0.9, 10))

    handed = FullTrainings(
        parts, kind, made(Ranking, candidates=candidates), Record()
    ).train_within(None, [(winner, training)])

    assert handed == [(smaller[0], winner, training)]


def test_no_network_from_scratch_is_tried_in_the_time_of_the_winner(monkeypatch):
    asked_s = []
    monkeypatch.setattr(Pretrained, "plan_beside", lambda *asked: asked_s.append(asked[-1]))
    monkeypatch.setattr(FineTunings, "ends_s", lambda *_: 60.0)
    parts, jobs = context(hours=100 / 3600, elapsed_s=70.0), made(FineTunings)
    ranking = made(Ranking, candidates=made(Candidates), jobs=jobs, results={})

    FullTrainings(parts, made(Pretrained), ranking, Record()).train_beside()

    assert asked_s == [
        pytest.approx(-4.0, abs=0.5)
    ]  # in 6 s after the ranking, of which 10 are over


def test_the_time_before_an_interruption_counts(tmp_path):
    winner = Winner("(1)", "fine_tuning", 9, 0, 1.0, 0, after_s=100.0)
    folder = trained_folder(tmp_path, winner.arch)
    folder.mkdir(parents=True)

    assert spent_since(tmp_path, winner) == 100.0
    save_checkpoint(folder / CHECKPOINT, {}, Progress((0.1,), (0.5,), 7.0), {})
    assert spent_since(tmp_path, winner) == 107.0


def trained_longer_from_the_same_weights(run, training):
    config = TrainConfig(
        run=str(run),
        space="nas_bench_201",
        epochs=2,
        images=TrainOn.train,
        accelerator="cpu",
    )
    again = read_training(train_into_folder(config, Console(quiet=True)))

    assert again.arch == training.arch
    later, before = (
        record.recipe
        | {"epochs": "", "seed": "", "start": record.recipe["start"].partition("; tuned")[0]}
        for record in (again, training)
    )
    assert later == before
    assert again.valid.fraction >= 0.5


@pytest.mark.parametrize(
    ("settings", "hint"),
    [
        (["space=pretrained"], "data="),
        (["data=digits", "space=pretrained", "side=64"], "side=64"),
        (["data=digits", "weights=none"], "weights="),
        (["data=digits", "pool=none"], "pool=none"),
        (["data=digits", "space=pretrained"], "weights=weights"),
        (["weights=none"], "data="),
        (["data=digits", "space=nas_bench_201", "augment=blur"], "augment=blur"),
        (["data=digits", "space=nas_bench_201", "augment=blur", *HERE], "augment=blur"),
        (["augment=flip"], "data="),
        (["data=digits", "task=regression", "precision=int8"], "precision=int8"),
        (["data=digits", "task=regression", "space=pretrained"], "space=pretrained"),
        (["data=digits", "reward=mnasnet"], "reward="),
        (["data=digits", "controller=guided"], "controller="),
        (["data=digits", "accuracy=fine_tuning"], "start=pretrained"),
    ],
)
def test_settings_that_do_not_go_with_weights_are_one_line(fit_here, tmp_path, settings, hint):
    assert hint in one_line(fit_here(tmp_path, "device=jetson-nano/fp32/b1", *settings))


@pytest.mark.parametrize("source", ["raise SystemExit", "def build(_): raise SystemExit"])
def test_a_file_of_networks_that_leaves_is_one_line(fit_here, tmp_path, source):
    (tmp_path / "nets.py").write_text(source)
    settings = (f"pool={tmp_path}/nets.py:build", "data=digits", "device=jetson-nano/fp32/b1")

    assert "nets.py:build" in one_line(fit_here(tmp_path / "runs", *settings))


@pytest.mark.parametrize(
    ("limit", "named"), [("T=0.01ms", "the fastest takes"), ("RAM=1kB", "their smallest RAM is")]
)
def test_a_limit_that_no_network_meets_names_the_smallest(
    fit_here, tmp_path, weights, limit, named
):
    settings = ("data=digits", f"weights={weights}", *HERE, limit)

    assert named in one_line(fit_here(tmp_path, *settings))


@pytest.mark.parametrize(
    ("board", "named"), [("jetson-nano/fp32/b1", "space=nas_bench_201"), ("none", "device=here")]
)
def test_a_board_that_cannot_be_asked_names_what_can(fit_here, tmp_path, weights, board, named):
    settings = ("data=digits", f"weights={weights}", f"device={board}")

    assert named in one_line(fit_here(tmp_path, *settings))


@pytest.mark.parametrize("epochs", [29, 30, 31])
def test_epochs_are_kept_as_set(weights, epochs, tmp_path):
    parts = context(epochs=epochs, data="digits", folder=tmp_path)

    kind = Pretrained(parts, pretrained_space(str(weights)), open_images("digits"))

    assert kind.most_epochs("fine_tuning") == epochs


def test_tuned_networks_teach_the_winner_photos_without_labels(
    tmp_path, weights, images, fit_here, monkeypatch
):
    monkeypatch.setattr(Pretrained, "plan_beside", lambda *_: None)
    labelled, further = Path(images.partition("=")[2]), tmp_path / "further" / "2026"
    further.mkdir(parents=True)
    noise = np.random.default_rng(1)
    for number, level in enumerate([40, 120, 200] * 8):
        pixels = noise.normal(level, 20, (32, 32, 3)).clip(0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(further / f"{number}.png")
    for number in range(12):
        shutil.copy(labelled / "dark" / f"{number}.png", further / f"dark{number}.png")
    (further / "broken.png").write_bytes(b"none")
    settings = ("T=1s", *UNTIMED, "epochs=2", f"unlabelled={tmp_path / 'further'}")

    done = fit_here(tmp_path / "runs", images, f"weights={weights}", *HERE, *settings)

    assert done.returncode == 0, done.stderr
    left_out = re.search(r"unlabelled=: left out: (\d+) of 37 images", done.stdout)
    held_out = re.search(r"(\d+) equal to a validation or test image", done.stdout)
    assert int(left_out[1]) == 1 + int(held_out[1])
    assert "broken.png" in done.stdout
    folder = only_run(tmp_path / "runs")
    summary = json.loads((folder / "summary.json").read_text())
    training = read_training(trained_folder(folder, summary["best"]["arch"]))
    counted = re.search(r"answered (\d+) of 37 photos", done.stdout)
    assert int(counted[1]) == 37 - int(left_out[1])
    if summary["best"]["arch"] in done.stdout.partition("timed again")[2]:
        assert "taught by" in training.recipe["start"]
