"""Accuracy asked of the official archive, cell by cell."""

import numpy as np
import pytest
from omegaconf import OmegaConf

from nas.accuracy.base import Accuracy, Split
from nas.accuracy.nats import NatsAccuracyConfig
from nas.spaces.nas_bench_201.archive import NatsArchive
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201, TASKS
from runtime.shell.errors import UserError

TWO = NAS_BENCH_201.rows[[3, 4]]


def build(folder, split=Split.auto, epochs=200):
    return NatsAccuracyConfig(folder).build(SPACE, TASKS["cifar100"], split, epochs)


def test_it_keeps_the_promise_of_every_accuracy_source(archive_folder):
    accuracy = build(archive_folder)

    assert isinstance(accuracy, Accuracy)
    assert (accuracy.source, accuracy.split, accuracy.tabular) == ("nats", Split.valid, False)
    assert "cifar100 valid after 200 epochs" in accuracy.description


@pytest.mark.parametrize(
    ("split", "epochs", "searched"),
    [
        (Split.auto, 200, [0.4, 0.6]),
        (Split.valid, 200, [0.4, 0.6]),
        (Split.test, 200, [0.5, 0.7]),
        (Split.auto, 12, [0.2, 0.3]),
    ],
)
def test_it_searches_on_the_split_and_reports_the_test_of_200_epochs(
    archive_folder, split, epochs, searched
):
    accuracy = build(archive_folder, split, epochs)

    np.testing.assert_allclose(accuracy(TWO), searched)
    np.testing.assert_allclose(accuracy.test(TWO), [0.5, 0.7])


def test_it_keeps_the_shape_of_what_it_is_asked(archive_folder):
    accuracy = build(archive_folder)

    assert accuracy(TWO[None]).shape == (1, 2)
    assert accuracy(TWO[:0]).shape == (0,)
    np.testing.assert_allclose(accuracy(TWO[0]), 0.4)


def test_it_knows_which_architectures_it_has(archive_folder):
    architectures = NAS_BENCH_201.rows[[[3, 7], [4, 0]]]

    assert build(archive_folder).known(architectures).tolist() == [[True, False], [True, False]]


def test_it_asks_the_archive_once_for_each_cell(archive_folder, monkeypatch):
    asked = []
    real = NatsArchive.accuracy

    def counted(self, index, dataset, epochs):
        asked.append(index)
        return real(self, index, dataset, epochs)

    monkeypatch.setattr(NatsArchive, "accuracy", counted)
    accuracy = build(archive_folder)

    for _ in range(3):
        accuracy(TWO)
        accuracy.test(TWO)

    assert asked == [3, 4]


def test_two_sources_share_no_memory(archive_folder, write_cell):
    build(archive_folder)(TWO)
    write_cell(archive_folder, 3, percent=80.0)

    assert build(archive_folder)(TWO)[0] == pytest.approx(0.8)


def test_a_cell_that_the_archive_lacks_is_a_user_error(archive_folder):
    with pytest.raises(UserError, match="has no cell 7"):
        build(archive_folder)(NAS_BENCH_201.rows[7])


def test_another_number_of_epochs_is_a_user_error(archive_folder):
    with pytest.raises(UserError, match="epochs=90, but NATS-Bench trained for 200 or 12"):
        build(archive_folder, epochs=90)


def test_the_folder_comes_from_yaml(archive_folder):
    yaml = OmegaConf.create({"archive": str(archive_folder)})

    config = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(NatsAccuracyConfig), yaml))

    assert config.build(TASKS["cifar10"], Split.auto, 200)(TWO) == pytest.approx([0.4, 0.6])


@pytest.mark.data
def test_cell_0_on_cifar100_has_the_published_accuracies(nas_data):
    accuracy = build(nas_data / "raw" / "nats-tss-sample")
    cell = NAS_BENCH_201.rows[:1]

    assert accuracy(cell) == pytest.approx([0.5270], abs=1e-6)
    assert accuracy.test(cell) == pytest.approx([0.529133], abs=1e-6)
