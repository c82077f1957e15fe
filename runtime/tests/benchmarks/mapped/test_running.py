"""Running a mapping on this machine. The GPU tests need only torch and cuda-bindings:

python -m pytest tests/benchmarks/mapped/test_running.py -m gpu --noconftest -c /dev/null -v
"""

import json
import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from benchmarks.mapped import command
from benchmarks.mapped.baselines import Method, at_once, greedy, quickest, serial, shortest
from benchmarks.mapped.candidates import MappedBoard, candidates, planned_ms
from benchmarks.mapped.config import MappedConfig, with_recorded
from benchmarks.mapped.experiment import sentences
from benchmarks.mapped.frames import FrameBuilder
from benchmarks.mapped.gpu_groups import grouped
from benchmarks.mapped.named_networks import NamedNetwork, build_network
from benchmarks.mapped.needed_margin import NeededMargin, needed_margin
from benchmarks.mapped.place_lanes import PlaceLanes, unit_multiprocessors
from benchmarks.mapped.rows import result_rows
from benchmarks.mapped.this_machine import machine_with
from benchmarks.mapped.variant import parse_variant
from edgenas_core.machine.description import usable_cores
from edgenas_runtime.mapping.model.choices import mapping_choices
from edgenas_runtime.mapping.model.platform_description import Platform
from edgenas_runtime.mapping.model.timing_table import Bound, TimingTable
from edgenas_runtime.mapping.solving.program import Feasibility
from edgenas_runtime.mapping.solving.slack import Placed

has_two_cores = pytest.mark.skipif(len(usable_cores()) < 2, reason="there is one core here")

CLOCKS_MS = 0.05
"""Largest difference between the clocks of two lanes soon after they were synchronised."""

ONE, BOTH = "cpu/t1/eager/fp32", "cpu/t2/torchscript/fp32"
TWO_CORES = Platform(
    "two cores",
    ("core0", "core1"),
    {
        ONE: (frozenset({"core0"}), frozenset({"core1"})),
        BOTH: (frozenset({"core0", "core1"}),),
    },
)


def table(times):
    """A timing table of networks by name, with milliseconds on one core and on both."""
    ms = np.array([*times.values()], float)
    return TimingTable((*times,), (ONE, BOTH), np.repeat(ms[:, :, None], 3, axis=2))


TIMES = table({"a": (6, 4), "b": (6, 4), "c": (6, 4)})


def on_two_cores(times):
    return mapping_choices(
        times.of(Bound.max), times.configurations, TWO_CORES
    ), times.configurations


def spans(timetable):
    return [(one.network, len(one.place), one.start_ms, one.end_ms) for one in timetable]


def test_the_shortest_frame_is_found():
    found = shortest(*on_two_cores(TIMES))

    assert planned_ms(found) == pytest.approx(10)  # one on both cores, then two beside each other
    assert [len(one.place) for one in found] == [2, 1, 1]
    assert [one.after for one in found] == [(), (0,), (0,)]


def test_in_serial_order_no_network_runs_beside_another():
    found = serial(*on_two_cores(TIMES))

    assert spans(found) == [(0, 2, 0, 4), (1, 2, 4, 8), (2, 2, 8, 12)]
    assert [one.after for one in found] == [(), (0,), (1,)]


def test_networks_that_are_fastest_on_one_core_take_the_core_that_is_free_first():
    times = table({"a": (1, 2), "b": (3, 4), "c": (1, 2)})

    found = quickest(*on_two_cores(times))

    assert spans(found) == [(1, 1, 0, 3), (0, 1, 0, 1), (2, 1, 1, 2)]
    assert found[2].place == found[1].place
    assert found[2].after == (1,)


def test_greedy_places_the_longest_network_first_where_it_ends_first():
    times = table({"a": (3, 2), "b": (6, 5), "c": (4, 9)})

    found = greedy(*on_two_cores(times))

    assert spans(found) == [(1, 2, 0, 5), (2, 1, 5, 9), (0, 1, 5, 8)]


def test_at_once_no_network_waits():
    found = at_once(*on_two_cores(TIMES))

    assert spans(found) == [(0, 2, 0, 4), (1, 2, 0, 4), (2, 2, 0, 4)]
    assert not any(one.after or one.is_exclusive for one in found)


