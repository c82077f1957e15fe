"""A measurement, put into the package."""

import json

import numpy as np
import pytest

from benchmarks.fitting.nas_bench_201.bundle import main, ship
from edgenas_core.machine.timing import Samples
from edgenas_core.types.errors import UserError
from latency.devices.bundled import origin_of, read_bundled
from latency.measuring.journal import Measurement, append
from nas.spaces.nas_bench_201.space import NAS_BENCH_201


def measurement(index, ms, *disturbances):
    arch = NAS_BENCH_201.strings[index]
    samples = Samples(np.full(30, ms), 10, is_stable=True)
    return Measurement(arch, samples, 1.0, None, (), disturbances)


def test_repeats_count_with_their_median_and_the_disturbed_not_at_all(tmp_path):
    append(
        tmp_path / "board.journal.csv",
        [measurement(5, 1.0), measurement(7, 2.0, "noise"), measurement(5, 1.5)],
    )
    decisive = {"seed": 0, "quiet": {"control_drift": 0.05}}
    settings = {"out": "measurements", "core": 3, **decisive}
    named = {"device": "x", "statistic": "median"}
    (tmp_path / "board_ms.json").write_text(json.dumps({**named, "settings": settings}))

    path = ship(tmp_path / "board_ms.json", tmp_path / "package")

    table = read_bundled(path)
    assert (table.index.tolist(), table.median_ms.tolist()) == ([5], [1.25])
    assert origin_of(path) == {**named, "settings": decisive, "rows_measured": 1}
    assert len(list((tmp_path / "package").iterdir())) == 2


def test_where_boards_and_files_are_is_not_put_into_the_package(tmp_path):
    append(tmp_path / "board.journal.csv", [measurement(5, 1.0)])
    addresses = ["ssh://me@10.0.0.7:2222", "cmd://docker exec -i secret"]
    origin = {
        "device": "x",
        "statistic": "median",
        "boards": {one: {"board": "Jetson", "host": "jetson-in-the-lab"} for one in addresses},
        "states_at_the_end": {addresses[1]: {"clock_mhz": 900}},
        "settings": {
            "quiet": {"control_drift": 0.05},
            "device": f"[{','.join(addresses)}]",
            "scenario": "/home/me/mine.yaml",
            "latency": {"runtime": "auto", "python": "/opt/me/python", "ssh_config": "/home/me/x"},
        },
    }
    (tmp_path / "board_ms.json").write_text(json.dumps(origin))

    origin_shipped = origin_of(ship(tmp_path / "board_ms.json", tmp_path / "package"))

    for secret in ("10.0.0.7", "secret", "in-the-lab", "/home", "/opt"):
        assert secret not in json.dumps(origin_shipped)
    assert origin_shipped["boards"] == {
        "board 1": {"board": "Jetson"},
        "board 2": {"board": "Jetson"},
    }
    assert origin_shipped["states_at_the_end"] == {"board 2": {"clock_mhz": 900}}
    assert origin_shipped["settings"]["device"] == "board 1, board 2"
    assert (origin_shipped["settings"]["scenario"], origin_shipped["settings"]["latency"]) == (
        "mine",
        {"runtime": "auto"},
    )


def test_a_table_is_not_replaced_by_one_with_fewer_architectures(tmp_path):
    origin = tmp_path / "board_ms.json"
    origin.write_text(json.dumps(ORIGIN))
    journal = tmp_path / "board.journal.csv"
    append(journal, [measurement(5, 1.0), measurement(7, 2.0)])
    path = ship(origin, tmp_path / "package")
    ship(origin, tmp_path / "package")
    journal.unlink()
    append(journal, [measurement(5, 9.0)])

    with pytest.raises(UserError, match=r"the 1 of"):
        ship(origin, tmp_path / "package")

    assert read_bundled(path).median_ms.tolist() == [1.0, 2.0]


ORIGIN = {"device": "x", "statistic": "median", "settings": {"quiet": {"control_drift": 0.05}}}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[1, 2]", "is not the origin of a table of nas.measure"),
        ("[" * 99_999, "is not the origin of a table of nas.measure"),
        ("arch,latency_ms", "is not the origin of a table of nas.measure"),
        ('{"device": "x"}', "(KeyError: 'settings')"),
        (json.dumps({**ORIGIN, "settings": {"quiet": {"loud": 1}}}), "(KeyError:"),
        (json.dumps({**ORIGIN, "statistic": "p95"}), "name the origin of the median"),
        (json.dumps(ORIGIN), "board*.journal.csv beside"),
    ],
)
def test_what_is_no_origin_of_a_measurement_is_one_line(tmp_path, capsys, text, says):
    (tmp_path / "board_ms.json").write_text(text)

    with pytest.raises(SystemExit) as left:
        main([str(tmp_path / "board_ms.json")])

    assert left.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert str(tmp_path / "board_ms.json") in line
    assert says in line
