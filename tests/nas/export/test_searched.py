"""Which network of a run is exported, and what is said where there is none."""

from __future__ import annotations

import json
import math
import shutil

import pyarrow.parquet as pq
import pytest

from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from nas.export.searched import Which, find
from nas.report.samples import read_row
from nas.spaces.nas_bench_201.plugin import SPACE


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

    assert find(run, None, None).arch == summary["best"]["arch"]
    assert find(run, Which.optimum, None).arch == summary["optimum"]["arch"]
    assert find(run, None, str(summary["mode"]["index"])).searched.named in {
        "best",
        "optimum",
        "mode",
    }


def test_a_sample_is_found_by_its_text_and_by_its_number_with_the_values_of_the_run(run):
    sample = pq.read_table(run / "samples.parquet").slice(0, 1).to_pylist()[0]
    row = read_row(run / "samples.parquet", sample["arch"])

    for arch in (str(sample["index"]), sample["arch"]):
        found = find(run, None, arch)
        known = found.searched
        assert found.arch == sample["arch"]
        assert known.named == "sample"
        assert (known.accuracy, known.latency_ms) == (row["accuracy"], row["latency_ms"])
        assert (known.accuracy_kind, known.latency_kind) == ("surrogate", "regression")


def test_a_number_has_its_mark_its_kind_and_the_length_of_a_short_training(own_run):
    summary = json.loads((own_run / "summary.json").read_text())
    predicted = find(own_run, None, None).searched
    best = {**summary["best"], "latency_kind": "measured", "latency_again_ms": 9.5}
    change(own_run, best=best, settings={**summary["settings"], "epochs": 12})
    measured = find(own_run, None, None).searched

    assert (predicted.accuracy_text[0], predicted.latency_text[0]) == ("~", "~")
    assert predicted.accuracy_text.endswith(Kind.surrogate.words)
    assert predicted.latency_text.endswith(Kind.regression.words)
    assert predicted.epochs is None
    assert measured.latency_text.endswith("jetson-nano/fp32/b1, measured")
    assert "timed again" in measured.latency_text
    assert "after 12 epochs" in measured.accuracy_text


def test_an_architecture_that_the_run_never_sampled_is_refused(run):
    rows = pq.read_table(run / "samples.parquet", columns=["index"]).to_pylist()
    summary = json.loads((run / "summary.json").read_text())
    known = {row["index"] for row in (*rows, summary["optimum"], summary["mode"])}
    never = next(index for index in range(SPACE.size) if index not in known)

    with pytest.raises(UserError, match=r"not sampled in .*samples\.parquet"):
        find(run, None, str(never))


@pytest.mark.parametrize(
    ("arch", "message"),
    [
        ("|x|", "is not of the form"),
        ("15625", "not between 0 and 15,624"),
        ("-1", "is not of the form"),
        ("²", "is not of the form"),
        ("|conv~0|+|none~0|none~1|+|none~0|none~1|none~2|", "'conv' is not one of"),
    ],
)
def test_an_architecture_that_does_not_exist_is_refused(run, arch, message):
    with pytest.raises(UserError, match=message):
        find(run, None, arch)


def test_two_wishes_at_once_are_refused(run):
    with pytest.raises(UserError, match="which=best and arch=1462"):
        find(run, Which.best, "1462")


