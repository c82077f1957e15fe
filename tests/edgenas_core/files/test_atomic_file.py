"""A file is whole or absent."""

import errno

import pytest

from edgenas_core.files.atomic_file import replacing


def test_the_file_takes_its_place_when_the_block_ends(tmp_path):
    path = tmp_path / "new" / "table.csv"

    with replacing(path) as file:
        file.write(b"whole")
        assert not path.exists()

    assert path.read_bytes() == b"whole"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "table.csv"
    path.write_bytes(b"old")

    def half():
        with replacing(path) as file:
            file.write(b"ha")
            raise error

    with pytest.raises(error):
        half()

    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_reported_with_the_files_name(tmp_path):
    path = tmp_path / "table.csv"

    with pytest.raises(OSError, match="full") as caught, replacing(path):
        raise OSError(errno.ENOSPC, "full")

    assert caught.value.filename == str(path)


def test_a_librarys_own_word_for_a_full_disk_becomes_the_systems(tmp_path):
    path = tmp_path / "weights"

    with pytest.raises(OSError, match="No space") as caught, replacing(path):
        raise RuntimeError(
            "Error while serializing: I/O error: No space left on device (os error 28)"
        )

    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(path))
    with pytest.raises(RuntimeError, match="another"), replacing(path):
        raise RuntimeError("another error")


def test_a_folder_that_cannot_be_made_is_reported_with_its_name(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(OSError, match="file") as caught, replacing(tmp_path / "file" / "a.csv"):
        pass

    assert str(tmp_path / "file") in str(caught.value.filename)
