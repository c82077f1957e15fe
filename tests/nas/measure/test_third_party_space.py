"""Measuring networks of a third party's space, and keeping its numbers apart from another's."""

import json

import numpy as np
import pytest

import nas.measure.command
from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from latency.base import UnmeasuredError
from latency.measuring.journal import read
from latency.sources.table import AutoLatencyConfig, RegressionLatencyConfig, TableLatencyConfig
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import TASKS
from nas.spaces.registry import space_named

TOY = space_named("toy_space")
TASK = TOY.tasks["shapes"]
DEVICE = "desk/torch/fp32/b1"
QUICK = (
    *("space=toy_space", "board=desk", "networks=52", "repeats=0", "on_disturbance=flag"),
    *("timing.samples=2", "timing.settle_s=0.01"),
    "tolerance=20000",
)

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def run(in_process, tmp_path):
    """Measures into the test's folder, in this process, and back on all processors."""

    def call(*overrides):
        last_of_each = {text.split("=")[0]: text for text in (*QUICK, *overrides)}.values()
        words = ["nas.measure", f"out={tmp_path / 'out'}", *last_of_each]
        return in_process(nas.measure.command.main, words)

    return call


def test_networks_that_the_seed_draws_become_a_table_that_a_search_can_use(
    run, tmp_path, monkeypatch
):
    status, _, stderr = run()
    assert status == 0, stderr
    (journal,) = (tmp_path / "out").glob("*.journal.csv")
    (table,) = (tmp_path / "out").glob("*_ms.csv")
    timed = {row["arch"] for row in read(journal)}
    origin = json.loads(table.with_suffix(".json").read_text())
    assert len(timed) == 52
    assert (origin["space"], origin["networks_distinct"]) == ("toy_space", None)
    assert origin["control"] == TOY.text(TOY.control())
    monkeypatch.setenv("NAS_DATA", str(tmp_path / "out"))

    strict, auto, model = (
        config.build(DEVICE, TOY, TASK)
        for config in (TableLatencyConfig(), AutoLatencyConfig(), RegressionLatencyConfig())
    )

    known = np.stack([TOY.parse(text) for text in timed])
    others = TOY.sample(np.random.default_rng(99), 30)
    assert (strict.answer(known).kind == Kind.measured).all()
    assert (strict.answer(known).ms > 0).all()
    with pytest.raises(UnmeasuredError, match="desk"):
        strict.answer(others)
    assert (auto.answer(others).kind == Kind.regression).all()
    assert (auto.answer(known).ms == strict.answer(known).ms).all()
    assert (model.answer(known).kind == Kind.regression).all()
    with pytest.raises(UserError, match=f"device '{DEVICE}' has no table"):
        AutoLatencyConfig().build(DEVICE, SPACE, TASKS["cifar10"])


def test_one_folder_does_not_take_networks_of_two_spaces(run, tmp_path):
    assert run("networks=1", "minutes=1e-9")[0] in {0, 2}

    status, _, stderr = run("space=nas_bench_201", "networks=1", "dataset=auto")

    assert status == 2
    (line,) = stderr.splitlines()
    assert "space=toy_space, not nas_bench_201" in line
    assert str(tmp_path / "out") in line


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (("networks=null",), "space=toy_space cannot be listed; add networks="),
        (("networks=null", "transfer=true"), "space=toy_space comes without latencies"),
        (("dataset=cifar10",), "dataset=cifar10 is not one of"),
        (("space=nowhere",), "space=nowhere is not one of"),
    ],
)
def test_what_the_space_cannot_do_is_one_line(run, tmp_path, overrides, expected):
    status, _, stderr = run(*overrides)

    assert status == 2
    (line,) = stderr.splitlines()
    assert expected in line
    assert not (tmp_path / "out").exists()
