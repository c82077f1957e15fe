"""Detection: boxes of COCO's JSON, anchors, suppression, and annotations that do not fit."""

import json
import math
import sys
from random import Random

import numpy as np
import pytest
import torch
from PIL import Image
from scene_folder import write_scenes
from torch import nn

from edgenas_core.types.errors import UserError
from nas.fit.learners.annotations import Annotations
from nas.fit.learners.data import LearnerData
from nas.fit.learners.detection import (
    Detection,
    _judged,
    _precisions,
    decoded,
    detections,
    encoded,
    matched,
    overlaps,
    resampled_precisions,
)

_CORNERS = {"xmin": 10, "ymin": 10, "xmax": 40, "ymax": 40}
ANCHORS = torch.tensor([[0.0, 0, 20, 20], [10, 10, 30, 30], [25, 25, 45, 45]])


@pytest.fixture
def folder(tmp_path):
    return write_scenes(tmp_path / "scenes")


class Oracle(nn.Module):
    """Gives the boxes that it was told as its anchors."""

    def __init__(self, objects, classes):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        logits = nn.functional.one_hot(objects[..., 4].long(), classes) * 20.0
        self.outputs = torch.cat([logits, torch.zeros(*objects.shape[:2], 4)], -1)
        self.boxes = objects[..., :4]

    def forward(self, images):
        outputs = torch.cat([self.outputs, self.boxes], -1)
        return outputs[: len(images)]


def test_an_object_is_learnt_by_its_best_anchor_and_all_that_overlap_it_by_half():
    objects = torch.tensor(
        [[[2.0, 2, 22, 22, 1], [0, 0, 0, 0, 0]], [[0, 0, 46, 46, 2], [0, 0, 0, 0, 0]]]
    )

    classes, offsets = matched(ANCHORS, objects)

    assert classes.tolist() == [[1, 0, 0], [2, 0, 0]]
    assert decoded(offsets, ANCHORS)[0, 0].tolist() == pytest.approx([2, 2, 22, 22], abs=1e-3)


def test_offsets_are_those_of_their_boxes():
    boxes = torch.rand(2, 3, 2) * 20
    boxes = torch.cat([boxes, boxes + 5 + torch.rand(2, 3, 2) * 20], -1)

    assert decoded(encoded(boxes, ANCHORS), ANCHORS) == pytest.approx(boxes.numpy(), abs=1e-3)
    assert overlaps(ANCHORS[None, :1], ANCHORS[None, 1:2]).item() == pytest.approx(100 / 700)


def test_of_answers_that_overlap_the_surest_of_a_class_is_kept():
    boxes = torch.tensor([[0.0, 0, 20, 20], [1, 1, 21, 21], [30, 30, 40, 40], [0, 0, 20, 20]])
    logits = torch.tensor([[0.0, 4, 0], [0, 5, 0], [0, 3, 0], [0, 0, 3]])

    (answers,) = detections(logits[None], boxes[None], 48)

    sure = answers[answers[:, 5] > 0.5]
    assert sure[:, 4].tolist() == [1, 1, 2]
    assert sure[0, :4].tolist() == [1, 1, 21, 21]


def test_a_perfect_detector_has_every_box(folder):
    pytest.importorskip("pycocotools")
    learner = Detection(str(folder), side=48)
    (batch,) = learner.batches("valid")

    metric = learner.metric(Oracle(batch[1], 3), [batch])

    assert (metric.name, metric.value) == ("mAP", pytest.approx(1.0))
    assert metric.interval == pytest.approx((1.0, 1.0))
    assert learner.classes == ("background", "class 1", "class 2")


def test_the_interval_is_of_resampled_images_as_coco_judges_them(folder):
    pytest.importorskip("pycocotools")
    learner, rng = Detection(str(folder), side=48), np.random.default_rng(0)
    objects = learner.scenes.targets[:12]
    shifted = objects + torch.tensor(rng.uniform(-4, 4, objects.shape)) * (objects[..., 4:] > 0)
    scores = torch.tensor(rng.random((12, 1, 1)))
    objects[5, 0, 4] *= -1  # a crowd
    pairs = [
        (truth, torch.cat([boxes[:, :4], truth[:, 4:].abs(), score], 1).float())
        for truth, boxes, score in zip(objects, shifted, scores, strict=True)
    ]
    counts = rng.multinomial(12, np.full(12, 1 / 12), 3)

    means = resampled_precisions(_judged(pairs, 2), counts)

    for mean, times in zip(means, counts, strict=True):
        drawn = [pair for pair, n in zip(pairs, times, strict=True) for _ in range(n)]
        assert mean == pytest.approx(np.nanmean(_precisions(_judged(drawn, 2))))
    assert means.std() > 0.01


