"""A search under several limits."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from searching import (
    ON_TABLES,
    only_run,
    search,
)

from common.files.keyed_table import write_csv_table
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201


class TestUnderThreeLimits:
    """Time, energy and parameters; the energies are synthetic."""

    LIMITS = (*ON_TABLES, "E=6mJ", "P=900k")

    @pytest.fixture(scope="class")
    @classmethod
    def tables(cls, tmp_path_factory, synthetic_tables):
        data = tmp_path_factory.mktemp("with_energy")
        for path in synthetic_tables.iterdir():
            (data / path.name).symlink_to(path)
        energies_mj = np.random.default_rng(0).uniform(1, 12, NAS_BENCH_201.size)
        write_csv_table(data / "nb201_energy_mj.csv", SPACE, {"synthetic-board": energies_mj})
        return data

    @pytest.fixture(scope="class")
    @classmethod
    def finished(cls, tmp_path_factory, tables):
        runs = tmp_path_factory.mktemp("runs")
        done = search(runs, *cls.LIMITS, "reward=constrained", "budget=300", data=tables)
        assert done.returncode == 0, done.stderr
        return done, only_run(runs)

    def test_what_is_found_is_within_all_of_them(self, finished):
        summary = json.loads((finished[1] / "summary.json").read_text())

        for name in ("best", "optimum"):
            assert summary[name]["latency_ms"] <= 11
            assert summary[name]["costs"]["energy_mj"] <= 6
            assert summary[name]["costs"]["parameters"] <= 900_000
        assert summary["gap"] >= 0
        assert summary["limits"]["E"]["cost"] == "energy_mj"
        assert summary["limits"]["P"]["limit"] == 900_000
        assert 0 < summary["feasible_share"] < summary["limits"]["E"]["feasible_share"] < 1

    def test_the_samples_have_their_costs(self, finished):
        table = pq.read_table(finished[1] / "samples.parquet")

        within = np.ones(len(table), bool)
        for name, bound in (("latency_ms", 11), ("energy_mj", 6), ("parameters", 900_000)):
            within &= table[name].to_numpy() <= bound
        np.testing.assert_array_equal(table["feasible"].to_numpy(), within)

    def test_they_are_told_before_the_search_and_after_it(self, finished):
        done, folder = finished

        text = " ".join(done.stdout.split())
        assert "E = 6 mJ, P = 0.9 M" in text
        assert text.count("within T, E and P") > 1
        assert folder.name.endswith("-T11ms-E6mJ-P0.9M")
