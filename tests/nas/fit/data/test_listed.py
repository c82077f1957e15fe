"""Images that a table beside them labels, and sets in several files."""

import io
import json
import tarfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from edgenas_core.types.errors import UserError
from nas.fit.data.image_set import Target


@pytest.fixture
def folder(tmp_path, picture):
    """A folder with images 0.png to 11.png in img/."""
    (tmp_path / "set" / "img").mkdir(parents=True)
    for seed in range(12):
        picture(seed).save(tmp_path / "set" / "img" / f"{seed}.png")
    return tmp_path / "set"


def counts(images):
    return [len(images.train), len(images.valid), len(images.test)]


@pytest.mark.parametrize(
    ("head", "row", "encoding"),
    [
        ("image,label", "{}.png,{}", "utf-8"),
        ("id;species", "{};{}", "utf-8-sig"),
        ("label\tpath", "{1}\timg\\{0}.png", "utf-16"),
        ("/data/img/0.png,0", "/data/img/{}.png,{}", "utf-8"),
    ],
)
def test_a_table_beside_the_images_labels_them(folder, opened, head, row, encoding):
    rows = [row.format(at, at % 2) for at in range(1 if head.startswith("/") else 0, 12)]
    (folder / "labels.csv").write_text("\n".join([head, *rows]), encoding)

    images = opened(folder)

    assert (images.classes, counts(images)) == (("0", "1"), [8, 2, 2])
    assert "labels by labels.csv" in images.report


def test_what_a_table_lacks_or_repeats_is_counted(folder, opened):
    rows = [f"{at}.png,{at % 2}" for at in range(10)] + ["0.png,0", "gone.png,1", "10.png,-1"]
    (folder / "labels.csv").write_text("\n".join(["file,label", *rows]))

    images = opened(folder)

    told = "; ".join(images.report)
    assert sum(counts(images)) == 10
    for reason in ("not there: gone.png", "no row names: img/11.png", "repeat another: 0.png"):
        assert reason in told
    assert "1 of 11 images, 1 without a label (img/10.png)" in told
    (folder / "labels.csv").write_text("file,label\n0.png,a\n0.png,b\n")
    with pytest.raises(UserError, match=r"'a' and as 'b'"):
        opened(folder)


def test_tables_of_splits_and_columns_of_zero_and_one_are_read(folder, opened):
    for split, numbers in (("train", range(8)), ("valid", (8, 9)), ("test", (10, 11))):
        rows = [f"{at}.png, {at % 2}, {at // 2 % 2}" for at in numbers]
        (folder / split).mkdir()
        (folder / split / "_classes.csv").write_text("\n".join(["filename, cat, dog", *rows]))
    (folder / "test.csv").write_text("file\n11.png\n")

    images = opened(folder, target=Target.multilabel)

    assert (images.outputs, counts(images)) == (("cat", "dog"), [8, 2, 2])
    assert any("without a column of labels: test.csv" in line for line in images.report)


def test_class_folders_with_a_table_of_other_labels_are_refused(folder, opened, class_folders):
    class_folders({"a": 5, "b": 5}, folder="set")
    (folder / "ages.csv").write_text(
        "\n".join(["file,age", *(f"img/{n}.png,{n}" for n in range(12))])
    )

    with pytest.raises(UserError, match=r"\(0, 1, 10 and 9 more\); name data=.*ages.csv for its"):
        opened(folder)


def test_a_table_that_cannot_be_read_is_named_where_no_class_folders_say_more(folder, opened):
    rows = [f"{at}.png,{'é' if at % 2 else 'o'}" for at in range(12)]
    (folder / "labels.csv").write_text("\n".join(["file,label", *rows]), "latin-1")

    with pytest.raises(UserError, match=r"labels.csv .* UTF-8"):
        opened(folder)


def test_the_form_for_a_contest_s_answers_labels_nothing(folder, opened):
    rows = [f"{at}.png,{at % 2}" for at in range(9)]
    (folder / "train.csv").write_text("\n".join(["image_id,label", *rows]))
    rows = [f"{at}.png,4" for at in range(9, 12)]
    (folder / "sample_submission.csv").write_text("\n".join(["image_id,label", *rows]))

    images = opened(folder)

    assert (images.classes, sum(counts(images))) == (("0", "1"), 9)
    assert any("contest's answers: sample_submission.csv" in line for line in images.report)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("a,b\nx,y\n", "names an image"),
        ("", "empty"),
        ("f,xmin\n1.png,2", "boxes"),
        ("f,x,y\n1.png,2,3", "`label`"),
    ],
)
def test_a_table_of_something_else_is_refused(folder, opened, content, named):
    (folder / "t.csv").write_text(content)

    with pytest.raises(UserError, match=named):
        opened(folder / "t.csv")


def encoded(picture, seed):
    file = io.BytesIO()
    picture(seed).save(file, "PNG")
    return file.getvalue()


def test_the_files_of_a_folder_are_one_set_with_the_splits_of_their_names(
    tmp_path, picture, opened
):
    names = [
        "train-00000-of-00002",
        "train-00001-of-00002",
        "validation-00000-of-00001",
        "test-0",
        "odd",
    ]
    (tmp_path / "hub" / "data").mkdir(parents=True)
    for number, name in enumerate(names):
        columns = {
            "image": [encoded(picture, 6 * number + at) for at in range(6)],
            "label": [0, 1, 2] * 2,
        }
        pq.write_table(pa.table(columns), tmp_path / "hub" / "data" / f"{name}.parquet")

    images = opened(tmp_path / "hub")

    assert counts(images) == [12, 6, 6]
    assert "left out, no split is named in: data/odd.parquet" in images.report
    (tmp_path / "hub" / "other").mkdir()
    pq.write_table(pa.table(columns), tmp_path / "hub" / "other" / "train-0.parquet")
    with pytest.raises(UserError, match="several sets, data, other"):
        opened(tmp_path / "hub")


def write_tar(path, members):
    with tarfile.open(path, "w") as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def test_tars_of_webdataset_are_read_without_unpacking(tmp_path, picture, opened):
    for shard in range(2):
        members = [(f"x/{6 * shard + at}.png", encoded(picture, 6 * shard + at)) for at in range(6)]
        members += [(f"x/{6 * shard + at}.cls", b"%d" % (at % 2)) for at in range(5)]
        members += [(f"x/{6 * shard + 5}.json", json.dumps({"label": 1}).encode())]
        members += [("x/alone.cls", b"1"), (f"x/{20 + shard}.png", encoded(picture, 20 + shard))]
        label = b"1" * 2**17 if shard else b'{"label": NaN}'
        members += [(f"x/{20 + shard}.json", label)]
        write_tar(tmp_path / f"photos-00000{shard}.tar", members)
    (tmp_path / "classnames.txt").write_text("cat\ndog\n")

    images = opened(tmp_path)

    assert (images.classes, counts(images)) == (("cat", "dog"), [8, 2, 2])
    told = "; ".join(images.report)
    for reason in ("without an image: x/alone, x/alone", "65,536 bytes: x/21", "2 without a label"):
        assert reason in told


@pytest.mark.parametrize("content", [b"no tar", b"", b"\x1f\x8b\x08"])
def test_what_is_no_tar_of_images_is_refused(tmp_path, opened, content):
    (tmp_path / "x.tar").write_bytes(content)

    with pytest.raises(UserError, match=r"tar file|no image with a label"):
        opened(tmp_path / "x.tar")
