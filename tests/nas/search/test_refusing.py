"""A search that cannot work is one line, and nothing is lost."""

from __future__ import annotations

import resource
import sys

import pytest
from searching import (
    ON_TABLES,
    XEON,
    one_line,
    only_run,
    resume,
    sampled,
    search,
)


def test_a_search_on_measurements_only_is_refused_where_some_are_missing(search_here, tmp_path):
    finished = search_here(
        tmp_path, f"device={XEON}", "latency=table", "T=1ms", "budget=60", "reward=mnasnet"
    )

    line = one_line(finished)
    assert "9,287 of the 15,625" in line
    assert XEON in line
    assert "latency=auto" in line


@pytest.mark.parametrize(
    ("controller", "library"), [("tpe", "optuna_tpe"), ("nsga2", "pymoo_nsga2")]
)
def test_a_searcher_whose_library_is_missing_says_how_to_get_it(
    search_here, tmp_path, monkeypatch, controller, library
):
    monkeypatch.delitem(sys.modules, f"controller.libraries.{library}", raising=False)
    package = library.partition("_")[0]
    imported = [name for name in sys.modules if name.startswith(f"{package}.")]
    for name in (package, *imported):
        monkeypatch.setitem(sys.modules, name, None)

    assert "[searchers]" in one_line(search_here(tmp_path, f"controller={controller}"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("overrides", "hint"),
    [
        (("T=17",), "write T=17ms"),
        (("T=[1ms,2ms]",), "-m T=1ms,2ms"),
        (("T=0.1ms", "reward=constrained"), "T=0.1ms"),
        (("reward=proposed", "T=1ms"), "T > 1ms"),
        (("budget=0",), "budget=0"),
        (("budget=many",), "budget: "),
        (("seed=-1",), "seed=-1"),
        (("device=synthetic-bord",), "synthetic-board"),
        (("reward=constraint",), "constrained?"),
        (("split=tests",), "[auto, valid, test]"),
        (("dataset=mnist",), "cifar100"),
        (("controller.lr=-1",), "controller.lr=-1"),
        (("controller.batch_size=0",), "controller.batch_size=0"),
        (("epochs=13",), "13"),
        (("budgt=10",), "budgt; did you mean budget?"),
        (("controller.elite=3",), "unknown setting controller.elite"),
        (("controller.lrr=1",), "controller.lrr; did you mean controller.lr?"),
        (("+budgt=10",), "+budgt=10"),
        (("reward.target_ms=5",), "set T="),
        (("reward=mnasnet", "reward.exponent_beyond=nan"), "exponent_beyond=nan"),
        (("controller.lr=inf",), "controller.lr=inf"),
        (("budget=99999999999999999999",), "1,000,000,000"),
        (("reward=proposed", "reward.latency_weight=2"), "latency_weight=2"),
        (("reward=null",), "reward=null"),
        (("workers=0",), "workers=0"),
        (("space=ofa",), "nas_bench_201"),
    ],
)
def test_a_wrong_value_is_one_line_that_names_it_and_leaves_no_run(
    search_here, tmp_path, synthetic_tables, overrides, hint
):
    settings = {text.split("=")[0]: text for text in (*ON_TABLES, *overrides)}

    finished = search_here(tmp_path, *settings.values(), data=synthetic_tables)

    assert hint in one_line(finished)
    assert not list(tmp_path.rglob("config.yaml"))


@pytest.mark.parametrize("lr", ["1e300", "1e38"])
def test_a_policy_that_diverges_is_one_line_that_names_the_setting(
    search_here, tmp_path, synthetic_tables, lr
):
    finished = search_here(tmp_path, *ON_TABLES, f"controller.lr={lr}", data=synthetic_tables)

    assert "lower controller.lr" in one_line(finished)
    assert not list(tmp_path.rglob("summary.json"))


def test_a_folder_that_cannot_be_written_is_one_line(search_here, tmp_path, synthetic_tables):
    (tmp_path / "file").write_text("in the way")

    line = one_line(search_here(tmp_path / "file" / "runs", *ON_TABLES, data=synthetic_tables))

    assert str(tmp_path / "file") in line


@pytest.mark.parametrize(
    ("bytes_a_file", "budget", "full"),
    [
        pytest.param(400_000, 20_000, "journal.jsonl", marks=pytest.mark.slow),
        pytest.param(150_000, 2_000, "tensorboard", marks=pytest.mark.slow),
    ],
)
def test_a_full_disk_is_one_line_and_loses_no_sample(
    tmp_path, synthetic_tables, bytes_a_file, budget, full
):
    def no_larger_file():
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_a_file, bytes_a_file))

    finished = search(
        tmp_path,
        *ON_TABLES,
        "controller.batch_size=1",
        f"budget={budget}",
        data=synthetic_tables,
        preexec_fn=no_larger_file,
    )

    line = one_line(finished)
    assert full in line
    assert "resume=" in line
    folder = only_run(tmp_path)
    assert sampled(folder) > 300
    assert resume(folder, data=synthetic_tables).returncode == 0


@pytest.mark.parametrize(
    ("settings", "hint"),
    [
        (["executor=ray"], "set workers="),
        (["executor=threads", "workers=2"], "executor=threads"),
        (["executor=slurm"], "executor"),
    ],
)
def test_trainings_that_cannot_be_spread_are_refused(search_here, tmp_path, settings, hint):
    finished = search_here(tmp_path, "data=digits", *settings)

    assert hint in one_line(finished)