def test_mirrored_boxes_stay_on_their_objects(folder):
    learner = Detection(str(folder), side=48)
    torch.manual_seed(1)
    (images, objects) = next(iter(learner.batches("train")))

    for image, (left, top, right, bottom, label) in zip(
        images, objects[:, 0].int().tolist(), strict=True
    ):
        inside = image[label - 1, top:bottom, left:right]
        assert inside.min() > 1.5


def test_crowds_are_judged_as_coco_does_and_not_learnt(folder):
    pytest.importorskip("pycocotools")
    _changed("annotations", lambda every: [each.update(iscrowd=1) for each in every[:1]])(folder)
    learner = Detection(str(folder), side=48)
    crowd = next(at for at, file in enumerate(learner.scenes.files) if file.name == "0.png")
    objects = learner.scenes.targets[[crowd, 1]]

    classes, _ = matched(ANCHORS, objects)
    metric = learner.metric(Oracle(objects.abs(), 3), [(torch.zeros(2, 3, 48, 48), objects)])

    assert not classes[0].any()
    assert metric.value == pytest.approx(1.0)  # an answer to a crowd is neither right nor wrong


def test_findings_show_the_worst_images_beside_the_truth(folder):
    pytest.importorskip("pycocotools")
    learner = Detection(str(folder), side=48)
    (batch,) = learner.batches("test")

    findings = learner.findings(Oracle(batch[1] * torch.tensor([1, 1, 1, 1, 0.0]), 3))

    assert [each.value for each in findings.classes] == [0.0] * len(findings.classes)
    assert [each.caption.split()[0] for each in findings.pictures] == ["1", "1"]