def test_margins_with_one_timetable_are_one_and_its_times_are_the_tables():
    board = MappedBoard(TIMES, TWO_CORES, Bound.max, 11.9)

    found, answers = candidates(board, [*Method], [0, 0.1, 0.5])

    assert answers == {
        0: Feasibility.feasible,
        0.1: Feasibility.feasible,
        0.5: Feasibility.infeasible,
    }
    assert [one.name for one in found] == [
        "mapped +0, 10 % = shortest",
        "greedy = quickest = serial",
        "at_once",
    ]
    assert planned_ms(found[0].timetable) == pytest.approx(10)


def test_rows_have_late_frames_and_the_needed_margin():
    board = MappedBoard(TIMES, TWO_CORES, Bound.max, 11.9)
    found, answers = candidates(board, [Method.mapped, Method.serial], [0, 0.5])
    mapping, one_by_one = found
    mapping.ms = [np.array([[0, 4.0], [4, 10.5], [4, 11]]), np.array([[0, 4.0], [4, 10], [4, 12]])]
    one_by_one.ms = [np.array([[0, 4.0], [4, 8], [8, 16]])] * 2

    rows = result_rows(board, found, answers, 0.05)

    ran, alone = (row for row in rows if "timetable" in row)
    assert (ran["planned_ms"], ran["ms"], ran["worst_ms"], ran["late"]) == (10, 11.5, 12, 1)
    assert ran["needed_margin"] == pytest.approx(0.2)
    assert ran["against_serial"] == pytest.approx(11.5 / 16 - 1, abs=1e-4)
    assert (alone["late"], alone["frames"]) == (2, 2)
    last = next(row for row in rows if row.get("network") == "c" and row["of"] == ran["timetable"])
    assert (last["late"], last["worst_end_ms"], last["after_plan_ms"]) == (1, 12, 2)
    assert last["slower"] == pytest.approx(7.5 / 6 - 1, abs=1e-4)
    assert [(row["answer"], row["holds"]) for row in rows if "margin" in row] == [
        ("feasible", False),
        ("infeasible", False),
    ]


def test_the_margin_to_plan_with_is_what_the_mapping_needed_though_no_frame_was_late():
    board = MappedBoard(TIMES, TWO_CORES, Bound.max, 40)
    found, answers = candidates(board, [Method.mapped], [0, 0.5])
    found[0].ms = [np.array([[0, 4.0], [4, 8], [8, 19.81]])]  # planned to 12

    rows = result_rows(board, found, answers, 0.05)

    assert needed_margin(rows) == NeededMargin(0.66, "mapped +0, 50 %", has_held=True)
    assert "66 %" in " ".join(sentences(rows))


def test_where_no_mapping_held_the_margin_to_plan_with_is_that_of_the_shortest_frame():
    board = MappedBoard(TIMES, TWO_CORES, Bound.max, 11.9)
    found, answers = candidates(board, [Method.mapped, Method.shortest, Method.serial], [0])
    for one in found:
        one.ms = [np.array([[0, 4.0], [4, 8], [8, 12]])]

    rows = result_rows(board, found, answers, 0.05)

    assert needed_margin(rows) == NeededMargin(0.2, "mapped +0 % = shortest", has_held=False)


class Recording(torch.nn.Module):
    """Records the cores on which it was called."""

    def __init__(self):
        super().__init__()
        self.cores = set()

    def forward(self, x):
        self.cores |= os.sched_getaffinity(0)
        return 2 * x

    def __deepcopy__(self, memo):
        return self


def recorded(name):
    return NamedNetwork(name, Recording(), torch.ones(1, 3), tuple(torch.randn(3, 1, 3)))


def placed(network, place, after=(), configuration="cpu/t1/eager/fp32"):
    return Placed(network, configuration, frozenset(place), 0.0, 1.0, after)


