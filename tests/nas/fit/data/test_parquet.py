"""A Parquet file with encoded images."""

import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from edgenas_core.types.errors import UserError
from nas.fit.data.image_set import Target


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
        ({"jpeg": [b"x"], "label": [0], "split": ["tent"]}, "split 'tent' is none of train, val "),
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


def features(**names):
    """Metadata as Hugging Face's datasets writes it."""
    columns = {name: {"names": values, "_type": "ClassLabel"} for name, values in names.items()}
    return {"huggingface": json.dumps({"info": {"features": columns}})}


def test_numbers_have_the_names_of_hugging_faces_schema(tmp_path, encoded, opened):
    table = pa.table({"jpeg": encoded(13), "label": [0, 1] * 6 + [-1]})
    file = tmp_path / "named.parquet"
    pq.write_table(table.replace_schema_metadata(features(label=["cat", "dog"])), file)

    images = opened(file)

    assert images.classes == ("cat", "dog")
    assert "1 of 13" in images.report[0]


def test_lists_of_labels_are_several_labels_an_image(written, encoded, opened):
    labels = [["cat"], ["ship", "cat"], ["ship"], []] * 5

    images = opened(written(jpeg=encoded(20), label=labels), target=Target.multilabel)

    assert images.outputs == ("cat", "ship")
    assert images.classes == ("cat", "cat+ship", "none", "ship")


def test_blanks_around_joined_labels_are_none_of_theirs(written, encoded, opened):
    images = opened(
        written(jpeg=encoded(12), label=["a + b", "a", " b "] * 4), target=Target.multilabel
    )

    assert images.outputs == ("a", "b")


@pytest.mark.parametrize(
    ("label", "named"),
    [
        ([[0.0, 1.0], [1.0, 0.0]] * 6, "vector"),
        ([{"a": 1}, {"a": 2}] * 6, "no number, text or list"),
        ([["C++"], ["C"]] * 6, r"\+"),
        (["C++", "C"] * 6, r"C\+\+"),
    ],
)
def test_labels_that_say_nothing_certain_are_refused(written, encoded, opened, label, named):
    with pytest.raises(UserError, match=named):
        opened(written(jpeg=encoded(12), label=label), target=Target.multilabel)


def test_what_is_no_number_is_no_class(written, encoded, opened):
    images = opened(written(jpeg=encoded(14), label=[1.0, 2.0] * 6 + [float("nan"), None]))

    assert images.classes == ("1.0", "2.0")
    assert "2 of 14" in images.report[0]


def test_a_column_names_the_groups(written, encoded, opened):
    file = written(
        jpeg=encoded(24), label=["a", "b"] * 12, patient=[f"p{at // 4}" for at in range(24)]
    )

    images = opened(f"{file}?groups=patient")

    assert [len(split) for split in (images.train, images.valid, images.test)] == [16, 4, 4]
    assert any("6 groups" in line for line in images.report)
    with pytest.raises(UserError, match="groups=doctor"):
        opened(f"{file}?groups=doctor")
