"""A third party's space (tests/plugins/toy_space) through every command, without a line changed.

It has conditional choices and more than 2^63 rows, cannot be listed, builds networks of its own, and
comes with no table. tests/nas/measure/test_third_party_space.py measures it.
"""

from __future__ import annotations

import json
import math

import numpy as np
import pyarrow.parquet as pq
import pytest

import nas.export.command
import nas.search.command
import nas.study.command
import nas.transfer
from edgenas_core.types.architectures import Enumerable
from nas.report.answer import Status
from nas.spaces.registry import space_named

DEVICE = "here/torch/fp32/b1"

OTHER_CONTROLLERS = ("tpe", "guided", "uniform", "evolution", "local_search", "nsga2")


@pytest.fixture(scope="module")
def space():
    return space_named("toy_space")


@pytest.fixture
def tables(tmp_path, monkeypatch, space):
    """A synthetic latency table of 80 networks, named by their texts."""
    folder = tmp_path / "data" / "toy_space"
    folder.mkdir(parents=True)
    monkeypatch.setenv("NAS_DATA", str(folder.parent))
    rows = np.unique(space.sample(np.random.default_rng(1), 80), axis=0)
    costs = space.costs(rows, space.tasks["shapes"])
    latency_ms = 0.3 + 0.1 * rows[..., 0] + 3e-6 * costs["flops"]
    lines = [f"{space.text(row)},{ms:.6f}" for row, ms in zip(rows, latency_ms, strict=True)]
    (folder / "synthetic_ms.csv").write_text("\n".join([f"arch,{DEVICE}", *lines, ""]))
    return folder


@pytest.fixture
def search(in_process, tmp_path):
    def run(*words):
        common = ["space=toy_space", "accuracy=surrogate", f"device={DEVICE}", "T=1.1ms"]
        return in_process(
            nas.search.command.main,
            ["nas.search", *common, "budget=120", f"out={tmp_path / 'runs'}", *words],
        )

    return run


def only_run(tmp_path):
    (summary,) = (tmp_path / "runs").glob("*/*/summary.json")
    return summary.parent


def test_the_space_is_what_the_house_was_not_built_for(space):
    assert math.prod(space.num_choices) > 2**63
    assert not isinstance(space, Enumerable)


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize(
    "controller",
    ["rnn", *(pytest.param(name, marks=pytest.mark.slow) for name in OTHER_CONTROLLERS)],
)
def test_every_controller_searches_it(controller, search, tmp_path, space):
    status, told, error = search(f"controller={controller}", "reward=constrained")

    assert status == 0, error
    folder = only_run(tmp_path)
    record = pq.read_table(folder / "samples.parquet").to_pydict()
    assert len(record["arch"]) == 120
    assert "index" not in record
    assert set(record["latency_kind"]) <= {"measured", "regression"}
    assert space.valid(np.array([space.parse(text) for text in record["arch"]])).all()
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["settings"]["space"] == "toy_space"
    assert summary["best"]["latency_ms"] <= 1.1
    assert summary["optimum"] is None
    low, high = summary["space_feasible_interval"]
    assert low < summary["space_feasible_share"] < high
    assert Status.unranked.value in " ".join(told.split())
    page = (folder / "report.html").read_text()
    assert summary["best"]["arch"] in page
    assert "NAS-Bench" not in page
    assert "number</th>" not in page
    assert "rank</th>" not in page


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize(
    ("word", "named"),
    [("controller=exhaustive", "exhaustive"), ("device=null", "space=toy_space board=")],
)
def test_what_the_space_cannot_do_is_refused_in_one_line(search, word, named):
    status, _, error = search(word)

    assert status == 2
    assert len(error.strip().splitlines()) == 1
    assert named in error


@pytest.mark.usefixtures("tables")
def test_what_was_found_is_exported_and_checked(search, in_process, tmp_path):
    assert search("controller=local_search", "reward=constrained")[0] == 0
    folder = only_run(tmp_path)

    status, _, error = in_process(
        nas.export.command.main,
        ["nas.export", f"run={folder}", "timing.samples=3"],
    )

    assert status == 0, error
    exported = json.loads((folder / "export" / "export.json").read_text())
    summary = json.loads((folder / "summary.json").read_text())
    assert exported["space"] == "toy_space"
    assert exported["architecture"]["arch"] == summary["best"]["arch"]
    assert (folder / "export" / "network.onnx").stat().st_size > 1000


def test_numbers_of_another_space_are_not_taken_for_its_own(tables, search):
    (tables / "synthetic_ms.csv").unlink()
    text = "|nor_conv_3x3~0|+|nor_conv_3x3~0|none~1|+|none~0|none~1|none~2|"
    (tables.parent / "other_ms.csv").write_text(f"arch,{DEVICE}\n{text},5.0\n")

    status, _, error = search()

    assert status == 2
    assert DEVICE in error
