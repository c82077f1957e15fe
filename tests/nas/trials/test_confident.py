"""A predicted latency is compared with T with its margin, a measured one as it is."""

from dataclasses import dataclass, replace

import numpy as np
from synthetic import problem

from edgenas_core.types.kind import Kind
from latency.base import Latencies
from latency.models.confidence import of_residuals

UNCERTAINTY = of_residuals(np.random.default_rng(0).normal(0, 0.05, 10_000))


@dataclass(frozen=True)
class Uncertain:
    """An oracle with the uncertainty of its predictions."""

    table: object
    kind: Kind
    uncertainty: object = UNCERTAINTY
    device: str = "board"
    source: str = "table"
    description: str = "made up"
    instant: bool = True

    def answer(self, architectures):
        found = self.table.answer(architectures)
        return Latencies(found.ms, np.full(found.ms.shape, self.kind, np.int8))

    def known(self, architectures):
        return self.table.known(architectures)


def with_kind(kind, confidence=0.95):
    plain = problem()
    return replace(plain, oracle=Uncertain(plain.oracle, kind), confidence=confidence)


def test_predictions_are_told_to_the_searcher_with_their_margin_and_measurements_as_they_are():
    plain, measured, predicted = problem(), with_kind(Kind.measured), with_kind(Kind.regression)
    rows = plain.space.architectures(np.arange(200))

    without, as_they_are, told = (one.evaluate(rows) for one in (plain, measured, predicted))

    factor = np.exp(UNCERTAINTY.margin(0.95))
    assert (as_they_are.rewards == without.rewards).all()
    assert (told.latency_ms == without.latency_ms).all()
    np.testing.assert_allclose(told.ratios[:, 0], without.ratios[:, 0] * factor)
    assert (with_kind(Kind.regression, 0.0).evaluate(rows).rewards == without.rewards).all()


def test_the_optimum_of_a_predicted_space_has_the_margin_that_the_confidence_asks_for():
    measured, predicted = with_kind(Kind.measured).survey, with_kind(Kind.regression).survey
    limit_ms = measured.limit_ms

    assert measured.latency_ms[measured.feasible].max() <= limit_ms
    allowed_ms = limit_ms * np.exp(-UNCERTAINTY.margin(0.95))
    assert predicted.latency_ms[predicted.feasible].max() <= allowed_ms
    assert 0 < predicted.feasible.sum() < measured.feasible.sum()
