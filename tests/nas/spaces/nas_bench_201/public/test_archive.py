"""The official archive through its own package, one cell at a time."""

import bz2
import pickle

import pytest

from edgenas_core.types.errors import UserError
from nas.spaces.nas_bench_201.public.archive import NatsArchive
from nas.spaces.nas_bench_201.space import TASKS


@pytest.mark.parametrize("dataset", TASKS.values())
def test_a_cell_answers_for_validation_and_test_in_fractions(archive_folder, dataset):
    archive = NatsArchive(archive_folder)

    assert archive.accuracy(3, dataset, 200) == pytest.approx((0.40, 0.50))
    assert archive.accuracy(3, dataset, 12) == pytest.approx((0.20, 0.30))
    assert archive.accuracy(4, dataset, 200) == pytest.approx((0.60, 0.70))
    assert archive.latency_ms(4, dataset) == pytest.approx(24)


def test_it_knows_which_cells_it_has(archive_folder):
    archive = NatsArchive(archive_folder)

    assert [archive.has(index) for index in (2, 3, 4, 15_624)] == [False, True, True, False]


def test_a_cell_it_lacks_is_a_user_error_with_the_way_out(archive_folder):
    with pytest.raises(UserError, match=r"cell 7 .*000007.*NATS-Bench") as caught:
        NatsArchive(archive_folder).accuracy(7, TASKS["cifar10"], 200)

    assert str(archive_folder) in str(caught.value)


@pytest.mark.parametrize(("folder", "named"), [("nowhere", "nowhere"), ("", r"meta\.pickle\.pbz2")])
def test_a_missing_archive_is_a_user_error(tmp_path, folder, named):
    with pytest.raises(UserError, match=f"{named}.*unpack NATS-tss"):
        NatsArchive(tmp_path / folder)


def test_a_meta_file_of_something_else_is_a_user_error(archive_folder):
    content = bz2.compress(pickle.dumps({"meta_archs": ["|none~0|"]}, 4))
    (archive_folder / "meta.pickle.pbz2").write_bytes(content)

    with pytest.raises(UserError, match=r"meta\.pickle\.pbz2.*15,625"):
        NatsArchive(archive_folder)


def test_a_cell_under_another_ones_name_is_a_user_error(archive_folder):
    (archive_folder / "000003.pickle.pbz2").rename(archive_folder / "000005.pickle.pbz2")

    with pytest.raises(UserError, match=r"000005.*cell 5"):
        NatsArchive(archive_folder).latency_ms(5, TASKS["cifar10"])


@pytest.mark.parametrize(
    "changes",
    [
        {"percent": 120.0},
        {"percent": float("nan")},
        {"arch_index": "three"},
        {"dataset_seed": {}},
        {"all_results": {}},
        {"all_results": None},
        {"arch_str": "|none~0|"},
    ],
)
def test_a_cell_with_impossible_contents_is_a_user_error(archive_folder, write_cell, changes):
    write_cell(archive_folder, 3, **changes)

    with pytest.raises(UserError, match=r"000003.*cell 3"):
        NatsArchive(archive_folder).accuracy(3, TASKS["cifar100"], 200)


@pytest.mark.parametrize("latency_s", [float("nan"), float("inf"), -1.0, "fast", None, [1.0]])
def test_an_impossible_latency_is_a_user_error(archive_folder, write_cell, latency_s):
    write_cell(archive_folder, 3, latency_s=latency_s)

    with pytest.raises(UserError, match=r"000003.*cell 3"):
        NatsArchive(archive_folder).latency_ms(3, TASKS["cifar100"])


@pytest.mark.data
@pytest.mark.parametrize(
    ("index", "valid", "test", "latency_ms"),
    [(0, 52.70, 52.9133, 13.1829), (11, 67.4533, 67.6067, 16.1389), (284, 61.68, 62.14, 11.145)],
)
def test_cifar100_of_three_cells_of_the_official_archive(nas_data, index, valid, test, latency_ms):
    archive = NatsArchive(nas_data / "raw" / "nats-tss-sample")

    accuracy = archive.accuracy(index, TASKS["cifar100"], 200)

    assert accuracy == pytest.approx((valid / 100, test / 100), abs=1e-6)
    assert archive.latency_ms(index, TASKS["cifar100"]) == pytest.approx(latency_ms, abs=1e-4)


@pytest.mark.data
@pytest.mark.parametrize("dataset", TASKS.values())
def test_reading_safely_changes_no_number(nas_data, dataset):
    import nats_bench  # noqa: PLC0415 - only where there is data

    folder = nas_data / "raw" / "nats-tss-sample"
    official = nats_bench.create(str(folder), "tss", fast_mode=True, verbose=False)
    name = "ImageNet16-120" if dataset is TASKS["imagenet16"] else dataset.name
    ours = NatsArchive(folder)

    for index in (0, 11, 284):
        info = official.get_more_info(index, name, hp="200", is_random=False)
        _, test = ours.accuracy(index, dataset, 200)
        assert 100 * test == pytest.approx(info["test-accuracy"], abs=1e-12)
        assert ours.latency_ms(index, dataset) == 1000 * official.get_latency(index, name)