def test_a_metric_that_cannot_be_computed_is_refused_before_a_training(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pycocotools.coco", None)

    with pytest.raises(UserError, match="pycocotools"):
        LearnerData.checked(Detection(str(folder), side=48))


def _changed(key, change):
    def damage(folder):
        path = folder / "annotations.json"
        content = json.loads(path.read_text())
        change(content[key])
        path.write_text(json.dumps(content))

    return damage


def _described(folder):
    learner = Detection(str(folder), side=48)
    return learner, "\n".join(learner.scenes.report)


@pytest.mark.parametrize(
    ("damage", "named", "boxes"),
    [
        (_changed("annotations", lambda each: each[3].update(bbox=[40, 0, 20, 10])), "3.png", 20),
        (_changed("annotations", lambda each: each[3].update(bbox=[4, 0, 0, 10])), "3.png", 19),
        (
            _changed("annotations", lambda each: each[3].update(bbox=[4, math.nan, 5, 5])),
            "3.png",
            19,
        ),
        (_changed("annotations", lambda each: each[3].update(bbox=[60, 0, 5, 5])), "3.png", 19),
        (_changed("annotations", lambda each: each[3].update(image_id=99)), "99", 19),
        (_changed("annotations", lambda each: each[3].update(category_id=99)), "99", 19),
        (_changed("annotations", lambda each: each[3].pop("bbox")), "3.png", 19),
        (_changed("annotations", lambda each: each[3].update(bbox="4")), "3.png", 19),
        (_changed("categories", lambda each: each.append({"id": 7, "name": "cat"})), "cat", 20),
        (_changed("annotations", lambda each: each[3].update(bbox=[4, 4, 0.9, 9])), "narrower", 19),
        (_changed("images", lambda each: each[3].update(file_name="3\0.png")), "3?.png", 19),
        (_changed("images", lambda each: each[3].update(file_name="\ud800.png")), "?.png", 19),
        (lambda folder: (folder / "images" / "3.png").unlink(), "3.png", 19),
        (lambda folder: (folder / "images" / "3.png").write_bytes(b"x"), "3.png", 19),
    ],
)
def test_one_bad_row_or_file_is_left_out_and_counted(folder, damage, named, boxes):
    damage(folder)

    learner, report = _described(folder)

    assert int((learner.scenes.targets[..., 4] != 0).sum()) == boxes
    assert "left out" in report
    assert named in report
    assert len(learner.classes) == 3


def test_boxes_that_are_hardly_seen_are_counted_and_drawn(folder):
    _changed("annotations", lambda each: [row.update(bbox=[4, 4, 1.5, 9]) for row in each[:2]])(
        folder
    )

    learner, report = _described(folder)

    assert "2 boxes are under 2 pixels at side=48" in report
    pixels = learner.scenes.pixels[0].numpy()
    narrow = torch.tensor([[4.0, 4, 5, 13, 1], [4.0, 4, 4.2, 4.1, 1]])
    assert learner._drawn(pixels, narrow).shape == pixels.shape


def _every(key, change):
    return _changed(key, lambda rows: [change(row) for row in rows])


@pytest.mark.parametrize(
    "change",
    [
        _every("annotations", lambda row: row.update(image_id=str(row["image_id"]))),
        _every("annotations", lambda row: row.update(category_id=float(row["category_id"]))),
        _every("images", lambda row: row.update(width=48.0, height="48")),
        _every("images", lambda row: [row.pop("width"), row.pop("height")]),
        _every("images", lambda row: row.update(file_name=f"images/{row['file_name']}")),
        lambda folder: (folder / "annotations.json").write_text(
            "\ufeff" + (folder / "annotations.json").read_text()
        ),
        _every(
            "annotations",
            lambda row: row.update(
                segmentation=[[
                    row["bbox"][0], row["bbox"][1],
                    row["bbox"][0] + row["bbox"][2], row["bbox"][1] + row.pop("bbox")[3],
                ]]
            ),
        ),
    ],
)  # fmt: skip
def test_the_same_rows_in_other_words_are_read_alike(folder, change):
    before, _ = _described(folder)
    change(folder)

    after, report = _described(folder)

    assert torch.equal(after.scenes.targets, before.scenes.targets)
    assert "left out" not in report


def _as_yolo(folder, source):
    (folder / "labels").mkdir()
    for image, boxes in zip(source.scenes.files, source.scenes.targets, strict=True):
        lines = []
        for left, top, right, bottom, label in (boxes[boxes[:, 4] != 0] / 48).tolist():
            x, y, width, height = (left + right) / 2, (top + bottom) / 2, right - left, bottom - top
            lines.append(f"{round(48 * label) - 1} {x} {y} {width} {height}")
        (folder / "labels" / f"{image.stem}.txt").write_text("\n".join(lines))
    text = "names: [class 1, class 2, unused]\ntrain: ../images\n"
    (folder / "data.yaml").write_text(text)


def _as_voc(folder, source):
    (folder / "Annotations").mkdir()
    (folder / "images").rename(folder / "JPEGImages")
    for image, boxes in zip(source.scenes.files, source.scenes.targets, strict=True):
        objects = ""
        for *corners, label in boxes[boxes[:, 4] != 0].tolist():
            names = ("xmin", "ymin", "xmax", "ymax")
            box = "".join(f"<{n}>{c}</{n}>" for n, c in zip(names, corners, strict=True))
            objects += f"<object><name>class {int(label)}</name><bndbox>{box}</bndbox></object>"
        text = f"<annotation><filename>{image.name}</filename>{objects}</annotation>"
        (folder / "Annotations" / f"{image.stem}.xml").write_text(text)


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("names: [[a, b]]\ntrain: images", "names"),
        ("names: [a]\ntrain: [[images]]", "train"),
        ("names: [a]\npath: [images]\ntrain: images", "path"),
    ],
)
def test_lists_within_lists_of_a_yaml_file_which_may_stand_for_billions_are_refused(
    folder, text, setting
):
    (folder / "annotations.json").unlink()
    (folder / "data.yaml").write_text(text)

    with pytest.raises(UserError, match=f"data.yaml: .*{setting}"):
        Annotations(folder)


