"""The same image in two places: counted, told, and refused where accuracy would be wrong."""

import shutil
from itertools import combinations

import pytest
import torch
from PIL import Image

from edgenas_core.types.errors import UserError
from nas.fit.data.image_set import Target
from nas.fit.learners.of_images import learner_of

SPLITS = {"train/a": 30, "train/b": 30, "val/a": 20, "val/b": 20, "test/a": 20, "test/b": 20}


def copy(folder, source, target, count):
    for file in sorted((folder / source).iterdir())[:count]:
        with Image.open(file) as image:
            image.save(folder / target / f"again_{file.stem}.bmp")  # another file, the same pixels


@pytest.mark.parametrize(
    ("target", "count", "counted"),
    [
        ("test/a", 2, ["2 of 42", "2"]),  # also training images; equal to another one
        ("train/b", 1, ["1", "1"]),  # equal to another one; in another class than that
    ],
)
def test_a_few_equal_images_are_counted(class_folders, opened, target, count, counted):
    folder = class_folders(SPLITS)
    copy(folder, "train/a", target, count)

    assert [line.rpartition(": ")[2] for line in opened(folder).report[:-1]] == counted


def test_many_training_images_in_the_validation_split_are_refused(class_folders, opened):
    folder = class_folders(SPLITS)
    copy(folder, "train/a", "val/a", 3)

    with pytest.raises(UserError, match="3 of 43, so"):
        opened(folder)


def test_equal_images_are_drawn_into_the_same_split(class_folders, opened):
    folder = class_folders({"a": 12, "b": 12})
    for file in list((folder / "a").iterdir()):
        for number in range(4):
            shutil.copy(file, file.with_name(f"{file.stem}_{number}.png"))

    images = opened(folder)

    splits = [{image.tobytes() for image in split.pixels} for split in (images.train, images.test)]
    assert not splits[0] & splits[1]
    assert images.report[0].endswith(": 48")


def test_the_same_images_are_drawn_at_every_side(class_folders, opened):
    folder = class_folders({"a": 0, "b": 12})
    for level in range(20):
        image = Image.new("RGB", (64, 64), (10 * level,) * 3)
        image.save(folder / "a" / f"{level}.png")
        image.putpixel((30, 30), (10 * level + 1,) * 3)  # invisible where it is small
        image.save(folder / "a" / f"again_{level}.png")

    small, large = (opened(folder, side=side).test for side in (8, 64))

    levels = [part.pixels[part.labels == 0][:, 0, 0, 0].tolist() for part in (small, large)]
    assert levels[0] == levels[1]


def test_grey_images_are_counted(class_folders, opened):
    folder = class_folders({"a": 5, "b": 5})
    Image.new("L", (8, 8)).save(folder / "a" / "grey.png")

    (line, _) = opened(folder).report[:-1]
    assert "grey" in line
    assert line.endswith(": 1")


def test_classes_and_sizes_are_counted(class_folders, opened):
    folder = class_folders({"a": 6, "b": 5})
    Image.new("RGB", (300, 200)).save(folder / "a" / "large.png")

    line = opened(folder, side=16).report[-1]

    assert "a: 7, b: 5" in line
    assert "11 are enlarged to 16" in line


@pytest.mark.parametrize(("target", "mark"), [(Target.regression, "."), (Target.multilabel, "+")])
def test_a_value_or_combination_may_be_rare(class_folders, opened, target, mark):
    folder = class_folders({f"{a}{mark}{b}": 1 for a, b in combinations(range(8), 2)})

    images = opened(folder, target=target)

    assert (len(images.train), len(images.valid), len(images.test)) == (22, 3, 3)
    assert images.target is target


def test_none_is_the_name_of_images_without_a_label(class_folders, opened):
    images = opened(class_folders({"none": 9, "a": 9, "a+b": 9}), target=Target.multilabel)

    no_label = torch.tensor([images.classes.index("none")])
    worth = learner_of(images).worth(torch.tensor([[-1.0, -1.0]]), no_label)

    assert images.outputs == ("a", "b")
    assert worth.tolist() == [1]
