"""The training of a trial gives the same accuracy wherever it runs, and goes on where it was cut."""

from __future__ import annotations

import os
import pickle
import signal
import time
from dataclasses import replace

import pytest

from nas.accuracy.slow import Fidelity
from nas.fit.data.image_set import Images
from nas.fit.data.open import open_images
from nas.fit.training.evaluation import accuracy_of
from nas.fit.training.recipe import RECIPES
from nas.fit.training.trainer import train
from nas.fit.training.trial import TrialTraining
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.trials.executor import Evaluated, Workers

SKIPS = SPACE.parse("|skip_connect~0|+|none~0|skip_connect~1|+|none~0|none~1|skip_connect~2|")


@pytest.fixture
def digits():
    images = open_images("digits", side=8)
    few = Images(images.train.pixels[:300], images.train.labels[:300])
    return replace(images, train=few)


@pytest.mark.usefixtures("one_thread")
def test_a_trial_is_sent_to_a_process_and_trained_there_to_the_same_accuracy(digits):
    trial = TrialTraining(digits, SPACE.network, RECIPES["nas_bench_201"])
    sent = pickle.dumps(trial)

    here = trial(SKIPS, Fidelity("1 epoch", 1), 3)
    there = pickle.loads(sent)(SKIPS, Fidelity("1 epoch", 1), 3)  # noqa: S301 - our own

    assert len(sent) < 30_000
    assert here.accuracy == there.accuracy > 0
    assert here.seconds > 0


@pytest.mark.usefixtures("one_thread")
def test_a_trial_that_only_harms_is_worth_what_it_began_with(digits):
    network, harmful = SPACE.network(SKIPS, digits.task), replace(RECIPES["nas_bench_201"], lr=50.0)
    train(network, digits, replace(RECIPES["nas_bench_201"], epochs=2))
    before = accuracy_of(network, digits.valid, digits)

    trial = TrialTraining(digits, lambda *_: network, harmful, keeps_best=True)

    assert trial(SKIPS, Fidelity("1 epoch", 1), 3).accuracy == pytest.approx(before)
    assert before > 0.15


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_a_training_whose_ray_worker_is_killed_ends_as_if_it_had_not_been(digits, tmp_path):
    ray = pytest.importorskip("ray")
    fidelity = Fidelity("20 epochs", 20)
    started = tmp_path / "started"

    def network(architecture, task):
        with started.open("a") as file:
            file.write(f"{os.getpid()}\n")
        return SPACE.network(architecture, task)

    recipe = RECIPES["nas_bench_201"]
    undisturbed = TrialTraining(digits, SPACE.network, recipe, tmp_path / "own")
    trial = TrialTraining(digits, network, recipe, tmp_path / "shared")
    ray.init(include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
    source = Evaluated(
        undisturbed,
        (fidelity,),
        workers=Workers.ray,
        slots=1,
        source="trained",
        description="trained",
    )
    try:
        source.submit(0, SKIPS, 0, 5)
        expected = source.wait().result()
        source._evaluate = trial
        source.submit(1, SKIPS, 0, 5)
        while not list((tmp_path / "shared").glob("*.safetensors")):
            time.sleep(0.01)
        os.kill(int(started.read_text()), signal.SIGKILL)
        disturbed = source.wait().result()
    finally:
        source.close()
        ray.shutdown()

    assert len(started.read_text().split()) == 2
    assert disturbed.accuracy == expected.accuracy
    assert len(list((tmp_path / "shared").iterdir())) == 1  # a longer training may go on from it
