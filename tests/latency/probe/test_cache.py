import json

import numpy as np
import pytest

from latency.probe.board import Timed
from latency.probe.cache import Cache

KEY = {"space": "small", "device": "board/onnxruntime/fp32/b1", "settings": {"threads": 1}}


def timed(*ms):
    return Timed(
        np.array(ms, np.float64),
        np.array([2.0, 2.5]),
        warm_up_calls=10,
        is_stable=True,
        report={"celsius": {"cpu": 40.5}},
    )


def test_what_was_timed_comes_back_with_every_sample(tmp_path):
    Cache(tmp_path, KEY, {"host": "a"}).add("a", timed(1.0, 1.25, 1.125), "ssh://a")

    cached = Cache(tmp_path, KEY, {}).get("a")

    assert cached.ms.tolist() == [1.0, 1.25, 1.125]
    assert cached.control_median_ms == 2.25
    assert cached.report == {"celsius": {"cpu": 40.5}}
    first = json.loads(Cache(tmp_path, KEY, {}).path.read_text().split("\n")[1])
    assert first == {"key": KEY, "about": {"host": "a"}}


@pytest.mark.parametrize("other", [{"settings": {"threads": 2}}, {"space": "another"}])
def test_other_settings_or_another_space_are_another_file(tmp_path, other):
    Cache(tmp_path, KEY, {}).add("a", timed(1.0), "ssh://a")

    assert Cache(tmp_path, {**KEY, **other}, {}).get("a") is None


def test_a_line_that_a_kill_cut_off_is_left_out_and_spoils_no_other(tmp_path):
    cache = Cache(tmp_path, KEY, {})
    cache.add("a", timed(1.0), "ssh://a")
    cache.add("b", timed(2.0), "ssh://a")
    cache.path.write_bytes(cache.path.read_bytes()[:-30])
    Cache(tmp_path, KEY, {}).add("c", timed(3.0), "ssh://a")

    cached = Cache(tmp_path, KEY, {})

    assert (len(cached), cached.get("b")) == (2, None)
    assert cached.get("c").ms.tolist() == [3.0]


def test_a_time_that_is_none_is_not_taken_from_a_file(tmp_path):
    cache = Cache(tmp_path, KEY, {})
    times = ("[-1.0]", "[NaN]", "[]", '"x"', "[1.0]", "[1e-300]", "[1e9]", "[true]", "1", "[1e-6]")
    for number, ms in enumerate(times, 1):
        with cache.path.open("a") as file:
            file.write(
                f'{{"network": "{number}", "ms": {ms}, "control_ms": [1.0], "warm_up_calls": 2, '
                f'"is_stable": true, "state": {{}}}}\n[]\n'
            )

    assert [number for number in range(11) if Cache(tmp_path, KEY, {}).get(str(number))] == [5]
