"""Units of times: stated by a name, given, or refused."""

from pathlib import Path

import numpy as np
import pytest

from edgenas_core.files.time_unit import TimeUnit, stated_unit, to_ms
from edgenas_core.types.errors import UserError


@pytest.mark.parametrize(
    ("file", "column", "unit"),
    [
        ("mine.csv", "latency_s", TimeUnit.s),
        ("mine.csv", "board (sec)", TimeUnit.s),
        ("mine.csv", "board_us", TimeUnit.us),
        ("mine.csv", "board [ns]", TimeUnit.ns),
        ("mine.csv", "board (latency (us))", TimeUnit.us),
        ("mine.csv", "fps", TimeUnit.fps),
        ("mine_ms.csv", "board", TimeUnit.ms),
        ("mine_us.csv", "board@p95", TimeUnit.us),
        ("mine_us.csv", "board_ms", TimeUnit.ms),
        ("mine.csv", "galaxy-s", None),
        ("mine.csv", "jetson-nano/fp32/b1", None),
        ("mine.csv", "my-board", None),
    ],
)
def test_a_unit_is_the_ending_of_the_column_s_name_or_of_the_file_s(file, column, unit):
    assert stated_unit(Path(file), column) is unit


@pytest.mark.parametrize(
    ("unit", "value"),
    [
        (TimeUnit.ms, 20.0),
        (TimeUnit.s, 0.02),
        (TimeUnit.us, 20_000.0),
        (TimeUnit.ns, 2e7),
        (TimeUnit.fps, 50.0),
    ],
)
def test_values_of_each_unit_are_milliseconds_and_nothing_measured_stays_so(unit, value):
    ms = to_ms(np.array([value, np.nan]), Path("mine.csv"), "board", unit)

    assert ms[0] == pytest.approx(20)
    assert np.isnan(ms[1])


@pytest.mark.parametrize(("column", "value"), [("board", 0.05), ("board", 2e3), ("board_us", 20.0)])
def test_a_column_that_cannot_be_of_its_unit_is_refused_until_the_unit_is_said(column, value):
    values = np.array([value, value])

    with pytest.raises(UserError, match=r"mine\.csv.*latency\.unit="):
        to_ms(values, Path("mine.csv"), column, None)
    assert to_ms(values, Path("mine.csv"), column, TimeUnit.ms) == pytest.approx(values)
