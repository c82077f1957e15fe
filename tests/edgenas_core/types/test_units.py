from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

from edgenas_core.types.errors import UserError
from edgenas_core.types.units import (
    LEAST_MS,
    MOST_MS,
    epochs_text,
    format_bytes,
    memory_bytes,
    millijoules,
    milliseconds,
    parameter_count,
    parse_bytes,
    require_ms,
)


@pytest.mark.parametrize("text", ["17ms", "0.017s", "17000us", " 17 ms", "1.7e1ms"])
def test_one_time_written_in_any_unit_is_the_same_milliseconds(text):
    assert milliseconds(text) == 17.0


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("17", "write T=17ms"),
        ("17m", "allowed are s, ms and us"),
        ("fast", "write for example T=17ms"),
        ("", "write for example T=17ms"),
        ("0ms", "is not a time from"),
        ("-3ms", "is not a time from"),
        ("1e999s", "is not a time from"),
    ],
)
def test_anything_else_is_refused_with_a_hint(text, hint):
    with pytest.raises(UserError, match=hint):
        milliseconds(text)


@pytest.mark.parametrize("text", ["5mJ", "0.005J", "5000uJ", " 5 mJ"])
def test_one_energy_written_in_any_unit_is_the_same_millijoules(text):
    assert millijoules(text) == 5.0


@pytest.mark.parametrize("text", ["1M", "1000k", "1000000", "1e6", "0.001e3 M"])
def test_one_number_of_parameters_written_in_any_unit_is_the_same(text):
    assert parameter_count(text) == 1e6


@pytest.mark.parametrize(
    ("parse", "text", "hint"),
    [
        (millijoules, "5", "E=5 has no unit; write E=5mJ"),
        (millijoules, "0", "E=0 is not an energy from"),
        (millijoules, "5ms", "allowed are J, mJ and uJ"),
        (millijoules, "little", "write for example E=5mJ"),
        (millijoules, "-1mJ", "is not an energy from"),
        (partial(memory_bytes, "RAM"), "256k", "RAM=256k .*RAM=256kB"),
        (partial(memory_bytes, "RAM"), "256", "no unit; write RAM=256kB"),
        (partial(memory_bytes, "RAM"), "-1MB", "not a size"),
        (parameter_count, "4MB", "P counts parameters.*4 bytes each"),
        (parameter_count, "1m", "with k or M"),
        (parameter_count, "4e-221", "not a positive number"),
        (parameter_count, "few", "write for example P=1M"),
        (parameter_count, "0", "not a positive number of parameters"),
    ],
)
def test_any_other_energy_or_number_is_refused_with_a_hint(parse, text, hint):
    with pytest.raises(UserError, match=hint):
        parse(text)


@pytest.mark.parametrize(
    "times",
    [
        *([1.0, ms] for ms in (0, -1.0, 5e-324, 1e-300, 1e-6, 1e9, 1e15, 10**400, math.nan)),
        *([1.0, ms] for ms in (True, None, "1", 1j, [1.0])),
        np.array([True]),
        [[1.0, 1.0]],
        math.inf,
    ],
)
def test_a_time_that_cannot_be_is_refused_wherever_it_comes_from(times):
    with pytest.raises(UserError, match=r"^it took .* ms; "):
        require_ms(times, "it took")


def test_a_time_from_10_ns_to_100_s_is_one():
    assert require_ms([LEAST_MS, 8, np.float32(0.5), MOST_MS], "").tolist() == [1e-5, 8, 0.5, 1e5]


@pytest.mark.parametrize(
    ("epochs", "text"),
    [
        (0, "0 epochs"),
        (0.3, "less than one epoch"),
        (0.5, "less than one epoch"),
        (0.6, "1 epoch"),
        (1.4, "1 epoch"),
        (12, "12 epochs"),
    ],
)
def test_epochs_are_put_into_words(epochs, text):
    assert epochs_text(epochs) == text


def test_sizes_are_parsed_with_decimal_and_binary_units():
    sizes = [parse_bytes(text) for text in ("64MB", "1.5 GiB", 4096, "2kb", "7 B", "1TB")]
    assert sizes == [64_000_000, 3 * 2**29, 4096, 2000, 7, 10**12]


@pytest.mark.parametrize(
    ("nbytes", "text"), [(67_200_000, "67.2 MB"), (2_500, "2.5 kB"), (999, "999 bytes")]
)
def test_sizes_are_formatted_in_the_largest_unit_up_to_megabytes(nbytes, text):
    assert format_bytes(nbytes) == text
