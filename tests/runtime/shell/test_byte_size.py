"""Numbers of bytes with units."""

import pytest

from runtime.shell.byte_size import format_bytes, parse_bytes


def test_sizes_are_parsed_with_decimal_and_binary_units():
    sizes = [parse_bytes(text) for text in ("64MB", "1.5 GiB", 4096, "2kb", "7 B", "1TB")]
    assert sizes == [64_000_000, 3 * 2**29, 4096, 2000, 7, 10**12]


@pytest.mark.parametrize(
    ("nbytes", "text"), [(67_200_000, "67.2 MB"), (2_500, "2.5 kB"), (999, "999 bytes")]
)
def test_sizes_are_formatted_in_the_largest_unit_up_to_megabytes(nbytes, text):
    assert format_bytes(nbytes) == text
