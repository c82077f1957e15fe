"""JSON files that are read into the dataclass that they were written from."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import pytest

from edgenas_core.files.typed_json import read_json, write_json


@dataclass(frozen=True)
class Inner:
    ms: float
    note: str | None


@dataclass(frozen=True)
class Outer:
    count: int
    is_done: bool
    best: Inner | None
    each: tuple[Inner, ...]
    shares: dict[str, float]
    interval: tuple[float, str] | None = None


WHOLE = Outer(
    count=3,
    is_done=True,
    best=Inner(1.5, None),
    each=(Inner(2.0, "a"), Inner(0.1, "é")),
    shares={"x": 0.25},
    interval=(1.5, "b"),
)


@pytest.fixture
def path(tmp_path):
    write_json(tmp_path / "file.json", WHOLE)
    return tmp_path / "file.json"


def test_it_is_read_as_it_was_written(path):
    assert read_json(path, Outer) == WHOLE


def test_an_unknown_field_is_passed_over_and_a_whole_number_is_a_float(path):
    stored = json.loads(path.read_text())
    stored["later"] = 1
    stored["best"]["ms"] = 2
    path.write_text(json.dumps(stored))

    record = read_json(path, Outer)

    assert record.best == Inner(2.0, None)
    assert isinstance(record.best.ms, float)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda stored: stored.pop("count"), "count"),
        (lambda stored: stored.update(count=1.5), "count"),
        (lambda stored: stored.update(count=True), "count"),
        (lambda stored: stored.update(is_done=1), "is_done"),
        (lambda stored: stored["best"].pop("note"), "best.note"),
        (lambda stored: stored.update(best=[]), "best"),
        (lambda stored: stored["each"][1].update(ms="slow"), "each[1].ms"),
        (lambda stored: stored.update(each={}), "each"),
        (lambda stored: stored["shares"].update(x=None), "shares.x"),
        (lambda stored: stored["best"].update(ms=10**400), "best.ms"),
        (lambda stored: stored.update(interval=[1.5]), "interval"),
        (lambda stored: stored.update(interval=["b", 1.5]), "interval[0]"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_name_of_the_field(path, change, named):
    stored = json.loads(path.read_text())
    change(stored)
    path.write_text(json.dumps(stored))

    with pytest.raises(ValueError, match=rf"(^|\s){re.escape(named)}(\s|$)"):
        read_json(path, Outer)


@pytest.mark.parametrize("content", ["", "{", "[]", "null", "[" * 99_999, "\udcff"])
def test_what_is_no_such_file_is_a_value_error(path, content):
    path.write_bytes(content.encode("utf-8", "surrogateescape"))

    with pytest.raises(ValueError, match=r"it is|Expecting|UTF-8"):
        read_json(path, Outer)


def test_a_number_that_json_lacks_is_not_written_and_the_file_stays(path):
    before = path.read_bytes()

    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, Inner(float("nan"), None))

    assert path.read_bytes() == before
