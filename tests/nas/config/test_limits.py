"""Limits beside the latency's, on synthetic tables and on the real energy table."""

from __future__ import annotations

import numpy as np
import pytest

from edgenas_core.files.keyed_table import read_csv_table, write_csv_table
from edgenas_core.types.errors import UserError
from nas.config.limits import limits_of
from nas.spaces.nas_bench_201.costs import parameters
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201, TASKS
from nas.trials.limits import cost_text

EVERYTHING = NAS_BENCH_201.rows
DEVICE = "raspberry-pi-5/litert/fp32/b1"


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """Write synthetic energies, of a device that has a latency column too."""
    monkeypatch.setenv("NAS_DATA", str(tmp_path))
    latency = {name: np.full(NAS_BENCH_201.size, 9.0) for name in ("board", "other")}
    write_csv_table(tmp_path / "mine_ms.csv", SPACE, latency)

    def write(energies_mj, column="board", file="mine_mj.csv"):
        write_csv_table(tmp_path / file, SPACE, {column: energies_mj})
        return tmp_path / file

    return write


def test_without_further_limits_all_are_within_them():
    none = limits_of(None, None, "board", SPACE, TASKS["cifar100"])

    assert not none
    assert none.label == "T"
    costs = none.costs(EVERYTHING[:12].reshape(3, 4, 6))
    assert costs.shape == (3, 4, 0)
    assert none.met(costs).all()
    assert none.met(costs).shape == (3, 4)


def test_energy_and_parameters_are_held_against_their_limits(tables):
    energy_mj = np.random.default_rng(0).uniform(1, 9, NAS_BENCH_201.size)
    tables(energy_mj)

    limits = limits_of("5mJ", "500k", "board", SPACE, TASKS["cifar10"])

    counts = parameters(EVERYTHING, TASKS["cifar10"])
    batch = EVERYTHING[:12].reshape(3, 4, 6)
    assert limits.label == "T, E and P"
    assert [str(limit) for limit in limits.each] == ["E = 5 mJ", "P = 0.5 M"]
    costs = limits.costs(batch)
    np.testing.assert_array_equal(costs[..., 0].ravel(), energy_mj[:12])
    np.testing.assert_array_equal(costs[..., 1].ravel(), counts[:12])
    within = (energy_mj <= 5) & (counts <= 500_000)
    np.testing.assert_array_equal(limits.met(limits.costs(EVERYTHING)), within)
    assert limits.bounds.tolist() == [5, 500_000]


def test_memory_is_held_against_its_limits():
    memory = {"RAM": "100kB", "flash": "0.3MB"}
    limits = limits_of(None, "1M", "board", SPACE, TASKS["cifar10"], memory=memory)

    costs = limits.costs(EVERYTHING[:4])

    assert [str(limit) for limit in limits.each] == ["P = 1 M", "RAM = 100 kB", "flash = 300 kB"]
    assert [limit.title for limit in limits.each[1:]] == ["RAM (kB)", "flash (kB)"]
    np.testing.assert_array_equal(
        costs[:, 1:] * 1e3, SPACE.memories(EVERYTHING[:4], TASKS["cifar10"])
    )
    assert limits.least(np.array([[9.0, 150.0, 200.0], [9.0, 120.0, 400.0]])) == (
        "; their smallest RAM is 120 kB, beyond RAM = 100 kB"
    )


def test_energy_measured_for_another_data_set_says_so(tables):
    tables(np.ones(NAS_BENCH_201.size), "hw360-pi5-litert-cifar100", "pi_mj.csv")

    same, other = (
        limits_of("5mJ", None, DEVICE, SPACE, dataset).each[0].source
        for dataset in (TASKS["cifar100"], TASKS["imagenet16"])
    )

    assert "cifar100, on images" not in same
    assert "cifar100, on images 32" in other


@pytest.mark.parametrize(
    ("device", "columns", "named"),
    [
        ("other", {"mine": "board", "pi": "hw360-pi5-litert-cifar100"}, f"board, {DEVICE}"),
        ("board", {}, r"_mj\.csv"),
        ("board", {"mine": "board", "more": "board"}, "'board' .*mine_mj.*more_mj"),
        ("cmd://board", {}, "cmd://board"),
    ],
)
def test_an_energy_that_is_not_known_is_refused(tables, device, columns, named):
    for name, column in columns.items():
        tables(np.ones(NAS_BENCH_201.size), column, f"{name}_mj.csv")

    with pytest.raises(UserError, match=named):
        limits_of("5mJ", None, device, SPACE, TASKS["cifar100"])


@pytest.mark.parametrize(
    ("value", "hint"),
    [(np.nan, "nan mJ"), (0.0, " 0 mJ"), (-2.0, "-2 mJ")],
)
def test_an_energy_that_is_missing_or_not_positive_is_refused(tables, value, hint):
    energies_mj = np.ones(NAS_BENCH_201.size)
    energies_mj[77] = value
    tables(energies_mj)

    with pytest.raises(UserError, match=hint):
        limits_of("5mJ", None, "board", SPACE, TASKS["cifar100"])


@pytest.mark.data
def test_the_energy_of_the_raspberry_pi_5_is_found_by_id_and_by_column(nas_data):
    table = read_csv_table(nas_data / "nb201_energy_mj.csv", SPACE)
    column = "hw360-pi5-litert-cifar100"

    for name in (DEVICE, column):
        (limit,) = limits_of("5mJ", None, name, SPACE, TASKS["cifar100"]).each
        np.testing.assert_array_equal(limit.cost_of(EVERYTHING), table.column(column))
    assert limit.cost_of(EVERYTHING[:3]) == pytest.approx([2.57532, 12.08262, 9.14054])


@pytest.mark.data
@pytest.mark.usefixtures("nas_data")
def test_the_error_for_another_device_names_both_runtimes_of_the_pi_5():
    with pytest.raises(UserError, match=f"{DEVICE}, raspberry-pi-5/torch-mobile/fp32/b1"):
        limits_of("5mJ", None, "help-raspi4", SPACE, TASKS["cifar100"])


def test_a_small_count_is_written_out():
    assert [cost_text(count, "") for count in (10.0, 1500.0, 860e3)] == ["10", "1,500", "0.86 M"]
