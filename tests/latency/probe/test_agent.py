"""The agent by itself: its messages, and the Pythons it runs on."""

import ast
import os
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latency.probe import agent
from latency.probe.link import Link, agent_source

TEXT = st.binary().map(lambda data: data.replace(agent.MAGIC[:1], b"?"))  # of UTF-8 and more
HEADERS = st.dictionaries(
    st.sampled_from(["type", "ms", "gr\u00fc\u00dfe"]),
    st.integers() | st.floats(allow_nan=False) | st.sampled_from(["", "\u00e9\n"]),
)


def messages_of(stream, cuts=()):
    """What a decoder finds in a stream that comes in pieces."""
    decoder = agent.Decoder()
    found = []
    ends = sorted({min(cut, len(stream)) for cut in cuts} | {len(stream)})
    start = 0
    for end in ends:
        decoder.feed(stream[start:end])
        start = end
        while (message := decoder.next()) is not None:
            found.append(message)
    return found


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

    found = []
    with suppress(agent.ProtocolError):
        found = messages_of(bytes(message))  # a length that grew: more is waited for

    assert found == []


def test_another_version_is_named():
    other = bytearray(agent.encode({}))
    other[len(agent.MAGIC)] = 9

    with pytest.raises(agent.ProtocolError, match="speaks version 9 of the protocol, this side 2"):
        messages_of(bytes(other))


def test_the_agent_is_written_for_python_3_6():
    ast.parse(agent_source(), feature_version=(3, 6))


def test_it_says_what_the_board_is_on_every_python_that_is_here(any_python, tmp_path):
    (tmp_path / "code.py").write_text("raise SystemExit('the wrong code.py was imported')")
    link = Link("cmd://", ["env", "-C", str(tmp_path), any_python, "-I", "-m", "code", "-q"], 10.0)

    here = link.request({"type": "hello"}, silence_s=10.0)

    assert here["type"] == "here"
    assert here["facts"]["processors"] == os.cpu_count()
    assert here["facts"]["board"]
    assert set(here["runtimes"]) <= {"tensorrt", "onnxruntime", "onnxruntime-cuda", "torch"}
    link.close()
