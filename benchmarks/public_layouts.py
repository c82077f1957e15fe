"""Claim: public layouts of images are read as an independent reader reads them, or refused with a way out that works.

    $ pip install 'datumaro[cli]' pycocotools; python -m benchmarks.public_layouts DATUMARO/tests/assets

The files are Datumaro's own test files, which stay where they are. Splits, labels, boxes in pixels and pixels of masks are
compared with Datumaro's, or, where it reads them otherwise or not at all, with pycocotools' or those of the parsers below.
What is refused with a command is converted by that command, and compared with what Datumaro reads of that. Prints a row for each layout;
exit status 1: one was read differently.
"""

from __future__ import annotations

import argparse
import csv
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias
from xml.etree import ElementTree as ET

import datumaro
import numpy as np
from PIL import Image
from pycocotools.coco import COCO

from edgenas_core.types.errors import UserError
from nas.fit.data.class_folders import IMAGE_SUFFIXES, split_in
from nas.fit.data.faults import check_classes
from nas.fit.data.groups import DataOptions
from nas.fit.data.image_set import Target
from nas.fit.data.open import source_of
from nas.fit.data.splits import ImagePart
from nas.fit.learners.annotations import Annotations
from nas.fit.learners.segmentation import numbers_of, scene_masks

Labels: TypeAlias = "Counter[tuple[object, ...]]"
"""Rows of split, name of an image, and its label, box or pixels of a number."""

LAYOUTS = {
    "detection": {
        "coco_dataset/coco": "coco_instances",
        "coco_dataset/coco_instances": "coco_instances",
        "coco_dataset/coco_roboflow": "roboflow_coco",
        "coco_dataset/mmdet_coco": "mmdet_coco",
        "coco_dataset/coco_stuff": "coco_stuff",
        "coco_dataset/coco_person_keypoints": "coco_person_keypoints",
        "kaggle_dataset/relaxed_coco": "own: COCO",
        "kaggle_dataset/relaxed_voc1": "own: VOC",
        "kaggle_dataset/relaxed_voc2": "own: VOC",
        "roboflow_dataset/coco": "roboflow_coco",
        "roboflow_dataset/voc": "roboflow_voc",
        "roboflow_dataset/yolo": "roboflow_yolo",
        "roboflow_dataset/yolo_obb": "dota",
        "roboflow_dataset/createml": "roboflow_create_ml",
        "voc_dataset/voc_dataset1": "voc_detection",
        "voc_dataset/voc_dataset3": "voc_detection",
        "yolo_dataset/strict": "yolo",
        "yolo_dataset/labels": "yolo",
        "kaggle_dataset/relaxed_yolo": "yolo",
        "kaggle_dataset/image_csv_det": "own: table",
        "cvat_dataset/for_images/export_task": "cvat",
        "cvat_dataset/for_images/export_project": "cvat",
        "cvat_dataset/for_video": "cvat",
        "labelme_dataset": "label_me",
        "vott_csv_dataset/dataset": "vott_csv",
        "vott_json_dataset/dataset": "vott_json",
        "widerface_dataset": "wider_face",
        "open_images_dataset/v6": "open_images",
        "dota_dataset": "dota",
        "kitti_dataset/kitti_detection": "kitti_detection",
        "mot_dataset/mot_seq": "mot_seq",
    },
    "segmentation": {
        "camvid_dataset": "camvid",
        "cityscapes_dataset/train_dataset": "cityscapes",
        "cityscapes_dataset/dataset": "cityscapes",
        "common_semantic_segmentation_dataset/dataset": "common_semantic_segmentation",
        "kaggle_dataset/image_mask": "own: masks",
        "kaggle_dataset/image_mask_with_labelmap": "own: masks",
        "voc_dataset/voc_dataset1": "voc_segmentation",
        "kitti_dataset/kitti_segmentation": "kitti_segmentation",
        "synthia_dataset/rand": "synthia_rand",
        "mots_dataset": "mots",
        "ade20k2017_dataset/dataset": "ade20k2017",
        "mapillary_vistas_dataset": "mapillary_vistas",
    },
    "classification": {
        "explore_dataset": "own: folders",
        "imagenet_dataset": "own: folders",
        "imagenet_subsets_dataset": "own: folders",
        "vgg_face2_dataset": "own: folders",
        "lfw_dataset": "lfw",
        "imagenet_txt_dataset/basic": "imagenet_txt",
        "kaggle_dataset/image_csv": "own: table",
        "kaggle_dataset/image_csv_multi_label": "own: table",
        "kaggle_dataset/image_txt": "own: table",
        "roboflow_dataset/multiclass": "roboflow_multiclass",
        "celeba_dataset/dataset": "celeba",
        "market1501_dataset": "market1501",
        "mvtec_dataset/category_0": "mvtec_classification",
        "camvid_dataset": "camvid",
        "cityscapes_dataset/dataset": "cityscapes",
        "mots_dataset": "mots",
        "kitti_dataset/kitti_segmentation": "kitti_segmentation",
        "synthia_dataset/rand": "synthia_rand",
        "mapillary_vistas_dataset": "mapillary_vistas",
    },
}
"""Independent readers by task and folder: Datumaro's name of the form, or a parser of `OWN`."""


