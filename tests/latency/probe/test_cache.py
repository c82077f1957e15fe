import json

import numpy as np

from latency.probe.board import Timed
from latency.probe.cache import Cache

KEY = {"device": "board/onnxruntime/fp32/b1", "settings": {"threads": 1}}


def timed(*ms):
    return Timed(
        np.array(ms, np.float64),
        np.array([2.0, 2.5]),
        warm_up_calls=10,
        is_stable=True,
        told={"celsius": {"cpu": 40.5}},
    )


def test_what_was_timed_comes_back_with_every_sample(tmp_path):
    Cache(tmp_path, KEY, {"host": "a"}).add(7, timed(1.0, 1.25, 1.125), "ssh://a")

    found = Cache(tmp_path, KEY, {}).get(7)

    assert found.ms.tolist() == [1.0, 1.25, 1.125]
    assert found.control_median_ms == 2.25
    assert found.told == {"celsius": {"cpu": 40.5}}
    first = json.loads(Cache(tmp_path, KEY, {}).path.read_text().split("\n")[1])
    assert first == {"key": KEY, "about": {"host": "a"}}


def test_other_settings_are_another_file(tmp_path):
    Cache(tmp_path, KEY, {}).add(7, timed(1.0), "ssh://a")

    assert Cache(tmp_path, {**KEY, "settings": {"threads": 2}}, {}).get(7) is None


def test_a_line_that_a_kill_cut_off_is_left_out_and_spoils_no_other(tmp_path):
    cache = Cache(tmp_path, KEY, {})
    cache.add(7, timed(1.0), "ssh://a")
    cache.add(8, timed(2.0), "ssh://a")
    cache.path.write_bytes(cache.path.read_bytes()[:-30])
    Cache(tmp_path, KEY, {}).add(9, timed(3.0), "ssh://a")

    found = Cache(tmp_path, KEY, {})

    assert (len(found), found.get(8)) == (2, None)
    assert found.get(9).ms.tolist() == [3.0]


def test_a_time_that_is_none_is_not_taken_from_a_file(tmp_path):
    cache = Cache(tmp_path, KEY, {})
    for number, ms in ((1, "[-1.0]"), (2, "[NaN]"), (3, "[]"), (4, '"x"'), (5, "[1.0]")):
        with cache.path.open("a") as file:
            file.write(
                f'{{"network": {number}, "ms": {ms}, "control_ms": [1.0], "warm_up_calls": 2, '
                f'"is_stable": true, "state": {{}}}}\n[]\n'
            )

    assert [number for number in range(9) if Cache(tmp_path, KEY, {}).get(number)] == [5]
