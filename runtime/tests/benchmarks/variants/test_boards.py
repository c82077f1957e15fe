"""One unit at a time or all together: on numbers made for it, and as a study on synthetic tables."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from omegaconf import OmegaConf

from benchmarks.variants.baselines import (
    BEST,
    RANDOM,
    SHARED,
    TOGETHER,
    WORST,
    _choosing,
    alone,
    found_by,
    searched,
)
from benchmarks.variants.boards import Board, Unit, combinations, problems_of
from benchmarks.variants.measure import After, Variants, applies
from edgenas_core.command.hydra_command import user_errors
from edgenas_core.files.keyed_table import read_csv_table
from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from edgenas_runtime.mapping.model.platform_description import read_platform
from edgenas_runtime.mapping.model.timing_table import Bound, read_timing_table
from edgenas_runtime.mapping.solving.slack import analyse_frame
from nas.spaces.nas_bench_201 import plugin
from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from nas.spaces.registry import space_named
from nas.study.answers import Answers
from nas.study.evaluation.learning_curve import LearningCurve
from nas.study.folder import StudyFolder
from nas.study.search_log import SearchLog
from nas.trials.survey import Survey

RUNTIME = Path(__file__).parents[3]
SEARCH_SPACE = space_named("nas_bench_201")
SPACE = SEARCH_SPACE.size
NUMBER = np.arange(SPACE, dtype=float)
ACCURACY = NUMBER / SPACE  # the higher the number, the better
GPU_MS = NUMBER + 1  # and the slower on the GPU, where 0 to 99 are within 100 ms
CPU_MS = np.where(NUMBER % 2 == 0, 2 * NUMBER + 2, 1e6)  # the even ones up to 298 are within 600 ms
BOARD = Board("gpu or cpu", (Unit("gpu", 100.0), Unit("cpu", 600.0)))


def curve(index, latency_ms, limit_ms, predicted=None):
    measured = np.full(SPACE, Kind.measured, np.int8)
    kinds = measured
    if predicted is not None:
        kinds = np.where(predicted, Kind.regression, Kind.measured).astype(np.int8)
    answers = Answers(ACCURACY, measured, ACCURACY, NUMBER, latency_ms, kinds)
    numbers = np.array(index, np.uint16)
    return LearningCurve(
        SearchLog(np.arange(len(numbers)), numbers, np.ones(1)),
        answers,
        float(limit_ms),
        SEARCH_SPACE,
        Survey(
            SEARCH_SPACE,
            ACCURACY,
            measured,
            latency_ms,
            kinds,
            np.zeros((SPACE, 0)),
            float(limit_ms),
        ),
    )


@pytest.fixture
def curves():
    """Two seeds of four samples for each unit, and for both together."""
    together_ms = 100 * np.minimum(GPU_MS / 100, CPU_MS / 600)
    return {
        alone("gpu"): curve([[7, 50, 99, 3], [200, 201, 202, 203]], GPU_MS, 100),
        alone("cpu"): curve([[8, 41, 298, 2], [4, 6, 41, 20]], CPU_MS, 600),
        TOGETHER: curve([[60, 298, 5, 5], [101, 299, 301, 303]], together_ms, 100),
    }


def test_a_share_of_the_samples_is_the_beginning_of_the_search_and_the_best_unit_is_taken(curves):
    found = found_by(BOARD, curves)

    assert found[alone("gpu")].tolist() == [[99], [-1]]  # nothing is within T
    assert found[alone("cpu")].tolist() == [[298], [20]]
    assert found[SHARED].tolist() == [[50], [6]]  # of 7, 50 and 8, 41; of none and 4, 6
    assert found[RANDOM].tolist() == [[99, 298], [-1, 20]]
    assert found[TOGETHER].tolist() == [[298], [-1]]
    early = found_by(BOARD, curves, 2)
    assert early[alone("gpu")].tolist() == [[50], [-1]]
    assert early[SHARED].tolist() == [[8], [4]]  # of one sample each


def test_every_strategy_is_judged_by_what_it_finds_and_where_that_fits(curves):
    one = searched(BOARD, curves)

    assert one.optimum == (99 / SPACE, 298 / SPACE)
    assert one.best == ("cpu",)
    assert one.within == (100 / SPACE, 150 / SPACE)
    assert one.within_any == (100 + 100) / SPACE
    gpu, random, both = (one.strategy(name) for name in (alone("gpu"), RANDOM, TOGETHER))
    assert gpu.fits.middle == 0.5  # 99 is odd: not on the CPU
    assert gpu.found.middle == pytest.approx(100 * 99 / SPACE)
    assert gpu.gap.middle == pytest.approx(100 * (298 - 99) / SPACE)
    assert gpu.gain.middle == pytest.approx(100 * (298 - 99) / SPACE)  # of the seed that both know
    assert random.fits.middle == 0.75  # 20 runs on both
    assert both.gain is None
    assert one.baselines[BEST] == alone("cpu")
    assert one.baselines[WORST] == alone("gpu")


def test_choosing_a_unit_is_judged_on_architectures_measured_on_all():
    predicted = NUMBER >= 4
    gpu, cpu = (curve([[0]], ms, 100, predicted).answers for ms in (GPU_MS, CPU_MS))

    found = _choosing(BOARD, [gpu, cpu])

    # parts of T of 0 to 3: GPU 1, 2, 3, 4 %; CPU 0.33, 166667, 1, 166667 %
    assert (found.architectures, found.fixed, found.quickest) == (4, "gpu", (0.5, 0.5))
    assert found.saved == pytest.approx((2 / 3 + 0 + 2 / 3 + 0) / 4)
    assert found.saved_most == pytest.approx(2 / 3)
    assert found.to_fixed[0] == (1, 1, 1)
    assert found.to_fixed[1][0] == pytest.approx(1 / 3)
    nothing = curve([[0]], GPU_MS, 100, np.ones(SPACE, bool)).answers
    assert _choosing(BOARD, [nothing, cpu]) is None


def test_a_board_of_several_times_is_one_for_each_combination():
    assert combinations(["a/b1@1ms, 2ms or b|hog:memory@3ms or c@p95@5ms"]) == [
        (("a/b1", "1ms"), ("b|hog:memory", "3ms"), ("c@p95", "5ms")),
        (("a/b1", "2ms"), ("b|hog:memory", "3ms"), ("c@p95", "5ms")),
    ]


def test_what_the_first_boards_leave_is_what_the_mapper_answers_for_the_tasks_of_the_document(
    tmp_path,
):
    """The five frames of benchmarks/results/variants.md, and the first boards of the experiment."""
    text = (RUNTIME / "benchmarks" / "results" / "variants.md").read_text(encoding="utf-8")
    (tasks,) = re.findall(r"```csv\n(.*?)```", text, re.DOTALL)
    (units,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    (tmp_path / "tasks.csv").write_text(tasks, encoding="utf-8")
    (tmp_path / "tasks.yaml").write_text(units, encoding="utf-8")
    table = read_timing_table(tmp_path / "tasks.csv")
    platform = read_platform(tmp_path / "tasks.yaml")
    times_ms = table.of(Bound.max)

    left = []
    for frame_ms in (1.5, 1.6, 1.65, 1.8, 2.0):
        found = analyse_frame(
            table.networks, times_ms, table.configurations, platform, frame_ms=frame_ms
        )
        left.append({one.places[0]: f"{one.ms:.4g}ms" for one in found.slack})

    experiment = OmegaConf.load(RUNTIME / "benchmarks" / "conf" / "studies" / "variants.yaml")
    first = experiment.latency.boards[0]
    gpu, core = (unit.rpartition("@")[2].split(",") for unit in first.split(" or "))
    assert [one["gpu"] for one in left] == gpu
    assert [one["core"] for one in left] == core


@pytest.fixture
def with_an_npu(synthetic_tables, tmp_path, monkeypatch):
    """A unit beside the synthetic board, which is quick at 3x3 convolutions and slow otherwise."""
    (table,) = synthetic_tables.glob("*latency*.csv")
    for path in synthetic_tables.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    others = (NAS_BENCH_201.rows != 3).sum(1)
    latency_ms = read_csv_table(table, plugin.SPACE).column("synthetic-board")
    with (tmp_path / "npu.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["arch", "synthetic-npu"])
        writer.writerows(zip(NAS_BENCH_201.strings, 3 + 2 * others, strict=True))
    monkeypatch.setenv("NAS_DATA", str(tmp_path))
    return latency_ms, 3 + 2 * others


ON_BOARDS = (
    "experiment=variants",
    "name=boards",
    "rewards=[constrained]",
    "controllers=[local_search]",
    "reference=''",
    "seeds=4",
    "budget=60",
    "workers=1",
)
OF_BOARDS = "devices='${problems_of:${latency.boards}}'"
"""What the study has by itself, in the place of the device of the other tests."""

BOARDS = "latency.boards=['synthetic-board@12ms,16ms or synthetic-npu@9ms']"


def test_a_study_of_boards_compares_searching_together_with_every_baseline(
    study, with_an_npu, tmp_path
):
    board_ms, npu_ms = with_an_npu
    folder = StudyFolder(tmp_path / "runs" / "one")

    printed = study(*ON_BOARDS, BOARDS, f"out={folder.path}", small=())

    (found,) = json.loads(folder.results.read_bytes())["variants"]
    ledger = json.loads(folder.ledger.read_bytes())["settings"]
    assert len(ledger) == 2 + 1 + 2  # a unit that leaves the same on two boards is searched once
    within = [(board_ms <= 12) | (npu_ms <= 9), (board_ms <= 16) | (npu_ms <= 9)]
    assert [one["within_any"] for one in found["boards"]] == [each.mean() for each in within]
    for one in found["boards"]:
        strategies = {each["name"]: each for each in one["strategies"]}
        assert set(strategies) == {
            alone("synthetic-board"),
            alone("synthetic-npu"),
            SHARED,
            RANDOM,
            TOGETHER,
        }
        for strategy in strategies.values():
            assert strategy["gap"]["middle"] >= 0
            assert strategy["gap"]["low"] is None  # of four seeds
    assert [after["samples"] for after in found["after"]] == [50, 60]
    for after in found["after"]:
        assert set(after["gains"]) == {BEST, WORST, SHARED, RANDOM}
        assert set(after["gaps"]) == {BEST, WORST, SHARED, RANDOM, TOGETHER}
        assert set(after["fits"]) == {BEST, WORST, SHARED, RANDOM, TOGETHER}
    page = folder.page.read_text(encoding="utf-8")
    assert "fp32" in page
    for text in (printed, page):
        assert "4 seeds: no intervals" in text
        assert "95 % interval" not in text
    assert "no intervals</td>" in page
    assert "2 boards" in printed


@pytest.mark.parametrize(
    ("boards", "said"),
    [
        ("['synthetic-board@12ms']", "has one device"),
        ("['synthetic-board or synthetic-npu@9ms']", "synthetic-board is not device@time"),
        ("['synthetic-board@12ms or ']", "nothing is not device@time"),
        ("['synthetic-board@12ms or synthetic-board@9ms']", "is twice on one board"),
        ("['synthetic-board@12ms or nowhere@9ms']", "nowhere"),
        ("['synthetic-board@12ms or synthetic-npu@0ms']", "is not a time from"),
        ("['synthetic-board@12ms or synthetic-npu@9']", "has no unit"),
        ("['synthetic-board@12ms or synthetic-npu@1ms']", "cannot be met on synthetic-npu"),
    ],
)
def test_a_board_that_cannot_be_searched_is_refused_in_one_line(plan_of, with_an_npu, boards, said):
    del with_an_npu
    with pytest.raises(UserError) as refused, user_errors("benchmarks"):
        plan_of(*ON_BOARDS, OF_BOARDS, f"latency.boards={boards}")

    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_budget_that_gives_a_unit_no_sample_is_refused(plan_of, with_an_npu):
    del with_an_npu
    plan = plan_of(*ON_BOARDS, OF_BOARDS, BOARDS, "budget=1")

    with pytest.raises(UserError, match=r"budget=1 .* 2 devices"):
        applies(plan)


def test_the_units_of_a_board_are_problems_and_all_together_are_one():
    assert problems_of(["a@1ms or b@2ms,3ms"]) == [
        "a@1ms",
        "b@2ms",
        "a@1ms or b@2ms@1ms",
        "b@3ms",
        "a@1ms or b@3ms@1ms",
    ]


def test_a_study_of_the_command_takes_no_mapped_latency(plan_of):
    with pytest.raises(UserError, match=r"latency=mapped has one T"):
        plan_of("latency=mapped")


def test_a_tie_of_two_units_counts_for_both():
    tied = _tied()
    found = Variants(
        ("gpu", "cpu"), "constrained", "rnn", (tied,), (After(1, {}, {}, {}),), (0.0, 0.0)
    )

    assert tied.best == ("gpu", "cpu")
    assert found.best == {"gpu": 1, "cpu": 1}
    assert found.decided(BEST) is None  # of so few seeds


def _tied():
    same = {
        alone("gpu"): curve([[1, 5]], GPU_MS, 100),
        alone("cpu"): curve([[2, 5]], GPU_MS, 100),
        TOGETHER: curve([[2, 5]], GPU_MS, 100),
    }
    board = Board("gpu or cpu", (Unit("gpu", 100.0), Unit("cpu", 100.0)))
    return searched(board, same)