def test_label_studios_file_of_coco_is_read(folder):
    (folder / "annotations.json").rename(folder / "result.json")

    assert len(Annotations(folder).images) == 20


def test_names_of_a_yaml_file_are_read_as_they_are_written(folder):
    before, _ = _described(folder)
    (folder / "annotations.json").unlink()
    _as_yolo(folder, before)
    (folder / "data.yaml").write_text("names: {0: no, 1: 2024-05-17}\ntrain: images\nval:\n")

    assert Annotations(folder).classes == ("no", "2024-05-17")


def test_the_list_of_classes_is_that_of_data_yaml_and_equal_names_are_one_class(folder):
    before, _ = _described(folder)
    (folder / "annotations.json").unlink()
    _as_yolo(folder, before)
    (folder / "args.yaml").write_text("names: [x, y]\ntrain: images\n")
    (folder / "data.yaml").write_text("names: [cat, cat]\ntrain: images\n")

    annotations = Annotations(folder)

    assert annotations.classes == ("cat",)
    assert "categories of the same name are one class: cat" in annotations.report
    assert "left out, other lists of classes: 1 (args.yaml)" in annotations.report


@pytest.mark.parametrize("row", ["0 30 20 10 10", "0 50 50 20 20", "0 0.6 0.7 0.8 0.9"])
def test_pixels_percents_and_corners_of_yolo_are_refused(folder, row):
    before, _ = _described(folder)
    (folder / "annotations.json").unlink()
    _as_yolo(folder, before)
    for file in (folder / "labels").iterdir():
        file.write_text(row)

    with pytest.raises(UserError, match=r"20 of 20 boxes reach beyond .*centre.* fractions"):
        Annotations(folder)


@pytest.mark.parametrize(("scale", "hint"), [(1 / 48, "fractions"), (3, "20 of 20 boxes .*pixels")])
def test_other_units_of_voc_are_refused(folder, scale, hint):
    before, _ = _described(folder)
    (folder / "annotations.json").unlink()
    _as_voc(folder, before)
    for file in (folder / "Annotations").iterdir():
        corners = "".join(f"<{n}>{scale * c}</{n}>" for n, c in _CORNERS.items())
        size = "<size><width>48</width><height>48</height></size>"
        text = f"<object><name>a</name><bndbox>{corners}</bndbox></object>"
        file.write_text(f"<annotation>{size}{text}</annotation>")

    with pytest.raises(UserError, match=hint):
        Annotations(folder)


def test_boxes_of_yolo_with_keypoints_are_those_before_them(folder):
    before, _ = _described(folder)
    (folder / "annotations.json").unlink()
    _as_yolo(folder, before)
    for file in (folder / "labels").iterdir():
        lines = file.read_text().splitlines()
        file.write_text("\n".join(f"{line} .01 .01 2 .99 .99 2" for line in lines))
    with (folder / "data.yaml").open("a") as file:
        file.write("kpt_shape: [2, 3]\n")

    after, report = _described(folder)

    expected, read = (
        {file.name: boxes for file, boxes in zip(each.files, each.targets, strict=True)}
        for each in (before.scenes, after.scenes)
    )
    assert all(torch.allclose(read[name], boxes) for name, boxes in expected.items())
    assert "keypoints are not read" in report


def test_a_category_whose_name_cannot_be_seen_is_left_out(folder):
    _changed("categories", lambda each: each[1].update(name="\u200b"))(folder)

    found = Annotations(folder)

    assert found.classes == ("class 1",)
    assert found.not_counted["rows of category without id or name"] == ["?"]


@pytest.mark.parametrize("write", [_as_yolo, _as_voc])
def test_yolo_and_voc_are_read_as_coco_is(folder, write):
    before, _ = _described(folder)
    (folder / "annotations.json").unlink()
    write(folder, before)

    after, _ = _described(folder)

    assert after.classes == before.classes
    both = (
        {
            file.name: boxes
            for file, boxes in zip(each.scenes.files, each.scenes.targets, strict=True)
        }
        for each in (before, after)
    )
    expected, found = both
    assert expected.keys() == found.keys()
    assert all(torch.allclose(found[name], expected[name], atol=1e-3) for name in found)