def split_of(name: str) -> str:
    """Name of a split as both readers have it."""
    part = split_in(name)
    return ImagePart.train.name if part is None else part.name


def box_row(split: str, name: str, label: str, corners: object) -> tuple[object, ...]:
    """A row of a box, whose corners are pixels."""
    return split, name, label, *np.round(np.array(corners, float), 1).tolist()


def ours(folder: Path, task: str) -> tuple[Labels, int, tuple[str, ...]]:
    """Rows that this project reads, the number of images, and what it says that it leaves out.

    Raises:
      UserError: if it refuses the layout.
    """
    if task == "detection":
        annotations = Annotations(folder)
        rows = Counter()
        for image in annotations.images:
            sides = Image.open(image.file).size if annotations.has_fractions else (1, 1)
            for label, box in zip(image.labels, image.boxes, strict=True):
                corners = np.array(box) * [*sides, *sides]
                rows[box_row(image.part.name, image.file.stem, label, corners)] += 1
        return rows, len(annotations.images), annotations.report
    if task == "segmentation":
        files, masks, parts, lines = scene_masks(folder)
        rows = Counter()
        for file, mask, part in zip(files, masks, parts, strict=True):
            with Image.open(mask) as image:
                size = image.size
            _, counts = np.unique(numbers_of(mask, max(size), folder)[0], return_counts=True)
            counts = counts * size[0] * size[1] // max(size) ** 2  # was stretched to a square
            name = file.stem.removesuffix("_leftImg8bit")
            rows.update((ImagePart(part).name, name, each) for each in counts.tolist())
        return rows, len(files), lines
    listing = source_of(DataOptions.of(str(folder)), Target.classification).listing()
    check_classes(listing.labels, listing.parts, listing.classes, "", each=False)
    rows = Counter(
        (ImagePart(part).name, Path(name).stem, listing.classes[label])
        for name, part, label in zip(listing.names, listing.parts, listing.labels, strict=True)
    )
    return rows, len(listing.names), listing.report


def datumaros(folder: Path, form: str, task: str) -> Labels:
    """Rows that Datumaro reads."""
    data = datumaro.Dataset.import_from(str(folder), form)
    labels = data.categories().get(datumaro.AnnotationType.label)
    rows = Counter()
    for item in data:
        split, name = split_of(item.subset), Path(item.id.replace(":", "/")).name
        # COCO's objects have a box and a polygon, others one of them
        is_coco = "coco" in form and any(each.type.name == "bbox" for each in item.annotations)
        shapes = ("bbox",) if is_coco else ("bbox", "polygon", "mask")
        numbers, names = None, []
        for each in sorted(item.annotations, key=lambda each: getattr(each, "z_order", 0)):
            kind = each.type.name
            if task == "detection" and kind in shapes and each.label is not None:
                x, y, width, height = each.get_bbox()
                corners = (x, y, x + width, y + height)
                rows[box_row(split, name, labels[each.label].name, corners)] += 1
            elif task == "segmentation" and kind == "mask" and each.label is not None:
                numbers = np.full(each.image.shape, -1) if numbers is None else numbers
                numbers[each.image > 0] = each.label
            elif task == "classification" and kind == "label":
                names.append(labels[each.label].name)
        if numbers is not None:
            _, counts = np.unique(numbers, return_counts=True)
            rows.update((split, name, each) for each in counts.tolist())
        if names:
            rows[(split, name, "+".join(sorted(names)))] += 1
    return rows


def own_coco(folder: Path) -> Iterator[tuple[object, ...]]:
    """Boxes of annotations.json, by pycocotools."""
    coco = COCO(str(folder / "annotations.json"))
    for each in coco.loadAnns(coco.getAnnIds()):
        x, y, width, height = each["bbox"]
        name = Path(coco.loadImgs(each["image_id"])[0]["file_name"]).stem
        label = coco.loadCats(each["category_id"])[0]["name"]
        yield box_row("train", name, label, (x, y, x + width, y + height))


