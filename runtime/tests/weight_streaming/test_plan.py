"""Validation of layers."""

import math

import pytest

from edgenas_runtime.weight_streaming.planning.plan import StreamedLayer


@pytest.mark.parametrize("value", [-1, math.inf, math.nan])
@pytest.mark.parametrize("field", ["weight_bytes", "read_ms", "copy_ms", "kernel_ms"])
def test_invalid_numbers_of_a_layer_are_refused(field, value):
    numbers = {"weight_bytes": 1, "read_ms": 1.0, "copy_ms": 1.0, "kernel_ms": 1.0}
    with pytest.raises(ValueError, match=rf"conv1\b.*\b{field}\b"):
        StreamedLayer("conv1", **(numbers | {field: value}))
