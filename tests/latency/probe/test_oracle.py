"""The oracle over a real board: what is known first, then the board."""

import numpy as np
import pytest
from small_space import SmallSpace

from edgenas_core.machine.stability import OnDisturbance, StabilityConfig
from edgenas_core.machine.timing import Statistic, TimingConfig
from edgenas_core.types.kind import Kind
from latency.base import Latencies, UnmeasuredError
from latency.probe.address import Connect, command_of
from latency.probe.board import BoardError, LiveBoard, Patience
from latency.probe.cache import Cache
from latency.probe.connection import Connection
from latency.probe.oracle import ProbeLatency
from latency.probe.pool import BoardPool
from latency.probe.settings import BoardPrecision, ProbeSettings, Runtime

KEY = {"device": "board/onnxruntime/fp32/b1"}
QUICK = ProbeSettings(
    Runtime.onnxruntime,
    BoardPrecision.fp32,
    (1, 3, 8, 8),
    1,
    None,
    TimingConfig(samples=3, warm_up_window=1, warm_up_most=2),
)
BROKEN = "0.3"
# other processes may run beside the tests
ANYTHING = StabilityConfig(1e7)
WITHOUT_DRIFT = StabilityConfig()


class Pairs(SmallSpace):
    """The order of two choices does not matter."""

    def canonical(self, architectures):
        return np.sort(super().canonical(architectures), axis=-1)


@pytest.fixture
def asked():
    """Architectures whose networks were exported for the board, in order."""
    return []


@pytest.fixture(scope="module")
def live(small):
    """One board for all tests here: nothing is changed in it."""
    board = LiveBoard(
        "cmd://",
        lambda: Connection("cmd://", command_of("cmd://", Connect()), 120.0),
        settings=QUICK,
        control=lambda _: small,
        patience=Patience(silence_s=120.0, tries=1),
        tell=print,
    )
    yield board
    board.close()


@pytest.fixture
def slower(live, monkeypatch):
    """The board ran its control three times faster, or slower, before."""
    return lambda factor: monkeypatch.setattr(live, "control_ms", live.control_ms * factor)


@pytest.fixture
def make(live, small, lines, asked, tmp_path):
    """An oracle of a space of two choices of four, where (a, b) and (b, a) are one network."""

    def export(text, takes):
        asked.append((text, takes))
        return b"no network" if text == BROKEN else small

    def oracle(**options):
        pool = BoardPool([live], options.get("quiet", ANYTHING), lines.append)
        return ProbeLatency(
            device="board/onnxruntime/fp32/b1",
            description="24 networks",
            pool=pool,
            cache=Cache(tmp_path, KEY, {}),
            space=Pairs((4, 4)),
            export=export,
            export_fp32=lambda text, takes: export(f"fp32 {text}", takes),
            tell=lines.append,
            **{"quiet": ANYTHING, **options},
        )

    return oracle


def rows(*pairs):
    return np.array(pairs, np.int64)


def test_each_network_is_asked_for_once_and_is_then_known(make, asked):
    oracle = make()

    first = oracle.answer(rows((1, 2), (2, 2), (2, 1))[None]).ms
    second = oracle.answer(rows((2, 2), (1, 2))).ms

    assert [text for text, _ in asked] == ["1.2", "2.2"]
    assert first.shape == (1, 3)
    assert first[0, 0] == first[0, 2]
    assert second.tolist() == [first[0, 1], first[0, 0]]
    assert (first > 0).all()
    assert oracle.answer(rows((1, 2))).kind.tolist() == [Kind.measured]
    assert oracle.known(rows((1, 2), (3, 3))).all()
    assert oracle.answer(rows((1, 2))[0]).ms.shape == ()


def test_a_later_run_finds_in_the_cache_what_an_earlier_one_measured(make, asked):
    before = make().answer(rows((1, 2), (2, 2))).ms
    asked.clear()

    after = make().answer(rows((2, 2), (2, 1), (1, 1))).ms

    assert after.tolist()[:2] == [before[1], before[0]]
    assert [text for text, _ in asked] == ["1.1"]


def test_the_statistic_is_chosen_after_the_measurement(make, asked):
    several = rows(*[(1, other) for other in range(4)])  # all samples of one may be equal
    median = make().answer(several).ms
    asked.clear()

    tail = make(statistic=Statistic.p99).answer(several).ms

    assert not asked
    assert (tail >= median).all()
    assert (tail > median).any()


def test_a_cached_time_is_not_used_on_a_board_that_is_slower_now(make, asked, slower):
    make().answer(rows((1, 2)))
    asked.clear()
    slower(3)

    make(quiet=WITHOUT_DRIFT, on_disturbance=OnDisturbance.flag).answer(rows((1, 2)))

    assert [text for text, _ in asked] == ["1.2"]


