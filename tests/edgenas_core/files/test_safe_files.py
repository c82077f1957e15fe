"""Files that others wrote: read with limits, or refused in one line."""

from __future__ import annotations

import contextlib
import os
import tracemalloc
import zipfile

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edgenas_core.files.atomic_file import remove_unfinished
from edgenas_core.files.safe_file import load_arrays, read_bytes, read_text
from edgenas_core.files.safe_yaml import load_yaml
from edgenas_core.types.errors import UserError


def test_a_pipe_a_device_and_a_folder_are_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zeros").symlink_to("/dev/zero")

    for path in (tmp_path / "pipe", tmp_path / "zeros", tmp_path):
        with pytest.raises(UserError, match="regular"):
            read_bytes(path)


def test_a_file_beyond_the_limit_is_not_read_even_if_it_takes_no_room(tmp_path):
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(2**40)

    with pytest.raises(UserError, match="larger than"):
        read_text(tmp_path / "sparse")


def test_a_small_file_takes_little_memory_whatever_the_limit(tmp_path):
    (tmp_path / "small").write_bytes(bytes(3 * 2**20))
    tracemalloc.start()
    try:
        assert len(read_bytes(tmp_path / "small", 2**30)) == 3 * 2**20
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: &a [*a]\n", "alias"),
        ("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n", "alias"),
        ("[" * 50, "parts within parts"),
        ("a: !!python/object/apply:os.system [id]\n", "tag"),
        ("a: ${oc.env:HOME}\n", "interpolated"),
        ("a: " + "9" * 5000 + "\n", "digits"),
        ("x" * 300_000, "larger than"),
        ("\0", "no YAML"),
        ("a: [\n", "no YAML"),
    ],
)
def test_yaml_that_settings_do_not_need_is_refused_in_one_line(tmp_path, text, reason):
    (tmp_path / "config.yaml").write_text(text)

    with pytest.raises(UserError, match=reason) as refused:
        load_yaml(tmp_path / "config.yaml")

    assert str(tmp_path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_date_stays_text(tmp_path):
    (tmp_path / "config.yaml").write_text("a: 2001-01-01\nb: 1e-3\n")

    assert load_yaml(tmp_path / "config.yaml") == {"a": "2001-01-01", "b": 0.001}


@settings(max_examples=40)
@given(st.binary(max_size=200) | st.text(alphabet="[]{}&*!:-?|>'\" \n\ta1.", max_size=60))
@example(b"\xff")
@example("? [a]")
@example("a: !!binary x")
@example("- ---")
def test_any_content_of_a_yaml_file_is_read_or_refused(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())

    try:
        load_yaml(path)
    except UserError as error:
        assert "\n" not in str(error)  # noqa: PT017 - both ways are right


def test_arrays_come_back(tmp_path):
    arrays = {"a": np.arange(6).reshape(2, 3), "b": np.array("text"), "c": np.array(1.5)}
    np.savez_compressed(tmp_path / "a.npz", **arrays)

    loaded = load_arrays(tmp_path / "a.npz")

    assert loaded.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(loaded[name], array)


def header(shape):
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    "shape", ["(10000000000000,)", "(-1,)", f"(2, {2**62})", f"({2**70},)", "(1, -8)"]
)
def test_arrays_that_claim_more_than_there_is_are_refused(tmp_path, shape):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as file:
        file.writestr("a.npy", header(shape) + b"\0" * 8)

    with pytest.raises(ValueError, match="shape"):
        load_arrays(tmp_path / "a.npz")


def test_an_archive_that_unpacks_to_gigabytes_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as file:
        file.writestr("a.npy", b"")
    content = bytearray((tmp_path / "a.npz").read_bytes())
    place = content.index(b"PK\x01\x02") + 24  # size when unpacked, of the directory
    content[place : place + 4] = (2**32 - 2).to_bytes(4, "little")
    (tmp_path / "a.npz").write_bytes(content)

    with pytest.raises(ValueError, match="unpacks"):
        load_arrays(tmp_path / "a.npz")


@settings(max_examples=40)
@given(st.data())
def test_any_damage_to_arrays_is_a_value_error(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "damaged.npz"
    np.savez(path, a=np.arange(3.0), generators=np.array(["{}"]))
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])

    with contextlib.suppress(ValueError):
        load_arrays(path)


def test_what_a_kill_has_left_is_removed_and_nothing_else(tmp_path):
    (tmp_path / "a.csv.0123abcd.tmp").write_text("")
    (tmp_path / "a.csv.89abcdef.tmp").mkdir()
    (tmp_path / "b.csv.0123abcd.tmp").write_text("")
    (tmp_path / "mine.tmp").write_text("")

    remove_unfinished(tmp_path, "a.csv")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.csv.0123abcd.tmp", "mine.tmp"]
