"""Validation of layers, and plans as JSON."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.weight_streaming.planning.plan import Architecture, StreamedLayer, StreamPlan

BYTES = st.integers(0, 2**50)
PLANS = st.builds(
    StreamPlan,
    st.sampled_from(Architecture),
    st.lists(st.booleans()).map(tuple),
    BYTES,
    BYTES,
    st.floats(0, 1e9),
    BYTES,
)


@given(PLANS)
def test_a_plan_survives_json(plan):
    assert StreamPlan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"architecture": "fast"}',
        StreamPlan(Architecture.PLANNED, (True,), 0, 0, 1.0, 1).to_json().replace("true", "1"),
        StreamPlan(Architecture.PLANNED, (True,), 0, 0, 1.0, -1).to_json(),
        StreamPlan(Architecture.PLANNED, (True,), 0, 0, math.nan, 1).to_json(),
        StreamPlan(Architecture.PLANNED, (False,), 4096.5, 0, 1.0, 4096).to_json(),
        StreamPlan(Architecture.PLANNED, (False,), 2**63, 0, 1.0, 4096).to_json(),
        "[" * 200_000,
    ],
)
def test_invalid_plans_are_refused(text):
    with pytest.raises(ValueError, match="plan"):
        StreamPlan.from_json(text)


@pytest.mark.parametrize("value", [-1, math.inf, math.nan])
@pytest.mark.parametrize("field", ["weight_bytes", "read_ms", "copy_ms", "kernel_ms"])
def test_invalid_numbers_of_a_layer_are_refused(field, value):
    numbers = {"weight_bytes": 1, "read_ms": 1.0, "copy_ms": 1.0, "kernel_ms": 1.0}
    with pytest.raises(ValueError, match=rf"conv1\b.*\b{field}\b"):
        StreamedLayer("conv1", **(numbers | {field: value}))