@pytest.mark.parametrize("name", ["_annotations.coco.json", "annotations/instances_{}2017.json"])
def test_files_of_splits_are_splits(folder, name):
    content = json.loads((folder / "annotations.json").read_text())
    (folder / "annotations.json").unlink()
    parts = {"train": range(12), "val": range(12, 16), "test": range(16, 20)}
    for split, numbers in parts.items():
        rows = {
            **content,
            "images": [each for each in content["images"] if each["id"] in numbers],
            "annotations": [each for each in content["annotations"] if each["image_id"] in numbers],
        }
        path = folder / name.format(split) if "/" in name else folder / split / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(rows))
        if "/" not in name:
            for number in numbers:
                (folder / "images" / f"{number}.png").rename(path.parent / f"{number}.png")

    learner, _ = _described(folder)

    for split, numbers in parts.items():
        positions = learner.scenes.splits[split.replace("val", "valid")].tolist()
        assert {int(learner.scenes.files[at].stem) for at in positions} == {*numbers}


def test_images_of_one_name_belong_to_the_split_of_their_annotations(folder):
    content = json.loads((folder / "annotations.json").read_text())
    (folder / "annotations.json").unlink()
    (folder / "annotations").mkdir()
    for split, first in (("train", 0), ("val", 10)):
        images = folder / f"{split}2017"
        images.mkdir()
        for number in range(first, first + 10):
            name = f"{number - first}.png"  # the same names in both folders
            (folder / "images" / f"{number}.png").rename(images / name)
            content["images"][number]["file_name"] = name
        numbers = range(first, first + 10)
        rows = {
            **content,
            "images": [content["images"][number] for number in numbers],
            "annotations": [each for each in content["annotations"] if each["image_id"] in numbers],
        }
        (folder / "annotations" / f"instances_{split}2017.json").write_text(json.dumps(rows))

    scenes = _described(folder)[0].scenes

    assert {scenes.files[at].parent.name for at in scenes.splits["valid"].tolist()} == {"val2017"}
    assert len(scenes.splits["valid"]) == 10


def test_the_only_annotation_file_needs_no_split_in_its_name(folder):
    (folder / "annotations").mkdir()
    (folder / "annotations.json").rename(folder / "annotations" / "instances_default.json")

    assert len(_described(folder)[0].scenes.files) == 20


@pytest.mark.parametrize(
    ("damage", "hint"),
    [
        (_changed("images", lambda each: each[5].update(width=96, height=96)), "5.png"),
        (_changed("images", lambda each: each[1].update(id=0)), "image ids are repeated .0"),
        (
            _changed("images", lambda each: each[1].update(file_name="0.png")),
            "0.png more than once",
        ),
        (_changed("categories", lambda each: each[1].update(id=1)), "category ids are repeated"),
        (
            _every("annotations", lambda row: row.update(bbox=[x / 48 for x in row["bbox"]])),
            "fractions",
        ),
        (_every("annotations", lambda row: row.update(bbox=[30, 30, 47, 47])), "corners"),
        (lambda folder: (folder / "annotations.json").write_text('{"images": 3}'), "COCO"),
        (_changed("images", lambda each: each[0].update(file_name="../x.png")), "x.png"),
        (_changed("images", lambda each: each[0].update(width=10**9)), "1000000000"),
        (lambda folder: (folder / "annotations.json").unlink(), "annotations.json"),
        (lambda folder: (folder / "annotations.json").write_text("["), "annotations.json"),
    ],
)
def test_annotations_that_do_not_fit_are_refused(folder, damage, hint):
    damage(folder)

    with pytest.raises(UserError, match=hint):
        Detection(str(folder), side=48)


