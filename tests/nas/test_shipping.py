"""A measurement of this machine, put into the package."""

import json

import numpy as np

from latency.shipped import origin_of, read_shipped
from nas.fitting.shipped import ship
from nas.measurements import Measurement, append
from runtime.timing import Samples


def measurement(index, ms, *disturbances):
    samples = Samples(np.full(30, ms), 10, is_stable=True)
    return Measurement(index, samples, 1.0, None, (), disturbances)


def test_repeats_count_with_their_median_and_the_disturbed_not_at_all(tmp_path):
    append(
        tmp_path / "board.journal.csv",
        [measurement(5, 1.0), measurement(7, 2.0, "noise"), measurement(5, 1.5)],
    )
    decisive = {"seed": 0, "quiet": {"control_drift": 0.05}}
    settings = {"out": "measurements", "core": 3, **decisive}
    (tmp_path / "board_ms.json").write_text(json.dumps({"device": "x", "settings": settings}))
    (tmp_path / "package").mkdir()

    path = ship(tmp_path / "board_ms.json", tmp_path / "package")

    table = read_shipped(path)
    assert (table.index.tolist(), table.median_ms.tolist()) == ([5], [1.25])
    assert origin_of(path) == {"device": "x", "settings": decisive, "rows_measured": 1}
