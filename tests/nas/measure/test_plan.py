"""Measuring, on a clock that the test turns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgenas_core.files.lines import cut_lines
from edgenas_core.inference.backend import Precision
from edgenas_core.machine.stability import OnDisturbance, StabilityConfig, Watch
from edgenas_core.machine.timing import MeasureTiming, Statistic, Stopwatch
from edgenas_core.types.errors import UserError
from latency.measuring import machine as machine_module
from latency.measuring.folder import MeasurementFolder
from latency.measuring.journal import (
    append,
    judged,
    measured_ms,
    read,
    repeat_differences,
    taken_beside,
)
from latency.measuring.machine import ThisMachine
from latency.measuring.settings import MeasureConfig
from latency.probe.settings import Runtime
from nas.measure.plan import chosen_in_words, completed
from nas.measure.plan import plan as planned
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201, TASKS
from nas.spaces.registry import space_named


def config(**changes):
    settings = MeasureConfig(
        board="board",
        runtime=Runtime.torch,
        space="nas_bench_201",
        dataset="cifar100",
        core=0,
        networks=6,
        repeats=2,
        out="unused",
        timing=MeasureTiming(4, settle_s=0.01),
    )
    return replace(settings, **changes)


CONTROL = 1462  # every edge is a 3x3 convolution
STRINGS = NAS_BENCH_201.strings


def plan(settings):
    """Numbers in the order they are measured."""
    return SPACE.numbers(planned(settings, SPACE))


def measure(numbers, settings, machine, **more):
    """Time the networks of these numbers on a `Machine`."""
    return machine_module.measure(
        [STRINGS[number] for number in numbers],
        config=settings,
        control=STRINGS[CONTROL],
        inference=machine.inference,
        stopwatch=machine.stopwatch,
        watch=machine.watch,
        **more,
    )


@pytest.fixture
def journal(tmp_path):
    return tmp_path / "journal.csv"


@pytest.fixture
def group(journal):
    """Measurements of networks 5 and 7, which are in the journal."""
    measured = [each for (each,) in measure([5, 7], config(), Machine())]
    append(journal, measured)
    return measured


def numbers_in(journal):
    return [STRINGS.index(row["arch"]) for row in read(journal)]


class Machine:
    """Network number n takes n microseconds, times the slowdown, of a clock that runs on demand."""

    def __init__(self):
        self.now_ns = 0
        self.slowdown = 1.0

    def inference(self, arch):
        number = STRINGS.index(arch)

        def run():
            self.now_ns += round(1000 * number * self.slowdown)

        return run

    @property
    def stopwatch(self):
        return Stopwatch(clock_ns=lambda: self.now_ns)

    @property
    def watch(self):
        return Watch(StabilityConfig(), [])


def test_the_control_is_the_network_of_3x3_convolutions():
    assert NAS_BENCH_201.operations(SPACE.control()) == ("nor_conv_3x3",) * 6
    assert SPACE.numbers(SPACE.control()) == CONTROL


def test_the_id_of_a_device_says_its_precision():
    def device_id(**changes):
        return ThisMachine(config(**changes), SPACE, TASKS["cifar100"]).device_id

    assert device_id() == "board/torch/fp32/b1"
    assert device_id(precision=Precision.bf16) == "board/torch/bf16/b1"
    assert device_id(runtime=Runtime.onnxruntime) == "board/onnxruntime/fp32/b1"
    assert device_id(threads=4) == "board/torch-t4/fp32/b1"


def test_every_network_is_measured_once_and_some_are_repeated():
    order = plan(config(networks=None, repeats=20))

    assert len(order) == 6466 + 20
    assert len(set(NAS_BENCH_201.network_class[order])) == 6466
    assert sorted(np.flatnonzero(np.bincount(order) == 2)) == sorted(order[:20])


@pytest.mark.parametrize("repeats", [1, 7, 30, 60])
def test_repeats_are_spread_over_the_second_half_and_lie_half_of_all_networks_behind(repeats):
    order = plan(config(networks=60, repeats=repeats)).tolist()

    first = {index: order.index(index) for index in order}
    again = [place for place, index in enumerate(order) if place != first[index]]

    assert [order[place] for place in again] == list(first)[:repeats]
    assert all(place - first[order[place]] >= 30 for place in again)
    if repeats <= 30:  # one that is cut off after three quarters has half of them
        assert sum(place < 45 + repeats / 2 for place in again) == pytest.approx(repeats / 2, abs=1)


def test_layers_are_timed_in_as_many_networks_as_there_are():
    assert len(plan(config(networks=None, layers=7000, repeats=0))) == 6466


@pytest.mark.parametrize("changes", [{"networks": 0}, {"networks": 6467}, {"repeats": 7}])
def test_a_number_of_networks_that_there_is_not_is_refused(changes):
    with pytest.raises(UserError, match="is not between"):
        plan(config(**changes))


def test_each_network_gets_its_own_time_and_the_control_of_its_group():
    machine = Machine()

    groups = list(measure([5, 7, 9], config(), machine))

    assert [len(group) for group in groups] == [1, 1, 1]
    for measured in (m for group in groups for m in group):
        assert measured.samples.ms.tolist() == [STRINGS.index(measured.arch) / 1000] * 4
        assert measured.control_ms == CONTROL / 1000
        assert measured.disturbances == ()


def disturbed(machine, groups):
    yield next(groups)
    machine.slowdown = 1.2
    yield from groups


def test_a_machine_that_is_not_quiet_stops_the_measurement_after_what_was_measured():
    machine = Machine()
    seen = []
    groups = measure([5, 7, 9], config(), machine)

    with pytest.raises(UserError, match=r"\+20.0%.*on_disturbance=flag"):
        seen.extend(disturbed(machine, groups))

    assert [measured.arch for (measured,) in seen] == [STRINGS[5]]


def test_a_flagged_measurement_leaves_its_field_empty(journal):
    machine = Machine()
    flagging = config(on_disturbance=OnDisturbance.flag)
    groups = measure([9, 11, 284], flagging, machine)

    for group in disturbed(machine, groups):
        append(journal, group)

    latency_ms = measured_ms(judged(read(journal), 0.05), Statistic.median)
    assert latency_ms == {STRINGS[9]: 0.009}


def test_a_network_that_takes_no_time_stops_the_measurement():
    with pytest.raises(UserError, match=r"took 0\.0 ms"):
        list(measure([0], config(), Machine()))


def test_a_network_measured_while_the_control_was_slow_is_left_out_though_it_came_first(journal):
    machine = Machine()
    machine.slowdown = 1.3
    flagging = config(on_disturbance=OnDisturbance.flag)
    for group in measure([5, 7], flagging, machine):
        append(journal, group)
        machine.slowdown = 1.0

    first, second = judged(read(journal), 0.05)

    assert "+30.0%" in first["disturbances"]
    assert second["disturbances"] == ""


def test_the_time_of_an_architecture_is_not_that_of_another_which_is_the_same_network(journal):
    machine = Machine()
    (pair,) = np.flatnonzero(np.bincount(NAS_BENCH_201.network_class) == 2)[:1]
    (group,) = measure([int(pair)], config(), machine)
    append(journal, group)

    assert measured_ms(read(journal), Statistic.median) == {STRINGS[pair]: pair / 1000}


def test_the_noise_is_the_difference_of_repeats(journal):
    machine = Machine()
    for slowdown in (1.0, 1.03):
        machine.slowdown = slowdown
        for group in measure([500], config(), machine):
            append(journal, group)

    differences = repeat_differences(read(journal), Statistic.median)

    assert differences.tolist() == pytest.approx([0.03])


def beside(machine, journal, *takes):
    taken = iter(takes)
    for group in measure(
        range(500, 500 + len(takes) // 2),
        config(),
        machine,
        beside_gb_per_s=lambda: next(taken),
    ):
        append(journal, group)


def test_what_ran_beside_is_in_the_journal_without_what_it_took_while_networks_were_built(journal):
    beside(Machine(), journal, [99.0, 99.0], [4.0, 1.0], [99.0, 99.0], [5.0, 1.5])

    assert [row["beside_gb_per_s"] for row in read(journal)] == ["4.000 1.000", "5.000 1.500"]
    assert taken_beside(judged(read(journal), 0.05)) == [4.5, 1.25]


@pytest.mark.usefixtures("group")
def test_where_nothing_ran_beside_nothing_is_told(journal):
    assert taken_beside(read(journal)) is None


@pytest.mark.parametrize("columns", [1, 0], ids=["without bandwidth", "with bandwidth"])
def test_a_journal_of_an_earlier_version_is_continued_as_it_is(journal, group, columns):
    lines = [line.rsplit(",", columns)[0] for line in journal.read_text().splitlines()]
    journal.write_text("".join(f"{n},{x}\n" for n, x in zip(("index", 5, 7), lines, strict=True)))
    old = read(journal)

    append(journal, group[1:])

    assert numbers_in(journal) == [5, 7, 7]
    assert read(journal)[:2] == old
    assert taken_beside(read(journal)) is None


def test_a_statistic_is_that_of_the_times_whatever_an_earlier_version_wrote(journal, group):
    names, *lines = journal.read_text().splitlines()
    old = [f"median_ms,p95_ms,{names}", *(f"99.5,-1,{line}" for line in lines)]
    journal.write_text("".join(f"{line}\n" for line in old))
    append(journal, group[1:])

    assert [(row["median_ms"], row["p95_ms"]) for row in read(journal)] == [
        ("0.005", "0.005"),
        ("0.007", "0.007"),
        ("0.007", "0.007"),
    ]


@pytest.mark.parametrize(("kept", "lost"), [(-5, 1), (20, 0)], ids=["last line", "first line"])
def test_a_line_cut_off_by_a_kill_is_dropped_and_the_journal_goes_on(journal, group, kept, lost):
    journal.write_bytes(journal.read_bytes()[:kept])

    cut_lines(journal)
    append(journal, group[lost:])

    assert numbers_in(journal) == [5, 7]


@pytest.mark.parametrize(
    "damage",
    [
        lambda line: b"," + line.partition(b",")[2],
        lambda line: line.replace(b"0.007", b"-0.007"),
        lambda line: line.replace(b"0.007", b"nan"),
        lambda line: line.replace(b"0.00700", b"0"),
        lambda line: line.replace(b"0.00700", b"1e15"),
        lambda line: line[:40] + b"\n",
        lambda line: line[:-1] + b",1\n",
        lambda line: line.replace(b"|", b'"|', 1),
        lambda line: b"\xff\xfe" + line,
    ],
)
@pytest.mark.usefixtures("group")
def test_a_journal_that_was_damaged_is_refused_and_nothing_of_it_is_used(journal, damage):
    *before, last = journal.read_bytes().splitlines(keepends=True)
    assert damage(last) != last
    journal.write_bytes(b"".join([*before, damage(last)]))

    with pytest.raises(UserError, match=r"journal\.csv.* out="):
        read(journal)


def test_the_origin_tells_of_networks_that_other_commands_have_measured():
    now = config(networks=6)
    more = {SPACE.text(row) for row in planned(config(networks=9, repeats=0), SPACE)}
    texts = {SPACE.text(row) for row in planned(now, SPACE)}

    assert chosen_in_words(now, SPACE, texts).endswith("(seed 0)")
    assert "; and 3 " in chosen_in_words(now, SPACE, more)


def test_a_mistake_does_not_make_a_fresh_folder_unusable(tmp_path):
    settings = config(out=str(tmp_path))
    first = MeasurementFolder(settings, "b/torch/fp32/b1", {"core": 99, "timing": {"samples": 30}})
    first.require_same()  # and then core=99 was refused: nothing was timed

    MeasurementFolder(
        settings, "b/torch/fp32/b1", {"core": 0, "timing": {"samples": 30}}
    ).require_same()


def test_of_settings_that_differ_the_one_is_named(tmp_path):
    settings = config(out=str(tmp_path))
    first = MeasurementFolder(settings, "b/torch/fp32/b1", {"timing": {"samples": 30, "turn": 5}})
    first.require_same()
    first.journal.write_text("a line\n")
    other = MeasurementFolder(settings, "b/torch/fp32/b1", {"timing": {"samples": 15, "turn": 5}})

    with pytest.raises(UserError, match=r"timing\.samples=30, not 15"):
        other.require_same()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"seed": -1}, "seed=-1"),
        ({"minutes": 0.0}, "minutes=0"),
        ({"board": ""}, "board= "),
        ({"board": "../x"}, r"board=\.\./x "),
        ({"out": ""}, "out= is empty"),
        ({"scenario": "hog", "device": "ssh://jetson"}, "scenario=hog"),
        (
            {"layers": 5, "device": "cmd://", "runtime": Runtime.torch},
            r"layers=5: runtime=torch",
        ),
        ({"layers": -4, "device": "cmd://"}, "layers=-4 must be at least 1"),
        ({"layers": 5, "device": "cmd://", "networks": None, "probes": 9}, "probes="),
        ({"layers": 5, "device": "cpu"}, "device=cpu times no layers"),
        ({"layers": 5, "device": "cuda"}, "runtime=torch precision=fp32 times no layers"),
        (
            {"layers": 5, "device": "cuda", "runtime": Runtime.graph, "scenario": "hog"},
            "leave out scenario=hog",
        ),
    ],
)
def test_a_setting_that_cannot_be_is_refused_before_anything_is_written(changes, complaint):
    with pytest.raises(UserError, match=complaint):
        completed(config(**changes), TASKS["cifar100"])


class TestASpaceThatCannotBeListed:
    """The toy space, of which networks are drawn by the seed."""

    SPACE = space_named("toy_space")

    def test_distinct_networks_are_drawn_by_the_seed(self):
        ours = config(space="toy_space", dataset="shapes", networks=40, repeats=5)

        order = planned(ours, self.SPACE)

        assert len(order) == 45
        assert len(np.unique(order, axis=0)) == 40
        np.testing.assert_array_equal(order, self.SPACE.canonical(order))
        np.testing.assert_array_equal(order, planned(ours, self.SPACE))
        layers = planned(replace(ours, networks=None, layers=40, repeats=0), self.SPACE)
        assert {row.tobytes() for row in layers} == {row.tobytes() for row in order}

    @pytest.mark.parametrize(
        ("changes", "complaint"),
        [
            ({"networks": None}, "space=toy_space cannot be listed; add networks="),
            ({"networks": None, "probes": 5}, "space=toy_space comes without latencies"),
            ({"networks": 0}, "networks=0 must be at least 1"),
        ],
    )
    def test_what_needs_a_list_is_refused(self, changes, complaint):
        with pytest.raises(UserError, match=complaint):
            planned(config(space="toy_space", dataset="shapes", **changes), self.SPACE)
