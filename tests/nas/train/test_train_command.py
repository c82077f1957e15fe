"""`nas.train`, in this process and as a command."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import psutil
import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file
from searched import searched

from edgenas_core.files.typed_json import write_json
from edgenas_core.types.errors import UserError
from nas.fit.data.open import open_images
from nas.fit.training.evaluation import accuracy_of
from nas.fit.training.network import untrained
from nas.fit.training.recipe import recipe_named
from nas.fit.training.train_on import TrainOn
from nas.fit.training.trained_folder import WEIGHTS, read_training, trained_folder
from nas.fit.training.trainer import TrainingOptions, train
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.train.command import main, train_into_folder
from nas.train.config import TrainConfig
from nas.train.job import CHECKPOINT, Start, TrainingJob
from nas.train.subject import TrainSubject


@pytest.fixture
def config(tmp_path):
    """The cheapest cell on the smallest digits."""
    return TrainConfig(
        run=None,
        space="nas_bench_201",
        arch="1835",
        data="digits",
        side=4,
        recipe="nas_bench_201",
        epochs=1,
        hours=None,
        images=TrainOn.train_and_valid,
        seed=0,
        accelerator="cpu",
        out=str(tmp_path / "runs"),
    )


@pytest.fixture
def console(tmp_path):
    with (tmp_path / "printed.txt").open("w+") as file:
        yield Console(file=file, width=200)


def printed(console):
    console.file.seek(0)
    return console.file.read()


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_the_folder_holds_the_weights_and_how_they_came_about(config, console):
    folder = train_into_folder(config, console)

    training = read_training(folder)
    images = open_images("digits", side=4, seed=0)
    network = SPACE.network(SPACE.parse(training.arch), images.task)
    network.load_state_dict(load_file(folder / WEIGHTS))
    assert training.arch == SPACE.text(SPACE.architectures(np.array(1835)))
    assert training.test.fraction == accuracy_of(network, images.test, images, device="cpu")
    assert training.test.images == len(images.test)
    assert training.valid is None
    assert (training.state, training.epochs) == ("finished", 1)
    assert training.trained_on == "train_and_valid"
    assert training.data_digest == images.digest
    assert f"{training.test.fraction:.2%} on {len(images.test)}" in printed(console)
    assert list((folder / "tensorboard").iterdir())


def test_with_images_train_the_validation_images_are_judged_on_too(config, console):
    folder = train_into_folder(replace(config, images=TrainOn.train), console)

    training = read_training(folder)
    assert 0 < training.valid.fraction < 1
    assert 0 < training.test.fraction < 1


@pytest.mark.parametrize(("rate", "ranked"), [(1.0, 0.0), (500.0, 0.0), (1.0, 1.0)])
def test_the_record_says_if_tuning_did_not_help(config, console, tmp_path, rate, ranked):
    images, row = open_images("digits", side=4, seed=0), SPACE.architectures(np.array(1835))
    torch.manual_seed(0)
    network = untrained(SPACE, row, images.task)
    helps = rate == 1
    if not helps:
        recipe = replace(recipe_named("nas_bench_201"), epochs=1)
        train(network, images, recipe, TrainingOptions())
    start = Start(lambda *_: network, words="begun", keeps_best=True, rate=rate, ranked=ranked)
    subject = TrainSubject(SPACE, row, images, "digits", tmp_path)
    config = replace(config, images=TrainOn.train, epochs=4)

    training = TrainingJob(config, subject, torch.device("cpu"), console, start=start).run()

    assert (training.recipe["start"] == "begun") is (helps and not ranked)
    assert ("100.00%" in training.recipe["start"]) is bool(ranked)


def test_the_same_command_again_finds_the_finished_training(config, console):
    folder = train_into_folder(config, console)
    before = (folder / WEIGHTS).read_bytes()

    assert train_into_folder(config, console) == folder

    assert (folder / WEIGHTS).read_bytes() == before
    assert "after epoch 1" in printed(console)


def test_a_training_with_other_settings_is_not_mixed_up_with_it(config, console):
    folder = train_into_folder(config, console)

    with pytest.raises(UserError, match=r"epochs=1\b.* 2;"):
        train_into_folder(replace(config, epochs=2), console)

    assert read_training(folder).epochs == 1


def test_hours_decide_the_number_of_epochs(config, console, monkeypatch):
    monkeypatch.setattr("nas.train.job.seconds_an_epoch", lambda *_, **__: 0.5)
    folder = train_into_folder(replace(config, epochs=999, hours=0.0005), console)

    assert 1 <= read_training(folder).epochs < 999
    assert "hours=0.0005: " in printed(console)
    with pytest.raises(UserError, match="hours=1e-06"):
        train_into_folder(replace(config, seed=1, arch="6111", hours=1e-6), console)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"arch": None}, "run=.*arch=.*data="),
        ({"data": None}, "run=.*arch=.*data="),
        ({"arch": "15625"}, "arch=15625 .* 15,624"),
        ({"arch": "|x|"}, "is not of the form"),
        ({"recipe": "best"}, "recipe=best .*nas_bench_201"),
        ({"epochs": 0}, "epochs=0"),
        ({"hours": -1.0}, "hours=-1"),
        ({"seed": -1}, "seed=-1"),
        ({"accelerator": "gpu"}, "accelerator=gpu"),
        ({"run": "nowhere"}, "run=nowhere"),
    ],
)
def test_settings_that_cannot_work_are_refused(config, console, settings, message):
    with pytest.raises(UserError, match=message):
        train_into_folder(replace(config, **settings), console)


def test_a_run_on_other_images_than_these_is_not_gone_on_with(config, console, tmp_path):
    write_json(tmp_path / "summary.json", searched(range(3)).summary)
    begun = {"values": {"data": "digits", "side": 4}, "sources": {"data": "of other images"}}
    (tmp_path / "config.yaml").write_text(json.dumps(begun))

    with pytest.raises(UserError, match=r"run=.*data=digits"):
        train_into_folder(replace(config, run=str(tmp_path), data=None, side=None), console)


def command(tmp_path, *more):
    return [
        sys.executable, "-m", "nas.train", "arch=1835", "data=digits", "side=4", "accelerator=cpu",
        f"out={tmp_path / 'runs'}", *more,
    ]  # fmt: skip


def test_errors_of_the_user_are_one_line(tmp_path, in_process):
    status, _, error = in_process(main, command(tmp_path, "recipe=best")[2:])

    assert status == 2
    (line,) = error.splitlines()
    assert line.startswith("edgenas: recipe=best")


@pytest.mark.slow
def test_a_killed_training_ends_with_the_same_weights(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run(command(whole, "epochs=6"), check=True)

    running = subprocess.Popen(command(killed, "epochs=6"))
    deadline_s = time.monotonic() + 300
    while not (begun := list(killed.rglob(CHECKPOINT))) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    running.send_signal(signal.SIGKILL)
    assert running.wait() == -signal.SIGKILL
    assert not list(killed.rglob("training.json"))
    subprocess.run(command(killed, "epochs=6"), check=True)

    assert begun
    weights = [next(iter(folder.rglob(WEIGHTS))).read_bytes() for folder in (whole, killed)]
    assert weights[0] == weights[1]
    records = [
        json.loads(next(iter(folder.rglob("training.json"))).read_text())
        for folder in (whole, killed)
    ]
    assert records[0]["test"] == records[1]["test"]


@pytest.mark.slow
def test_the_winner_of_a_search_on_tables_is_trained_on_named_images(tmp_path):
    runs = tmp_path / "runs"
    search = ["budget=200", "accuracy=surrogate", "latency=regression", f"out={runs}"]
    subprocess.run([sys.executable, "-m", "nas.search", *search], check=True)
    run = next(runs.glob("*/*"))
    train = [
        sys.executable,
        "-m",
        "nas.train",
        f"run={run}",
        "side=4",
        "epochs=1",
        "accelerator=cpu",
    ]

    refused = subprocess.run(train, capture_output=True, text=True, check=False)
    subprocess.run([*train, "data=digits"], check=True)

    assert refused.stderr.strip().endswith("data=")
    best = json.loads((run / "summary.json").read_text())["best"]["arch"]
    assert read_training(trained_folder(run, best)).arch == best


@pytest.mark.slow
def test_a_process_that_is_killed_costs_two_that_train_together_an_epoch(config, tmp_path):
    output = tmp_path / "printed.txt"
    together = replace(config, accelerator="auto", processes=2, epochs=6)
    with output.open("w") as file:
        running = threading.Thread(
            target=train_into_folder, args=(together, Console(file=file, width=200))
        )
        running.start()
        while not (begun := list(tmp_path.rglob(CHECKPOINT))):
            time.sleep(0.01)
        victim = max(child.pid for child in psutil.Process().children() if _trains(child))
        os.kill(victim, signal.SIGKILL)
        running.join()

    training = read_training(begun[0].parent)
    assert training.epochs == 6
    assert "was lost" in output.read_text()
    images = open_images("digits", side=4)
    network = SPACE.network(SPACE.parse(training.arch), images.task)
    network.load_state_dict(load_file(begun[0].parent / WEIGHTS))
    assert training.test.fraction == accuracy_of(network, images.test, images, device="cpu")


def _trains(process):
    """Whether it is not the tracker of shared resources."""
    return "spawn_main" in " ".join(process.cmdline())
