"""Accuracy from the open CSV layout."""

from typing import final

import numpy as np
import pytest

from edgenas_core.files.keyed_table import write_csv_table
from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from nas.accuracy.base import Accuracy, Split
from nas.accuracy.table import AutoAccuracyConfig, TableAccuracyConfig, training_seconds
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201, TASKS

SIZE = NAS_BENCH_201.size
TWO = NAS_BENCH_201.rows[[0, 9930]]


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Writes an accuracy table of some columns, each one number for all cells."""
    monkeypatch.setenv("NAS_DATA", str(tmp_path))

    def write(**percent):
        columns = {name: np.broadcast_to(number, SIZE) for name, number in percent.items()}
        write_csv_table(tmp_path / "nb201_accuracy.csv", SPACE, columns)

    return write


@pytest.fixture
def full_table(table):
    table(cifar100_valid=70.0, cifar100_test=71.0, cifar100_epoch12_valid=40.0)


def build(split=Split.auto, epochs=200, dataset=TASKS["cifar100"]):
    return TableAccuracyConfig().build(SPACE, dataset, split, epochs)


@pytest.mark.usefixtures("full_table")
def test_it_keeps_the_promise_of_every_accuracy_source():
    accuracy = build()

    assert isinstance(accuracy, Accuracy)
    assert (accuracy.source, accuracy.instant) == ("table", True)
    assert accuracy.answer(TWO).kind.tolist() == [Kind.measured, Kind.measured]


@pytest.mark.usefixtures("full_table")
@pytest.mark.parametrize(
    ("split", "epochs", "searched_split", "searched"),
    [
        (Split.auto, 200, Split.valid, 0.70),
        (Split.valid, 200, Split.valid, 0.70),
        (Split.test, 200, Split.test, 0.71),
        (Split.auto, 12, Split.valid, 0.40),
        (Split.valid, 12, Split.valid, 0.40),
    ],
)
def test_it_searches_on_the_split_and_reports_the_test_of_200_epochs(
    split, epochs, searched_split, searched
):
    accuracy = build(split, epochs)

    assert accuracy.split is searched_split
    np.testing.assert_allclose(accuracy.answer(TWO).fraction, searched)
    np.testing.assert_allclose(accuracy.test(TWO), 0.71)
    assert f"{epochs} epochs" in accuracy.description
    assert ("test split" in accuracy.description) is (searched_split is Split.test)


def test_auto_falls_back_to_test_and_says_so(table):
    table(cifar100_test=71.0)

    accuracy = build()

    assert accuracy.split is Split.test
    np.testing.assert_allclose(accuracy.answer(TWO).fraction, 0.71)
    assert "test split" in accuracy.description
    assert "no validation accuracy" in accuracy.description


@pytest.mark.parametrize(
    ("split", "epochs", "message"),
    [
        (Split.valid, 200, "cifar100_valid.*import FOLDER.*split=test"),
        (Split.auto, 12, "cifar100_epoch12_valid.*import FOLDER.*split=test"),
        (Split.auto, 90, "epochs=90.*200 or 12"),
        (Split.test, 12, "epochs=12.*split=valid.*epochs=200"),
    ],
)
def test_what_the_file_cannot_answer_is_a_user_error_with_the_way_out(
    table, split, epochs, message
):
    table(cifar100_test=71.0)

    with pytest.raises(UserError, match=message):
        build(split, epochs)


def test_a_data_set_that_the_file_lacks_is_a_user_error(table):
    table(cifar100_test=71.0)

    with pytest.raises(UserError, match=r"nb201_accuracy\.csv.*cifar10_test") as e:
        build(dataset=TASKS["cifar10"])

    assert "split=test" not in str(e.value)


@pytest.mark.parametrize(
    ("number", "what"),
    [(np.nan, "missing"), (100.1, "100.1.*0 to 100"), (-0.5, "-0.5.*0 to 100")],
)
@pytest.mark.parametrize("column", ["cifar100_valid", "cifar100_test"])
def test_an_impossible_accuracy_is_a_user_error_that_names_the_architecture(
    table, number, what, column
):
    percent = {"cifar100_valid": np.full(SIZE, 70.0), "cifar100_test": np.full(SIZE, 71.0)}
    percent[column][284] = number
    table(**percent)

    with pytest.raises(UserError, match=f"{column} .*{what}.*fetch or import") as caught:
        build()

    assert NAS_BENCH_201.strings[284] in str(caught.value)
    assert "nb201_accuracy.csv" in str(caught.value)


@pytest.mark.parametrize("number", [0.0, 100.0])
def test_the_ends_of_the_range_are_accuracies(table, number):
    table(cifar100_test=number)

    np.testing.assert_allclose(build().answer(TWO).fraction, number / 100)


def test_a_missing_file_is_a_user_error_with_the_way_out(tmp_path, monkeypatch):
    monkeypatch.setenv("NAS_DATA", str(tmp_path))

    with pytest.raises(UserError, match=r"nb201_accuracy\.csv.*`python -m nas\.data fetch`"):
        build()


@pytest.mark.usefixtures("full_table")
def test_an_architecture_outside_the_space_has_no_accuracy():
    with pytest.raises(IndexError):
        build().answer(np.array([[0, 0, 0, 0, 0, 5]]))


@final
class Untabulated:
    """A space without a table of accuracies, and without an embedded model."""

    name = "untabulated"
    num_choices = (2, 2)

    def normal(self, architectures):
        return architectures

    def text(self, architecture):
        return " ".join(map(str, architecture))

    def parse(self, text):
        return np.array([int(word) for word in text.split()])


@pytest.mark.parametrize("config", [TableAccuracyConfig(), AutoAccuracyConfig()])
@pytest.mark.usefixtures("full_table")
def test_a_space_without_a_table_is_refused_by_name(config):
    with pytest.raises(UserError, match=r"accuracy=.*space=untabulated"):
        config.build(Untabulated(), TASKS["cifar100"], Split.auto, 200)


@pytest.mark.usefixtures("full_table")
def test_auto_is_the_table_where_there_is_one():
    auto = AutoAccuracyConfig().build(SPACE, TASKS["cifar100"], Split.auto, 200)

    assert auto.source == "table"


def test_auto_is_the_embedded_model_without_a_table(tmp_path, monkeypatch):
    monkeypatch.setenv("NAS_DATA", str(tmp_path))

    auto = AutoAccuracyConfig().build(SPACE, TASKS["cifar100"], Split.auto, 200)

    assert auto.source == "surrogate"


def test_seconds_of_training_are_read_where_the_table_has_them(table):
    table(cifar100_test=71.0, cifar100_train_s=3600.0)

    assert training_seconds(SPACE, TASKS["cifar100"], 200).tolist() == [3600.0] * SIZE
    assert training_seconds(SPACE, TASKS["cifar10"], 200) is None
    assert training_seconds(SPACE, TASKS["cifar100"], 12) is None


@pytest.mark.data
def test_the_best_cifar100_test_accuracy_is_the_published_one(nas_data, monkeypatch):
    monkeypatch.setenv("NAS_DATA", str(nas_data))

    accuracy = build()

    tested = accuracy.test(NAS_BENCH_201.rows)
    assert int(tested.argmax()) == 9930
    assert tested.max() == pytest.approx(0.735133, abs=1e-6)
    assert accuracy.answer(NAS_BENCH_201.rows[0]).fraction == pytest.approx(0.5270, abs=1e-6)


def own_table(folder, count, scale=100):
    """Invented accuracies of the first cells: larger with each live convolution."""
    rows = NAS_BENCH_201.rows[:count]
    accuracy = scale * (0.3 + 0.1 * (NAS_BENCH_201.live_edges(rows) & (rows >= 2)).sum(-1))
    lines = [f"{SPACE.text(row)},{value}" for row, value in zip(rows, accuracy, strict=True)]
    (folder / "mine.csv").write_text("\n".join(["arch,top1 accuracy", *lines]))
    return accuracy / scale


@pytest.mark.usefixtures("full_table")
@pytest.mark.parametrize("scale", [1, 100])
def test_own_accuracies_come_first_and_the_rest_is_marked_as_predicted(tmp_path, scale):
    known = own_table(tmp_path, 300, scale)

    accuracy = AutoAccuracyConfig().build(SPACE, TASKS["cifar100"], Split.auto, 200)

    answer = accuracy.answer(NAS_BENCH_201.rows)
    assert answer.fraction[:300] == pytest.approx(known)
    assert (answer.kind == Kind.measured).tolist() == [number < 300 for number in range(SIZE)]
    assert (
        "mine.csv, 300 architectures; 15,325 others predicted by regression" in accuracy.description
    )


def test_own_accuracies_that_cannot_be_used_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("NAS_DATA", str(tmp_path))

    def refusal():
        with pytest.raises(UserError) as refused:
            AutoAccuracyConfig().build(SPACE, TASKS["cifar100"], Split.auto, 200)
        return str(refused.value)

    own_table(tmp_path, 20)
    assert "20 accuracies" in refusal()
    own_table(tmp_path, 60, scale=1000)
    assert "percent" in refusal()
    (tmp_path / "accuracy.csv").write_text((tmp_path / "mine.csv").read_text())
    assert "several columns" in refusal()
