"""Images that are nearly equal, or of one group by a rule, stay on one side of a drawn split."""

import io

import numpy as np
import pytest
from PIL import Image, ImageEnhance

from edgenas_core.types.errors import UserError
from nas.fit.data.groups import DataOptions, GroupRule, grouped, near_pairs, thumbnail
from nas.fit.data.splits import taken


def photo(seed):
    """Smooth colours, as a photo has."""
    coarse = np.random.default_rng(seed).integers(0, 256, (6, 6, 3), np.uint8)
    return Image.fromarray(coarse).resize((96, 96), Image.Resampling.BICUBIC)


def as_jpeg(image):
    file = io.BytesIO()
    image.save(file, "JPEG", quality=40)
    return Image.open(file)


def thumbnails(images):
    return np.stack(
        [thumbnail(np.asarray(each.convert("RGB").resize((32, 32)))) for each in images]
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda image: image.resize((50, 50)),
        as_jpeg,
        lambda image: image.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
        lambda image: ImageEnhance.Brightness(image).enhance(0.8),
        lambda image: image.crop((1, 1, 96, 96)),
    ],
)
def test_a_changed_copy_is_near_its_original_and_nothing_else_is(change):
    originals = [photo(seed) for seed in range(40)]

    pairs = near_pairs(thumbnails([*originals, *map(change, originals[:10])]))

    assert {(a, b) for a, b in pairs.tolist() if a != b} == {(at, 40 + at) for at in range(10)}


def test_what_a_fixed_camera_shows_in_every_image_makes_none_alike():
    scene = np.asarray(photo(0)).astype(int)
    rng = np.random.default_rng(0)
    images = []
    for _ in range(30):
        part = np.asarray(
            Image.fromarray(rng.integers(0, 256, (4, 4, 3), np.uint8)).resize((24, 24))
        )
        pixels = scene.copy()
        pixels[36:60, 36:60] = part
        images.append(Image.fromarray(pixels.astype(np.uint8)))

    pairs = near_pairs(thumbnails(images))

    assert len(pairs) == 0


def test_groups_join_equal_near_and_named_images():
    equal_to = np.array([0, 0, 2, 3, 4, 5])

    groups = grouped(equal_to, ["a", "b", "c", "d", "d", "e"], np.array([[2, 5]]))

    assert groups.tolist() == [0, 0, 2, 3, 3, 2]


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        ("1", ["day1", "day1", "day2"]),
        ("2", ["day1/cat", "day1/dog", "day2/cat"]),
        (r"clip(\d+)", ["7", "7", "8"]),
        ("none", ["day1/cat/clip7_0.png", "day1/dog/clip7_1.png", "day2/cat/clip8_0.png"]),
    ],
)
def test_a_rule_names_the_groups(rule, names):
    paths = ["day1/cat/clip7_0.png", "day1/dog/clip7_1.png", "day2/cat/clip8_0.png"]

    assert GroupRule(rule).of_paths(paths) == names


@pytest.mark.parametrize("rule", ["3", "0", "²", "(", "nowhere"])
def test_a_rule_that_names_nothing_is_refused(rule):
    with pytest.raises(UserError, match="groups="):
        GroupRule(rule).of_paths(["day1/cat/0.png", "day2/cat/0.png"])


def test_options_of_data_are_read_from_its_end():
    options = DataOptions.of(r"a?b/c?groups=clip\d+?range=0:4095")

    assert (options.data, options.limits) == ("a?b/c", (0, 4095))
    assert options.groups == GroupRule(r"clip\d+")
    assert DataOptions.of("photos").groups is None
    with pytest.raises(UserError, match="range=5:1"):
        DataOptions.of("photos?range=5:1")


def test_settings_replace_what_data_says_of_the_same():
    text = DataOptions.joined("a?groups=1?range=0:9", "none", "0:4095", mirrors=False)

    assert text == "a?groups=none?range=0:4095?mirror=no"
    assert DataOptions.joined(text, None, None, mirrors=True) == text
    with pytest.raises(UserError, match="range=9"):
        DataOptions.joined("a", None, "9", mirrors=True)


def test_groups_are_taken_up_to_a_number_of_images():
    assert taken(np.ones(5, int), 2, 4).tolist() == [True, True, False, False, False]
    assert taken(np.array([9, 2, 3, 1]), 4, 3).tolist() == [False, True, False, True]
    assert taken(np.array([9, 8]), 2, 1).tolist() == [False, True]


def clips(folder, frames=10):
    for name in "ab":
        (folder / name).mkdir(parents=True)
        for clip in range(6):
            base = np.asarray(photo(100 * clip + ord(name))).astype(int)
            for frame in range(frames):
                noise = np.random.default_rng(frame).normal(0, 4, base.shape)
                pixels = np.roll((base + noise).clip(0, 255).astype(np.uint8), frame // 4, 1)
                Image.fromarray(pixels).save(folder / name / f"clip{clip}_{frame}.png")
    return folder


@pytest.mark.parametrize("rule", ["", r"?groups=[ab]/clip\d"])
def test_frames_of_a_clip_stay_in_one_split(tmp_path, opened, rule):
    folder = clips(tmp_path / "clips")

    images = opened(f"{folder}{rule}", side=32)

    splits = [len(split) for split in (images.train, images.valid, images.test)]
    assert splits == [80, 20, 20]
    assert any("12 groups" in line for line in images.report)
    near = near_pairs(
        np.stack(
            [thumbnail(each) for split in (images.train, images.test) for each in split.pixels]
        )
    )
    assert not any(a < 80 <= b for a, b in near.tolist())


def test_a_rule_none_draws_images_one_by_one(tmp_path, opened):
    folder = clips(tmp_path / "clips")

    images = opened(f"{folder}?groups=none", side=32)

    assert [len(split) for split in (images.train, images.valid, images.test)] == [96, 12, 12]


def test_given_validation_images_near_training_images_are_told_where_a_test_is_drawn(
    class_folders, opened, picture
):
    folder = class_folders({"train/a": 9, "train/b": 9, "val/a": 2, "val/b": 2})
    seed = next(int(file.stem) for file in sorted((folder / "train" / "a").glob("*.png")))
    near = np.asarray(picture(seed)) // 2 + 60
    Image.fromarray(near.astype(np.uint8)).save(folder / "val" / "a" / "near.png")

    told = "; ".join(opened(folder).report)

    assert "validation images that are nearly equal to training images: 1 of 5" in told
