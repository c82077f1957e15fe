"""Downloads over a real connection: cut, resumed, refused, wrong."""

import errno
import hashlib
from pathlib import Path

import numpy as np
import pytest

from nas.data.download import download
from nas.spaces.nas_bench_201.public.registry import RemoteFile
from runtime.shell.errors import UserError

CONTENT = np.random.default_rng(0).bytes(300_000)
FILE = RemoteFile(
    "owner/name/table.bin", "raw/table.bin", hashlib.sha256(CONTENT).hexdigest(), 300_000
)
PATH = "/owner/name/table.bin"


@pytest.fixture
def bring(mirror, tmp_path):
    """Download FILE with as many further attempts as said, without waiting between them."""
    mirror.files[PATH] = CONTENT

    def once(attempts=0):
        download([FILE], tmp_path, mirror.url, pauses_s=[0.0] * attempts)

    return once


@pytest.fixture
def target(tmp_path):
    return tmp_path / "raw" / "table.bin"


def left_in(folder: Path):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_a_file_arrives_whole(bring, target, tmp_path):
    bring()

    assert target.read_bytes() == CONTENT
    assert left_in(tmp_path) == ["table.bin"]


def test_a_file_that_is_there_is_not_asked_for(bring, target, mirror):
    target.parent.mkdir()
    target.write_bytes(CONTENT)

    bring()

    assert mirror.log == []


def test_a_damaged_file_is_brought_anew(bring, target):
    target.parent.mkdir()
    target.write_bytes(CONTENT[:-1] + b"x")

    bring()

    assert target.read_bytes() == CONTENT


def test_a_wrong_file_is_removed_and_reported(bring, mirror, tmp_path):
    mirror.files[PATH] = CONTENT[:-1] + bytes([CONTENT[-1] ^ 1])

    with pytest.raises(UserError, match=r"is not the published file .its SHA-256 differs.*removed"):
        bring()

    assert left_in(tmp_path) == []


def test_a_cut_connection_is_taken_up_where_it_was_cut(bring, mirror, target):
    mirror.cut_after = [100_000, 50_000]

    bring(attempts=2)

    ranges = [asked for _, asked, _ in mirror.log]
    starts = [int(asked.removeprefix("bytes=").rstrip("-")) for asked in ranges[1:]]
    assert ranges[0] is None
    assert 0 < starts[0] <= 100_000
    assert starts[0] < starts[1] <= 150_000
    assert [status for _, _, status in mirror.log] == [200, 206, 206]
    assert target.read_bytes() == CONTENT


def test_a_connection_that_is_cut_too_often_keeps_what_came_for_the_next_run(
    bring, mirror, target, tmp_path
):
    mirror.cut_after = [100_000, 50_000]

    with pytest.raises(UserError, match=r"of 300,000 bytes are kept, run it again") as caught:
        bring(attempts=1)

    assert "\n" not in str(caught.value)
    assert left_in(tmp_path) == ["table.bin.part"]
    kept = (tmp_path / "raw" / "table.bin.part").read_bytes()
    assert kept == CONTENT[: len(kept)]
    assert len(kept) > 100_000

    mirror.log.clear()
    bring()

    assert mirror.log == [(PATH, f"bytes={len(kept)}-", 206)]
    assert target.read_bytes() == CONTENT
    assert left_in(tmp_path) == ["table.bin"]


def test_a_server_that_ignores_ranges_gives_it_from_the_start(bring, mirror, target):
    mirror.cut_after = [100_000]
    mirror.knows_ranges = False

    bring(attempts=1)

    assert [status for _, _, status in mirror.log] == [200, 200]
    assert target.read_bytes() == CONTENT


def test_a_server_that_gives_another_range_is_asked_from_the_start(bring, mirror, target):
    mirror.cut_after = [100_000]
    mirror.content_range = "bytes 7-299999/300000"

    bring(attempts=2)

    assert [status for _, _, status in mirror.log] == [200, 206, 200]
    assert target.read_bytes() == CONTENT


def test_a_range_that_is_refused_is_asked_from_the_start(bring, mirror, target):
    target.parent.mkdir()
    target.with_name("table.bin.part").write_bytes(CONTENT[:1000])
    mirror.statuses = [416]

    bring(attempts=1)

    assert mirror.log == [(PATH, "bytes=1000-", 416), (PATH, None, 200)]
    assert target.read_bytes() == CONTENT


def test_a_part_that_is_whole_needs_no_connection(bring, mirror, target):
    target.parent.mkdir()
    target.with_name("table.bin.part").write_bytes(CONTENT)

    bring()

    assert mirror.log == []
    assert target.read_bytes() == CONTENT


@pytest.mark.parametrize("length", [1000, 300_000])
def test_a_part_of_something_else_is_found_out_and_removed(bring, target, tmp_path, length):
    target.parent.mkdir()
    target.with_name("table.bin.part").write_bytes(bytes(length))

    with pytest.raises(UserError, match="removed"):
        bring()
    assert left_in(tmp_path) == []
    bring()

    assert target.read_bytes() == CONTENT


def test_a_part_that_is_too_long_is_begun_anew(bring, target):
    target.parent.mkdir()
    target.with_name("table.bin.part").write_bytes(bytes(400_000))

    bring()

    assert target.read_bytes() == CONTENT


def test_a_file_that_is_too_long_is_refused_before_it_fills_the_disk(bring, mirror, tmp_path):
    mirror.files[PATH] = CONTENT + bytes(50_000_000)

    with pytest.raises(UserError, match="longer than the published file's 300,000 bytes"):
        bring()

    assert left_in(tmp_path) == []


def test_a_file_that_is_not_there_is_a_user_error_at_once(bring, mirror, tmp_path):
    mirror.files.clear()

    with pytest.raises(UserError, match="answers 404 Not Found; --mirror"):
        bring(attempts=3)

    assert len(mirror.log) == 1
    assert left_in(tmp_path) == []


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_server_in_trouble_is_asked_again(bring, mirror, target, status):
    mirror.statuses = [status, status]

    bring(attempts=2)

    assert target.read_bytes() == CONTENT


def test_a_server_that_is_not_there_is_a_user_error(tmp_path):
    with pytest.raises(UserError, match="the connection failed"):
        download([FILE], tmp_path, "http://127.0.0.1:9", pauses_s=[0.0])


@pytest.mark.parametrize("address", ["ftp://x", "raw.githubusercontent.com", ""])
def test_a_mirror_that_is_no_web_address_is_a_user_error(tmp_path, address):
    with pytest.raises(UserError, match="is no address"):
        download([FILE], tmp_path, address)


def test_a_full_disk_is_reported_with_the_files_name(bring, monkeypatch):
    real = Path.open

    def opened(self, mode="r", *args, **kwargs):
        file = real(self, mode, *args, **kwargs)
        if self.suffix != ".part":
            return file

        class Full:
            def __enter__(self):
                return self

            def __exit__(self, *_error):
                file.close()

            def write(self, _content):
                raise OSError(errno.ENOSPC, "No space left on device")

        return Full()

    monkeypatch.setattr(Path, "open", opened)

    with pytest.raises(OSError, match="No space left") as caught:
        bring()

    assert caught.value.filename.endswith("table.bin.part")
