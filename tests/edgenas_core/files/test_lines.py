"""Files of lines that grow, and lose their last line to a kill."""

import pytest

from edgenas_core.files.lines import append_lines, complete_lines, cut_lines


@pytest.fixture
def path(tmp_path):
    """A file of two lines and a part of a third."""
    append_lines(tmp_path / "lines", "one\ntwo\n")
    append_lines(tmp_path / "lines", "thr")
    return tmp_path / "lines"


def test_a_line_that_was_cut_off_is_left_out(path):
    assert [*complete_lines(path)] == [b"one\n", b"two\n"]


@pytest.mark.parametrize(("count", "left"), [(None, b"one\ntwo\n"), (1, b"one\n"), (0, b"")])
def test_what_is_cut_begins_with_what_was_cut_off(path, count, left):
    cut_lines(path, count)

    assert path.read_bytes() == left


def test_a_file_larger_than_allowed_is_refused(path):
    with pytest.raises(ValueError, match="7 bytes"):
        [*complete_lines(path, most=7)]


def test_a_line_without_end_is_refused(path, monkeypatch):
    monkeypatch.setattr("edgenas_core.files.lines._LONGEST", 3)

    with pytest.raises(ValueError, match="no end"):
        [*complete_lines(path)]
