"""One network on several devices, each with time left of its own."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latency.base import UnmeasuredError
from latency.sources.mapped import Left, MappedLatency
from latency.sources.lookup import TableLatency
from runtime.shell.provenance import Kind

nan = float("nan")


def device(name, *ms, predicted=False):
    kind = np.where(np.isnan(ms), Kind.missing, Kind.regression if predicted else Kind.measured)
    return TableLatency(
        Line(len(ms)), name, "table", "made up", np.array(ms, float), kind.astype(np.int8)
    )


@dataclass(frozen=True)
class Line:
    """Architectures of one choice, which is their number."""

    size: int
    name: str = "line"

    def numbers(self, architectures):
        return architectures[..., 0]

    def text(self, architecture):
        return str(architecture[0])


def rows(*indices):
    return np.array(indices, np.int64)[:, None]


some_ms = st.floats(0.01, 100)


@given(some_ms, some_ms, some_ms, some_ms)
def test_it_is_within_t_if_and_only_if_a_device_has_room(one_ms, other_ms, left_one, left_other):
    oracle = MappedLatency(
        (Left(device("gpu", one_ms), left_one), Left(device("cpu", other_ms), left_other))
    )

    (latency_ms,) = oracle.answer(rows(0)).ms

    margin = min(abs(one_ms / left_one - 1), abs(other_ms / left_other - 1))
    if margin > 1e-12 or (one_ms, other_ms) == (left_one, left_other):
        assert (latency_ms <= left_one) == (one_ms <= left_one or other_ms <= left_other)


def test_a_device_that_did_not_measure_a_network_leaves_it_to_the_others():
    gpu, cpu = device("gpu", 1, nan, nan), device("cpu", 9, 9, nan, predicted=True)
    oracle = MappedLatency((Left(gpu, 2.0), Left(cpu, 6.0)))

    assert oracle.answer(rows(0, 1)).ms.tolist() == [1, 3]
    assert oracle.answer(rows(0, 1)).is_predicted.tolist() == [False, True]
    assert oracle.known(rows(0, 1, 2)).tolist() == [True, True, False]
    with pytest.raises(UnmeasuredError, match=r"gpu \(2 ms\) or cpu \(6 ms\)"):
        oracle.answer(rows(2)).ms


def test_a_board_that_leaves_another_time_is_another_device():
    gpu, cpu = device("gpu", 1.0), device("cpu", 9.0)

    one, other = (MappedLatency((Left(gpu, 2.0), Left(cpu, ms))).device for ms in (6.0, 6.0001))

    assert (one, other) == (
        "gpu (2 ms) or cpu (6 ms)",
        "gpu (2 ms) or cpu (6.0001 ms)",
    )
