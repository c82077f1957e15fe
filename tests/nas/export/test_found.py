"""Which network of a run is exported, and what is said where there is none."""

from __future__ import annotations

import json
import shutil

import pytest

from nas.export.found import Which, find
from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from runtime.shell.errors import UserError


def change(run, **fields):
    summary = json.loads((run / "summary.json").read_text())
    (run / "summary.json").write_text(json.dumps({**summary, **fields}))


@pytest.fixture
def own_run(run, tmp_path):
    """A copy of the run, to be spoilt."""
    for name in ("config.yaml", "summary.json", "samples.parquet"):
        (tmp_path / "run").mkdir(exist_ok=True)
        shutil.copy(run / name, tmp_path / "run")
    return tmp_path / "run"


def test_the_best_is_found_unless_another_is_asked_for(run):
    summary = json.loads((run / "summary.json").read_text())

    assert find(run, None, None).cell == summary["best"]["arch"]
    assert find(run, Which.optimum, None).cell == summary["optimum"]["arch"]
    assert find(run, None, str(summary["mode"]["index"])).named in {"best", "optimum", "mode"}


def test_a_sample_is_found_by_string_and_by_number_with_the_values_of_the_run(run):
    from nas.trials.trial import read_parquet  # noqa: PLC0415 - as the code does

    samples = read_parquet(run / "samples.parquet")
    index = int(NAS_BENCH_201.numbers(samples.architectures[0]))

    for cell in (str(index), NAS_BENCH_201.strings[index]):
        found = find(run, None, cell)
        assert found.index == index
        assert found.accuracy == samples.accuracy[0]
        assert found.latency_ms == samples.latency_ms[0]


def test_predictions_are_called_so(run):
    found = find(run, None, None)

    assert "PREDICTED" in found.accuracy_text
    assert "PREDICTED" in found.latency_text


def test_a_measured_value_is_not_called_predicted(own_run):
    best = json.loads((own_run / "summary.json").read_text())["best"]
    change(own_run, best={**best, "latency_predicted": False, "latency_again_ms": 9.5})

    told = find(own_run, None, None).latency_text
    assert told.endswith("on jetson-nano/fp32/b1, measured")
    assert "timed again at the end of the run" in told


def test_a_cell_that_the_run_never_sampled_is_refused(run):
    sampled = {row["index"] for row in _rows(run)}
    never = next(index for index in range(NAS_BENCH_201.size) if index not in sampled)

    with pytest.raises(UserError, match=r"was not sampled in run=.*samples\.parquet"):
        find(run, None, str(never))


def _rows(run):
    import pyarrow.parquet as pq  # noqa: PLC0415 - as the code does

    summary = json.loads((run / "summary.json").read_text())
    named = [summary[which.value] for which in Which if summary[which.value]]
    return [*pq.read_table(run / "samples.parquet", columns=["index"]).to_pylist(), *named]


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("|x|", "is not of the form"),
        ("15625", "not between 0 and 15,624"),
        ("-1", "is not of the form"),
        ("²", "is not of the form"),
        ("|conv~0|+|none~0|none~1|+|none~0|none~1|none~2|", "'conv' is not one of"),
    ],
)
def test_a_cell_that_does_not_exist_is_refused(run, cell, message):
    with pytest.raises(UserError, match=message):
        find(run, None, cell)


def test_two_wishes_at_once_are_refused(run):
    with pytest.raises(UserError, match="leave out one"):
        find(run, Which.best, "1462")


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"is not the folder of a run: it has no config\.yaml"):
        find(tmp_path, None, None)


def test_an_unfinished_run_is_refused_with_the_way_to_finish_it(own_run):
    (own_run / "summary.json").unlink()

    with pytest.raises(
        UserError, match=r"has not finished; go on with python -m nas\.search resume="
    ):
        find(own_run, None, None)


def test_a_run_that_found_nothing_within_its_limit_says_what_can_be_exported(own_run):
    change(own_run, best=None, optimum=None)

    with pytest.raises(
        UserError, match=r"no network within T = 17 ms; export .* which=mode, cell="
    ):
        find(own_run, None, None)


@pytest.mark.parametrize(
    "changes",
    [
        {"best": {}},
        {"best": [1]},
        {"best": "text"},
        {"dataset": "mnist"},
        {"T_ms": None},
        {"T_ms": 10**400},
        {"epochs": float("inf")},
        {"best": {"accuracy_searched": 7}},
    ],
)
def test_a_summary_that_makes_no_sense_is_refused(own_run, changes):
    if changes == {"best": {"accuracy_searched": 7}}:
        best = json.loads((own_run / "summary.json").read_text())["best"]
        changes = {"best": {**best, **changes["best"]}}
    change(own_run, **changes)

    with pytest.raises(UserError, match=r"summary\.json is not the summary of a search"):
        find(own_run, None, None)


def test_a_summary_that_no_reader_can_take_in_is_refused(own_run):
    (own_run / "summary.json").write_text("[" * 99_999)

    with pytest.raises(UserError, match=r"summary\.json is not the summary of a search"):
        find(own_run, None, None)


def test_a_network_for_several_devices_is_exported_with_the_time_on_the_one_with_most_room(own_run):
    best = json.loads((own_run / "summary.json").read_text())["best"]
    on = {
        "device": "core",
        "latency_ms": 1.9,
        "latency_predicted": False,
        "T_ms": 2.0,
        "fits": True,
    }
    away = {**on, "device": "gpu", "latency_ms": 0.9, "T_ms": 0.8, "fits": False}
    several = {"device": "gpu (0.8 ms) or core (2 ms)", "latency_source": "mapped", "T_ms": 0.8}
    change(own_run, best={**best, "on": [on, away]}, **several)

    found = find(own_run, None, None)
    assert (found.device, found.limit_ms, found.latency_ms) == ("core", 2.0, 1.9)

    change(own_run, best=best, **several)  # of a sample only the scaled time is kept
    scaled = find(own_run, None, None)
    assert scaled.device == "the best of gpu (0.8 ms) or core (2 ms), as milliseconds of the first"
    assert (scaled.limit_ms, scaled.latency_ms) == (0.8, best["latency_ms"])
