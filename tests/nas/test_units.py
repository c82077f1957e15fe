from __future__ import annotations

import pytest

from nas.errors import UserError
from nas.units import milliseconds


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
        ("0ms", "not a positive time"),
        ("-3ms", "not a positive time"),
        ("1e999s", "not a positive time"),
    ],
)
def test_anything_else_is_refused_with_a_hint(text, hint):
    with pytest.raises(UserError, match=hint):
        milliseconds(text)
