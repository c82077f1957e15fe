"""A folder of class folders: which images there are, and what is refused."""

import numpy as np
import pytest
from PIL import Image

from edgenas_core.types.errors import UserError


def counts(images):
    return [
        np.bincount(split.labels, minlength=len(images.classes)).tolist()
        for split in (images.train, images.valid, images.test)
    ]


def test_validation_and_test_images_are_drawn_of_each_class(class_folders, opened):
    images = opened(class_folders({"dog": 20, "cat": 10}), share=0.2)

    assert images.classes == ("cat", "dog")
    assert counts(images) == [[6, 12], [2, 4], [2, 4]]
    (line,) = images.report[:-1]
    assert all(words in line for words in ("validation", "test", "seed 0", "20%"))


@pytest.mark.parametrize(
    ("valid", "counted"), [({"val/a": 2, "val/b": 3}, [[8, 8], [2, 3]]), ({}, [[6, 6], [2, 2]])]
)
def test_splits_that_are_given_are_kept_and_a_missing_one_is_drawn(
    class_folders, opened, valid, counted
):
    folder = class_folders({"train/a": 8, "train/b": 8, **valid, "test/a": 3, "test/b": 3})

    images = opened(folder, share=0.25)

    assert counts(images) == [*counted, [3, 3]]
    assert images.has_drawn_splits is not bool(valid)


def test_a_class_may_be_called_train(class_folders, opened):
    images = opened(class_folders({"train": 4, "bus": 4}))

    assert images.classes == ("bus", "train")


def test_pixels_belong_to_their_labels(class_folders, opened):
    folder = class_folders({"black": 0, "white": 0})
    for number in range(20):
        Image.new("RGB", (9, 9), (number, 0, 0)).save(folder / "black" / f"{number}.png")
        Image.new("RGB", (9, 9), (255, 255, 255 - number)).save(folder / "white" / f"{number}.png")

    images = opened(folder)

    for split in (images.train, images.valid, images.test):
        assert ((split.pixels.mean((1, 2, 3)) > 128) == (split.labels == 1)).all()


def test_subfolders_of_a_class_count_and_hidden_files_do_not(class_folders, opened):
    folder = class_folders({"a": 3, "a/more": 3, "b": 4, "b/.cache": 5})
    (folder / "a" / ".DS_Store").write_bytes(b"x")
    (folder / ".git").mkdir()

    images = opened(folder)

    assert np.sum(counts(images), axis=0).tolist() == [6, 4]
    (left_out,) = (sentence for sentence in images.report[:-1] if "left out" in sentence)
    assert "b/.cache" in left_out
    assert ".git" not in left_out


@pytest.mark.parametrize(
    "counted",
    [
        {"cat/left": 4, "cat/right": 4, "dog/left": 4, "dog/right": 4},
        {"bus/new": 4, "bus/old": 4, "train": 4, "train/new": 4, "train/old": 4},
        {"bus/new": 4, "train/new": 4},
    ],
)
def test_classes_may_have_subfolders_of_the_same_names(class_folders, opened, counted):
    images = opened(class_folders(counted))

    assert images.classes == tuple(sorted({name.partition("/")[0] for name in counted}))