@has_two_cores
def test_networks_run_on_the_cores_of_their_places_one_after_another():
    first, second = usable_cores()[:2]
    subjects = [recorded(name) for name in "abc"]
    order = (
        placed(0, ("core0", "core1"), configuration="cpu/t2/eager/fp32"),
        placed(1, ("core0",), (0,)),
        placed(2, ("core1",), (0,)),
    )

    with PlaceLanes(TWO_CORES) as lanes:
        frame = FrameBuilder(subjects, lanes).frame(order)
        frame.put(1)
        for subject in subjects:
            subject.module.cores.clear()
        ms = frame.run()
        differences = frame.differences(
            [[2 * x for x in subject.others] for subject in subjects], 1
        )

    assert [subject.module.cores for subject in subjects] == [{first, second}, {first}, {second}]
    assert (ms[:, 0] < ms[:, 1]).all()
    assert (ms[1:, 0] >= ms[0, 1]).all()
    assert differences.tolist() == [0, 0, 0]


@has_two_cores
def test_threads_of_a_variant_stay_on_its_place():
    cores = usable_cores()[:2]

    with PlaceLanes(TWO_CORES) as lanes:
        there = lanes.built(
            parse_variant(ONE), frozenset({"core1"}), lambda: os.sched_getaffinity(0)
        )
        anywhere = lanes.built(parse_variant(ONE), None, lambda: os.sched_getaffinity(0))

    assert there == {cores[1]}
    assert anywhere == os.sched_getaffinity(0)


NETS = """
import torch

class Fails(torch.nn.Module):
    def __init__(self, after, error):
        super().__init__()
        self.remaining, self.error = after, error

    def forward(self, x):
        self.remaining -= 1
        if self.remaining < 0:
            raise self.error
        return 2 * x

class Drifts(torch.nn.Module):
    calls = 0

    def forward(self, x):
        self.calls += 1
        return self.calls * x

def good():
    return torch.nn.Linear(3, 2), torch.ones(1, 3)

def fails():
    return Fails(30, ValueError("no more")), torch.ones(1, 3)

def interrupted():
    return Fails(30, KeyboardInterrupt()), torch.ones(1, 3)

def drifts():
    return Drifts(), torch.ones(1, 3)
"""


@pytest.fixture
def here(tmp_path, monkeypatch, capsys):
    """Runs the command on two cores with a table of these networks."""
    (tmp_path / "run_nets.py").write_text(NETS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "run_nets", raising=False)
    monkeypatch.chdir(tmp_path)

    def run(names, *words, platform=TWO_CORES):
        lines = [f"run_nets:{name},{ONE},3" for name in names]
        (tmp_path / "t.csv").write_text("\n".join(["network,configuration,ms", *lines]) + "\n")
        (tmp_path / "t.yaml").write_text(platform.yaml())
        if not any(word.startswith(("networks=", "tasks=")) for word in words):
            words = (*words, f"networks=[{','.join(f'run_nets:{name}' for name in names)}]")
        monkeypatch.setattr(
            sys,
            "argv",
            [
                "bench",
                "experiment=mapped",
                "tasks=t.csv",
                "out=out",
                "frame_ms=8",
                "frames=8",
                *words,
            ],
        )
        status = 0
        try:
            command.main()
        except SystemExit as end:
            status = end.code
        return status, *capsys.readouterr()

    return run


@has_two_cores
def test_a_mapping_is_run_beside_its_baselines(here, tmp_path):
    status, out, err = here(["good"], "networks=[run_nets:good,run_nets:good]")

    assert (status, err) == (0, "")
    results = json.loads((tmp_path / "out" / "mapped.json").read_text())
    assert results["is_complete"]
    ran = {row["timetable"]: row for row in results["rows"] if "timetable" in row}
    assert all(row["frames"] == 8 and row["ms"] > 0 for row in ran.values())
    assert {way for row in ran.values() for way in row["ways"]} == {way.value for way in Method}
    networks = [row for row in results["rows"] if "network" in row]
    assert all(row["agrees"] and row["end_ms"] > row["start_ms"] for row in networks)
    assert "mapping hold?" in out
    asked = "tasks=t.csv frame_ms=8 'networks=[run_nets:good,run_nets:good]'"
    assert f"{asked} margin=" in out
    assert (tmp_path / "out" / "mapped.html").exists()


def test_a_function_that_only_the_table_names_is_not_called(here):
    status, _, err = here(["good"], "networks=null")

    assert status == 2
    assert "networks=[run_nets:good]" in err
    assert "run_nets" not in sys.modules


