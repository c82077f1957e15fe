"""The agent by itself: its messages, and the Pythons it runs on."""

import ast
import os
from contextlib import suppress
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latency.probe import agent
from latency.probe.connection import Connection, agent_source

TEXT = st.binary().map(lambda data: data.replace(agent.MAGIC[:1], b"?"))  # of UTF-8 and more
HEADERS = st.dictionaries(
    st.sampled_from(["type", "ms", "gr\u00fc\u00dfe"]),
    st.integers() | st.floats(allow_nan=False) | st.sampled_from(["", "\u00e9\n"]),
)


def messages_of(stream, cuts=()):
    """What a decoder finds in a stream that comes in pieces."""
    decoder = agent.Decoder()
    decoded = []
    ends = sorted({min(cut, len(stream)) for cut in cuts} | {len(stream)})
    start = 0
    for end in ends:
        decoder.feed(stream[start:end])
        start = end
        while (message := decoder.next()) is not None:
            decoded.append(message)
    return decoded


@given(
    parts=st.lists(st.tuples(TEXT, HEADERS, st.binary())),
    cuts=st.lists(st.integers(0, 2000)),
)
def test_messages_arrive_whole_however_they_are_cut_and_whatever_text_is_between(parts, cuts):
    stream = b"".join(text + agent.encode(header, payload) for text, header, payload in parts)

    assert messages_of(stream, cuts) == [(header, payload) for _, header, payload in parts]


@given(HEADERS, st.binary(), st.data())
def test_a_message_that_was_cut_short_is_never_delivered(header, payload, data):
    message = agent.encode(header, payload)

    assert messages_of(message[: data.draw(st.integers(0, len(message) - 1))]) == []


@given(st.binary(min_size=1), st.data())
def test_a_damaged_byte_is_found_out(payload, data):
    message = bytearray(agent.encode({"type": "measured"}, payload))
    place = data.draw(st.integers(len(agent.MAGIC) + 1, len(message) - 1))
    message[place] ^= data.draw(st.integers(1, 255))

    decoded = []
    with suppress(agent.ProtocolError):
        decoded = messages_of(bytes(message))  # a length that grew: more is waited for

    assert decoded == []


def test_another_version_is_named():
    other = bytearray(agent.encode({}))
    other[len(agent.MAGIC)] = 9

    with pytest.raises(agent.ProtocolError, match=r"version 9 .* 2"):
        messages_of(bytes(other))


def test_the_agent_is_written_for_python_3_6():
    ast.parse(agent_source(), feature_version=(3, 6))


def test_it_says_what_the_board_is_on_every_python_that_is_here(any_python, tmp_path):
    (tmp_path / "code.py").write_text("raise SystemExit('the wrong code.py was imported')")
    connection = Connection(
        "cmd://", ["env", "-C", str(tmp_path), any_python, "-I", "-m", "code", "-q"], 10.0
    )

    here = connection.request({"type": "hello"}, silence_s=120.0)

    assert here["type"] == "here"
    assert here["facts"]["processors"] == os.cpu_count()
    assert here["facts"]["board"]
    assert set(here["runtimes"]) <= {"tensorrt", "onnxruntime", "onnxruntime-cuda", "torch"}
    connection.close()


def test_a_turn_is_calls_in_a_row_after_one_that_does_not_count():
    called = []

    def subject(name):
        def take_ms():
            called.append(name)
            return float(len(called))

        return take_ms

    timing = {"samples": 5, "turn": 3, "warm_up_window": 1, "warm_up_most": 2}
    timed = agent.time_in_turns(
        [subject("a"), subject("b")], {**timing, "warm_up_tolerance": 9.0}, lambda: None
    )

    turns = ["".join(run) for _, run in groupby(called[4:])]  # two calls of each warm it up
    assert sorted("".join(called[4:])) == sorted("a" * 7 + "b" * 7)
    assert set(turns) <= {"aaaa", "bbbb", "aaa", "bbb", "aaaaaaa", "bbbbbbb"}
    for name, times in zip("ab", timed, strict=True):
        counted = [place for place, who in enumerate(called, 1) if who == name][2:]
        assert times["ms"] == [float(place) for place in (*counted[1:4], *counted[5:7])]


def test_load_of_others_is_told_and_our_own_is_not(monkeypatch):
    ticks = os.sysconf("SC_CLK_TCK")
    now = {"time_s": 0.0, "busy_s": 7.0, "own_s": 1.0}
    stat = "cpu  {} 0 0 99 5 0 0 0 0 0\ncpu0 1 2 3"
    monkeypatch.setattr(agent, "_read", lambda _: stat.format(round(now["busy_s"] * ticks)))
    monkeypatch.setattr(agent.time, "monotonic", lambda: now["time_s"])
    monkeypatch.setattr(agent.os, "times", lambda: (now["own_s"], 0.0, 0.0, 0.0, 0.0))
    load = agent.BoardLoad()

    now.update(time_s=2.0, busy_s=11.0, own_s=3.0)

    assert load.processors() == pytest.approx((4 - 2) / 2)


def test_as_many_threads_have_as_many_processors(small):
    core = min(os.sched_getaffinity(0))
    if core + 1 not in os.sched_getaffinity(0):
        pytest.skip("one processor")
    before = os.sched_getaffinity(0)
    request = {
        "type": "prepare",
        "runtime": "onnxruntime",
        "core": core,
        "threads": 2,
        "shape": [1, 3, 8, 8],
        "precision": "fp32",
        "timing": {"samples": 1, "turn": 1, "warm_up_window": 1, "warm_up_most": 2}
        | {"warm_up_tolerance": 1.0},
    }
    sent = []
    messages = iter([agent.encode(request, small), b""])
    try:
        agent.Agent(lambda: next(messages), sent.append).serve()
        pinned = os.sched_getaffinity(0)
    finally:
        os.sched_setaffinity(0, before)

    assert pinned == {core, core + 1}
    assert b"prepared" in sent[-1]
