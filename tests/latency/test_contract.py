"""What every latency oracle promises, asked of each of them."""

import numpy as np
import pytest
from small_space import SmallSpace

from edgenas_core.types.kind import Kind
from latency.base import LatencyOracle, UnmeasuredError, every_architecture
from latency.sources.lookup import Fill, TableLatency, make_table, predicting
from nas.spaces.registry import space_named

SMALL = SmallSpace()
ROWS = every_architecture(SMALL)
TABLE_MS = np.arange(1.0, 25.0)


def law(architectures):
    return TABLE_MS if architectures is None else TABLE_MS[SMALL.numbers(architectures)]


def measured(device="board/b1", times=1.0):
    return make_table(
        SMALL, ROWS, times * TABLE_MS, device=device, source="table", description="24 rows"
    )


def predicted():
    return predicting(SMALL, "board/b1", "regression", "24 guesses", Fill(Kind.regression, "", law))


@pytest.fixture(params=[measured, predicted])
def oracle(request):
    return request.param()


def test_it_is_an_oracle(oracle):
    assert isinstance(oracle, LatencyOracle)
    assert oracle.device
    assert oracle.source in {"table", "regression"}
    assert "24" in oracle.description
    assert oracle.instant


@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 5)])
def test_it_answers_each_row_whatever_the_axes_before(oracle, shape):
    rows = SMALL.architectures(np.random.default_rng(0).integers(0, SMALL.size, shape))

    latencies = oracle.answer(rows)

    assert latencies.ms.shape == latencies.kind.shape == shape
    assert latencies.ms.dtype == np.float64
    np.testing.assert_allclose(latencies.ms, law(rows), rtol=1e-12)


def test_it_knows_every_architecture_that_it_answers(oracle):
    assert oracle.known(np.zeros((2, 5, 3), np.int64)).tolist() == [[True] * 5] * 2


def test_it_gives_the_kind_of_each_number(oracle):
    kind = oracle.answer(ROWS).kind

    expected = Kind.regression if oracle.source == "regression" else Kind.measured
    assert (kind == expected).all()


def test_it_refuses_an_architecture_outside_its_space(oracle):
    with pytest.raises(IndexError):
        oracle.answer(np.array([[0, 0, 4]], np.int64))


def test_a_table_names_the_architecture_that_it_lacks_and_the_way_out():
    oracle = make_table(SMALL, ROWS, np.where(TABLE_MS == 24, np.nan, TABLE_MS), source="table")

    assert isinstance(oracle, TableLatency)
    with pytest.raises(UnmeasuredError, match=r"2\.1\.3.*latency=auto"):
        oracle.answer(ROWS[[0, 23]])
    assert oracle.look_up(ROWS[[0, 23]]).kind.tolist() == [Kind.measured, Kind.missing]


def test_holes_of_a_table_are_filled_with_the_kind_of_the_model():
    holes = np.where(TABLE_MS > 20, np.nan, TABLE_MS)

    oracle = make_table(SMALL, ROWS, holes, Fill(Kind.slowdown, "", law))

    latencies = oracle.answer(ROWS)
    assert latencies.ms.tolist() == TABLE_MS.tolist()
    assert latencies.is_predicted.tolist() == (TABLE_MS > 20).tolist()
    assert set(latencies.kind.tolist()) == {Kind.measured, Kind.slowdown}


class TestASpaceThatCannotBeListed:
    """The toy space: choices of blocks that an architecture does not have are switched off."""

    SPACE = space_named("toy_space")

    @pytest.fixture
    def rows(self):
        return self.SPACE.sample(np.random.default_rng(3), 6)

    def test_measured_rows_are_found_whatever_their_switched_off_choices_hold(self, rows):
        oracle = make_table(self.SPACE, rows, np.arange(1.0, 7.0), device="desk")
        short = np.zeros_like(rows[0])  # one block: the choices of the others are switched off
        shifted = short.copy()
        shifted[-1] = 1
        also = make_table(self.SPACE, short[None], np.array([9.0]), device="desk")

        assert isinstance(oracle, TableLatency)
        assert oracle.instant
        assert oracle.answer(rows[::-1]).ms.tolist() == [6, 5, 4, 3, 2, 1]
        assert also.answer(shifted).ms == 9

    def test_what_the_table_lacks_is_missing_or_predicted(self, rows):
        times_ms = np.where(np.arange(6) < 3, np.arange(1.0, 7.0), np.nan)
        bare = make_table(self.SPACE, rows, times_ms, device="desk")
        fill = Fill(Kind.regression, "", lambda unknown: np.full(len(unknown), 7.5))
        filled = make_table(self.SPACE, rows, times_ms, fill, device="desk")

        assert bare.known(rows).tolist() == [True] * 3 + [False] * 3
        with pytest.raises(UnmeasuredError, match=self.SPACE.text(rows[3])):
            bare.answer(rows)
        assert filled.answer(rows[2:4]).ms.tolist() == [3, 7.5]
        assert filled.answer(rows[2:4]).kind.tolist() == [Kind.measured, Kind.regression]
