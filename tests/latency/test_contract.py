"""What every latency oracle promises, asked of each of them."""

import numpy as np
import pytest
from latency.sources.nats import NatsLatency

from latency.base import LatencyOracle, UnmeasuredError
from latency.sources.mapped import Left, MappedLatency
from latency.sources.table import TableLatency

CHOICES = (3, 2, 4)
TABLE_MS = np.arange(1.0, 25.0).reshape(CHOICES)


def measured():
    return TableLatency("board/b1", "table", "24 cells", TABLE_MS, np.zeros(CHOICES, bool))


def predicted():
    return TableLatency("board/b1", "regression", "24 guesses", TABLE_MS, np.ones(CHOICES, bool))


def archived():
    return NatsLatency(
        description="24 cells, one at a time",
        number_of=lambda rows: np.arange(24).reshape(CHOICES)[tuple(np.moveaxis(rows, -1, 0))],
        latency_ms_of=lambda number: float(TABLE_MS.ravel()[number]),
        holds=lambda number: number < 24,
    )


def mapped():
    slower = TableLatency("board/b8", "table", "24 more", 2 * TABLE_MS, np.ones(CHOICES, bool))
    return MappedLatency((Left(measured(), 3.0), Left(slower, 3.0)))


@pytest.fixture(params=[measured, predicted, archived, mapped])
def oracle(request):
    return request.param()


def test_it_is_an_oracle(oracle):
    assert isinstance(oracle, LatencyOracle)
    assert oracle.device
    assert oracle.source in {"table", "regression", "nats", "mapped"}
    assert "24" in oracle.description


@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 5)])
def test_it_answers_each_row_whatever_the_axes_before(oracle, shape):
    rng = np.random.default_rng(0)
    rows = np.stack([rng.integers(0, n, shape) for n in CHOICES], axis=-1).astype(np.int64)

    latency_ms = oracle.answer(rows).ms

    assert latency_ms.shape == shape
    assert latency_ms.dtype == np.float64
    np.testing.assert_allclose(latency_ms, TABLE_MS[tuple(np.moveaxis(rows, -1, 0))], rtol=1e-12)


def test_it_knows_every_architecture_that_it_answers(oracle):
    assert oracle.known(np.zeros((2, 5, 3), np.int64)).tolist() == [[True] * 5] * 2


def test_it_says_which_latencies_are_predictions(oracle):
    rows = np.zeros((4, 3), np.int64)

    found = oracle.look_up(rows).is_predicted

    assert found.shape == (4,)
    assert found.dtype == bool
    assert found.all() == (oracle.source == "regression")
    assert found.any() == found.all()


def test_it_refuses_an_architecture_outside_its_space(oracle):
    with pytest.raises(IndexError):
        oracle.answer(np.array([[0, 0, 4]], np.int64)).ms


def test_only_the_archive_has_to_be_asked_cell_by_cell(oracle):
    assert oracle.instant == (oracle.source != "nats")


def test_a_table_names_the_cell_that_it_lacks_and_the_way_out():
    holes = np.where(TABLE_MS == 24, np.nan, TABLE_MS)
    oracle = TableLatency("board/b1", "table", "23 cells", holes, np.zeros(CHOICES, bool))

    with pytest.raises(UnmeasuredError, match=r"\[2, 1, 3\].*unmeasured=regression"):
        oracle.answer(np.array([[0, 0, 0], [2, 1, 3]], np.int64)).ms


def test_the_archive_is_asked_once_for_each_cell():
    asked = []

    def latency_ms_of(number):
        asked.append(number)
        return float(number)

    oracle = NatsLatency(
        "", lambda rows: rows[..., 0], latency_ms_of=latency_ms_of, holds=lambda _: True
    )

    oracle.answer(np.array([[7], [3], [7]], np.int64)).ms
    latency_ms = oracle.answer(np.array([[3], [7]], np.int64)).ms

    assert latency_ms.tolist() == [3, 7]
    assert sorted(asked) == [3, 7]
