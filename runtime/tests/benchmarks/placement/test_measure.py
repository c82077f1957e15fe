"""What the memory experiment says of measurements; these here are made up."""

import pytest

from benchmarks.placement.experiment import MEMORY
from benchmarks.placement.reuse import accuracy, model_errors


def case(nbytes, reuse, measured, predicted, *, held_out=True):
    """Overheads of D, M and H on kernels that take 1 ms."""
    return [
        {
            "part": "reuse",
            "profile": "made up",
            "simulated": False,
            "held_out": held_out,
            "use": "read",
            "bytes": nbytes,
            "reuse": reuse,
            "policy": policy,
            "ms": 1 + took,
            "low_ms": 0.99 + took,
            "high_ms": 1.01 + took,
            "samples_ms": [1 + took],
            "resident_ms": 1.0,
            "overhead_ms": took,
            "predicted_overhead_ms": foretold,
            "guideline_1": "D",
        }
        for policy, took, foretold in zip("DMH", measured, predicted, strict=True)
    ]


ROWS = [
    *case(1024, 1, (3.0, 9.0, 1.0), (3.3, 9.0, 1.0)),
    *case(1024, 2, (3.0, 9.0, 2.0), (3.0, 9.0, 3.6)),  # wrong, and clear
    *case(1024, 4, (3.0, 9.0, 4.0), (3.0, 9.0, 5.0)),
    *case(1024, 8, (3.0, 9.0, 2.995), (3.0, 9.0, 8.0)),  # wrong, within the spread
    *case(2048, 1, (1.0, 9.0, 2.0), (2.0, 9.0, 1.0), held_out=False),
]


def test_a_prediction_is_right_where_it_names_the_faster():
    found = accuracy(ROWS, held_out=True)
    assert (found.right, found.cases) == (2, 4)
    assert (found.clear_right, found.clear_cases) == (2, 3)
    assert found.largest_regret == pytest.approx(4 / 3 - 1)
    assert accuracy(ROWS, held_out=False).right == 0
    assert accuracy([], held_out=True) is None
    assert accuracy([{**row, "simulated": True} for row in ROWS], held_out=True) is None


def test_a_case_that_an_interruption_cut_does_not_count():
    lost = next(row for row in ROWS if row["policy"] == "H" and row["held_out"])
    cut = [row for row in ROWS if row is not lost]

    assert accuracy(cut, held_out=True).cases == 3


def test_errors_are_geometric_means_over_held_out_sizes():
    errors = model_errors(ROWS)
    assert errors["M"]["overhead"] == pytest.approx(1e-3)  # none, but nothing counts as less
    assert errors["D"]["overhead"] == pytest.approx((0.1 * 1e-3**3) ** 0.25)
    assert errors["D"]["mean_response"] == pytest.approx(0.3 / 4 / 4)
    assert errors["H"]["published_tx2"] == 0.065


def test_measurements_make_tables_and_count_as_timed_beside_simulated_rows():
    response, *_ = MEMORY.shown(ROWS)
    assert [row[-4:] for row in response.rows[:2]] == [["4", "2", "10", "D"], ["4", "3", "10", "D"]]
    flagged = [{**row, "flagged": ["busy"]} for row in ROWS]
    rows = [*flagged, {"part": "x", "simulated": True}]
    assert MEMORY.flagged(rows) == (len(ROWS), len(ROWS))
    assert not MEMORY.simulated(rows)