def test_a_time_taken_while_the_control_drifted_is_marked_and_not_kept(make, lines, slower):
    oracle = make(quiet=WITHOUT_DRIFT, on_disturbance=OnDisturbance.flag)
    slower(3)

    answered = oracle.answer(rows((1, 2)))

    assert answered.kind.tolist() == [Kind.disturbed]
    assert oracle.answer(rows((2, 1))).kind.tolist() == [Kind.disturbed]
    assert oracle.measure_again(rows((1, 2))).kind.tolist() == [Kind.disturbed]
    (line,) = (line for line in lines if "not quiet" in line)  # a busy board is not told of twice
    assert "this machine" in line
    assert "1.2" in line
    assert len(oracle.cache) == 0


def test_a_drift_stops_unless_something_else_is_asked_for(make, slower):
    oracle = make(quiet=WITHOUT_DRIFT)
    slower(3)

    with pytest.raises(BoardError, match=r"1\.2 .*on_disturbance=flag"):
        oracle.answer(rows((1, 2)))


def test_a_network_that_the_board_cannot_run_is_told_with_the_way_out_and_no_other_is_lost(make):
    oracle = make()

    with pytest.raises(UnmeasuredError, match=r"0\.3: .*unrunnable_ms="):
        oracle.answer(rows((0, 1), (0, 3), (0, 2)))
    assert oracle.cache.get("0.1") is not None


def test_or_it_counts_as_slow_as_the_user_says_and_is_marked(make, lines):
    oracle = make(unrunnable_ms=1000.0)

    latency_ms = oracle.answer(rows((0, 3), (0, 2))).ms

    assert latency_ms[0] == 1000
    assert latency_ms[1] < 1000
    kinds = oracle.answer(rows((0, 3), (3, 0), (0, 2))).kind.tolist()
    assert kinds == [Kind.penalty, Kind.penalty, Kind.measured]
    assert any("0.3" in line and "1000 ms" in line for line in lines)
    again = oracle.measure_again(rows((0, 3)))
    assert np.isnan(again.ms).all()
    assert again.kind.tolist() == [Kind.missing]


def test_a_time_that_is_taken_again_is_new_of_the_very_architecture_and_changes_no_answer(
    make, asked
):
    oracle = make()
    first = oracle.answer(rows((1, 2), (1, 1))).ms
    asked.clear()

    again = oracle.measure_again(rows((1, 2), (2, 1), (2, 1)))

    assert [text for text, _ in asked] == ["1.2", "2.1"]
    assert (again.ms > 0).all()
    assert again.ms[1] == again.ms[2]
    assert oracle.answer(rows((1, 2), (1, 1))).ms.tolist() == first.tolist()
    assert oracle.measure_again(rows((1, 2)), in_fp32=True).ms > 0
    assert asked[-1][0] == "fp32 1.2"


def test_what_an_earlier_part_of_the_search_was_told_is_told_again(make, asked):
    oracle = make(unrunnable_ms=1000.0)

    kinds = np.array([Kind.disturbed, Kind.penalty], np.int8)
    oracle.remember(rows((1, 2), (0, 3)), Latencies(np.array([7.5, 1000.0]), kinds))

    assert oracle.answer(rows((2, 1), (0, 3))).ms.tolist() == [7.5, 1000]
    assert oracle.answer(rows((2, 1), (0, 3))).kind.tolist() == [Kind.disturbed, Kind.penalty]
    assert not asked


def test_a_time_that_the_others_contradict_is_taken_again_and_marked_if_it_stays(
    make, asked, lines
):
    oracle = make(too_fast=always_1_2)

    kinds = oracle.answer(rows((1, 2), (2, 2))).kind

    assert [text for text, _ in asked] == ["1.2", "2.2", "1.2"]
    assert kinds.tolist() == [Kind.implausible, Kind.measured]
    assert oracle.answer(rows((2, 1))).kind.tolist() == [Kind.implausible]
    assert oracle.measure_again(rows((1, 2))).kind.tolist() == [Kind.implausible]
    assert any("implausibly fast" in line and "marked implausible" in line for line in lines)
    asked.clear()
    later = make(too_fast=always_1_2).answer(rows((1, 2), (2, 2))).kind  # by cached times
    assert later.tolist() == kinds.tolist()
    assert [text for text, _ in asked] == ["1.2"]


def test_a_time_that_only_later_ones_contradict_is_taken_again_then_and_once(make, asked):
    oracle = make(too_fast=lambda rows, ms: always_1_2(rows, ms) & (len(rows) > 2))

    first = oracle.answer(rows((1, 2), (2, 2))).kind
    oracle.answer(rows((3, 3)))
    oracle.answer(rows((0, 1)))

    assert first.tolist() == [Kind.measured, Kind.measured]
    assert [text for text, _ in asked] == ["1.2", "2.2", "3.3", "1.2", "0.1"]
    assert oracle.answer(rows((1, 2))).kind.tolist() == [Kind.implausible]


def always_1_2(rows, ms):
    assert len(rows) == len(ms)
    return (rows == [1, 2]).all(-1)
