"""What a measurement says to do next: commands that can do their work."""

import csv
import json
import re
import shlex

import numpy as np
import pytest

from edgenas_core.files.keyed_table import write_csv_table
from edgenas_core.machine.stability import OnDisturbance
from edgenas_core.machine.timing import Samples, Statistic
from latency.measuring.folder import MeasurementFolder
from latency.measuring.journal import Measurement, append
from latency.measuring.settings import MeasureConfig
from latency.probe.settings import Runtime
from latency.sources.table import AutoLatencyConfig
from nas.measure.next_step import next_step
from nas.measure.plan import plan
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201, OPERATIONS, TASKS

BOARD = "b3/torch/fp32/b1"
HOG = f"{BOARD}|hog:memory"
SOLO_MS = 2 + (OPERATIONS.index("nor_conv_3x3") == NAS_BENCH_201.rows).sum(axis=1) * 3.0


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    """An empty folder of tables."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("NAS_DATA", str(folder))
    return folder


def measured(out, device, networks, statistic=Statistic.median, *, scale=1.0, noise=None):
    """As if so many networks had been measured: the table, and what is said to do next."""
    config = MeasureConfig(
        board="b3",
        runtime=Runtime.torch,
        space="nas_bench_201",
        dataset="cifar100",
        core=0,
        networks=networks,
        repeats=0,
        statistic=statistic,
        on_disturbance=OnDisturbance.flag,
        out=str(out),
        scenario="hog" if "|" in device else None,
    )
    folder = MeasurementFolder(config, device, {})
    solo_ms = SOLO_MS if noise is None else noise.permutation(SOLO_MS)
    values = scale * solo_ms * (1.3 if "|" in device else 1.0)
    rows = plan(config, SPACE)
    latency_ms = values[SPACE.numbers(rows)]
    samples = [Samples(np.full(5, ms), 2, is_stable=True) for ms in latency_ms]
    texts = [SPACE.text(row) for row in rows]
    append(
        folder.journal,
        [
            Measurement(text, each, 1.0, None, (), ())
            for text, each in zip(texts, samples, strict=True)
        ],
    )
    tail = "" if statistic is Statistic.median else f"@{statistic.value}"
    write_csv_table(folder.table, SPACE, {f"{device}{tail}": latency_ms}, rows)
    folder.origin.write_text(json.dumps({}))
    words = ["board=b3", f"out={out}", f"networks={networks}"]
    scenario = ["scenario=hog"] if "|" in device else []
    return next_step(config, SPACE, folder, rows, latency_ms, words=[*words, *scenario])


@pytest.mark.parametrize(("scale", "reward"), [(0.01, "reward=constrained"), (1.0, "")])
def test_a_limit_of_a_millisecond_or_less_comes_with_a_reward_that_takes_it(
    tmp_path, scale, reward
):
    printed = measured(tmp_path, BOARD, 60, scale=scale)

    assert printed.endswith(f"ms {reward}".rstrip())


def commands(printed):
    """The lines that are commands, as lists of words."""
    return [shlex.split(line) for line in printed.splitlines()[1:]]


@pytest.mark.parametrize(
    ("device", "networks", "without", "most"),
    [(BOARD, 24, [], 100), (HOG, 4, [], 40), (HOG, 24, ["scenario=hog"], 100)],
    ids=["too few alone", "too few in the scenario", "none alone"],
)
def test_where_a_search_could_not_predict_the_rest_more_is_to_be_measured(
    tmp_path, device, networks, without, most
):
    (command,) = commands(measured(tmp_path, device, networks))

    scenario = ["scenario=hog"] if device == HOG and not without else []
    assert command == [
        *("python", "-m", "nas.measure", "board=b3", f"out={tmp_path}"),
        *scenario,
        f"networks={most}",
    ]


@pytest.mark.parametrize("statistic", [Statistic.median, Statistic.p99])
def test_with_enough_both_ways_the_search_that_is_named_can_be_built(tmp_path, data, statistic):
    measured(tmp_path, BOARD, 60, statistic)

    printed = measured(tmp_path, HOG, 24, statistic)

    copied, search = printed.split(" <your folder of tables>, then search: NAS_DATA=<that folder> ")
    files = shlex.split(copied.removeprefix("next: copy them: cp "))
    assert [name.rpartition(".")[2] for name in files] == ["csv", "json", "csv", "json"]
    for name in files:
        path = tmp_path / name
        (data / path.name).write_bytes(path.read_bytes())
    words = dict(word.split("=", 1) for word in shlex.split(search)[3:])
    assert words["device"] == HOG
    assert words.get("latency.statistic", "median") == statistic.value
    oracle = AutoLatencyConfig(statistic).build(words["device"], SPACE, TASKS["cifar100"])
    limit_ms = float(words["T"].removesuffix("ms"))
    within = oracle.answer(NAS_BENCH_201.rows).ms <= limit_ms
    assert within.any()
    assert AutoLatencyConfig(statistic).in_scenario(BOARD, "hog", SPACE) == HOG


def test_a_table_alone_among_the_users_tables_counts(tmp_path, data):
    with (data / "alone_ms.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["arch", BOARD])
        writer.writerows(zip(NAS_BENCH_201.strings, SOLO_MS, strict=True))

    assert measured(tmp_path, HOG, 24).startswith("next: copy them")


def test_where_every_network_was_measured_no_more_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr("nas.measure.next_step.distinct", lambda _space: range(24))

    assert commands(measured(tmp_path, BOARD, 24)) == []


def test_no_search_is_offered_with_times_that_predict_nothing(tmp_path):
    printed = measured(tmp_path, BOARD, 60, noise=np.random.default_rng(0))

    assert "next:" not in printed
    assert re.search(r"R2 -?0\.\d+ of at least 0\.5", printed)
    ((*_, networks),) = commands(printed)
    assert networks == "networks=120"
