"""The int8 file of a winner beside its fp32 file."""

from __future__ import annotations

import numpy as np
import pytest
from synthetic import Oracle

from edgenas_core.types.kind import Kind
from latency.base import Latencies
from nas.fit.run.int8 import with_latencies
from nas.fit.training.trained_folder import Judged
from nas.report.summary import Int8Accuracy


@pytest.mark.parametrize(
    ("int8_ms", "kind", "is_slower"),
    [
        ((2.0, 2.1), Kind.measured, True),
        ((2.0, 1.05), Kind.measured, False),
        ((np.nan, np.nan), Kind.missing, False),
    ],
)
def test_int8_is_slower_where_both_of_its_times_are(int8_ms, kind, is_slower):
    times = {True: iter([1.0, 1.1]), False: iter(int8_ms)}

    class Live(Oracle):
        confirm_top = 1
        at_once = 1

        def remember(self, architectures, latencies):
            """Nothing."""

        def measure_again(self, architectures, *, in_fp32=False):  # noqa: ARG002
            answer_kind = Kind.measured if in_fp32 else kind
            return Latencies(np.array([next(times[in_fp32])]), np.array([answer_kind], np.int8))

    judged = Int8Accuracy(Judged(0.9, 10), Judged(0.9, 10), None, None)
    lines = []

    timed = with_latencies(judged, np.zeros(6, np.int64), Live(), lines.append)

    assert timed.is_slower == is_slower == any("slower than fp32" in line for line in lines)
    assert (timed.int8_ms is None) == (kind is Kind.missing)
