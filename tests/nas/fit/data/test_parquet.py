"""A Parquet file with encoded images."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from edgenas_core.types.errors import UserError


@pytest.fixture
def encoded(picture):
    def make(count, first=0):
        files = [io.BytesIO() for _ in range(count)]
        for seed, file in enumerate(files, first):
            picture(seed).save(file, "PNG")
        return [file.getvalue() for file in files]

    return make


@pytest.fixture
def written(tmp_path):
    def write(**columns):
        pq.write_table(pa.table(columns), tmp_path / "my images.parquet")
        return tmp_path / "my images.parquet"

    return write


def test_names_and_splits_are_those_of_the_columns(written, encoded, opened):
    splits = ["train"] * 12 + ["test"] * 4
    images = opened(
        written(split=splits, label=[0, 1] * 8, name=["cat", "dog"] * 8, jpeg=encoded(16)),
        share=0.2,
    )

    assert (images.name, images.title) == ("my_images", "my images")
    assert images.classes == ("cat", "dog")
    assert [len(images.train), len(images.valid), len(images.test)] == [10, 2, 4]


def test_a_struct_with_bytes_is_read_as_hugging_face_writes_it(written, encoded, opened):
    rows = [{"bytes": content, "path": "x.png"} for content in encoded(20)]

    images = opened(written(image=rows, label=[2, 10] * 10))

    assert images.classes == ("2", "10")
    assert len(images.train) + len(images.valid) + len(images.test) == 20


def test_rows_without_label_or_image_are_left_out(written, encoded, opened):
    files = [*encoded(12), None, b"junk"]
    images = opened(written(jpeg=files, label=["a", "b"] * 5 + ["a", None, "a", "b"]))

    assert "3 of 14" in images.report[0]
    assert all(f"({row})" in images.report[0] for row in ("row 11", "row 12", "row 13"))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"label": [0, 1]}, "no column of bytes"),
        ({"jpeg": [b"x", b"y"]}, "no column `label`"),
        ({"jpeg": [b"x"], "label": [0], "split": ["tent"]}, "split 'tent' is none of train, val, "),
    ],
)
def test_a_file_of_another_form_is_refused(written, opened, columns, message):
    with pytest.raises(UserError, match=message):
        opened(written(**columns))


def test_a_damaged_file_is_refused(written, encoded, opened):
    path = written(jpeg=encoded(20), label=[0, 1] * 10)
    whole = path.read_bytes()
    for damaged in (whole[:10] + bytes(390) + whole[400:], b"PAR1 but no more"):
        path.write_bytes(damaged)

        with pytest.raises(UserError, match=r"cannot be read as Parquet|no usable image"):
            opened(path)


@pytest.mark.slow
@pytest.mark.data
def test_cifar10_of_a_parquet_file_has_the_published_mean_and_deviation(nas_data, opened):
    images = opened(nas_data / "images" / "cifar10-jpeg.parquet", side=32)

    assert [len(images.train), len(images.valid), len(images.test)] == [42500, 7500, 10000]
    assert np.multiply(images.mean, 255) == pytest.approx((125.3, 123.0, 113.9), abs=0.5)
    assert np.multiply(images.sd, 255) == pytest.approx((63.0, 62.1, 66.7), abs=0.7)


def test_a_small_file_of_very_many_equal_rows_is_refused(tmp_path, opened):
    rows = 200_000
    table = pa.table(
        {
            "image": pa.array([b"x"]).take(np.zeros(rows, np.int64)),
            "label": np.zeros(rows, np.int64),
        }
    )
    pq.write_table(table, tmp_path / "x.parquet")

    with pytest.raises(UserError, match="200,000 rows"):
        opened(tmp_path / "x.parquet")
