"""Mapping: published values of the Xavier platform, and properties of every mapping."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as limited
from hypothesis import strategies as st

from edgenas_runtime.mapping.latency import effective_ms
from edgenas_runtime.mapping.model.choices import interchangeable_units, mapping_choices
from edgenas_runtime.mapping.model.platform_description import Platform, read_platform
from edgenas_runtime.mapping.model.timing_table import (
    Bound,
    read_timing_table,
    xavier_platform,
    xavier_times,
)
from edgenas_runtime.mapping.solving.program import Feasibility, maximise_slack, solve
from edgenas_runtime.mapping.solving.slack import analyse_frame

RC, TC, DLA = ["RC4", "RC8"], ["TC4", "TC8"], ["DLA1", "DLA2"]
CPU = ["CPU2", "CPU4", "CPU6"]


def on_xavier(used, bound):
    table = xavier_times()
    return analyse_frame(
        table.networks,
        table.of(bound),
        table.configurations,
        xavier_platform().restricted(used),
        frame_ms=100,
    )


def left_as(found, configuration):
    (left,) = (one for one in found.slack if configuration in one.configurations)
    return left.ms


# some lines of YAML whose last list has 9 ** 10 texts in it
ENDLESS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join(9 * ['*' + of])}]\n" for of, name in pairwise("abcdefghij")
)


@pytest.mark.parametrize("used", [["RC8"], ["TC8"]])
def test_apollos_seven_networks_do_not_fit_on_the_gpu_as_a_block(used):
    assert on_xavier(used, Bound.mean).answer is Feasibility.infeasible


@pytest.mark.parametrize(
    ("used", "bound", "one_cluster", "both"),
    [
        (RC, Bound.mean, 37.1, 17.0),
        (RC + TC, Bound.mean, 73.5, 36.5),
        (RC + TC + CPU, Bound.mean, 78.0, 39.0),
        (RC, Bound.max, 13.05, 4.55),
        (RC + TC, Bound.max, 53.65, 26.96),
        (RC + TC + CPU, Bound.max, 55.15, 29.85),
        (RC + TC + CPU + DLA, Bound.mean, 100.0, 100.0),
        (RC + TC + CPU + DLA, Bound.max, 100.0, 100.0),
    ],
)
def test_the_slack_of_apollos_seven_networks_on_the_clusters(used, bound, one_cluster, both):
    found = on_xavier(used, bound)

    assert found.answer is Feasibility.feasible
    assert left_as(found, "RC4") == pytest.approx(one_cluster)
    assert left_as(found, "RC8") == pytest.approx(both)


def test_both_gpu_clusters_and_both_nvdla_are_free_at_once_with_all_units():
    found = on_xavier(RC + TC + CPU + DLA, Bound.max)

    assert left_as(found, "TC8") == left_as(found, "DLA2") == 100


def test_the_published_bounds_are_the_means_less_and_more_15_percent():
    ms = xavier_times().ms
    there = ~np.isnan(ms[:, :, 1])

    # printed with two decimals
    np.testing.assert_allclose(ms[there, 2], 1.15 * ms[there, 1], atol=0.011)
    np.testing.assert_allclose(ms[there, 0], 0.85 * ms[there, 1], atol=0.011)
    assert ms.shape == (7, 9, 3)
    assert there.sum() == 63 - 9 - 6


@st.composite
def boards(draw):
    """Up to five networks on two clusters of two, a pair beside, each place perhaps unsupported."""
    places = {
        "one": (frozenset("a"), frozenset("b")),
        "other": (frozenset("a"), frozenset("b")),
        "both": (frozenset("ab"),),
        "aside": (frozenset("c"),),
    }
    platform = Platform("board", ("a", "b", "c"), places)
    time = st.one_of(st.just(np.nan), st.integers(1, 60).map(float))
    rows = draw(st.lists(st.lists(time, min_size=4, max_size=4), min_size=1, max_size=5))
    return platform, np.array(rows), [*places]


def every_mapping(times_ms, names, platform):
    """Loads of each, by trying all."""
    own = [
        [
            (times_ms[i, j], place)
            for j, name in enumerate(names)
            for place in platform.configurations[name]
            if not np.isnan(times_ms[i, j])
        ]
        for i in range(len(times_ms))
    ]
    for chosen in product(*own):
        yield {unit: sum(ms for ms, place in chosen if unit in place) for unit in platform.units}


@given(boards())
@limited(max_examples=40)
def test_the_program_agrees_with_trying_all(board):
    platform, times_ms, names = board
    choices = mapping_choices(times_ms, names, platform)
    best = [max(loads.values()) for loads in every_mapping(times_ms, names, platform)]
    fits = bool(best) and min(best) <= 100

    assert (solve(choices, 100).answer is Feasibility.feasible) == fits


@given(boards())
@limited(max_examples=10)
def test_the_slack_agrees_with_trying_all(board):
    platform, times_ms, names = board
    choices = mapping_choices(times_ms, names, platform)
    both = np.array([True, True, False])
    left = [
        100 - max(loads["a"], loads["b"])
        for loads in every_mapping(times_ms, names, platform)
        if max(loads.values()) <= 100
    ]

    found = maximise_slack(choices, 100, both)

    assert (found.answer is Feasibility.feasible) == bool(left)
    if left:
        assert found.slack_ms == pytest.approx(max(left))
        assert found.bound_ms == found.slack_ms


@given(boards())
@limited(max_examples=25)
def test_a_timetable_gives_each_unit_to_one_network_at_a_time(board):
    platform, times_ms, names = board
    networks = [f"n{i}" for i in range(len(times_ms))]
    if not (~np.isnan(times_ms)).any(1).all():
        with pytest.raises(ValueError, match=r"\bboard\b.*\bone\b"):
            analyse_frame(networks, times_ms, names, platform, frame_ms=100)
        return

    found = analyse_frame(networks, times_ms, names, platform, frame_ms=100)

    for runs in [found.timetable, *(left.timetable for left in found.slack)]:
        for unit in platform.units:
            own = sorted((run.start_ms, run.end_ms) for run in runs if unit in run.place.split("+"))
            assert all(end <= start for (_, end), (start, _) in pairwise(own))
            assert all(end <= 100 + 1e-6 for _, end in own)
        for run in runs:
            took_ms = times_ms[networks.index(run.network), names.index(run.configuration)]
            assert run.end_ms - run.start_ms == pytest.approx(took_ms)


def test_a_longer_frame_never_has_less_slack():
    table, platform = xavier_times(), xavier_platform()
    left = [
        left_as(
            analyse_frame(
                table.networks,
                table.of(Bound.max),
                table.configurations,
                platform.restricted(RC + TC),
                frame_ms=frame_ms,
            ),
            "RC4",
        )
        for frame_ms in (90, 100, 110)
    ]

    assert left == sorted(left)


def test_a_board_of_250_units_is_mapped_and_ctrl_c_keeps_the_slack_that_was_found():
    units = tuple(f"u{i}" for i in range(250))
    platform = Platform("wide", units, {f"c{i}": (frozenset([u]),) for i, u in enumerate(units)})

    def interrupted(places):
        yield from places[:2]
        raise KeyboardInterrupt

    found = analyse_frame(
        ("a", "b"),
        np.array([[1.0, *[2.0] * 249], [4.0, 3.0, *[5.0] * 248]]),
        [*platform.configurations],
        platform,
        frame_ms=10,
        watched=interrupted,
    )

    assert [run.place for run in found.timetable] == ["u0", "u1"]
    assert [left.ms for left in found.slack] == [10, 10]
    assert found.places == 250


def test_interchangeable_units_are_found():
    platform = xavier_platform()

    assert interchangeable_units(platform, [*platform.configurations]) == [[0, 1], [3, 4], [5, 6]]


def test_the_slack_of_an_empty_board_is_the_frame():
    table = xavier_times().chosen([])

    found = analyse_frame(
        (), table.of(Bound.max), table.configurations, xavier_platform(), frame_ms=40
    )

    assert {left.ms for left in found.slack} == {40}


def test_a_platform_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "board.yaml"
    path.write_text(xavier_platform().yaml())

    assert read_platform(path) == xavier_platform()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("units: [a]\n", "platform"),
        ("units: [a]\nconfigurations: {wide: [a]}\n", "platform"),
        ("- 1\n", "platform"),
        ("a: [\n", "YAML"),
        ("units: " + 800 * "[" + 800 * "]", "YAML"),
        ("units: gpu\nconfigurations: {gpu: [[g]]}\n", "platform"),
        (ENDLESS + "units: [*j]\nconfigurations: {x: [[x]]}\n", "alias"),
        (ENDLESS + "units: [x]\nconfigurations: {x: [[*j]]}\n", "alias"),
        ("units: [a]\nconfigurations: {wide: [[b]]}\n", "wide needs b"),
        ("units: [a, a]\nconfigurations: {wide: [[a]]}\n", "twice in a, a"),
        ("units: [a]\nconfigurations: {wide: []}\n", "wide has a place without units"),
        (
            "units: [a, b, c]\nconfigurations: {x: [[a, b]], y: [[b, c]]}\n",
            "a\\+b and b\\+c overlap",
        ),
    ],
)
def test_an_invalid_platform_is_refused_by_name(text, named, tmp_path):
    path = tmp_path / "board.yaml"
    path.write_text(text)

    with pytest.raises(ValueError, match=named):
        read_platform(path)


HEADER = "network,configuration,min_ms,mean_ms,max_ms\n"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "network, configuration, min_ms, mean_ms, max_ms"),
        ("network,ms\na,1\n", "no column configuration"),
        (HEADER, r"tasks\.csv"),
        (HEADER + "a,x,1,2,3\na,x,1,2,3\n", "line 3: a in x"),
        (
            "network,configuration,ms\n" + "".join(f"n{i},c{i},1\n" for i in range(1001)),
            "1,001 networks in 1,001 configurations are more",
        ),
        ("network,configuration,ms\na,gpu,30,5\n", "line 2: .*decimal"),
        (HEADER + "a,x,3,2,1\n", "line 2: 3, 2, 1"),
        (HEADER + "a,x,0,2,3\n", "line 2"),
        (HEADER + "a,x,1,,3\n", "line 2"),
        (HEADER + "a,x,1,fast,3\n", "line 2"),
        (HEADER + "a,x,1,2,inf\n", "line 2"),
        (HEADER + ",x,1,2,3\n", "line 2: network and configuration"),
        (HEADER + "a,x,1\n", "line 2"),
    ],
)
def test_an_invalid_timing_table_is_refused_with_its_line(text, named, tmp_path):
    path = tmp_path / "tasks.csv"
    path.write_text(text)

    with pytest.raises(ValueError, match=named):
        read_timing_table(path)


def test_a_table_of_single_times_has_no_spread(tmp_path):
    path = tmp_path / "tasks.csv"
    path.write_text("network,configuration,ms\na,x,2\na,y,\nb,x,3\n")

    table = read_timing_table(path)

    np.testing.assert_array_equal(table.of(Bound.min), [[2, np.nan], [3, np.nan]])
    np.testing.assert_array_equal(table.of(Bound.max), table.of(Bound.min))


def test_an_effective_latency_is_within_the_limit_if_a_configuration_has_room():
    latency_ms = np.array([[10.0, 40.0], [30.0, 20.0], [30.0, 60.0], [np.nan, 5.0]])

    effective = effective_ms(latency_ms, np.array([20.0, 50.0]), 17.0)

    np.testing.assert_allclose(effective, 17 * np.array([0.5, 0.4, 1.2, 0.1]))


def test_without_slack_nothing_is_feasible():
    effective = effective_ms(np.array([[1.0, 3.0]]), np.array([0.0, 2.0]), 10.0)

    assert effective.tolist() == [15.0]
    with pytest.raises(ValueError, match="slack"):
        effective_ms(np.array([[1.0]]), np.array([0.0]), 10.0)
