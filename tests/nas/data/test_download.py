"""Downloads over a real connection: whole, cut, refused, wrong."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from edgenas_core.types.errors import UserError
from nas.data.convert import download
from nas.spaces.public_data import RemoteFile, git_blob_id

CONTENT = np.random.default_rng(0).bytes(300_000)
FILE = RemoteFile(
    "owner/name/table.bin", "raw/table.bin", hashlib.sha256(CONTENT).hexdigest(), 300_000
)
PATH = "/owner/name/table.bin"


@pytest.fixture
def bring(mirror, tmp_path, monkeypatch):
    """Download FILE with some retries, without waiting between them."""
    mirror.files[PATH] = CONTENT
    monkeypatch.setattr("time.sleep", lambda _seconds: None)

    def once(retries=0):
        download([FILE], tmp_path, mirror.url, retries=retries)

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


def test_a_wrong_file_is_removed_and_reported(bring, mirror, tmp_path):
    mirror.files[PATH] = CONTENT[:-1] + bytes([CONTENT[-1] ^ 1])

    with pytest.raises(UserError, match=r"table\.bin .*SHA-256.*--mirror"):
        bring()

    assert left_in(tmp_path) == []


def test_a_file_of_another_git_blob_is_removed(mirror, tmp_path):
    mirror.files[PATH] = CONTENT
    blob = git_blob_id(CONTENT)
    for wanted in (blob, "0" * 40):
        file = RemoteFile(PATH[1:], "supernet", "", 300_000, git_blob=wanted)
        if wanted == blob:
            download([file], tmp_path, mirror.url)
            assert left_in(tmp_path) == ["supernet"]
        else:
            with pytest.raises(UserError, match="git blob"):
                download([file], tmp_path, mirror.url)

    assert left_in(tmp_path) == []


def test_a_connection_that_is_cut_too_often_is_a_user_error_and_leaves_nothing(
    bring, mirror, tmp_path
):
    mirror.cut_after = [100_000, 50_000]

    with pytest.raises(UserError, match=r"table\.bin.*connection") as caught:
        bring(retries=1)

    assert "\n" not in str(caught.value)
    assert left_in(tmp_path) == []


def test_a_file_that_is_not_on_the_server_is_a_user_error(bring, mirror, tmp_path):
    mirror.files.clear()

    with pytest.raises(UserError, match=r"404 Not Found.*--mirror"):
        bring()

    assert left_in(tmp_path) == []


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_server_in_trouble_is_asked_again(bring, mirror, target, status):
    mirror.statuses = [status, status]

    bring(retries=2)

    assert target.read_bytes() == CONTENT


def test_a_server_that_is_not_there_is_a_user_error(tmp_path):
    with pytest.raises(UserError, match=r"127\.0\.0\.1:9.*connection"):
        download([FILE], tmp_path, "http://127.0.0.1:9", retries=0)


@pytest.mark.parametrize(
    "where", ["http://[::1", "http://host:99999999/", "no://where", "http://\x00/"]
)
def test_a_redirect_that_is_no_address_is_not_called_another_file(bring, mirror, where, tmp_path):
    mirror.redirects = [where]

    with pytest.raises(UserError, match=r"table\.bin: .*--mirror") as caught:
        bring()

    assert "SHA-256" not in str(caught.value)
    assert left_in(tmp_path) == []


def test_a_file_without_end_is_given_up(bring, mirror, tmp_path):
    mirror.files[PATH] = bytes(4_000_000)

    with pytest.raises(UserError, match="--mirror"):
        bring()

    assert left_in(tmp_path) == []


@pytest.mark.parametrize("address", ["ftp://x", "raw.githubusercontent.com", ""])
def test_a_mirror_that_is_no_web_address_is_a_user_error(tmp_path, address):
    with pytest.raises(UserError, match=f"--mirror {address}.*https://"):
        download([FILE], tmp_path, address)
