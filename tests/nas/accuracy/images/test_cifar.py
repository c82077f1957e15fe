"""The official CIFAR archives, as Python 2 pickled them; synthetic ones of their form."""

import gzip
import io
import os
import pickle
import resource
import struct
import tarfile

import numpy as np
import pytest

from common.types.errors import UserError


class Python2(pickle._Pickler):
    """Writes strings and arrays as cPickle and NumPy did under Python 2."""

    def save_bytes(self, text):
        self.write(pickle.BINSTRING + struct.pack("<i", len(text)) + text)
        self.memoize(text)

    dispatch = pickle._Pickler.dispatch | {bytes: save_bytes}


def pickled(thing):
    file = io.BytesIO()
    Python2(file, 2).dump(thing)
    return file.getvalue().replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n")


def batch(key, classes, count, seed):
    pixels = np.random.default_rng(seed).integers(0, 256, (count, 3072), np.uint8)
    return {
        b"data": pixels,
        key: [number % classes for number in range(count)],
        b"batch_label": b"",
    }


@pytest.fixture
def cifar10(tmp_path):
    """Writes an archive of 2 classes, each batch with some images; returns its path."""
    contents = {
        f"data_batch_{number}": batch(b"labels", 2, 8, number) for number in range(1, 6)
    } | {
        "test_batch": batch(b"labels", 2, 4, 9),
        "batches.meta": {b"label_names": [b"plane", b"ship"], b"num_vis": 3072},
    }

    def write(name="cifar-10-python.tar.gz", **changes):
        with tarfile.open(tmp_path / name, "w:gz") as archive:
            for file, content in ({**contents, **changes}).items():
                if content is None:
                    continue
                whole = content if isinstance(content, bytes) else pickled(content)
                member = tarfile.TarInfo(f"cifar-10-batches-py/{file}")
                member.size = len(whole)
                archive.addfile(member, io.BytesIO(whole))
        return tmp_path / name

    return write


def test_an_archive_gives_its_images_with_the_official_test_split(cifar10, opened):
    images = opened(cifar10(), side=32)

    assert (images.name, images.title, images.classes) == ("cifar10", "CIFAR-10", ("plane", "ship"))
    assert [len(images.train), len(images.valid), len(images.test)] == [34, 6, 4]
    rows = batch(b"labels", 2, 4, 9)[b"data"].reshape(4, 3, 32, 32).transpose(0, 2, 3, 1)
    found = {one.tobytes(): label for one, label in zip(images.test.pixels, images.test.labels)}  # noqa: B905 - of one split
    assert found == {row.tobytes(): number % 2 for number, row in enumerate(rows)}


def test_an_unpacked_archive_is_the_same(cifar10, opened, tmp_path):
    archive = cifar10()
    with tarfile.open(archive) as opened_archive:
        opened_archive.extractall(tmp_path / "here", filter="data")

    digests = {
        opened(where).digest
        for where in (archive, tmp_path / "here", tmp_path / "here" / "cifar-10-batches-py")
    }

    assert len(digests) == 1


def test_cifar100_has_its_fine_labels(tmp_path, opened):
    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    names = [b"apple", b"bear", b"cup"]
    contents = {
        "train": batch(b"fine_labels", 3, 30, 1),
        "test": batch(b"fine_labels", 3, 6, 2),
        "meta": {b"fine_label_names": names, b"coarse_label_names": [b"thing"]},
    }
    for file, content in contents.items():
        (folder / file).write_bytes(pickled(content))

    images = opened(folder)

    assert images.name == "cifar100"
    assert images.classes == ("apple", "bear", "cup")
    assert len(images.test) == 6


class Runs:
    def __reduce__(self):
        return os.system, ("touch hostile",)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"test_batch": pickled(Runs())}, r"test_batch asks to load posix\.system, .* none of its"),
        ({"test_batch": pickled({b"data": np.zeros(3), b"labels": []})}, "a NumPy dtype 'f8'"),
        (
            {"test_batch": pickled({b"data": np.zeros((2, 9), np.uint8), b"labels": [0, 1]})},
            "is no file of",
        ),
        ({"test_batch": batch(b"labels", 3, 4, 0)}, "test_batch is no file of CIFAR-10"),
        ({"test_batch": b"\x80\x02}q"}, "test_batch is corrupt"),
        ({"batches.meta": {b"num_vis": 1}}, r"batches\.meta is no file of CIFAR-10"),
        ({"data_batch_3": None}, "has no file data_batch_3"),
    ],
)
def test_a_hostile_or_incomplete_archive_is_refused(cifar10, opened, changes, message):
    with pytest.raises(UserError, match=message):
        opened(cifar10(**changes))


def test_an_array_that_lies_about_its_shape_is_refused(cifar10, opened):
    whole = pickled(batch(b"labels", 2, 4, 0))
    assert b"K\x04M\x00\x0c\x86" in whole  # (4, 3072)

    with pytest.raises(UserError, match=r"an array of shape \(255, 3072\) from 12288 bytes"):
        opened(cifar10(test_batch=whole.replace(b"K\x04M\x00\x0c\x86", b"K\xffM\x00\x0c\x86")))


@pytest.mark.parametrize("kept", [30, 5000])
def test_a_truncated_archive_is_refused(cifar10, opened, kept):
    archive = cifar10()
    archive.write_bytes(archive.read_bytes()[:kept])

    with pytest.raises(UserError, match="truncated, damaged or no archive; download the Python"):
        opened(archive)


def test_a_pickle_that_asks_for_a_list_of_billions_is_refused(cifar10, opened):
    content = b"\x80\x02}r\xff\xff\xff\x7f."  # stored at place 2**31 - 1 of the memo

    with pytest.raises(UserError, match="test_batch is corrupt"):
        opened(cifar10(test_batch=content))


@pytest.mark.slow
def test_an_archive_whose_headers_unpack_to_gigabytes_is_refused(tmp_path, opened):
    header = tarfile.TarInfo("cifar-10-batches-py/x")
    header.type, header.size = tarfile.XHDTYPE, 2**31
    with gzip.open(tmp_path / "x.tar.gz", "wb", compresslevel=1) as archive:
        archive.write(header.tobuf())
        for _ in range(128):
            archive.write(bytes(2**24))
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    with pytest.raises(UserError, match="damaged or no archive"):
        opened(tmp_path / "x.tar.gz")

    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < most + 2**20  # kB


def test_another_archive_is_refused(tmp_path, opened):
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("else/where"))

    with pytest.raises(UserError, match=r"x\.tar\.gz is no archive of CIFAR-10 or CIFAR-100"):
        opened(tmp_path / "x.tar.gz")