def test_the_answer_for_another_t_is_read_off_the_front(run):
    summary = json.loads((run / "summary.json").read_text())
    front = summary["front"]
    middle = front[len(front) // 2]
    needed_ms = middle["latency_ms"] * math.exp(summary["margin"])  # its latency is a prediction

    found = find(run, None, None, needed_ms + 1e-9)

    assert summary["margin"] > 0.01
    assert found.arch == middle["arch"]
    assert found.searched.accuracy_test == middle["accuracy_test"]
    assert found.searched.T_ms == pytest.approx(needed_ms)
    assert find(run, None, None, needed_ms - 1e-3).arch != middle["arch"]
    with pytest.raises(UserError, match=r"T=0\.001ms.*its fastest takes"):
        find(run, None, None, 0.001)
    with pytest.raises(UserError, match="which=best and T=12ms name two"):
        find(run, Which.best, None, 12.0)


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ([], r"config\.yaml.* 1 runs, such as run="),
        (["config.yaml"], r"python -m nas\.search or nas\.fit resume="),
        (["config.yaml", "study.json"], "arch="),
    ],
)
def test_a_folder_without_a_finished_run_is_refused_with_the_way_out(own_run, files, named):
    folder = own_run if files else own_run.parent
    if files:
        (own_run / "summary.json").unlink()
    for file in files:
        (folder / file).touch()

    with pytest.raises(UserError, match=named):
        find(folder, None, None)


def test_a_run_that_found_nothing_within_its_limit_says_what_can_be_exported(own_run):
    change(own_run, best=None, optimum=None)

    with pytest.raises(UserError, match=r"T = 17 ms.* which=mode, arch="):
        find(own_run, None, None)


@pytest.mark.parametrize(
    ("change_to", "named"),
    [
        (lambda summary: summary.update(best={}), r"best\.arch"),
        (lambda summary: summary.update(best=[1]), "best"),
        (lambda summary: summary.update(T_ms=None), "T_ms"),
        (lambda summary: summary.update(T_ms=10**400), "T_ms"),
        (lambda summary: summary["settings"].update(epochs=float("inf")), r"settings\.epochs"),
        (lambda summary: summary["settings"].update(space="no_space"), "no_space"),
        (lambda summary: summary["best"].update(accuracy_searched=7), "accuracy"),
        (lambda summary: summary["best"].update(latency_kind="guessed"), "guessed"),
        (lambda summary: summary["best"].update(arch="|x|"), r"\|x\|"),
        (lambda summary: summary.update(schema=1), "schema 1"),
        (lambda summary: summary.pop("schema"), "schema"),
    ],
)
def test_a_summary_that_makes_no_sense_is_refused_with_what_is_wrong(own_run, change_to, named):
    summary = json.loads((own_run / "summary.json").read_text())
    change_to(summary)
    (own_run / "summary.json").write_text(json.dumps(summary))

    with pytest.raises(UserError, match=named):
        find(own_run, None, None)


def test_a_trained_network_may_have_a_negative_r2(own_run):
    best = json.loads((own_run / "summary.json").read_text())["best"]
    change(own_run, best={**best, "accuracy_searched": -41.1, "accuracy_kind": "trained"})

    assert find(own_run, Which.best, None).searched.accuracy == -41.1


def test_a_network_for_several_devices_is_exported_with_the_time_on_the_one_with_most_room(own_run):
    best = json.loads((own_run / "summary.json").read_text())["best"]
    on = {
        "device": "core",
        "latency_ms": 1.9,
        "latency_kind": "measured",
        "T_ms": 2.0,
        "fits": True,
    }
    away = {**on, "device": "gpu", "latency_ms": 0.9, "T_ms": 0.8, "fits": False}
    several = {"device": "gpu (0.8 ms) or core (2 ms)", "latency_source": "mapped", "T_ms": 0.8}
    change(own_run, best={**best, "on": [on, away]}, **several)

    found = find(own_run, None, None).searched
    assert (found.device, found.T_ms, found.latency_ms) == ("core", 2.0, 1.9)

    sample = pq.read_table(own_run / "samples.parquet").slice(0, 1).to_pylist()[0]
    scaled = find(
        own_run, None, sample["arch"]
    ).searched  # of a sample only the scaled time is kept
    assert scaled.device == "the best of gpu (0.8 ms) or core (2 ms), as milliseconds of the first"
    assert (scaled.T_ms, scaled.latency_ms) == (0.8, sample["latency_ms"])
