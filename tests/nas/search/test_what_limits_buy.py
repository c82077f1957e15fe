"""`front=` tells what each limit would buy."""

from __future__ import annotations

import numpy as np
import pytest
from searching import one_line

import edgenas
from nas.spaces.nas_bench_201.plugin import SPACE
from runtime.shell.keyed_table import read_csv_table


def test_each_row_is_the_best_architecture_within_its_limit(
    search_here, tmp_path, synthetic_tables
):
    finished = search_here(
        tmp_path, "device=synthetic-board", "front=[12ms,0.1ms,6ms]", data=synthetic_tables
    )

    table = {
        name: read_csv_table(synthetic_tables / f"nb201_{name}.csv", SPACE).column(column)
        for name, column in (("accuracy", "cifar100_valid"), ("latency_ms", "synthetic-board"))
    }
    assert finished.returncode == 0, finished.stderr
    flat = " ".join(finished.stdout.replace("\u00a0", " ").split())
    assert "0.1 ms none" in flat
    for limit_ms in (6, 12):
        best = np.max(table["accuracy"][table["latency_ms"] <= limit_ms])
        assert f"{limit_ms} ms {best:.2f}%" in flat
    (page,) = tmp_path.glob("*/*-front-synthetic-board/report.html")
    assert "none" in page.read_text(encoding="utf-8")


def test_the_library_returns_the_page(tmp_path, synthetic_tables, monkeypatch):
    monkeypatch.setenv("NAS_DATA", str(synthetic_tables))

    page = edgenas.front(["6ms", "12ms"], device="synthetic-board", runs=tmp_path, quiet=True)

    assert "What a time limit buys on synthetic-board" in page.path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "said"),
    [(("front=[6]",), "T=6 has no unit"), (("front=[]",), "names no limit")],
)
def test_a_limit_that_is_none_is_one_line(search_here, tmp_path, synthetic_tables, words, said):
    assert said in one_line(search_here(tmp_path, *words, data=synthetic_tables))
