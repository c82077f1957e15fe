"""`import`: the official archive and HELP's files, converted or refused."""

import pickle

import numpy as np
import pytest
import torch

from edgenas_core.files.keyed_table import parse_csv_table
from edgenas_core.types.errors import UserError
from nas.data.convert import import_files
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.public.archive import NatsArchive
from nas.spaces.nas_bench_201.space import NAS_BENCH_201, TASKS

SIZE = NAS_BENCH_201.size


def run(folder, *paths):
    return list(import_files(SPACE, paths, folder))


@pytest.fixture
def out(tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


@pytest.fixture
def whole_archive(archive_folder, monkeypatch):
    """The synthetic archive, as if it had every cell, each with its own numbers."""
    for name, answer in {
        "has": lambda _self, _index: True,
        "accuracy": lambda _self, index, _dataset, epochs: (index / SIZE * epochs / 200, 0.5),
        "latency_ms": lambda _self, index, dataset: 1.0 + index + len(dataset.name) / 100,
    }.items():
        monkeypatch.setattr(NatsArchive, name, answer)
    return archive_folder


def test_a_whole_archive_becomes_both_tables(whole_archive, out):
    lines = run(out, whole_archive)

    accuracy = parse_csv_table(out / "nb201_accuracy.csv", SPACE)
    assert set(accuracy.columns) == {
        f"{dataset.name}_{what}"
        for dataset in TASKS.values()
        for what in ("valid", "test", "epoch12_valid")
    }
    cells = np.arange(SIZE)
    np.testing.assert_allclose(accuracy.column("cifar100_valid"), 100 * cells / SIZE)
    np.testing.assert_allclose(accuracy.column("cifar100_epoch12_valid"), 6 * cells / SIZE)
    np.testing.assert_allclose(accuracy.column("cifar100_test"), 50.0)
    latency = parse_csv_table(out / "nb201_latency_nats_ms.csv", SPACE)
    np.testing.assert_allclose(latency.column("nats-gtx1080ti-cifar100"), 1.08 + cells)
    assert [line.split()[0] for line in lines] == ["wrote", "wrote"]


def test_an_import_that_is_interrupted_leaves_nothing(whole_archive, out, monkeypatch):
    def interrupt(_self, index, _dataset):
        if index == 10:
            raise KeyboardInterrupt
        return 1.0

    monkeypatch.setattr(NatsArchive, "latency_ms", interrupt)

    with pytest.raises(KeyboardInterrupt):
        run(out, whole_archive)

    assert list(out.iterdir()) == []


def test_a_partial_archive_is_a_user_error_that_counts_what_is_missing(archive_folder, out):
    with pytest.raises(UserError, match=r"2 of 15,625 .* 15,623"):
        run(out, archive_folder)

    assert list(out.iterdir()) == []


def test_an_archive_without_any_cell_is_a_user_error(archive_folder, out):
    for path in archive_folder.glob("0*"):
        path.unlink()

    with pytest.raises(UserError, match="0 of 15,625"):
        run(out, archive_folder)


def help_file(tmp_path, content, name="my_board.pt"):
    path = tmp_path / name
    torch.save(content, path)
    return path


def test_a_help_file_becomes_a_column_named_after_it(tmp_path, out):
    path = help_file(tmp_path, [1 + i / 8 for i in range(SIZE)])

    (line,) = run(out, path)

    column = parse_csv_table(out / "nb201_latency_help_ms.csv", SPACE).column("help-my-board")
    np.testing.assert_array_equal(column, 1 + np.arange(SIZE) / 8)
    assert "help-my-board" in line


def hw_nas_bench(tmp_path, content):
    path = tmp_path / "HW-NAS-Bench-v1_0.pickle"
    path.write_bytes(pickle.dumps(content))
    return path


def test_the_pickle_of_hw_nas_bench_becomes_a_column_a_device_and_task(tmp_path):
    ms = [1.0 + number / 7 for number in range(15_625)]
    metrics = {"edgegpu_latency": ms, "raspi4_latency": ms, "edgegpu_energy": ms, "config": []}
    path = hw_nas_bench(
        tmp_path, {"nasbench201": {"cifar10": metrics, "cifar100": metrics}, "fbnet": {}}
    )

    (table,) = SPACE.public_data().imported([path])

    assert [*table.columns] == [
        "hwnas-edgegpu-tx2",
        "help-raspi4",
        "hwnas-edgegpu-cifar100",
        "hwnas-raspi4-cifar100",
    ]
    assert table.columns["help-raspi4"].tolist() == ms


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"nasbench201": {"cifar10": {"edgegpu_latency": [1.0]}}}, "15,625"),
        ({"fbnet": {}}, "HW-NAS-Bench"),
        (np.ones, "pickle asks to load|asks to load"),
    ],
)
def test_a_pickle_of_something_else_is_a_user_error(tmp_path, content, reason):
    with pytest.raises(UserError, match=reason):
        list(SPACE.public_data().imported([hw_nas_bench(tmp_path, content)]))


