"""A hostile pickle is refused, and nothing in it runs."""

import bz2
import os
import pickle
import subprocess
from collections import OrderedDict

import numpy as np
import pytest

from edgenas_core.types.errors import UserError
from nas.spaces.nas_bench_201.public.archive import load_bz2

F8 = b"cnumpy\ndtype\n(Vf8\nI0\nI1\ntR(I3\nV<\nNNNI-1\nI-1\nI0\ntb"


class Runs:
    """Unpickled by pickle.load, it calls `function(*arguments)`."""

    def __init__(self, function, *arguments):
        self.called = function, arguments

    def __reduce__(self):
        return self.called


def bz2_file(tmp_path, content):
    path = tmp_path / "000000.pickle.pbz2"
    path.write_bytes(bz2.compress(content))
    return path


def test_plain_containers_and_numbers_come_back(tmp_path):
    thing = {"a": [1, 2.5, None, True, "x", b"y"], ("t", 1): {3}, "o": OrderedDict(b=2)}

    assert load_bz2(bz2_file(tmp_path, pickle.dumps(thing, 4))) == thing


def test_a_numpy_number_written_by_numpy_1_comes_back_as_a_plain_one(tmp_path):
    content = b"cnumpy.core.multiarray\nscalar\n(" + F8 + b"C\x08" + np.float64(13.25).tobytes()

    number = load_bz2(bz2_file(tmp_path, content + b"tR."))

    assert number == 13.25
    assert type(number) is float


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("nested", [False, True])
def test_code_in_a_pickle_does_not_run(tmp_path, protocol, nested):
    made = tmp_path / "made"
    hostile = Runs(os.system, f"touch {made}")
    content = pickle.dumps({"12": [hostile]} if nested else hostile, protocol)
    path = bz2_file(tmp_path, content)

    with pytest.raises(UserError, match=r"000000.* \w+\.system"):
        load_bz2(path)

    assert not made.exists()
    pickle.loads(content)  # noqa: S301 - the proof that this pickle does what it is said to
    assert made.exists()


@pytest.mark.parametrize(
    "hostile",
    [
        Runs(eval, "1"),
        Runs(subprocess.Popen, ["true"]),
        Runs(getattr, "", "join"),
        Runs(np.load, "x"),
        np.zeros(2),
        np.dtype("O"),
        np.int64,
        range(3),
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_nothing_but_the_permitted_globals_is_loaded(tmp_path, hostile):
    with pytest.raises(UserError, match=r"000000\.pickle\.pbz2"):
        load_bz2(bz2_file(tmp_path, pickle.dumps(hostile, 4)))


@pytest.mark.parametrize(
    "content",
    [
        b"cnumpy\ndtype\n(VO\nI0\nI1\ntR.",  # a dtype of objects: its bytes are pointers
        b"cnumpy\ndtype\n(Vf8\nI0\nI1\ntR(I3\nV|\nNNNI99\nI8\nI63\ntb.",  # a forged layout
        b"cnumpy\ndtype\n(](I1\neI0\nI1\ntR.",
        b"ccollections\nOrderedDict.fromkeys\n.",
        b"\x80\x04\x8c\x0bcollections\x8c\x14OrderedDict.fromkeys\x93.",
        b"cnumpy.core.multiarray\nscalar\n(" + F8 + b"C\x03abctR.",  # three bytes for eight
        b"cnumpy.core.multiarray\nscalar\n(NC\x03abctR.",
        b"\x82\x01.",  # an extension code
        b"Pid\n.",  # a persistent id
        b"",
        b"no pickle",
        pickle.dumps({"a": 1}, 4)[:-3],
    ],
)
def test_a_forged_or_broken_pickle_is_a_user_error(tmp_path, content):
    with pytest.raises(UserError, match=r"000000\.pickle\.pbz2") as caught:
        load_bz2(bz2_file(tmp_path, content))

    assert "\n" not in str(caught.value)


def test_a_file_that_grows_too_large_is_refused(tmp_path):
    path = bz2_file(tmp_path, pickle.dumps(bytes(2_000_000), 4))

    with pytest.raises(UserError, match="1,000,000 bytes"):
        load_bz2(path, most_bytes=1_000_000)


def test_a_truncated_file_is_a_user_error(tmp_path):
    path = bz2_file(tmp_path, pickle.dumps(list(range(1000)), 4))
    path.write_bytes(path.read_bytes()[:-10])

    with pytest.raises(UserError, match=r"000000.*truncated"):
        load_bz2(path)