@has_two_cores
@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("fails", "run_nets:fails as cpu/t1/eager/fp32 on core0 failed: ValueError: no more"),
        ("drifts", "run_nets:drifts as cpu/t1/eager/fp32 on core0: its output differs from fp32"),
    ],
)
def test_a_network_that_fails_ends_its_timetable_only(here, tmp_path, name, error):
    status, out, _ = here(
        [name, "good"],
        *("ways=[mapped,serial]", "margin=0.1", "turn=10", "frames=40"),
    )

    assert status == 1
    assert f"failed: {error}" in " ".join(out.split())
    assert "Traceback" not in out
    results = json.loads((tmp_path / "out" / "mapped.json").read_text())
    assert len(results["faults"]) >= 1
    assert [row["margin"] for row in results["rows"] if "margin" in row] == [0.1]
    assert not results["is_complete"]


@has_two_cores
def test_an_interrupted_run_leaves_what_was_measured(here, tmp_path):
    status, out, err = here(["interrupted", "good"], "ways=[serial]", "turn=4", "frames=40")

    assert (status, err.count("\n")) == (130, 1)
    assert "8 ms" in out
    results = json.loads((tmp_path / "out" / "mapped.json").read_text())
    assert 4 <= results["rows"][0]["frames"] < 40
    assert results["not_measured"]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("frames=0",), ("frames=0",)),
        (("ways=[best]",), ("ways=['best']", "mapped, shortest")),
        (("margins=[-1]",), ("margins=[-1.0]",)),
        (("minutes=0",), ("minutes=0.0",)),
        (("tasks=null",), ("tasks=",)),
        (("platform=other.yaml",), ("run_nets:good,cpu/t1/eager/fp32", "configuration of other")),
        (("tasks=xavier",), ("networks=DNN1",)),
        (("platform=far.yaml",), ("core7", "core0")),
        (("platform=gpu.yaml", "tasks=g.csv"), ("sm0", "GPU")),
        (("platform=npu.yaml",), ("npu", "core0, core1")),
    ],
)
def test_invalid_settings_are_refused_in_one_line(here, tmp_path, words, named):
    for name, unit in (("far", "core7"), ("npu", "npu")):
        board = Platform(name, (unit,), {ONE: (frozenset({unit}),)})
        (tmp_path / f"{name}.yaml").write_text(board.yaml())
    other = Platform("other", ("core0",), {BOTH: (frozenset({"core0"}),)})
    (tmp_path / "other.yaml").write_text(other.yaml())
    if any("gpu" in word for word in words) and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    gpu = machine_with([parse_variant("cuda/sm16/graph/fp32")], 1, 16)
    (tmp_path / "gpu.yaml").write_text(gpu.yaml())
    (tmp_path / "g.csv").write_text("network,configuration,ms\nnb201,cuda/sm16/graph/fp32,3\n")

    status, out, err = here(["good"], *words)

    assert status == 2
    assert err.count("\n") == 1
    assert all(value in err for value in named)
    assert "Traceback" not in out + err


def test_networks_are_built_with_the_settings_recorded_beside_the_table(tmp_path):
    values = OmegaConf.load(command.CONF / "mapped.yaml")
    del values["defaults"], values["hydra"]
    config = MappedConfig(**{**values, "tasks": "t.csv"})
    record = tmp_path / "t.json"

    assert with_recorded(config, record) is config
    record.write_text(json.dumps({"settings": {"batch": 4, "width": 0.5, "compared": 3}}))
    made = with_recorded(config, record)
    assert (made.batch, made.width, made.compared, made.frames) == (4, 0.5, 3, 200)
    record.write_text("{}")
    with pytest.raises(ValueError, match=r"t\.json .*'settings'"):
        with_recorded(config, record)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_place_of_a_missing_gpu_is_refused():
    with (
        PlaceLanes(machine_with([parse_variant("cuda/sm16/graph/fp32")], 1, 32)) as lanes,
        pytest.raises(ValueError, match=r"sm1.*GPU"),
    ):
        lanes.lane(parse_variant("cuda/sm16/graph/fp32"), frozenset({"sm1"}))


def test_units_of_a_gpu_are_its_smallest_share():
    names = [f"cuda/sm{share}/graph/fp32" for share in (16, 32, 64, 132)]

    assert unit_multiprocessors(machine_with([*map(parse_variant, names)], 1, 132), 132) == 16