def own_voc(folder: Path) -> Iterator[tuple[object, ...]]:
    """Boxes of XML files."""
    for file in folder.rglob("*.xml"):
        for each in ET.parse(file).getroot().iter("object"):  # noqa: S314 - Datumaro's own files
            corners = [each.findtext(f"bndbox/{name}") for name in ("xmin", "ymin", "xmax", "ymax")]
            yield box_row("train", file.stem, each.findtext("name"), corners)


def own_masks(folder: Path) -> Iterator[tuple[object, ...]]:
    """Pixels of each number."""
    for file in (folder / "masks").iterdir():
        _, counts = np.unique(np.asarray(Image.open(file)), return_counts=True)
        yield from (("train", file.stem, each) for each in counts.tolist())


def own_folders(folder: Path) -> Iterator[tuple[object, ...]]:
    """Images by the first folder that is no split."""
    for file in folder.rglob("*"):
        above = [part for part in file.relative_to(folder).parts[:-1] if split_in(part) is None]
        if file.suffix.lower() in IMAGE_SUFFIXES and above:
            yield split_of("/".join(file.relative_to(folder).parts[:-1])), file.stem, above[0]


def own_table(folder: Path) -> Iterator[tuple[object, ...]]:
    """Labels of ann.csv: one, or a column of 0 and 1 for each."""
    with (folder / "ann.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            name, *values = row.values()
            flags = [key for key, value in list(row.items())[1:] if value == "1"]
            label = "+".join(sorted(flags)) if {*values} <= {"0", "1"} else values[0]
            yield "train", Path(name).stem, label


OWN = {
    "COCO": own_coco,
    "VOC": own_voc,
    "masks": own_masks,
    "folders": own_folders,
    "table": own_table,
}
"""Parsers of what Datumaro does not read."""


def independent(folder: Path, form: str, task: str) -> Labels:
    """Rows that the independent reader reads."""
    if form.startswith("own: "):
        return Counter(OWN[form.removeprefix("own: ")](folder))
    return datumaros(folder, form, task)


def compared(rows: Labels, others: Labels) -> str:
    """Whether both readers have the same rows."""
    if rows == others:
        return "equal"
    return f"DIFFERENT: missing {[*(others - rows)][:3]}, more {[*(rows - others)][:3]}"


def refused(message: str, folder: Path, form: str, task: str) -> str:
    """What a refusal says, and what comes of the command that it prints."""
    command = re.search(r"datum convert \S+ \S+ -f (.*?)(?: \(|$)", message)
    if command is None:
        return f"refused: {message}"
    with tempfile.TemporaryDirectory() as temporary:
        out = Path(temporary) / "out"
        arguments = command[1].replace(" OUT ", f" {out} ")
        datum = Path(sys.executable).with_name("datum")
        named = "" if form.startswith("own") else f"-if {form}"
        text = f"{datum} convert -i {folder} {named} -f {arguments}"
        done = subprocess.run(text.split(), capture_output=True, check=False)
        if done.returncode:
            return f"refused; THE COMMAND FAILS: {done.stderr.decode().splitlines()[-1]}"
        try:
            rows, _, _ = ours(out, task)
        except UserError as error:
            return f"refused; converted by the command: {str(error).replace(str(out), 'OUT')[:160]}"
        others = datumaros(out, command[1].split()[0], task)
    return f"refused; converted by the command: {compared(rows, others)}"


def main(folder: Path) -> int:
    """Print the rows."""
    print("| task | layout | reader | images there | read | labels | result | left out |")
    print("|---|---|---|---|---|---|---|---|")
    faults = 0
    for task, layouts in LAYOUTS.items():
        for name, form in layouts.items():
            place = folder / name
            there = sum(file.suffix.lower() in IMAGE_SUFFIXES for file in place.rglob("*"))
            try:
                rows, images, left_out = ours(place, task)
                result = compared(rows, independent(place, form, task))
                cells = (images, sum(rows.values()), result, "; ".join(left_out))
            except UserError as error:
                cells = ("", "", refused(str(error), place, form, task), "")
            faults += any(word in cells[2] for word in ("DIFFERENT", "FAILS"))
            shown = (task, name, form, there, *cells)
            print(f"| {' | '.join(map(str, shown))} |".replace(str(folder), "..."), flush=True)
    print(f"{faults} faults")
    return int(faults > 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="Datumaro's tests/assets")
    sys.exit(main(parser.parse_args().folder))
