"""`samples.parquet`: every trial, also those without an answer."""

from __future__ import annotations

import math

import numpy as np
import pyarrow.parquet as pq
import pytest
from searched import ACCURACY, LATENCY_MS, Oracle, problem_of, searched

from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from nas.report.samples import read_row, write_record
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.trials.trial import State


@pytest.fixture
def written(tmp_path):
    kinds = np.full(SPACE.size, Kind.measured)
    kinds[2], kinds[3] = Kind.transfer, Kind.penalty
    states = {4: State.failed, 5: State.failed}
    made = searched([*range(10), 4], problem_of(Oracle(kind=kinds)), states=states)
    path = tmp_path / "samples.parquet"
    write_record(path, made.trials, made.problem)
    return path


def test_every_trial_is_a_row_with_its_state_its_kinds_and_its_error(written):
    rows = pq.read_table(written).to_pylist()

    assert [row["sample"] for row in rows] == list(range(11))
    states = ["done"] * 4 + ["failed", "failed"] + ["done"] * 5
    assert [row["state"] for row in rows] == states
    kinds = [row["latency_kind"] for row in rows[:4]]
    assert kinds == ["measured", "measured", "transfer", "penalty"]
    assert [row["accuracy_kind"] for row in rows[3:7]] == [
        "measured",
        "missing",
        "missing",
        "measured",
    ]
    assert "diverged" in rows[4]["error"]
    assert {row["error"] for row in rows if row["state"] != "failed"} == {""}
    assert math.isnan(rows[4]["accuracy"])
    assert not rows[4]["feasible"]
    for row in rows:
        assert row["latency_ms"] == LATENCY_MS[row["index"]]
        assert SPACE.numbers(SPACE.parse(row["arch"])) == row["index"]


def test_a_row_is_found_by_its_architecture_where_it_was_finished(written):
    text = SPACE.text(SPACE.architectures(np.array(4)))

    row = read_row(written, text)

    assert (row["sample"], row["accuracy"]) == (10, ACCURACY[4])
    failed = SPACE.text(SPACE.architectures(np.array(5)))
    assert read_row(written, failed) is None


def test_a_file_that_is_no_record_is_refused_by_its_name(tmp_path):
    path = tmp_path / "samples.parquet"
    for content in (b"", b"PAR1 not a table"):
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"samples\.parquet"):
            read_row(path, "any")
