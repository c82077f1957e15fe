"""Images are decoded once; a stored set is whole, or not there."""

import io
import multiprocessing
import pickle
import resource
import shutil
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from edgenas_core.types.errors import UserError
from nas.fit.data import build, stored
from nas.fit.data.image_set import Images
from nas.fit.data.names import names_of
from nas.fit.data.open import open_images


def sets_in(cache):
    return [entry for entry in cache.iterdir() if entry.suffix != ".lock"]


def test_a_second_opening_decodes_nothing_and_gives_the_same(class_folders, opened):
    folder = class_folders({"a": 5, "b": 5})
    decoded = []

    first = opened(folder, on_decoded=lambda done, of: decoded.append((done, of)))
    again = opened(folder, on_decoded=lambda done, of: decoded.append((done, of)))

    assert decoded == [(10, 10)]
    assert again.digest == first.digest
    assert (again.train.pixels == first.train.pixels).all()
    assert isinstance(again.train.pixels, np.memmap)
    assert not again.train.pixels.flags.writeable


def test_a_changed_file_is_noticed(class_folders, opened, picture):
    folder = class_folders({"a": 5, "b": 5})
    before = opened(folder)
    picture(999).save(next((folder / "a").iterdir()))

    assert opened(folder).digest != before.digest


def test_each_side_and_seed_is_a_set_of_its_own(class_folders, opened, tmp_path):
    folder = class_folders({"a": 5, "b": 5})

    digests = {opened(folder, side=side, seed=seed).digest for side in (8, 12) for seed in (0, 1)}

    assert len(digests) == len(sets_in(tmp_path / "cache")) == 4


def test_the_mean_and_standard_deviation_are_of_the_training_pixels(class_folders, opened):
    images = opened(class_folders({"a": 9, "b": 9}))

    fractions = images.train.pixels / 255
    assert images.mean == pytest.approx(fractions.mean((0, 1, 2)))
    assert images.sd == pytest.approx(fractions.std((0, 1, 2)))


def test_a_disk_that_is_full_midway_leaves_nothing(class_folders, opened, tmp_path):
    folder = class_folders({"a": 200, "b": 200})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, before[1]))  # of 76,800 bytes
    try:
        with pytest.raises(OSError, match="File too large") as raised:
            opened(folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    assert raised.value.filename.startswith(str(tmp_path / "cache"))
    assert sets_in(tmp_path / "cache") == []
    assert len(opened(folder).train) == 320


def test_a_disk_that_is_too_small_is_refused_before(class_folders, opened, monkeypatch):
    monkeypatch.setattr(build.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 100}))

    with pytest.raises(UserError, match=r"0\.0 GB .*XDG_CACHE"):
        opened(class_folders({"a": 5, "b": 5}))


def test_what_a_killed_process_left_is_no_set(class_folders, opened, tmp_path):
    folder = class_folders({"a": 5, "b": 5})
    first = opened(folder)
    (kept,) = sets_in(tmp_path / "cache")
    half = kept.rename(kept.with_name(f"{kept.name}.tmp"))
    (half / stored.PIXELS).write_bytes(b"half")

    assert opened(folder).digest == first.digest
    assert sets_in(tmp_path / "cache") == [kept]


@pytest.mark.parametrize("file", [stored.PIXELS, stored.LABELS, stored.DESCRIPTION])
@pytest.mark.parametrize("content", [b"", b"x", None])
def test_a_damaged_set_is_made_again(class_folders, opened, tmp_path, file, content):
    folder = class_folders({"a": 5, "b": 5})
    first = opened(folder)
    (kept,) = sets_in(tmp_path / "cache")
    if content is None:
        (kept / file).unlink()
    else:
        (kept / file).write_bytes(content)

    again = opened(folder)

    assert again.digest == first.digest
    assert len(again.train) == 6


def test_two_processes_at_once_get_the_same_set(class_folders, tmp_path):
    folder = class_folders({"a": 20, "b": 20})
    cache = tmp_path / "cache"

    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        digests = [pool.submit(_digest, str(folder), cache) for _ in range(2)]

    assert len({future.result() for future in digests}) == 1
    assert len(sets_in(cache)) == 1


def _digest(data, cache):
    return open_images(data, side=8, cache=cache).digest


def test_another_process_is_sent_the_path_of_the_pixels(class_folders, opened):
    images = opened(class_folders({"a": 40, "b": 40}), side=32)

    sent = pickle.dumps(images)

    again = pickle.loads(sent)  # noqa: S301 - our own
    assert len(sent) < images.train.pixels.nbytes / 20
    for split, other in ((images.train, again.train), (images.test, again.test)):
        assert (split.pixels == other.pixels).all()
        assert (split.labels == other.labels).all()
    part = Images(images.valid.pixels[3:7], images.valid.labels[3:7])
    assert (pickle.loads(pickle.dumps(part)).pixels == part.pixels).all()  # noqa: S301
    every_second = Images(images.valid.pixels[::2], images.valid.labels[::2])
    assert (pickle.loads(pickle.dumps(every_second)).pixels == every_second.pixels).all()  # noqa: S301


def test_a_machine_without_the_pixels_is_told_so(class_folders, opened, tmp_path):
    sent = pickle.dumps(opened(class_folders({"a": 5, "b": 5})))
    shutil.rmtree(tmp_path / "cache")

    with pytest.raises(UserError, match=r"pixels\.bin; .* XDG_CACHE_HOME"):
        pickle.loads(sent)  # noqa: S301


@pytest.mark.slow
def test_images_that_do_not_fit_into_memory_are_opened(tmp_path, picture):
    files = [io.BytesIO() for _ in range(1500)]
    for seed, file in enumerate(files):
        picture(seed).save(file, "PNG")
    rows = {"jpeg": [file.getvalue() for file in files], "label": [0, 1] * 750}
    pq.write_table(pa.table(rows), tmp_path / "many.parquet")
    program = f"""
import resource
import PIL.Image, numpy, pyarrow.parquet
from pathlib import Path
from nas.fit.data.image_set import Images
from nas.fit.data.names import names_of
from nas.fit.data.open import open_images
used = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_DATA, (used + 400 * 2**20,) * 2)
images = open_images("{tmp_path / "many.parquet"}", side=512, cache=Path("{tmp_path / "cache"}"))
assert images.train.pixels.nbytes + images.test.pixels.nbytes > 900 * 2**20
print(len(images.train), images.train.pixels[::100].mean() > 0)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    assert done.stdout == "1052 True\n", done.stderr


def test_each_image_keeps_the_name_of_its_file_in_a_class_folder(class_folders, opened):
    images = opened(class_folders({"a": 9, "b": 12}))

    names = names_of(images)

    labels = np.concatenate([each.labels for each in (images.train, images.valid, images.test)])
    assert [name.partition("/")[0] for name in names.files] == ["ab"[label] for label in labels]
    assert len(set(names.groups)) == 21
