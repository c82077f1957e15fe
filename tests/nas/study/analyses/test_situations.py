"""Searching in one situation, running in another, on synthetic tables made for it."""

import csv
import json

import numpy as np
import pytest

from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from nas.study.analyses.situations.measure import board_of, name_of
from nas.study.folder import StudyFolder
from nas.study.plan import Cell
from nas.study.statistics import mean_interval
from runtime.shell.keyed_table import read_csv_table

BOARD = "synthetic-board"
BESIDE = f"{BOARD}|hog:memory"


@pytest.fixture
def with_a_situation(synthetic_tables, tmp_path, monkeypatch):
    """The synthetic board once more, beside a hog: twice as slow, 3x3 convolutions three times."""
    (alone,) = synthetic_tables.glob("*latency*.csv")
    latency_ms = read_csv_table(alone, SPACE).column(BOARD)
    threes = (NAS_BENCH_201.rows == 3).sum(1)
    for path in synthetic_tables.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    beside_ms = 2 * latency_ms + 4.5 * threes
    for name, column, values in (
        ("situated", BESIDE, beside_ms),
        ("tail", f"{BESIDE}@p99", 1.2 * beside_ms),
    ):
        with (tmp_path / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["arch", column])
            writer.writerows(zip(NAS_BENCH_201.strings, values, strict=True))
    repeats = {"median": 8 * [0.01, -0.01, 0.005], "p99": 8 * [0.02, -0.02, 0.03]}
    for origin in (alone.stem, "situated", "tail"):
        told = {"repeats_relative_differences": repeats}
        (tmp_path / f"{origin}.json").write_text(json.dumps(told), encoding="utf-8")
    monkeypatch.setenv("NAS_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="module")
def once():
    """One study for all tests of its outcome."""
    return {}


@pytest.fixture
def found(with_a_situation, study, monkeypatch, tmp_path, once):
    """A study of all three, as its results.json tells it; and its page."""
    if once:
        return once["found"]
    monkeypatch.setenv("NAS_DATA", str(with_a_situation))
    folder = StudyFolder(tmp_path / "runs" / "one")
    printed = study(
        f"devices=['{BOARD}','{BESIDE}','{BESIDE}@p99']",
        "rewards=[constrained]",
        "controllers=[local_search]",
        "compare=controller",
        "reference=''",
        "limits=[14ms]",
        "seeds=20",
        "budget=600",
        f"folder={folder.path}",
    )
    (family,) = json.loads(folder.results.read_bytes())["situations"]
    once["found"] = family, folder.page.read_text(encoding="utf-8"), printed
    return once["found"]


def test_a_search_in_the_wrong_situation_is_told_by_what_it_costs(found):
    family, page, printed = found

    by_pair = {(one["searched"], one["runs"]): one for one in family["misplaced"]}
    # what is best within 14 ms alone takes more than twice as long beside the hog
    assert by_pair["alone", "hog:memory"]["missed"]["middle"] == 1
    assert by_pair["alone", "hog:memory"]["lost"] is None
    assert by_pair["alone", "hog:memory"]["beyond"] > 1.5
    # what is within 14 ms beside the hog is within it alone, where better ones are, too
    assert by_pair["hog:memory", "alone"]["missed"]["middle"] == 0
    assert by_pair["hog:memory", "alone"]["lost"]["low"] > 0
    assert by_pair["alone", "alone"]["lost"]["middle"] == 0
    assert "T is missed by 100% in hog:memory" in printed
    assert "Situations of synthetic-board, T = 14 ms" in page


def test_the_situations_are_compared_over_the_whole_space(found):
    family, _, _ = found

    alone, beside, _ = family["situations"]
    assert (alone["name"], beside["name"]) == ("alone", "hog:memory")
    assert (alone["same_optimum"], beside["same_optimum"]) == (True, False)
    assert alone["kendall_tau"] == pytest.approx(1)
    assert 0.8 < beside["kendall_tau"] < 1
    assert beside["median_ratio"] > 2
    assert beside["feasible_share"] < alone["feasible_share"]
    assert beside["predicted_share"] == 0
    assert alone["scaled"] == {
        "share_of_t": pytest.approx(alone["scaled"]["share_of_t"]),
        "lost": 0,
    }
    assert 0.5 < beside["scaled"]["share_of_t"] < 1.5


def test_the_tail_is_a_situation_of_its_own(found):
    family, page, _ = found

    *_, tail = family["situations"]
    assert (tail["name"], tail["order"]["median_ratio"]) == (
        "hog:memory, p99",
        pytest.approx(1.2 * family["situations"][1]["order"]["median_ratio"]),
    )
    assert "hog:memory, p99" in page


def test_whether_the_order_changes_is_told_of_the_measured_cells_and_beside_the_noise(found):
    family, page, printed = found

    _, beside, _ = family["situations"]
    order = beside["order"]
    assert order["cells"] == 1_000  # of 15,625
    assert order["kendall_tau"] < order["noise"]["tau_low"] < order["noise"]["tau"] < 1
    assert order["one_factor"]["same"] < order["noise"]["one_factor"]["same"]
    assert family["situations"][0]["order"] is None
    assert "more than the noise of repeats in 2 of 2 situations" in printed
    assert "The order, on measured cells only" in page
    assert "Chosen by one factor, on measured cells only" in page


def test_the_best_of_the_measured_cells_is_told_without_a_search(found):
    family, page, _ = found

    by_pair = {(one["searched"], one["runs"]): one["measured"] for one in family["misplaced"]}
    assert by_pair["alone", "alone"]["lost"] == 0
    assert by_pair["alone", "hog:memory"]["share_of_t"] > 1.5
    assert 0 < by_pair["hog:memory", "alone"]["share_of_t"] < 1
    assert by_pair["hog:memory", "alone"]["lost"] > 0
    assert "best of measured cells" in page


def test_a_situation_is_called_what_its_id_says():
    assert name_of(Cell("r", "c", BESIDE, 14.0).device) == "hog:memory"
    assert name_of(BOARD) == "alone"
    assert name_of(f"{BESIDE}@p99") == "hog:memory, p99"
    assert board_of(f"{BESIDE}@p99") == board_of(f"{BOARD}@p95") == BOARD


def test_the_interval_of_a_mean_holds_the_true_mean_as_often_as_it_says():
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(200):
        interval = mean_interval(rng.normal(5, 1, 40))
        held += interval.low <= 5 <= interval.high
    assert 0.88 <= held / 200 <= 0.99