def test_what_is_no_image_is_left_out_and_told(class_folders, opened):
    folder = class_folders({"a": 6, "b": 6})
    (folder / "readme.txt").write_text("by me")
    (folder / "a" / "notes.txt").write_text("of a cat")
    (folder / "b" / "empty.png").write_bytes(b"")
    whole = next((folder / "b").glob("[0-9]*.png")).read_bytes()
    (folder / "b" / "half.png").write_bytes(whole[: len(whole) // 2])

    images = opened(folder)

    assert np.sum(counts(images), axis=0).tolist() == [6, 6]
    other, loose, left_out, _drawn = images.report[:-1]
    assert loose.endswith("class folders: readme.txt")
    assert other.endswith("a/notes.txt")
    assert "2 of 14" in left_out
    assert all(f"({name})" in left_out for name in ("b/empty.png", "b/half.png"))


@pytest.mark.parametrize(
    ("counted", "message"),
    [
        ({"cat": 5}, "cat"),
        ({"cat": 1, "dog": 1}, "class 'cat' has 1 .* needs 3"),
        ({"val/a": 2, "test/a": 2}, "no training images"),
        (
            {"train/a": 3, "train/b": 3, "test/a": 1, "test/c": 1, "val/a": 1},
            "class 'c' has test images",
        ),
        ({}, "no class folders"),
        (
            {"old/a": 3, "old/b": 3, "train/a": 3, "train/b": 3},
            "old, train look like sets .* a and b; name one in data=",
        ),
        (
            {"Test/a": 3, "Test/b": 3, "my-images/a": 3, "my-images/b": 3},
            "Test, my-images look like sets",
        ),
    ],
)
def test_a_data_set_that_cannot_be_trained_on_is_refused(class_folders, opened, counted, message):
    folder = class_folders(counted)
    folder.mkdir(exist_ok=True)

    with pytest.raises(UserError, match=message):
        opened(folder)


def test_a_class_without_a_readable_image_is_refused_with_the_reason(class_folders, opened):
    folder = class_folders({"a": 4, "b": 4})
    (folder / "c").mkdir()
    (folder / "c" / "c.jpg").write_bytes(b"\xff\xd8\xff no more")

    with pytest.raises(UserError, match=r"class 'c' .* \(c/c\.jpg\)$"):
        opened(folder)


def test_a_class_in_the_training_split_only_is_told(class_folders, opened):
    folder = class_folders(
        {"train/a": 3, "train/b": 3, "val/a": 1, "val/b": 1, "test/a": 1, "train/c": 2}
    )

    images = opened(folder)

    valid, test = images.report[:-1]
    assert valid.endswith("1 of 3 (c)")
    assert test.endswith("2 of 3 (b, c)")


@pytest.mark.parametrize(
    ("counted", "left_out"),
    [
        ({"Train/a": 8, "Train/b": 8, "TEST/a": 4, "TEST/b": 4}, []),
        ({"data/train/a": 8, "data/train/b": 8, "data/test/a": 4, "data/test/b": 4}, []),
        ({"train/train/a": 8, "train/train/b": 8, "test/test/a": 4, "test/test/b": 4}, []),
        ({"train/a": 8, "train/b": 8, "test/a": 4, "test/b": 4, "extra": 3}, ["extra"]),
        ({"train/a": 8, "train/b": 8, "test/a": 4, "test/b": 4, "x/y/z": 3}, ["x"]),
        ({"a/train": 8, "b/train": 8, "a/test": 4, "b/test": 4}, []),
        ({"a/train": 8, "b/train": 8, "a/test": 4, "b/test": 4, "a/more": 2}, ["a/more"]),
    ],
)
def test_splits_are_found_in_any_case_deeper_and_below_classes(
    class_folders, opened, counted, left_out
):
    images = opened(class_folders(counted))

    assert images.classes == ("a", "b")
    train, valid, test = counts(images)
    assert np.add(train, valid).tolist() == [8, 8]
    assert test == [4, 4]
    lines = [line for line in images.report[:-1] if line.startswith("left out")]
    assert [line.rpartition(": ")[2] for line in lines] == left_out


def test_what_holds_no_image_or_is_a_programs_is_no_class(class_folders, opened):
    folder = class_folders(
        {
            "a": 6,
            "b": 6,
            "a/@eaDir/0.png": 3,
            "b/.thumbnails": 3,
            "__MACOSX/a": 2,
            "runs/x/pictures": 2,
        }
    )
    (folder / "runs" / "x" / "training.json").write_text("{}")
    (folder / "labels").mkdir()
    (folder / "labels" / "0.txt").write_text("0")
    (folder / "a" / "._0.png").write_bytes(b"x")

    images = opened(folder)

    assert images.classes == ("a", "b")
    assert np.sum(counts(images), axis=0).tolist() == [6, 6]
    text = "\n".join(images.report)
    assert all(name in text for name in ("@eaDir", "__MACOSX", "runs/x", "labels"))


def test_a_folder_of_loose_files_beside_class_folders_is_told(class_folders, opened):
    images = opened(class_folders({"train/a": 8, "train/b": 8, "test": 6, "val/a": 2, "val/b": 2}))

    assert [len(images.train), len(images.valid), len(images.test)] == [14, 4, 2]
    assert any("test/" in line and "beside" in line for line in images.report)


def test_linked_folders_are_followed_but_in_no_circle(class_folders, opened, tmp_path):
    folder = class_folders({"a": 6})
    class_folders({"b": 6}, folder="elsewhere")
    (folder / "b").symlink_to(tmp_path / "elsewhere" / "b")
    (tmp_path / "elsewhere" / "b" / "up").symlink_to(folder)

    images = opened(folder)

    assert images.classes == ("a", "b")
    assert np.sum(counts(images), axis=0).tolist() == [6, 6]


def test_folds_days_and_cameras_above_the_classes_stay_in_one_split(class_folders, opened):
    folder = class_folders({f"fold{at}/{name}": 4 for at in range(5) for name in "ab"})
    origin = {}
    for file in folder.rglob("*.png"):
        with Image.open(file) as image:
            pixels = np.asarray(image.convert("RGB").resize((8, 8), Image.Resampling.BILINEAR))
        origin[np.asarray(pixels).tobytes()] = file.parent.parent.name

    images = opened(folder, side=12)

    assert images.classes == ("a", "b")
    assert np.sum(counts(images), axis=0).tolist() == [20, 20]
    assert [len(images.valid), len(images.test)] == [8, 8]  # a fold of both classes each
    assert any("fold0" in line for line in images.report)


@pytest.mark.parametrize("above", ["train", "photos"])
def test_folds_in_a_folder_of_their_own_are_the_groups(class_folders, opened, above):
    folder = class_folders({f"{above}/fold{at}/{name}": 4 for at in range(5) for name in "ab"})

    images = opened(folder, side=12)

    assert np.sum(counts(images), axis=0).tolist() == [20, 20]
    assert [len(images.valid), len(images.test)] == [8, 8]


def test_a_folder_named_images_with_a_file_of_notes_holds_classes(class_folders, opened, tmp_path):
    folder = class_folders({"a": 6, "b": 6}).rename(tmp_path / "images")
    (folder / "notes.json").write_text("{}")
    (folder / "a" / ".hidden.png").write_bytes((folder / "a").glob("*.png").__next__().read_bytes())

    images = opened(folder)

    assert images.classes == ("a", "b")
    assert any(".hidden.png" in line for line in images.report)


def test_names_of_one_look_are_one_class(class_folders, opened):
    names = ["train/caf\u00e9", "train/b", "test/cafe\u0301\u200b", "test/b"]

    images = opened(class_folders(dict.fromkeys(names, 6)))

    assert images.classes == ("b", "caf\u00e9")


@pytest.mark.parametrize(
    ("counted", "files", "message"),
    [
        ({"images": 4, "masks": 4}, [], "task=segmentation"),
        ({"images": 4, "other": 4}, ["annotations.json"], "task=detection"),
        ({"images/train": 4, "labels/train": 0}, ["data.yaml"], "task=detection"),
        (
            {"train/good": 4, "test/good": 2, "test/cut": 2, "ground_truth/cut": 2},
            [],
            "test has classes|/test",
        ),
        ({"train": 4, "test": 4}, [], "train, test have images, but no class folders|test, train"),
        ({"train": 4, "trainannot": 4, "test": 2, "testannot": 2}, [], "task=segmentation"),
        ({"bounding_box_train": 4, "bounding_box_test": 2, "query": 2}, [], "no class folders"),
        ({"leftImg8bit/train/town": 4, "gtFine/train/town": 4}, [], "task=segmentation"),
        ({"training/image_2": 4, "training/instance": 4}, [], "task=segmentation"),
        (
            {"train/images": 4, "train/v2.0": 4, "val/images": 2, "val/v2.0": 2},
            [],
            "v2.0 is no class",
        ),
        ({"photos": 4}, ["photos.txt"], r"photos; put .* labels.csv .*left out.* photos\.txt"),
    ],
)
def test_layouts_of_other_tasks_are_refused_with_the_way_out(
    class_folders, opened, counted, files, message
):
    folder = class_folders(counted)
    for file in files:
        (folder / file).write_text("{}")

    with pytest.raises(UserError, match=message):
        opened(folder)


@pytest.mark.parametrize("data", ["nowhere", "", "some.txt"])
def test_a_data_set_that_does_not_exist_is_refused_with_what_may_be_given(opened, tmp_path, data):
    (tmp_path / "some.txt").write_text("")

    with pytest.raises(UserError, match=r"data=.*\.parquet.*digits"):
        opened(tmp_path / data if data else "")


@pytest.mark.parametrize("side", [0, -1, 100_000])
def test_a_side_out_of_range_is_refused(opened, side):
    with pytest.raises(UserError, match=f"side={side}"):
        opened("digits", side=side)


def test_a_network_may_take_blue_first_or_grey(class_folders, opened):
    folder = class_folders({"a": 6, "b": 6})

    rgb, bgr, grey = (opened(f"{folder}?channels={each}") for each in ("rgb", "bgr", "grey"))

    assert np.array_equal(bgr.train.pixels, rgb.train.pixels[..., ::-1])
    assert bgr.mean == pytest.approx(rgb.mean[::-1])
    luma = [Image.fromarray(each).convert("L") for each in rgb.train.pixels]
    assert np.array_equal(grey.train.pixels[..., 0], np.stack(luma))
    assert grey.task.channels == len(grey.mean) == 1
