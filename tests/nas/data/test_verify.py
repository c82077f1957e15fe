"""`verify` finds wrong tables, and names the file and the number."""

import numpy as np
import pytest

from edgenas_core.files.keyed_table import write_csv_table
from edgenas_core.types.errors import UserError
from nas.data.verify import verify
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201

SIZE = NAS_BENCH_201.size


def lines(folder):
    return [(verdict.passed, verdict.line) for verdict in verify(SPACE, folder)]


def column(number, **cells):
    values = np.full(SIZE, number)
    for index, value in cells.items():
        values[int(index.removeprefix("at"))] = value
    return values


def good_accuracy():
    return column(70.0, at0=52.9133, at11=67.6067, at284=62.14)


def test_a_good_folder_passes_with_a_line_for_each_table(tmp_path):
    write_csv_table(tmp_path / "nb201_accuracy.csv", SPACE, {"cifar100_test": good_accuracy()})
    write_csv_table(tmp_path / "nb201_latency_ms.csv", SPACE, {"phone": column(3.0, at5=np.nan)})
    write_csv_table(tmp_path / "mine_mj.csv", SPACE, {"phone": column(np.nan, at5=0.0)})
    (tmp_path / "notes.csv").write_text("who,what\n")

    judged = lines(tmp_path)
    assert all(passed for passed, _ in judged)
    assert [line.split()[1] for _, line in judged] == [
        "mine_mj.csv:",
        "nb201_accuracy.csv:",
        "nb201_latency_ms.csv:",
        "notes.csv:",
    ]
    assert "15,625 rows" in judged[1][1]
    assert "3 published values agree" in judged[1][1]
    assert "15,624 rows" in judged[2][1]
    assert "'arch'" in judged[3][1]


@pytest.mark.parametrize(
    ("name", "columns", "why"),
    [
        ("nb201_accuracy.csv", {"cifar10_valid": column(50.0, at7=101.0)}, "101, "),
        ("nb201_accuracy.csv", {"cifar10_valid": column(50.0, at7=-1.0)}, "-1, "),
        ("nb201_accuracy.csv", {"cifar10_epoch12_valid": column(50.0, at7=np.nan)}, "missing"),
        ("nb201_accuracy.csv", {"cifar10_params": column(50.0, at7=-1.0)}, "-1, negative"),
        ("nb201_accuracy.csv", {"cifar100_test": column(70.0)}, "70, published is 52.9133"),
        ("a_ms.csv", {"phone": column(1.0, at7=0.0)}, "0, not a positive"),
        ("a_ms.csv", {"phone": column(1.0, at7=-3.0)}, "-3, not a positive"),
        ("a_ms.csv", {"nats-gtx1080ti-cifar100": column(9.0)}, "published is 13.1829"),
        ("a_mj.csv", {"phone": column(1.0, at7=-3.0)}, "-3, negative"),
    ],
)
def test_a_number_that_cannot_be_fails(tmp_path, name, columns, why):
    write_csv_table(tmp_path / name, SPACE, columns)

    ((passed, line),) = lines(tmp_path)

    assert not passed
    assert line.startswith(f"FAIL  {name}: ")
    assert why in line


@pytest.mark.parametrize(
    "damage", [lambda c: c[:-100], lambda c: c[:-2], lambda _: b"", lambda c: c + c]
)
def test_a_damaged_table_fails_and_the_others_are_still_judged(tmp_path, damage):
    write_csv_table(tmp_path / "nb201_accuracy.csv", SPACE, {"cifar100_test": good_accuracy()})
    path = tmp_path / "nb201_a_ms.csv"
    write_csv_table(path, SPACE, {"phone": column(1.0)})
    path.write_bytes(damage(path.read_bytes()))

    assert [passed for passed, _ in lines(tmp_path)] == [False, True]


def test_a_device_in_two_tables_fails(tmp_path):
    for name in ("a_ms.csv", "b_ms.csv"):
        write_csv_table(tmp_path / name, SPACE, {"phone": column(1.0)})

    assert [passed for passed, _ in lines(tmp_path)] == [True, True, False]


def test_a_table_of_another_space_is_left_to_that_space(tmp_path):
    (tmp_path / "chains_ms.csv").write_text("arch,phone\nk3-k5,1.5\n")
    (tmp_path / "chains_ms.json").write_text('{"space": "chains"}')
    (tmp_path / "wrong_ms.csv").write_text("arch,tablet\nk3-k5,1.5\n")

    (other, other_line), (passed, wrong_line) = lines(tmp_path)

    assert other
    assert "space=chains" in other_line
    assert not passed
    assert "k3-k5" in wrong_line


def test_the_folder_of_the_space_is_verified_too(tmp_path):
    (tmp_path / "nas_bench_201").mkdir()
    write_csv_table(tmp_path / "nas_bench_201" / "a_ms.csv", SPACE, {"phone": column(0.0)})

    ((passed, line),) = lines(tmp_path)

    assert not passed
    assert "a_ms.csv" in line


@pytest.mark.parametrize("name", ["", "nowhere"])
def test_a_folder_without_tables_is_a_user_error_with_the_way_out(tmp_path, name):
    with pytest.raises(UserError, match=r"`python -m nas\.data space=nas_bench_201 fetch`"):
        list(verify(SPACE, tmp_path / name))


@pytest.mark.data
def test_the_real_tables_pass(nas_data):
    verdicts = list(verify(SPACE, nas_data))

    assert all(verdict.passed for verdict in verdicts), verdicts
