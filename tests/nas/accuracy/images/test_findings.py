"""The same image in two places: counted, told, and refused where accuracy would be wrong."""

import shutil

import pytest
from PIL import Image

from common.types.errors import UserError

SPLITS = {"train/a": 30, "train/b": 30, "val/a": 20, "val/b": 20, "test/a": 20, "test/b": 20}


def copy(folder, source, target, count):
    for file in sorted((folder / source).iterdir())[:count]:
        with Image.open(file) as image:
            image.save(folder / target / f"again_{file.stem}.bmp")  # another file, the same pixels


def test_a_few_training_images_in_the_test_split_are_told(class_folders, opened):
    folder = class_folders(SPLITS)
    copy(folder, "train/a", "test/a", 2)

    images = opened(folder)

    assert images.report == (
        "2 of 42 test images are training images, too",
        "2 images are equal to another one",
    )


def test_many_training_images_in_the_validation_split_are_refused(class_folders, opened):
    folder = class_folders(SPLITS)
    copy(folder, "train/a", "val/a", 3)

    with pytest.raises(UserError, match=r"3 of 43 validation images are training images, too, so "):
        opened(folder)


def test_an_image_in_two_classes_is_told(class_folders, opened):
    folder = class_folders(SPLITS)
    copy(folder, "train/a", "train/b", 1)

    images = opened(folder)

    assert "1 image is in another class than an equal one" in images.report


def test_equal_images_are_drawn_into_the_same_split(class_folders, opened):
    folder = class_folders({"a": 12, "b": 12})
    for file in list((folder / "a").iterdir()):
        for number in range(4):
            shutil.copy(file, file.with_name(f"{file.stem}_{number}.png"))

    images = opened(folder)

    splits = [{one.tobytes() for one in split.pixels} for split in (images.train, images.test)]
    assert not splits[0] & splits[1]
    assert "48 images are equal to another one" in images.report


def test_grey_images_are_told(class_folders, opened):
    folder = class_folders({"a": 5, "b": 5})
    Image.new("L", (8, 8)).save(folder / "a" / "grey.png")

    assert "1 image is grey: repeated in three channels" in opened(folder).report
