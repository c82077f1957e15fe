"""A resumed search takes its own answers again, and refuses those of other data."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from synthetic import problem

from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from latency.base import Latencies
from nas.search.replay import check_answers

PLAIN = problem()


@dataclass(frozen=True)
class Rounded:
    """An oracle on a processor that rounds otherwise."""

    factor: float
    kind: Kind
    device: str = "board"
    source: str = "transfer"
    description: str = "made up"
    instant: bool = True

    def answer(self, architectures):
        ms = PLAIN.oracle.answer(architectures).ms * self.factor
        return Latencies(ms, np.full(ms.shape, self.kind, np.int8))

    def known(self, architectures):
        return PLAIN.oracle.known(architectures)


def answered(kind):
    rows = PLAIN.space.architectures(np.arange(100))
    return replace(PLAIN, oracle=Rounded(1.0, kind)).evaluate(rows)


def test_predictions_may_differ_by_the_rounding_of_another_processor():
    check_answers(answered(Kind.transfer), replace(PLAIN, oracle=Rounded(1 + 1e-12, Kind.transfer)))


@pytest.mark.parametrize(
    ("kind", "factor"), [(Kind.transfer, 1 + 1e-3), (Kind.measured, 1 + 1e-12)]
)
def test_other_predictions_and_other_measurements_are_refused(kind, factor):
    with pytest.raises(UserError, match="trial 1 "):
        check_answers(answered(kind), replace(PLAIN, oracle=Rounded(factor, kind)))
