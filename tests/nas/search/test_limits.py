"""A search under several limits."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
from searching import ON_TABLES, only_run

from edgenas_core.files.keyed_table import write_csv_table
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201


def test_what_a_search_ends_with_is_within_time_energy_and_parameters(
    search_here, tmp_path, synthetic_tables
):
    data = tmp_path / "with_energy"
    data.mkdir()
    for path in synthetic_tables.iterdir():
        (data / path.name).symlink_to(path)
    energies_mj = np.random.default_rng(0).uniform(1, 12, NAS_BENCH_201.size)
    write_csv_table(data / "nb201_energy_mj.csv", SPACE, {"synthetic-board": energies_mj})
    limits = (*ON_TABLES, "E=6mJ", "P=900k", "reward=constrained", "budget=300")

    done = search_here(tmp_path / "runs", *limits, data=data)

    assert done.returncode == 0, done.stderr
    folder = only_run(tmp_path / "runs")
    summary = json.loads((folder / "summary.json").read_text())
    for name in ("best", "optimum"):
        assert summary[name]["latency_ms"] <= 11
        assert summary[name]["costs"]["energy_mj"] <= 6
        assert summary[name]["costs"]["parameters"] <= 900_000
    assert summary["gap"] >= 0
    assert summary["limits"]["E"]["cost"] == "energy_mj"
    assert summary["limits"]["P"]["limit"] == 900_000
    assert 0 < summary["feasible_share"] < summary["limits"]["E"]["feasible_share"] < 1
    table = pq.read_table(folder / "samples.parquet")
    within = np.ones(len(table), bool)
    for name, bound in (("latency_ms", 11), ("energy_mj", 6), ("parameters", 900_000)):
        within &= table[name].to_numpy() <= bound
    np.testing.assert_array_equal(table["feasible"].to_numpy(), within)
    text = " ".join(done.stdout.split())
    assert "E = 6 mJ, P = 0.9 M" in text
    assert text.count("within T, E and P") > 1
    assert folder.name.endswith("-T11ms-E6mJ-P0.9M")