def test_the_index_of_help_is_checked_and_makes_no_column(tmp_path, out):
    index = {text: row for row, text in enumerate(NAS_BENCH_201.strings)}
    good = help_file(tmp_path, index, "str_arch2idx.pt")

    run(out, good, help_file(tmp_path, [1.5] * SIZE, "a.pt"))

    assert parse_csv_table(out / "nb201_latency_help_ms.csv", SPACE).columns == ("help-a",)
    with pytest.raises(UserError, match=r"str_arch2idx\.pt.*index"):
        run(out, good)
    index[NAS_BENCH_201.strings[0]] = 5
    with pytest.raises(UserError, match=r"wrong\.pt.*15,625"):
        run(out, help_file(tmp_path, index, "wrong.pt"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([1.5] * 10, "list of 10, .*15,625"),
        (1.5, "float of 1"),
        (torch.ones(SIZE), "Tensor of 15625"),
        ([1.5] * (SIZE - 1) + [0.0], "cell 15624 is 0.0"),
        ([-1.0] + [1.5] * (SIZE - 1), "cell 0 is -1.0"),
        ([float("nan")] + [1.5] * (SIZE - 1), "cell 0 is nan"),
        ([float("inf")] + [1.5] * (SIZE - 1), "cell 0 is inf"),
        ([True] + [1.5] * (SIZE - 1), "cell 0 is True"),
        (["1.5"] * SIZE, "cell 0 is '1.5'"),
    ],
    ids=str,
)
def test_a_help_file_of_something_else_is_a_user_error(tmp_path, out, content, message):
    with pytest.raises(UserError, match=message):
        run(out, help_file(tmp_path, content))

    assert list(out.iterdir()) == []


class Hostile:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (self.path, "w"))


def test_code_in_a_help_file_does_not_run(tmp_path, out):
    path = help_file(tmp_path, [Hostile(str(tmp_path / "made"))])

    with pytest.raises(UserError, match=r"my_board\.pt.*download") as e:
        run(out, path)

    assert "\n" not in str(e.value)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("content", [b"", b"no torch file", b"PK\x03\x04broken"])
def test_a_broken_help_file_is_a_user_error(tmp_path, out, content):
    path = tmp_path / "a.pt"
    path.write_bytes(content)

    with pytest.raises(UserError, match=r"a\.pt"):
        run(out, path)


def test_a_help_file_that_is_too_large_is_not_read(tmp_path, out):
    path = tmp_path / "a.pt"
    with path.open("wb") as file:
        file.truncate(2**30)

    with pytest.raises(UserError, match="16,777,216"):
        run(out, path)


def test_what_is_neither_is_a_user_error(archive_folder, tmp_path, out):
    for paths in ([tmp_path / "x.tar"], [archive_folder, tmp_path / "a.pt"]):
        with pytest.raises(UserError, match=r"folder .*NATS-Bench.*\.pt"):
            run(out, *paths)


def test_a_help_file_that_is_missing_is_an_error_with_its_name(tmp_path, out):
    with pytest.raises(OSError, match=r"nowhere\.pt"):
        run(out, tmp_path / "nowhere.pt")


@pytest.mark.data
def test_the_sample_of_the_official_archive_is_3_of_15625_cells(nas_data, out):
    with pytest.raises(UserError, match=r"3 of 15,625 .* 15,622"):
        run(out, nas_data / "raw" / "nats-tss-sample")