@pytest.mark.parametrize(
    ("name", "content", "hint"),
    [
        (
            "annotations.xml",
            "<annotations><version>1.1</version></annotations>",
            "datum convert -i .* -f coco_instances",
        ),
        ("0.json", '{"version": "5", "shapes": [], "imagePath": "0.png"}', "labelme2coco"),
        (
            "p.json",
            '[{"id": 1, "annotations": [], "data": {"image": "0.png"}}]',
            "Label Studio's: export",
        ),
        ("json/0.json", '{"version": "5", "shapes": []}', "labelme2coco .*json;"),
        (
            "result.json",
            '[{"image": "0.png", "label": [{"rectanglelabels": ["a"]}]}]',
            "Label Studio's: export",
        ),
        ("labelTxt/0.txt", "0 0 2 0 2 2 0 2 cat 0", "class x1 y1 x2 y2 x3 y3 x4 y4"),
        ("boxes.csv", "file,label,x1,y1,x2,y2", "class x y width height"),
        ("train-export.csv", "image,xmin,ymin,xmax,ymax,label", "datum convert"),
    ],
)
def test_annotations_of_another_program_are_refused_with_what_converts_them(
    folder, name, content, hint
):
    (folder / "annotations.json").unlink()
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(content)

    with pytest.raises(UserError, match=hint):
        Annotations(folder)


def test_a_folder_of_a_split_may_have_another_of_its_names(folder):
    before, _ = _described(folder)
    (folder / "annotations.json").unlink()
    _as_yolo(folder, before)
    for split in ("train", "val"):
        (folder / split).mkdir()
        for name in ("images", "labels"):
            (folder / split / name).mkdir()
    for number in range(20):
        split = "train" if number < 15 else "val"
        for name in (f"images/{number}.png", f"labels/{number}.txt"):
            (folder / name).rename(folder / split / name)
    text = "names: [class 1, class 2]\ntrain: ../train/images\nval: ../valid/images\n"
    (folder / "data.yaml").write_text(text)

    annotations = Annotations(folder)

    assert sum(len(each.boxes) for each in annotations.images) == 20
    assert [each.part.name for each in annotations.images].count("valid") == 5
    assert any("../valid/images" in line for line in annotations.report)


@pytest.mark.parametrize("limit", ["_MOST_BYTES", "_free_bytes"])
def test_a_file_that_does_not_fit_into_memory_is_refused_with_the_way_out(
    folder, monkeypatch, limit
):
    monkeypatch.setattr("nas.fit.learners.annotations._LARGE", 100)
    value = 1000 if limit == "_MOST_BYTES" else lambda: 1000.0
    monkeypatch.setattr(f"nas.fit.learners.annotations.{limit}", value)

    with pytest.raises(UserError, match=r"annotations\.json has .* leave out `segmentation`"):
        Annotations(folder)


def test_boxes_of_persons_with_keypoints_are_read_where_there_are_no_others(folder):
    (folder / "annotations").mkdir()
    (folder / "annotations.json").rename(folder / "annotations" / "person_keypoints_train.json")
    (folder / "annotations" / "captions_train.json").write_text("{}")

    annotations = Annotations(folder)

    assert sum(len(each.boxes) for each in annotations.images) == 20
    assert any("captions_train.json" in line for line in annotations.report)


@pytest.mark.parametrize("orientation", [5, 6, 7, 8])
def test_boxes_on_stored_pixels_are_turned_as_the_photo_is(folder, orientation):
    stored = Image.new("RGB", (48, 32))
    stored.paste((255, 255, 255), (6, 4, 24, 12))
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored.save(folder / "images" / "0.png", exif=exif)
    _changed("images", lambda each: each[0].update(width=48, height=32))(folder)
    _changed("annotations", lambda each: each[0].update(bbox=[6, 4, 18, 8]))(folder)

    learner = Detection(str(folder), side=48)

    left, top, right, bottom, _ = learner.scenes.targets[0, 0].round().int().tolist()
    white = learner.scenes.pixels[0, ..., 0] > 128
    assert white[top:bottom, left:right].all()
    assert int(white.sum()) == (bottom - top) * (right - left)
    assert any("1 (0.png)" in line for line in learner.describe().report)


def test_given_splits_that_share_images_are_refused_or_told(folder):
    content = json.loads((folder / "annotations.json").read_text())
    (folder / "annotations.json").unlink()
    for split, ids in (("train", range(14)), ("val", range(14, 17)), ("test", range(17, 20))):
        part = {
            **content,
            "images": [row for row in content["images"] if row["id"] in ids],
            "annotations": [row for row in content["annotations"] if row["image_id"] in ids],
        }
        (folder / "annotations").mkdir(exist_ok=True)
        (folder / "annotations" / f"instances_{split}.json").write_text(json.dumps(part))
    assert not any("too good" in line for line in Detection(str(folder)).describe().report)
    images = folder / "images"
    Image.open(images / "1.png").resize((40, 40)).resize((48, 48)).save(images / "18.png")

    told = Detection(str(folder)).describe().report

    assert any(
        "test images that are nearly equal to training images: 1 of 3" in line for line in told
    )
    (images / "18.png").write_bytes((images / "1.png").read_bytes())
    with pytest.raises(UserError, match="test images that are training images, too: 1 of 3"):
        Detection(str(folder))


