"""The embedded surrogate, its card, and the script that makes both."""

import json

import numpy as np
import pytest
from safetensors import safe_open
from scipy import stats

from benchmarks.fitting.nas_bench_201.accuracy import Budget, fit_and_write
from benchmarks.fitting.nas_bench_201.accuracy_card import render
from edgenas_core.files.keyed_table import CsvTable, read_csv_table
from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from nas.accuracy.base import Split
from nas.accuracy.table import SurrogateAccuracyConfig
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import ACCURACY_TABLE, NAS_BENCH_201, TASKS
from nas.spaces.nas_bench_201.surrogate import (
    METADATA_KEY,
    TARGETS,
    WEIGHTS,
    load,
)

pytestmark = pytest.mark.usefixtures("one_thread")

CELLS = NAS_BENCH_201.rows
QUESTIONS = [
    (dataset, split, epochs)
    for dataset in TASKS.values()
    for split, epochs in [(Split.auto, 200), (Split.test, 200), (Split.valid, 12)]
]
TINY = Budget(members=1, folds=2, epochs=3, batch_size=1024)


@pytest.fixture(scope="module")
def metadata():
    with safe_open(WEIGHTS, framework="np") as file:
        return json.loads(file.metadata()[METADATA_KEY])


@pytest.fixture
def made_up_table(tmp_path):
    """Accuracies that grow with the operations' numbers, with noise, in percent."""
    generator = np.random.default_rng(0)
    columns = (*TARGETS, "cifar10_valid_std", "cifar100_std", "imagenet16_std")
    noise = generator.normal(size=(len(columns), NAS_BENCH_201.size))
    return CsvTable(tmp_path, CELLS, columns, 40 + 2 * CELLS.sum(axis=-1) + noise)


@pytest.mark.parametrize(("dataset", "split", "epochs"), QUESTIONS)
def test_predictions_are_fractions_and_functions_of_the_function(dataset, split, epochs):
    accuracy = SurrogateAccuracyConfig().build(SPACE, dataset, split, epochs)

    searched = accuracy.answer(CELLS).fraction

    assert searched.min() >= 0
    assert searched.max() <= 1
    np.testing.assert_array_equal(searched, searched[NAS_BENCH_201.function_class])


@pytest.mark.parametrize("dataset", TASKS.values())
def test_a_cell_without_a_path_has_chance_accuracy(dataset):
    accuracy = SurrogateAccuracyConfig().build(SPACE, dataset, Split.valid, 200)

    dead = CELLS[~NAS_BENCH_201.live_edges(CELLS).any(axis=-1)]

    assert accuracy.answer(dead).fraction == pytest.approx(1 / dataset.num_classes)
    assert accuracy.test(dead) == pytest.approx(1 / dataset.num_classes)


def test_both_splits_are_known_after_200_epochs():
    by_validation = SurrogateAccuracyConfig().build(SPACE, TASKS["cifar100"], Split.auto, 200)
    by_test = SurrogateAccuracyConfig().build(SPACE, TASKS["cifar100"], Split.test, 200)

    assert by_validation.split is Split.valid
    np.testing.assert_array_equal(by_validation.tested, by_test.searched)
    assert (by_validation.searched != by_test.searched).any()


def test_the_better_half_is_predicted_with_its_own_held_out_error(metadata):
    accuracy = SurrogateAccuracyConfig().build(SPACE, TASKS["cifar100"], Split.valid, 200)
    of_parts = metadata["held_out"]["function_class"]["cifar100_valid"]

    fraction = accuracy.answer(CELLS).fraction
    points = 100 * accuracy.sd(CELLS, fraction)

    assert points[fraction.argmax()] == pytest.approx(of_parts["top half"]["rmse"])
    assert points[fraction.argmin()] > of_parts["top half"]["rmse"]
    assert np.sqrt((points**2).mean()) == pytest.approx(of_parts["all"]["rmse"], rel=0.01)


def test_after_12_epochs_there_is_no_test_split():
    accuracy = SurrogateAccuracyConfig().build(SPACE, TASKS["cifar10"], Split.auto, 12)

    assert accuracy.split is Split.valid
    assert np.isnan(accuracy.test(CELLS)).all()
    for split, epochs, named in ((Split.test, 12, "split=test"), (Split.auto, 50, "epochs=50")):
        with pytest.raises(UserError, match=named):
            SurrogateAccuracyConfig().build(SPACE, TASKS["cifar10"], split, epochs)


def test_the_description_says_that_it_predicts_and_how_well(metadata):
    accuracy = SurrogateAccuracyConfig().build(SPACE, TASKS["cifar100"], Split.valid, 200)

    held_out = metadata["held_out"]["function_class"]["cifar100_valid"]["all"]

    assert accuracy.source == "surrogate"
    assert set(accuracy.answer(CELLS).kind) == {Kind.surrogate}
    for word in ("predicted", "NATS-Bench", "200", f"{held_out['tau']:.2f}"):
        assert word in accuracy.description
    assert f"{held_out['mae']:.2f} points" in accuracy.description


def test_the_held_out_figures_meet_their_targets(metadata):
    held_out = metadata["held_out"]["function_class"]["cifar100_valid"]["all"]

    assert held_out["tau"] >= 0.90
    assert held_out["mae"] <= 0.75


def test_the_weights_are_smaller_than_300_kilobytes():
    assert WEIGHTS.stat().st_size < 300_000


def test_the_card_says_what_the_weights_record(metadata):
    assert WEIGHTS.with_suffix(".md").read_text(encoding="utf-8") == render(metadata)


def test_the_fit_runs_end_to_end_and_gives_the_same_files_twice(made_up_table, tmp_path):
    files = [(tmp_path / f"{i}.safetensors", tmp_path / f"{i}.md") for i in range(2)]

    for weights, card in files:
        fit_and_write(made_up_table, TINY, weights, card)

    (first, first_card), (second, second_card) = files
    assert first.read_bytes() == second.read_bytes()
    assert first_card.read_bytes() == second_card.read_bytes()
    _, recorded = load(first)
    assert first_card.read_text(encoding="utf-8") == render(recorded)


@pytest.mark.data
@pytest.mark.parametrize("target", ["cifar10_valid", "cifar100_valid", "imagenet16_valid"])
def test_the_shipped_model_orders_the_table_no_worse_than_its_held_out_figure(
    nas_data, metadata, target
):
    measured = read_csv_table(nas_data / ACCURACY_TABLE.file, SPACE).column(target)
    accuracy = SurrogateAccuracyConfig().build(SPACE, TASKS[target.split("_")[0]], Split.valid, 200)

    tau = stats.kendalltau(accuracy.answer(CELLS).fraction, measured).statistic

    assert tau >= metadata["held_out"]["function_class"][target]["all"]["tau"]
