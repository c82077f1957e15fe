"""Segmentation: masks, mean intersection over union, and masks that do not fit."""

import numpy as np
import pytest
import torch
from PIL import Image
from scene_folder import write_scenes
from torch import nn

from edgenas_core.types.errors import UserError
from nas.fit.learners.base import HasFindings, Learner
from nas.fit.learners.segmentation import Segmentation, unions


@pytest.fixture
def folder(tmp_path):
    return write_scenes(tmp_path / "scenes")


class Perfect(nn.Module):
    """Reads the class off the colour of a pixel."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, images):
        red, green, _ = images.unbind(1)
        return torch.stack([torch.full_like(red, 1.0), red - 0.3, green - 0.3], 1) * 50


def test_a_perfect_network_has_every_pixel(folder):
    learner = Segmentation(str(folder), side=48)

    metric = learner.metric(Perfect(), learner.batches("valid"))

    assert isinstance(learner, Learner)
    assert isinstance(learner, HasFindings)
    assert (metric.name, metric.value, metric.interval) == ("mIoU", 1.0, (1.0, 1.0))
    assert learner.describe().counts == (16, 2, 2)
    assert learner.describe().outputs == 3
    assert learner.describe().title == "Synthetic squares"
    batch = next(iter(learner.batches("train")))
    assert float(learner.loss(Perfect(), batch)) < 1e-3
    findings = learner.findings(Perfect())
    assert {each.name: each.value for each in findings.classes}["0"] == 1.0
    assert findings.pictures[0].jpeg.startswith(b"\xff\xd8")


def test_an_image_without_labels_is_not_among_the_worst(folder):
    learner = Segmentation(str(folder), side=48)
    unlabelled, labelled = learner.scenes.splits["test"]
    learner.scenes.targets[unlabelled] = 255
    learner.scenes.targets[labelled] = 0

    findings = learner.findings(Perfect())

    assert len(findings.pictures) == 2
    assert "mIoU 100%" in findings.pictures[1].caption
    assert "mIoU 100%" not in findings.pictures[0].caption


def test_batches_are_as_many_each_time_and_mirror_images_with_their_masks(folder):
    learner = Segmentation(str(folder), side=48)
    torch.manual_seed(0)

    for _ in range(3):
        (batch,) = learner.batches("train")
        assert learner.metric(Perfect(), [batch]).value == 1.0
    assert len(learner.batches("train")) == 1


@pytest.mark.parametrize(
    ("option", "mean"),
    [
        ("", (0.485, 0.456, 0.406)),
        ("?channels=bgr", (0.406, 0.456, 0.485)),
        ("?channels=grey", (0.449,)),
        ("?channels=bgr?scaling=0.1,0.2,0.3;1,1,1", (0.1, 0.2, 0.3)),
    ],
)
def test_scenes_are_scaled_in_the_order_of_their_channels(folder, option, mean):
    learner = Segmentation(f"{folder}{option}", side=16)

    images, _ = next(iter(learner.batches("valid")))

    scenes = learner.scenes
    assert scenes.mean == pytest.approx(mean)
    assert learner.example_input().shape[1:] == images.shape[1:] == (len(mean), 16, 16)
    pixels = scenes.pixels[scenes.splits["valid"]][: len(images)].float() / 255
    expected = (pixels - torch.tensor(scenes.mean)) / torch.tensor(scenes.sd)
    torch.testing.assert_close(images, expected.permute(0, 3, 1, 2))


def test_unions_by_hand():
    counts = np.array([[6, 2, 0], [1, 3, 0], [0, 0, 0]])

    assert unions(counts) == pytest.approx([6 / 9, 3 / 6, np.nan], nan_ok=True)


def test_photos_are_learnt_as_they_are_viewed(folder):
    before = Segmentation(str(folder), side=48).scenes.pixels[0]
    file = folder / "images" / "0.png"
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned right
    with Image.open(file) as image:
        image.transpose(Image.Transpose.ROTATE_90).save(file, exif=exif)

    assert torch.equal(Segmentation(str(folder), side=48).scenes.pixels[0], before)


def test_a_mask_of_the_stored_pixels_of_a_turned_photo_is_refused(folder):
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned right
    Image.new("RGB", (48, 30)).save(folder / "images" / "0.png", exif=exif)
    Image.new("L", (48, 30)).save(folder / "masks" / "0.png")

    with pytest.raises(UserError, match="48 x 30 pixels, and its image 30 x 48, as its camera"):
        Segmentation(str(folder), side=48)


def test_deep_and_transparent_images_are_read_as_those_of_classes(folder):
    before = Segmentation(str(folder), side=48).scenes
    for number, file in enumerate(sorted((folder / "images").iterdir())):
        with Image.open(file) as image:
            grey = np.asarray(image.convert("L"))
        if number % 2:
            deep = (3000 + 4 * grey.astype(np.uint16)).astype(np.uint16)
            Image.fromarray(deep).save(file)
        else:
            alpha = np.where(grey > 0, 255, 0).astype(np.uint8)
            Image.fromarray(np.stack([grey, grey, grey, alpha], -1)).save(file)

    scenes = Segmentation(str(folder), side=48).scenes

    low, high = scenes.limits
    assert 3000 <= low < high <= 3000 + 4 * 255
    assert len(torch.unique(scenes.pixels)) > 1
    assert any(f"{low:g}" in line for line in scenes.described("s", ("0", "1"), "mIoU").report)
    assert len(before.pixels) == len(scenes.pixels)
    assert any(bool((image == 255).any()) for image in scenes.pixels)  # transparent is white


@pytest.mark.parametrize(("option", "is_mirrored"), [("", True), ("?mirror=no", False)])
def test_scenes_are_mirrored_unless_a_setting_says_otherwise(folder, option, is_mirrored):
    learner = Segmentation(f"{folder}{option}", side=48)
    torch.manual_seed(0)

    (batch,) = learner.batches("train")

    known = {image.numpy().tobytes() for image in learner.scenes.targets}
    changed = [each.numpy().tobytes() not in known for each in batch[1]]
    assert any(changed) is is_mirrored


def _below(folder):
    for name in ("images", "masks"):
        (folder / name / "day2").mkdir()
        for number in range(10, 20):
            (folder / name / f"{number}.png").rename(folder / name / "day2" / f"{number}.png")


def _suffixed(folder):
    for mask in list((folder / "masks").iterdir()):
        mask.rename(mask.with_name(f"{mask.stem}_mask.png"))


def _hidden(folder):
    (folder / "images" / "._0.png").write_bytes(b"x")
    (folder / "masks" / "@eaDir").mkdir()
    (folder / "masks" / "@eaDir" / "0.png").write_bytes(b"x")


def _as_voc(folder):
    (folder / "images").rename(folder / "JPEGImages")
    (folder / "masks").rename(folder / "SegmentationClass")
    for file in (folder / "SegmentationClass").iterdir():
        mask = Image.fromarray(np.asarray(Image.open(file)), "P")
        mask.putpalette([*range(256)] * 3)
        mask.save(file)


def _of_16_bits(folder):
    for file in (folder / "masks").iterdir():
        Image.fromarray(np.asarray(Image.open(file)).astype(np.uint16)).save(file)


def _of_three_equal_channels(folder):
    for file in (folder / "masks").iterdir():
        with Image.open(file) as mask:
            mask.convert("RGB").save(file)


@pytest.mark.parametrize(
    "change", [_below, _suffixed, _hidden, _as_voc, _of_16_bits, _of_three_equal_channels]
)
def test_layouts_that_people_have_are_read_alike(folder, change):
    before = Segmentation(str(folder), side=48).scenes
    change(folder)

    after = Segmentation(str(folder), side=48).scenes

    by_name = [
        dict(zip((file.name for file in each.files), each.targets, strict=True))
        for each in (before, after)
    ]
    assert by_name[0].keys() == by_name[1].keys()
    assert all(torch.equal(by_name[0][name], by_name[1][name]) for name in by_name[0])


def _cityscapes(split, name, number):
    folder, end = ("leftImg8bit", "") if name == "images" else ("gtFine", "_gtFine_labelIds")
    return f"{folder}/{split}/town/{number}{end or '_leftImg8bit'}.png"


@pytest.mark.parametrize(
    "place",
    [
        lambda split, name, number: f"{split}/{name}/{number}.png",
        lambda split, name, number: f"{name}/{split}/{number}.png",
        lambda split, name, number: f"{split}{'annot' * (name == 'masks')}/{number}.png",  # CamVid
        _cityscapes,
    ],
)
def test_folders_of_splits_are_splits(folder, place):
    parts = {"train": range(12), "val": range(12, 16), "test": range(16, 20)}
    for split, numbers in parts.items():
        for name in ("images", "masks"):
            for number in numbers:
                file = folder / place(split, name, number)
                file.parent.mkdir(parents=True, exist_ok=True)
                (folder / name / f"{number}.png").rename(file)
    for name in ("images", "masks"):
        if not any((folder / name).iterdir()):
            (folder / name).rmdir()

    scenes = Segmentation(str(folder), side=48).scenes

    for split, numbers in parts.items():
        positions = scenes.splits[split.replace("val", "valid")].tolist()
        assert {int(scenes.files[at].stem.split("_")[0]) for at in positions} == {*numbers}
        assert all(
            set(scenes.targets[at].unique().tolist()) in ({0, 1}, {0, 2}) for at in positions
        )


def test_of_cityscapes_masks_those_to_train_on_are_read(folder):
    for name in ("images", "masks"):
        for number in range(20):
            file = folder / _cityscapes("train", name, number)
            file.parent.mkdir(parents=True, exist_ok=True)
            (folder / name / f"{number}.png").rename(file)
            if name == "masks":
                file.rename(file.with_name(file.name.replace("labelIds", "labelTrainIds")))
                Image.new("L", (48, 48), 7).save(file)
        (folder / name).rmdir()

    scenes = Segmentation(str(folder), side=48).scenes

    assert scenes.targets.unique().tolist() == [0, 1, 2]
    assert any("labelIds" in line and "20" in line for line in scenes.report)


def test_images_of_a_test_split_without_masks_are_left_out_and_told(folder):
    (folder / "train").mkdir()
    for name in ("images", "masks"):
        (folder / name).rename(folder / "train" / name)
    (folder / "test").mkdir()
    Image.new("RGB", (48, 48)).save(folder / "test" / "unlabelled.png")

    scenes = Segmentation(str(folder), side=48).scenes

    assert len(scenes.files) == 20
    assert any("unlabelled.png" in line for line in scenes.report)


def test_a_number_that_no_mask_has_is_no_class(folder):
    _gap(folder)
    before = Segmentation(str(folder), side=48)
    (folder / "labelmap.txt").write_text(
        "# label:color\nfield:0,0,0::\ncat:1,1,1::\ncow:2::\ndog:3::"
    )

    learner = Segmentation(str(folder), side=48)

    assert before.classes == ("0", "1", "3")
    assert learner.classes == ("field", "cat", "dog")
    assert learner.scenes.targets.unique().tolist() == [0, 1, 2]
    assert any("no mask shows" in line and "cow" in line for line in learner.scenes.report)


def test_equal_and_changed_copies_of_a_scene_stay_in_one_split(folder):
    for number in range(20):
        with Image.open(folder / "images" / f"{number}.png") as image:
            image.save(folder / "images" / f"{number}_equal.png")
            image.save(folder / "images" / f"{number}_again.jpg", quality=90)
        for name in ("equal", "again"):
            mask = folder / "masks" / f"{number}.png"
            (folder / "masks" / f"{number}_{name}.png").write_bytes(mask.read_bytes())

    scenes = Segmentation(str(folder), side=48).scenes

    originals = [
        {scenes.files[at].stem.partition("_")[0] for at in positions}
        for positions in scenes.splits.values()
    ]
    assert sum(map(len, originals)) == len(set.union(*originals)) == 20
    assert sum(map(len, scenes.splits.values())) == 60
    assert any("equal" in line and "20" in line for line in scenes.report)


def test_a_damaged_scene_is_left_out_and_told(folder):
    (folder / "images" / "7.png").write_bytes(b"x")

    scenes = Segmentation(str(folder), side=48).scenes

    assert len(scenes.files) == len(scenes.targets) == 19
    assert any("7.png" in line for line in scenes.report)


def _black_and_white(folder):
    for file in (folder / "masks").iterdir():
        mask = np.asarray(Image.open(file))
        Image.fromarray(np.where(mask, 255, 0).astype(np.uint8)).save(file)


def _two_images_of_a_mask(folder):
    Image.new("RGB", (48, 48)).save(folder / "images" / "3.jpg")


def _jpeg(folder):
    with Image.open(folder / "masks" / "2.png") as mask:
        mask.save(folder / "masks" / "2.jpg")
    (folder / "masks" / "2.png").unlink()


def _other_size(folder):
    Image.new("L", (20, 20)).save(folder / "masks" / "3.png")


def _no_mask(folder):
    (folder / "masks" / "4.png").unlink()


def _coloured(folder):
    Image.new("RGB", (48, 48), "red").save(folder / "masks" / "5.png")


def _one_class(folder):
    for file in (folder / "masks").iterdir():
        Image.new("L", (48, 48)).save(file)


def _latin(folder):
    (folder / "classes.txt").write_bytes("0\n1\nKäse\n".encode("latin-1"))


def _gap(folder):
    for file in (folder / "masks").iterdir():
        mask = np.asarray(Image.open(file))
        Image.fromarray(np.where(mask == 2, 3, mask).astype(np.uint8)).save(file)


@pytest.mark.parametrize(
    ("damage", "hint"),
    [
        (_jpeg, "2.jpg: a JPEG"),
        (_black_and_white, "0 and 255 .* write 1"),
        (_two_images_of_a_mask, r"3\.(png|jpg) contradict"),
        (_other_size, "3.png is 20 x 20"),
        (_no_mask, "4.png"),
        (_coloured, "5.png.*datum convert -i .* -f voc_segmentation"),
        (_one_class, "class"),
        (_latin, "classes.txt"),
        (lambda folder: (folder / "classes.txt").write_text("name\n" * 256), "256"),
        (lambda folder: (folder / "masks").rename(folder / "GT"), "masks.*datum convert"),
    ],
)
def test_masks_that_do_not_fit_are_refused(folder, damage, hint):
    damage(folder)

    with pytest.raises(UserError, match=hint):
        Segmentation(str(folder), side=48)