def test_images_may_lie_in_folders_of_splits_as_coco_has_them(folder):
    content = json.loads((folder / "annotations.json").read_text())
    (folder / "annotations.json").unlink()
    (folder / "annotations").mkdir()
    for split in ("train", "val"):
        if split == "val":
            for key, field in (("images", "id"), ("annotations", "image_id")):
                content[key] = [row for row in content[key] if row[field] < 10]
        (folder / "images" / split).mkdir()
        (folder / "annotations" / f"captions_{split}.json").write_text("{}")
        (folder / "annotations" / f"instances_{split}.json").write_text(json.dumps(content))
        for number in range(20 if split == "train" else 10):
            file = folder / "images" / f"{number}.png"
            (folder / "images" / split / file.name).write_bytes(file.read_bytes())
    for number in range(20):
        (folder / "images" / f"{number}.png").unlink()
    (folder / "images" / "val" / "new.png").write_bytes(b"")

    found = Annotations(folder)

    parents = [image.file.parent.name for image in found.images]
    assert (parents.count("train"), parents.count("val")) == (20, 10)
    assert found.not_counted["images without annotations"] == ["images/val/new.png"]


def test_xml_files_may_lie_beside_the_images(folder):
    (folder / "annotations.json").unlink()
    for number in range(3):
        (folder / "images" / f"{number}.png").rename(folder / f"{number}.png")
        box = "<xmin>2</xmin><ymin>3</ymin><xmax>9</xmax><ymax>8</ymax>"
        (folder / f"{number}.xml").write_text(
            f"<annotation><filename>{number}.png</filename><object><name>a</name><bndbox>{box}</bndbox></object>"
            "</annotation>"
        )

    found = Annotations(folder)

    assert [image.boxes for image in found.images] == [[(2, 3, 9, 8)]] * 3
    assert len(found.not_counted["images without annotations"]) == 17


def test_names_of_images_may_begin_with_folders_of_another_machine(folder):
    _every("images", lambda row: row.update(file_name=f"/home/me/set/{row['file_name']}"))(folder)

    assert len(Annotations(folder).images) == 20


_STRANGE = [
    None, -1, 2.5, "x", "", [], {}, math.nan, math.inf, 10**400, "1", "9" * 400, [1, 2], True,
    "../../etc/passwd", "\0", "a" * 5000, {"a": 1}, 1e308,
]  # fmt: skip


def _spoilt(content, random):
    """COCO's content with a few strange values, missing fields and repeated rows."""
    for _ in range(random.randint(1, 3)):
        rows = content[random.choice(["images", "categories", "annotations"])]
        row = random.choice(rows)
        key = random.choice([*row])
        if random.random() < 0.1:
            rows.append(dict(row))
        elif random.random() < 0.2:
            del row[key]
        elif isinstance(row[key], list) and row[key]:
            row[key][0] = random.choice(_STRANGE)
        else:
            row[key] = random.choice(_STRANGE)
    return content


def test_strange_annotations_are_refused_in_one_line_or_counted(folder):
    path, refusals = folder / "annotations.json", []
    plain = path.read_text()
    for seed in range(120):
        content = _spoilt(json.loads(plain), Random(seed))  # noqa: S311 - no secret
        path.write_text(json.dumps(content))
        try:
            found = Annotations(folder)
        except UserError as error:
            refusals.append(str(error))
            continue
        told = [
            len(names)
            for reason, names in found.not_counted.items()
            if reason.startswith(("annotations", "boxes"))
        ]
        boxes = sum(len(image.boxes) for image in found.images)
        assert boxes + sum(told) == len(content["annotations"])
    assert 5 < len(refusals) < 60
    assert not any("\n" in line for line in refusals)
