"""Equations 14 and 15 with table 2 of Nigam (MSc thesis, University of Washington, 2018).

The table does not say that an MB has 2 ** 20 bytes; its values follow from no other.
"""

import pytest

from edgenas_core.contention.hogs.control_page import LINE_BYTES, MB, lines_per_period

# core, misses of the first cache in 10 s, MB/s by equation 15, MB/s that the generator reported
TABLE_2 = [
    pytest.param(1617706056, 9873.7, 11263.3, 0.877, id="core 1, Denver"),
    pytest.param(1725391784, 10530.9, 11331.5, 0.93, id="core 2, Denver"),
    pytest.param(657298199, 4011.8, 4000.7, 1.002, id="core 3, A57"),
    pytest.param(659625351, 4026.0, 4012.0, 1.003, id="core 4, A57"),
    pytest.param(656640215, 4007.8, 4000.7, 1.0, id="core 5, A57"),
]


def missed_mb_per_s(lines, seconds):
    """Bandwidth of a number of cache misses (equation 15)."""
    return lines * LINE_BYTES / MB / seconds


@pytest.mark.parametrize(("misses", "published_mb_per_s", "reported", "share"), TABLE_2)
def test_bandwidth_from_misses_is_that_of_table_2(misses, published_mb_per_s, reported, share):
    mb_per_s = missed_mb_per_s(misses, seconds=10)

    assert mb_per_s == pytest.approx(published_mb_per_s, abs=0.1)
    assert mb_per_s / reported == pytest.approx(share, abs=2e-3)


@pytest.mark.parametrize(
    ("limit_mb_per_s", "lines"),
    [
        (10, 163.84),
        (100, 1638.4),
        (512, 8388.608),
        (1000, 16384),
        (3000, 49152),
        (10000, 163840),
        (28000, 458752),
        (56000, 917504),
    ],
)
def test_the_budget_of_a_millisecond_by_equation_14(limit_mb_per_s, lines):
    assert lines_per_period(limit_mb_per_s, 1e-3) == pytest.approx(lines)


def test_the_two_equations_are_each_others_inverse():
    assert missed_mb_per_s(lines_per_period(512, 0.25), 0.25) == pytest.approx(512)