class Part:
    """Multiprocessors as the driver describes them."""

    def __init__(self, count):
        self.sm = SimpleNamespace(smCount=count)


@pytest.mark.parametrize(
    ("groups", "rest", "last_unit"),
    [(15, 12, 20), (16, 4, 20), (16, 0, 16)],  # 132 as the driver splits an H200, and otherwise
)
def test_units_of_sixteen_are_disjoint_and_all_of_the_gpu(groups, rest, last_unit):
    parts = [Part(8) for _ in range(groups)]
    left = Part(rest) if rest else None

    units = [grouped((2 * i, 2 * i + 1), parts, left) for i in range(8)]

    found = [part for unit in units for part in unit]
    assert len(found) == len({*found}) == groups + bool(rest)
    sizes = [sum(part.sm.smCount for part in unit) for unit in units]
    assert sizes == [16] * 7 + [last_unit]
    with pytest.raises(ValueError, match=r"16 groups.* 16"):
        grouped((16,), parts, left)


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")

_WHERE = """extern "C" __global__ void where(int* found) {
  unsigned sm;
  asm("mov.u32 %0, %%smid;" : "=r"(sm));
  for (long long begin = clock64(); clock64() - begin < 100000;);
  if (threadIdx.x == 0) found[blockIdx.x] = sm;
}"""


def where_kernels_run(stream):
    if not hasattr(torch.cuda, "_compile_kernel"):
        pytest.skip("an older torch")
    kernel = torch.cuda._compile_kernel(_WHERE, "where")
    found = torch.full((512,), -1, dtype=torch.int32, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        kernel(grid=(512, 1, 1), block=(1024, 1, 1), args=(found,))
    torch.cuda.synchronize()
    return {*found.tolist()}


@pytest.mark.gpu
@needs_gpu
def test_places_of_a_gpu_are_the_multiprocessors_in_their_names():
    there = torch.cuda.get_device_properties(0).multi_processor_count
    names = [f"cuda/sm{share}/graph/tf32" for share in (16, 32, there)]
    platform = machine_with([*map(parse_variant, names)], 1, there)

    with PlaceLanes(platform) as lanes:
        narrow, other, wide, whole = (
            where_kernels_run(lanes.lane(parse_variant(name), frozenset(place)).stream)
            for name, place in (
                (names[0], {"sm0"}),
                (names[0], {"sm1"}),
                (names[1], {"sm0", "sm1"}),
                (names[2], platform.units),
            )
        )

        units = [
            where_kernels_run(lanes.lane(parse_variant(names[0]), frozenset({unit})).stream)
            for unit in platform.units
        ]

    assert len(set().union(*units)) == sum(map(len, units)) == there
    assert (len(narrow), len(other), len(wide), len(whole)) == (16, 16, 32, there)
    assert not narrow & other
    assert narrow | other == wide


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("execution", ["graph", "eager"])
def test_frames_run_on_places_of_a_gpu_and_on_a_core(execution):
    there = torch.cuda.get_device_properties(0).multi_processor_count
    small, wide, whole = (f"cuda/sm{share}/{execution}/tf32" for share in (16, 32, there))
    core = "cpu/t1/eager/fp32"
    platform = machine_with([*map(parse_variant, (small, wide, whole, core))], 1, there)
    one = build_network("resnet18", width=0.25, compared=3)
    order = (
        placed(0, platform.units[1:], configuration=whole),
        placed(1, ("sm0",), (0,), small),
        placed(2, ("sm1",), (0,), small),
        placed(3, ("sm0", "sm1"), (1, 2), wide),
        placed(4, ("core0",), (), core),
    )

    with PlaceLanes(platform) as lanes:
        frame = FrameBuilder([one] * 5, lanes).frame(order)
        with torch.inference_mode():
            expected = [one.module(x) for x in one.others]
        for turn in range(6):
            frame.put(turn)
            ms = [frame.run() for _ in range(20)]
            torch.cuda.synchronize()
            assert frame.differences([expected] * 5, turn).max() < 0.05

    for began, ended in (each.T for each in ms):
        assert (began < ended).all()
        assert (began[1:3] >= ended[0] - CLOCKS_MS).all()
        assert began[3] >= max(ended[1:3]) - CLOCKS_MS
