"""The journal of a search, whole and cut off."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from searching import signed
from synthetic import problem

from controller.local_search import LocalSearchConfig
from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from nas.runs.journal import Asked, Journal, JournalNote, cut_journal, read_journal
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.trials.loop import search
from nas.trials.trial import State, Trials

PROBLEM = problem()


def run(path, budget=7, batch_size=3):
    """The events of a short search."""
    events = []
    controller = LocalSearchConfig().build(SPACE, [0])
    with Journal(path, SPACE) as journal:

        def asked(first, architectures):
            journal.asked(first, architectures)
            events.append(Asked(first, architectures))

        for trials in search(
            controller, PROBLEM, budget=budget, batch_size=batch_size, on_asked=asked
        ):
            journal(trials)
            events.append(trials.replica(0))
    return events


def assert_same(events, expected):
    assert len(events) == len(expected)
    for event, other in zip(events, expected, strict=True):
        assert type(event) is type(other)
        for field in fields(event):
            np.testing.assert_array_equal(getattr(event, field.name), getattr(other, field.name))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """(bytes, events) of a journal."""
    path = tmp_path_factory.mktemp("journal") / "journal.jsonl"
    events = run(path)
    return path.read_bytes(), events


def test_events_are_read_as_they_were_written(whole, tmp_path):
    content, events = whole
    (tmp_path / "journal.jsonl").write_bytes(content)

    assert [isinstance(event, Asked) for event in events] == [True, False] * 3
    assert_same(read_journal(tmp_path / "journal.jsonl", PROBLEM), events)


def test_a_failed_trial_keeps_its_error_and_what_is_missing(tmp_path):
    architectures = SPACE.architectures(np.array([3]))
    row = PROBLEM.evaluate(architectures[None])
    values = {field.name: getattr(row, field.name) for field in fields(Trials)}
    values |= {
        "state": np.full((1, 1), State.failed, np.int8),
        "accuracy": np.full((1, 1), np.nan),
        "accuracy_kind": np.full((1, 1), Kind.missing, np.int8),
        "rewards": np.full((1, 1), np.nan),
        "error": np.full((1, 1), "RuntimeError: “out of\nmemory” \u2028", object),
    }
    failed = Trials(**values)
    with Journal(tmp_path / "journal.jsonl", SPACE) as journal:
        journal(failed)

    assert_same(read_journal(tmp_path / "journal.jsonl", PROBLEM), [failed.replica(0)])


@given(st.data())
def test_a_journal_cut_at_any_byte_is_read_to_its_last_complete_event_and_goes_on(
    whole, tmp_path_factory, data
):
    content, events = whole
    size = data.draw(st.integers(0, len(content)))
    path = tmp_path_factory.mktemp("cut") / "journal.jsonl"
    path.write_bytes(content[:size])
    complete = max(0, content[:size].count(b"\n") - 1)

    assert_same(read_journal(path, PROBLEM), events[:complete])

    cut_journal(path, complete)
    with Journal(path, SPACE) as journal:
        for event in events[complete:]:
            if isinstance(event, Asked):
                journal.asked(event.first, event.architectures)
            else:
                journal(event.as_batch())
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "journal",
    [
        signed(space="toy"),
        signed(version=3),
        "index,accuracy,latency_ms,reward\n",
        "\0" * 100_000 + "\n",
        signed('["asked",0,[[0,0,0,0,0,9]]]'),
        signed('["asked",0,[[0,0]]]'),
        signed('["asked",0,[[0,0,0,0,0,99999999999999999999999]]]'),
        signed('["told",[0]]'),
        signed('["paid",[0]]'),
        signed('["noted","winner",7]'),
        signed("{}"),
        signed("[" * 99_999),
    ],
)
def test_another_journal_or_none_is_refused(tmp_path, journal):
    (tmp_path / "journal.jsonl").write_text(journal)

    with pytest.raises(UserError, match=r"journal\.jsonl .*nas_bench_201"):
        read_journal(tmp_path / "journal.jsonl", PROBLEM)


def test_a_journal_without_end_is_refused(tmp_path):
    with (tmp_path / "journal.jsonl").open("wb") as file:
        file.truncate(2**40)

    with pytest.raises(UserError, match="no end"):
        read_journal(tmp_path / "journal.jsonl", PROBLEM)


def test_a_damaged_line_is_told(whole, tmp_path):
    lines = whole[0].decode().splitlines(keepends=True)
    lines[4] = lines[4].replace("0", "1", 1)
    (tmp_path / "journal.jsonl").write_text("".join(lines))

    with pytest.raises(UserError, match="line 5"):
        read_journal(tmp_path / "journal.jsonl", PROBLEM)


def test_notes_are_kept(tmp_path):
    with Journal(tmp_path / "journal.jsonl", SPACE) as journal:
        journal.note("winner", {"arch": "a", "epochs": 3})

    note = JournalNote("winner", {"arch": "a", "epochs": 3})
    assert read_journal(tmp_path / "journal.jsonl", PROBLEM) == [note]


def test_a_journal_that_cannot_be_read_is_refused_by_its_name(tmp_path):
    with pytest.raises(UserError, match=r"journal\.jsonl"):
        read_journal(tmp_path / "journal.jsonl", PROBLEM)
    (tmp_path / "journal.jsonl").write_bytes(b"\xff\xfe\n")
    with pytest.raises(UserError, match=r"journal\.jsonl"):
        read_journal(tmp_path / "journal.jsonl", PROBLEM)


@pytest.mark.parametrize("column", ["state", "accuracy_kind", "latency_kind"])
def test_a_state_or_kind_that_is_none_is_refused(tmp_path, column):
    trials = PROBLEM.evaluate(SPACE.architectures(np.array([[3]]))).replica(0)
    path = tmp_path / "journal.jsonl"
    with Journal(path, SPACE) as journal:
        journal(replace(trials, **{column: np.array([99], np.int8)}))

    with pytest.raises(UserError, match=column):
        read_journal(path, PROBLEM)
