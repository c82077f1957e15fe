"""Which finalists of a search for int8 are judged by their int8 files."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
import torch
from onnx.numpy_helper import to_array
from synthetic import Oracle
from torch import nn

from edgenas_core.inference.formats.onnx_export import onnx_bytes
from edgenas_core.inference.formats.onnx_quantisation import quantised
from edgenas_core.types.kind import Kind
from latency.base import Latencies
from nas.export.accuracy import prepared
from nas.export.int8 import Int8Source, _Rounding, bias_corrected, int8_accuracy
from nas.fit.data.image_set import Images, standard_error_of_difference
from nas.fit.data.open import open_images
from nas.fit.run.int8 import Int8Files, _loses_much
from nas.fit.run.staged import Staged
from nas.fit.run.winner import Winner
from nas.fit.training.recipe import recipe_named
from nas.fit.training.rounding import ROUNDED, tuned_with_rounding
from nas.fit.training.trained_folder import (
    INT8_WEIGHTS,
    Judged,
    Training,
    write_trained,
)
from nas.fit.training.trainer import train
from nas.report.summary import Int8Accuracy
from nas.runs.journal import read_journal
from nas.spaces.function import space
from nas.spaces.registry import space_named
from nas.trials.problem import SearchProblem


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return open_images("digits", side=8, cache=tmp_path_factory.mktemp("cache"))


def network(largest=1.0):
    """A network with a channel of this range that its classifier does not read."""
    torch.manual_seed(0)
    made = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 10))
    with torch.no_grad():
        made[0].weight[0] *= largest
        made[2].weight *= 20
        made[2].weight[:, :36] = 0
    return made


def test_the_predicted_loss_is_of_activations_that_8_bits_do_not_resolve(images):
    assert abs(Int8Source(network(), images, 8).predicted_loss) < 0.05
    assert Int8Source(network(1e5), images, 8).predicted_loss > 0.3


def test_layers_that_lose_most_stay_in_fp32(images):
    made = nn.Sequential(nn.Conv2d(3, 3, 1), nn.ReLU(), network(1e5))
    with torch.no_grad():
        labels = made(torch.from_numpy(prepared(images.valid, images, 8, slice(None)))).argmax(1)
    own = replace(images, valid=Images(images.valid.pixels, labels.numpy()))
    write = partial(onnx_bytes, examples=[torch.zeros(1, 3, 8, 8)])

    int8 = Int8Source(made.eval(), own, 8).onnx(write)

    assert {"2.0", "2.2"} <= {*int8.in_fp32}
    assert int8.lost[0] > 0.3
    assert int8.lost[1] < 0.05


def test_products_of_weights_of_7_bits_do_not_saturate(images):
    file = onnx_bytes(network(), [torch.zeros(1, 3, 8, 8)])
    batches = Int8Source(network(), images, 8).calibration(1)

    largest = [
        max(
            int(abs(to_array(each).astype(int)).max())
            for each in onnx.load_from_string(
                quantised(file, batches, in_7_bits=is_narrow)
            ).graph.initializer
            if each.data_type == onnx.TensorProto.INT8
        )
        for is_narrow in (False, True)
    ]

    assert largest == [127, 64]
    assert 2 * 255 * largest[1] < 2**15 < 2 * 255 * largest[0]


def test_channels_that_rounding_shifts_are_shifted_back(images):
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(8)
    made = nn.Sequential(nn.Conv2d(3, 8, 3), norm, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    with torch.no_grad():
        made[0].weight[:, 0, 0, 0] = 20  # the others have few steps of 20 / 127
    exact = _Rounding(made, images, 8).exact
    before = norm.running_mean.clone()

    corrected = bias_corrected(made, images, 8)

    shifts = [
        (_Rounding(each, images, 8).rounded() - exact).mean(0).abs().max()
        for each in (made, corrected)
    ]
    assert shifts[1] < 0.01 * shifts[0]
    assert torch.equal(norm.running_mean, before)


def test_untrained_candidates_and_those_that_int8_would_spoil_are_not_judged(images):
    ranked = [None, network(1e5), network(), network(), network(), network()]
    lines = []
    benchmark = space_named("nas_bench_201")
    rows = benchmark.architectures(np.arange(6))
    files = Int8Files(benchmark, lines.append)

    order = files.best_first(
        range(6),
        rows,
        np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4]),
        lambda at: ranked[at] and (ranked[at], images, 8),
    )

    assert order == [2, 3, 4, 0, 1, 5]
    assert [line.split(":")[0] for line in lines] == [
        f"finalist {benchmark.text(row)}" for row in rows[2:5]
    ]
    assert files.seconds > 0


def test_the_accuracy_of_an_int8_file_weighs_classes_that_differ_in_size(images):
    counted = {0: 60, 1: 5}
    which = np.concatenate(
        [np.flatnonzero(images.valid.labels == label)[:count] for label, count in counted.items()]
    )
    valid = Images(images.valid.pixels[which], images.valid.labels[which])
    constant = network()
    with torch.no_grad():
        constant[2].weight.zero_()
        constant[2].bias.copy_(torch.eye(10)[0])

    accuracy = int8_accuracy(constant, replace(images, valid=valid), 8, is_winner=False)

    assert accuracy.valid.fraction == accuracy.valid_fp32.fraction == pytest.approx(0.5)


class Coarse(nn.Module):
    """A network whose activations share their 8 bits with a large channel, which nothing reads."""

    def __init__(self, largest):
        super().__init__()
        self.largest = largest
        self.first = nn.Conv2d(3, 8, 3)
        self.second = nn.Conv2d(9, 9, 3, groups=9)
        self.last = nn.Linear(128, 10)

    def forward(self, inputs):
        """Logits."""
        features = self.first(inputs).relu()
        both = torch.cat((features, torch.full_like(features[:, :1], self.largest)), 1)
        return self.last(self.second(both)[:, :8].relu().flatten(1))


@pytest.fixture(scope="module")
def coarse(images):
    """Weights of a coarse network that was trained on digits."""
    torch.manual_seed(0)
    made = Coarse(2000.0)
    train(made, images, replace(recipe_named("from_scratch:none"), epochs=8))
    return made.state_dict()


COARSE = space(lambda _task, largest: Coarse(largest), name="coarse", largest=[2000.0, 1.0])


def training(images):
    """Record of a training without augmentation, an epoch of which took a tenth of a second."""
    judged = Judged(0.9, 10)
    return Training(
        schema=1,
        state="finished",
        space="coarse",
        arch="largest=2000.0",
        data="digits",
        data_seed=0,
        data_name="digits",
        data_title="digits",
        data_digest="",
        classes=images.classes,
        side=8,
        mean=images.mean,
        sd=images.sd,
        recipe={},
        epochs=10,
        seed=0,
        trained_on="train",
        valid=judged,
        test=judged,
        seconds=1.0,
        device="cpu",
        versions={},
    )


def test_a_winner_that_int8_costs_much_is_tuned_with_rounding_where_time_is_left(
    images, coarse, tmp_path, monkeypatch
):
    monkeypatch.setattr("nas.export.int8._IN_FP32", ())  # as .tflite files have none
    write_trained(tmp_path, coarse, training(images))
    lines = []

    def judged(until_s):
        files = Int8Files(COARSE, lines.append)
        return files.of_training(training(images), images, tmp_path, Oracle(), until_s)

    untuned, hurried = judged(None), judged(time.monotonic())
    tuned = judged(time.monotonic() + 1000)
    resumed = judged(time.monotonic())

    assert untuned == hurried
    assert "allow more hours=" in lines[0]
    assert untuned.lost > 0.3 > tuned.lost
    assert (tuned.tuned_epochs, tuned.untuned) == (ROUNDED.epochs, untuned.valid.fraction)
    assert tuned.test.fraction > untuned.test.fraction + 0.2
    assert tuned.test_fp32 == untuned.test_fp32
    assert "tuned with rounding for 3 epochs" in tuned.note
    assert resumed == tuned


def test_weights_of_a_tuning_that_does_not_help_are_not_written(
    images, coarse, tmp_path, monkeypatch
):
    monkeypatch.setattr("nas.export.int8._IN_FP32", ())
    monkeypatch.setattr("nas.fit.training.rounding.ROUNDED", replace(ROUNDED, lr=0.0))
    write_trained(tmp_path, coarse, training(images))
    lines = []
    files = Int8Files(COARSE, lines.append)

    until_s = time.monotonic() + 1000
    accuracy = files.of_training(training(images), images, tmp_path, Oracle(), until_s)

    assert "does not help" in lines[-1]
    assert accuracy.untuned is None
    assert not (tmp_path / INT8_WEIGHTS).exists()


@pytest.mark.parametrize(
    ("worse", "better", "loses_much"), [(1, 0, False), (5, 0, True), (9, 4, False)]
)
def test_what_chance_explains_is_not_much_to_lose(worse, better, loses_much):
    labels = np.tile(np.arange(10), 18)[:179]
    exact, rounded = labels.copy(), labels.copy()
    rounded[:worse] += 1
    exact[worse : worse + better] += 1

    error = standard_error_of_difference(exact, rounded, labels)
    exactly, in_int8 = (Judged(float((each == labels).mean()), 179) for each in (exact, rounded))

    assert error == pytest.approx((worse + better) ** 0.5 / 179)
    assert _loses_much(Int8Accuracy(exactly, in_int8, None, None, lost_se=error)) == loses_much


@pytest.mark.parametrize(
    ("int8_ms", "kind", "is_slower"),
    [
        ((2.0, 2.1), Kind.measured, True),
        ((2.0, 1.05), Kind.measured, False),
        ((np.nan, np.nan), Kind.missing, False),
    ],
)
def test_int8_is_slower_where_both_of_its_times_are(int8_ms, kind, is_slower):
    times = {True: iter([1.0, 1.1]), False: iter(int8_ms)}

    class Live(Oracle):
        confirm_top = 1

        def remember(self, architectures, latencies):
            """Nothing."""

        def measure_again(self, architectures, *, in_fp32=False):  # noqa: ARG002
            answer_kind = Kind.measured if in_fp32 else kind
            return Latencies(np.array([next(times[in_fp32])]), np.array([answer_kind], np.int8))

    judged = Int8Accuracy(Judged(0.9, 10), Judged(0.9, 10), None, None)
    lines = []
    files = Int8Files(space_named("nas_bench_201"), lines.append)

    timed = files._with_latencies(judged, np.zeros(6, np.int64), Live())

    assert timed.is_slower == is_slower == any("slower than fp32" in line for line in lines)
    assert is_slower == ("slower than fp32" in timed.note)
    assert (timed.int8_ms is None) == (kind is Kind.missing)


@pytest.mark.parametrize(("left_s", "epochs"), [(1e-4, 1), (1000.0, ROUNDED.epochs)])
def test_no_epoch_begins_that_would_end_too_late(images, monkeypatch, left_s, epochs):
    clock = SimpleNamespace(monotonic=lambda: 0.0)  # it stands still: the time is not over
    monkeypatch.setattr("nas.fit.training.rounding.time", clock)
    inputs = torch.from_numpy(prepared(images.train, images, 8, slice(32)))

    _, trained = tuned_with_rounding(network(), images, inputs, ends_s=left_s)

    assert trained.epochs == epochs


def test_a_resumed_search_keeps_as_much_time_for_the_tuning(tmp_path):
    problem = object.__new__(SearchProblem)
    vars(problem).update(space=space_named("nas_bench_201"))
    folder = SimpleNamespace(journal=tmp_path / "journal.jsonl")

    def search(int8):
        staged = object.__new__(Staged)
        vars(staged).update(
            _begun=SimpleNamespace(folder=folder),
            _config=SimpleNamespace(hours=1.0),
            _int8=int8,
            _problem=problem,
            _ranked_from_s=time.monotonic(),
            _spent_s=2600.0,
            _winners=[],
        )
        return staged

    before, after = (Int8Files(problem.space, print) for _ in range(2))
    before.seconds, before.loses_much = 2.0, True
    search(before)._decide(Winner("(1)", "fine_tuning", 9, 0, 1.0, 0))

    resumed = search(after)
    resumed.restore(read_journal(folder.journal, problem))

    assert (after.seconds, after.loses_much) == (2.0, True)
    assert resumed._int8_s == pytest.approx(3 * 2.0 + 0.2 * 1000, abs=1)
