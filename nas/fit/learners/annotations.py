"""Images with boxes, as COCO's JSON, YOLO's data.yaml or Pascal VOC's XML has them.

One bad row is left out and counted; what contradicts itself is refused.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final
from xml.etree import ElementTree as ET

import yaml

from edgenas_core.files.safe_file import read_text
from edgenas_core.types.errors import UserError
from edgenas_core.types.printable import printable
from nas.fit.data.class_folders import IMAGE_SUFFIXES, SPLITS, clean_name, split_in
from nas.fit.data.splits import ImagePart

ANNOTATIONS = ("annotations.json", "_annotations.coco.json", "result.json")
"""COCO's JSON beside images/, Roboflow's beside the images, and Label Studio's."""

_MOST_OVERHANGING = 0.2
"""Share of boxes that may reach beyond their images; beyond it, they are no left, top, width and height."""

_NO_IMAGES = re.compile("mask|label|annot|segment|thumb", re.IGNORECASE)
"""Part of the names of folders in which no image of an annotation is looked for."""

_OF_COCO = "bbox is left, top, width, height in pixels, not two corners"
_OF_YOLO = (
    "a row is class, x and y of the centre, width and height, as fractions of the image's sides"
)
_OF_VOC = "bndbox is xmin, ymin, xmax, ymax in pixels"

_EXAMPLES = 3

_MOST_BYTES = 2**30
"""Of a JSON file; that of COCO's training images has 470 MB."""

_LARGE, _GROWTH = 2**26, 8
"""Bytes from which a file is compared with the free memory, and how many times as much reading takes."""

_MOST_ABOVE = 8
"""Folders above an image that its name may have and its folder not."""

_MOST_LOOKED_AT = 100
"""Files whose beginnings are looked at for the program that wrote them."""


@final
@dataclass
class BoxedImage:
    """An image with its boxes."""

    file: Path
    part: ImagePart
    size: tuple[int, int] | None  # width and height by the annotations
    boxes: list[tuple[float, float, float, float]] = field(default_factory=list)  # corners
    labels: list[str] = field(default_factory=list)
    is_crowd: list[bool] = field(default_factory=list)


@final
class Annotations:
    """Images of a folder, and what of its annotations does not count."""

    def __init__(self, folder: Path) -> None:
        """Reads the annotations in whichever form they are.

        Raises:
          UserError: if there are none, or they contradict themselves.
        """
        self.folder = folder
        self.images: list[BoxedImage] = []
        below = sorted(
            path
            for form in ("[!.]*", "images/[!.]*")
            for path in folder.glob(form)
            if path.is_dir()
        )
        self._folders = [folder, *(path for path in below if not _NO_IMAGES.search(path.name))]
        self.classes: tuple[str, ...] = ()
        self.has_fractions = False  # boxes are parts of the sides
        self._has_keypoints = False  # stand after each box
        self.turned: list[str] = []  # photos whose boxes are on the pixels as they are stored
        self.not_counted: dict[str, list[str]] = {}  # rows and files by reason
        self.notes: list[str] = []  # lines on what counts, but may surprise
        self._names: dict[str, None] = {}  # of all categories, in their order
        self._by_stem: dict[Path, dict[str, Path]] = {}  # images of folders
        coco = [*_coco_files(folder)]
        yamls = sorted(folder.glob("*.y*ml"), key=lambda file: (file.stem != "data", file))
        lists = [file for file in yamls if "names" in _yaml(file)]
        if coco:
            for file, part in coco:
                self._read_coco(file, part)
            for file in {*_annotation_files(folder)} - {file for file, _ in coco}:
                self.leave_out("annotation files that no split is named in", file.name)
            self._refuse_other_units(coco[0][0], _OF_COCO)
        elif lists:
            self._read_yolo(lists[0])
            for file in lists[1:]:
                self.leave_out("other lists of classes", file.name)
            self._refuse_other_units(lists[0], _OF_YOLO)
        elif voc := _voc_files(folder):
            self._read_voc(voc)
            self._refuse_other_units(folder, _OF_VOC)
        else:
            raise UserError(
                f"data={folder} has no annotations.json (COCO), data.yaml (YOLO) or XML files (Pascal VOC)"
                f"{_way_out(folder)}"
            )
        self._leave_out_unused()
        if not self.images or not self.classes:
            lines = "".join(f"; {line}" for line in self.report)
            raise UserError(f"data={folder} has no image with a box{lines}{_way_out(folder)}")

    def _leave_out_unused(self) -> None:
        """Count images without annotations and categories without boxes."""
        named = {image.file.resolve() for image in self.images}
        for file in sorted(self.folder.rglob("*")):
            inside = file.relative_to(self.folder)
            if (
                _is_image(file)
                and not _NO_IMAGES.search(str(inside))
                and file.resolve() not in named
            ):
                self.leave_out("images without annotations", inside)
        used = {label for image in self.images for label in image.labels}
        self.classes = tuple(name for name in self._names if name in used)
        for name in self._names:
            if name not in used:
                self.leave_out("categories without a box", name)

    @property
    def report(self) -> tuple[str, ...]:
        """A line for each kind of row or file that does not count, and the notes."""
        lines = {f"left out, {reason}": names for reason, names in self.not_counted.items()}
        if self.turned:
            lines["boxes turned as the camera turned the photo"] = self.turned
        counted = (
            f"{reason}: {len(names):,} ({', '.join(names[:_EXAMPLES])}"
            f"{', ...' if len(names) > _EXAMPLES else ''})"
            for reason, names in lines.items()
        )
        return (*self.notes, *counted)

    def leave_out(self, reason: str, name: object) -> None:
        """Count a row or a file that does not count."""
        self.not_counted.setdefault(reason, []).append(printable(str(name))[:100])

    def _name_classes(self, names: Sequence[str]) -> None:
        """Note the classes in their order, and those that several categories are."""
        self._names |= dict.fromkeys(names)
        repeated = [printable(name)[:100] for name, n in Counter(names).items() if n > 1]
        if repeated:
            named = ", ".join(repeated[:_EXAMPLES])
            self.notes.append(f"categories of the same name are one class: {named}")

    def _read_coco(self, path: Path, part: ImagePart) -> None:
        """Read one JSON file."""
        self._refuse_too_large(path)
        try:
            content = json.loads(read_text(path, _MOST_BYTES), object_hook=_without_outline)
            rows = {
                key: self._rows(content, key) for key in ("images", "categories", "annotations")
            }
        except OSError as error:
            raise UserError(f"{path}: {error.strerror}") from error
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            reason = (
                f"it lacks {error}" if isinstance(error, KeyError) else str(error).splitlines()[0]
            )
            raise UserError(
                f"{path} is not COCO's JSON: {reason}{_way_out(self.folder)}"
            ) from error
        self._read_rows(path, part, rows)

    @staticmethod
    def _refuse_too_large(path: Path) -> None:
        """Refuse what would not fit into memory before it is read."""
        size = path.stat().st_size if path.is_file() else 0
        if size > _LARGE and (size > _MOST_BYTES or size > _free_bytes() / _GROWTH):
            raise UserError(
                f"{path} has {size / 2**20:,.0f} MB, too large to be read here; leave out `segmentation` of its "
                f"annotations, which boxes do not need, or split it into one file for each of train, val and test"
            )

    def _rows(self, content: Any, key: str) -> list[dict[str, Any]]:
        rows = content[key]
        if not isinstance(rows, list):
            raise TypeError(f"{key} is no list")
        for row in rows:
            if not isinstance(row, dict):
                self.leave_out(f"rows of {key} that are no objects", row)
        return [row for row in rows if isinstance(row, dict)]

    def _read_rows(
        self, path: Path, part: ImagePart, rows: dict[str, list[dict[str, Any]]]
    ) -> None:
        """Join the rows of one JSON file."""
        names = self._unique(path, "category", rows["categories"], "name")
        self._name_classes([clean_name(name) for name in names.values()])
        files = self._unique(path, "image", rows["images"], "file_name")
        sizes = {_key(row["id"]): _size(row) for row in rows["images"] if "id" in row}
        images = {}
        for key, name in files.items():
            file = self._file(path.parent, name, part)
            if file is not None:
                images[key] = BoxedImage(file, part, sizes[key])
        repeated = [
            file for file, n in Counter(each.file for each in images.values()).items() if n > 1
        ]
        if repeated:
            raise UserError(f"{path} lists the image {repeated[0]} more than once, by several ids")
        for row in rows["annotations"]:
            key, category = _key(row.get("image_id")), _key(row.get("category_id"))
            box = _coco_corners(row)
            if key not in files:
                self.leave_out("annotations of images that are not listed", key)
            elif category not in names:
                self.leave_out("annotations of unknown categories", category)
            elif box is None:
                self.leave_out("annotations without a box", files[key])
            elif key not in images:
                self.leave_out("annotations of images that are not there", files[key])
            else:
                is_crowd = bool(row.get("iscrowd"))
                self._add(images[key], box, clean_name(names[category]), is_crowd=is_crowd)
        self.images += images.values()

    def _unique(
        self, path: Path, kind: str, rows: Sequence[dict[str, Any]], name: str
    ) -> dict[int | str, str]:
        """Names by id; rows without one are left out.

        Raises:
          UserError: if an id has two names.
        """
        named: dict[int | str, str] = {}
        repeated = []
        for row in rows:
            text = row.get(name)
            if row.get("id") is None or not isinstance(text, str) or not clean_name(text):
                self.leave_out(f"rows of {kind} without id or {name}", row.get(name, row.get("id")))
                continue
            key = _key(row["id"])
            if key not in named:
                named[key] = row[name]
            elif named[key] != row[name]:
                repeated.append(str(key))
            else:
                self.leave_out(f"rows of {kind} that repeat another", row[name])
        if repeated:
            raise UserError(
                f"{path}: {len(repeated)} {kind} ids are repeated ({', '.join(repeated[:_EXAMPLES])}), as where files "
                f"are merged without renumbering"
            )
        return named

    def _file(self, folder: Path, name: str, part: ImagePart) -> Path | None:
        """An image of the folder, in images/ or beside the annotations; None if it is not there.

        Of folders that are named after splits, those of the image's split come first: `train2017/` and
        `val2017/` may hold images of the same name.

        Raises:
          UserError: if it lies outside.
        """
        name = name.replace("\\", "/")
        by_split = sorted(self._folders, key=lambda each: split_in(each.name) not in {part, None})
        places = (folder / "images", folder, self.folder / "images", *by_split)
        parts = Path(name).parts
        if ".." in parts:
            raise UserError(f"the image {printable(name)[:200]!r} lies outside {self.folder}")
        # names may begin with folders of the machine that wrote them
        shorter = [Path(*parts[at:]) for at in range(min(_MOST_ABOVE, len(parts)))]
        for path in (place / each for each in shorter for place in places):
            if _is_inside(path, self.folder):
                return path
        self.leave_out("images that are not there", name)
        return None

    def _refuse_other_units(self, path: Path, form: str) -> None:
        """Refuse boxes in another unit, or with other numbers, than those of the form."""
        boxes = [(image, box) for image in self.images for box in image.boxes]
        if boxes and not self.has_fractions and all(max(box) <= 1.01 for _, box in boxes):
            raise UserError(
                f"{path}: all boxes are smaller than a pixel, so these are fractions of the sides; multiply them by "
                f"width and height"
            )
        over = []
        for image, (left, top, right, bottom) in boxes:
            width, height = (1, 1) if self.has_fractions else image.size or (math.inf, math.inf)
            slack = 0 if self.has_fractions else 1
            beyond_width, beyond_height = max(-left, right - width), max(-top, bottom - height)
            if beyond_width > 0.05 * width + slack or beyond_height > 0.05 * height + slack:
                over.append(image.file.name)
        if len(over) > max(1, _MOST_OVERHANGING * len(boxes)):
            raise UserError(
                f"{path}: {len(over)} of {len(boxes)} boxes reach beyond their images ({over[0]}): {form}"
            )

    def _add(
        self, image: BoxedImage, box: Sequence[float], label: str, *, is_crowd: bool = False
    ) -> None:
        left, top, right, bottom = box
        if not all(map(math.isfinite, box)) or not (right > left and bottom > top):
            self.leave_out("boxes without an area", image.file.name)
            return
        image.boxes.append((left, top, right, bottom))
        image.labels.append(label)
        image.is_crowd.append(is_crowd)

    def _read_yolo(self, path: Path) -> None:
        """Read data.yaml, and for each image the text file beside it: class, centre and sides as fractions."""
        content = _yaml(path)
        names = content["names"]
        names = dict(enumerate(names)) if isinstance(names, list) else names
        # lists within lists are refused: a few bytes of YAML's aliases can stand for billions of entries
        if not isinstance(names, dict) or not all(map(_is_plain, names.values())):
            raise UserError(f"{path}: names is no list of classes")
        classes = {
            str(number): clean_name(str(name)) or str(number) for number, name in names.items()
        }
        self._name_classes([*classes.values()])
        self.has_fractions, self._has_keypoints = True, "kpt_shape" in content
        if self._has_keypoints:
            self.notes.append("keypoints are not read, but the boxes before them are")
        for split, part in SPLITS.items():
            places = content.get(split) or []
            places = places if isinstance(places, list) else [places]
            if not all(map(_is_plain, [*places, content.get("path")])):
                raise UserError(f"{path}: {split} or path is no folder, file or list of them")
            for place in places:
                for file in self._yolo_images(
                    path, str(content.get("path") or ""), str(place), part
                ):
                    self._read_yolo_labels(BoxedImage(file, part, None), classes)

    def _yolo_images(self, path: Path, base: str, place: str, part: ImagePart) -> Iterator[Path]:
        """Images of a folder, or of a list of files."""
        plain = place.removeprefix("../").removeprefix("./")
        roots = [self.folder, self.folder / base] if not Path(base).is_absolute() else [self.folder]
        found = next(
            (root / each for root in roots for each in (place, plain) if (root / each).exists()),
            None,
        )
        if found is None:
            found = next((each for each in self._folders if split_in(each.name) == part), None)
            self.notes.append(f"{printable(place)} of {path.name} is not there; {found} is read")
        if found is None or not found.resolve().is_relative_to(self.folder.resolve()):
            raise UserError(
                f"{path}: there is no {printable(place)} in {self.folder}; correct it there"
            )
        if found.is_dir():
            yield from sorted(file for file in found.rglob("*") if _is_image(file))
            return
        for line in filter(None, map(str.strip, read_text(found).splitlines())):
            file = self._file(self.folder, line.removeprefix("./"), part)
            if file is not None:
                yield file

    def _voc_image(self, path: Path, filename: str) -> Path | None:
        """The image of an XML file, by the file's own name or the one that it states."""
        places = (self.folder / "JPEGImages", self.folder / "images", path.parent, self.folder)
        for stem in (path.stem, Path(filename.replace("\\", "/")).stem):
            for place in places:
                # a folder is listed once, whatever the number of XML files
                if place not in self._by_stem:
                    self._by_stem[place] = _images_by_stem(place)
                if stem in self._by_stem[place]:
                    return self._by_stem[place][stem]
        return None

    def _read_yolo_labels(self, image: BoxedImage, classes: dict[str, str]) -> None:
        parts = list(image.file.relative_to(self.folder).parts)
        if "images" in parts:
            parts[len(parts) - 1 - parts[::-1].index("images")] = "labels"
        file = self.folder.joinpath(*parts).with_suffix(".txt")
        try:
            lines = read_text(file).splitlines() if file.is_file() else []
        except (UserError, OSError):
            self.leave_out("images whose label file cannot be read", image.file.name)
            return
        for line in filter(str.strip, lines):
            label, *numbers = line.split()
            try:
                values = [float(number) for number in numbers]
            except ValueError:
                values = []
            is_polygon = len(values) > 5 and not self._has_keypoints
            if label not in classes or len(values) < 4 or (is_polygon and len(values) % 2):
                self.leave_out("rows that are no class and box", f"{file.name}: {line}")
            elif is_polygon:
                self._add(image, _around(values), classes[label])
            else:
                x, y, width, height = values[:4]
                box = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
                self._add(image, box, classes[label])
        self.images.append(image)

    def _read_voc(self, files: Sequence[Path]) -> None:
        """Read the XML files, and the lists of splits in ImageSets/Main; folders of splits name them, too."""
        parts: dict[str, ImagePart] = {}
        for split in ("train", "val", "test"):
            listed = self.folder / "ImageSets" / "Main" / f"{split}.txt"
            if listed.is_file():
                names = [line.split()[0] for line in read_text(listed).splitlines() if line.strip()]
                parts |= dict.fromkeys(names, SPLITS[split])
        for path in files:
            try:
                text = read_text(path)
                if "<!" in text.replace("<!--", ""):  # entities can grow without end
                    raise ValueError("it has a document type")  # noqa: TRY301 - as a damaged one
                root = ET.fromstring(text)  # noqa: S314 - a document type is refused above
            except (ValueError, ET.ParseError, UserError, OSError):
                self.leave_out("XML files that cannot be read", path.name)
                continue
            part = parts.get(path.stem, SPLITS.get(path.parent.name.casefold(), ImagePart.train))
            file = self._voc_image(path, root.findtext("filename") or path.name)
            if file is None:
                self.leave_out("images that are not there", path.stem)
                continue
            sides = {name: root.findtext(f"size/{name}") for name in ("width", "height")}
            size = None if "0" in sides.values() else _size({"file_name": path.name, **sides})
            image = BoxedImage(file, part, size)
            for each in root.iter("object"):
                corners = [
                    each.findtext(f"bndbox/{name}") for name in ("xmin", "ymin", "xmax", "ymax")
                ]
                name = clean_name(each.findtext("name") or "")
                try:
                    box = [float(corner or "nan") for corner in corners]
                except ValueError:
                    box = [math.nan] * 4
                if name:
                    self._names[name] = None
                    is_difficult = each.findtext("difficult") == "1"
                    self._add(image, box, name, is_crowd=is_difficult)
            self.images.append(image)


def _is_inside(path: Path, folder: Path) -> bool:
    """Whether a path is a file below the folder."""
    try:
        return path.is_file() and path.resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError):  # a name that is too long, or has a null character
        return False


def _voc_files(folder: Path) -> list[Path]:
    """Pascal VOC's files: in Annotations/, or beside the images of the folder or of its splits."""
    below = [path for path in folder.iterdir() if path.name.casefold() in {*SPLITS, "annotations"}]
    places = [folder, *below]
    files = sorted(file for place in places for file in place.glob("[!.]*.xml"))
    return [file for file in files if (folder / "Annotations").is_dir() or _begins_as_voc(file)]


def _begins_as_voc(path: Path) -> bool:
    try:
        return re.search(r"<annotation[\s>]", read_text(path)[:2000]) is not None
    except (UserError, OSError):
        return True  # counted when it is read


def _way_out(folder: Path) -> str:
    """What turns annotations of another program into COCO's; nothing where none are known."""
    files = [*sorted(folder.glob("*.json")), *sorted(folder.glob("[!.]*/*.json"))]
    for path in files[:_MOST_LOOKED_AT]:
        try:
            start = read_text(path)[:2000]
        except (UserError, OSError):
            continue
        if '"shapes"' in start:
            return (
                f"; {path.name} is LabelMe's: pip install labelme2coco; labelme2coco {path.parent}; "
                f"mv runs/labelme2coco/dataset.json {folder / 'annotations.json'}"
            )
        is_whole = re.search(r'"(annotations|completions)"\s*:\s*\[', start) is not None
        is_short = re.search(r'"(rectangle|polygon|brush|ellipse)labels"\s*:', start) is not None
        if is_short or (is_whole and '"data"' in read_text(path)):
            return (
                f"; {path.name} is Label Studio's: export it from there as COCO or YOLO with images"
            )
    if any(folder.rglob("labelTxt")):
        return (
            "; labelTxt/ holds turned boxes (DOTA's): export them as COCO or YOLO, or write each into labels/<image>.txt as "
            "`class x1 y1 x2 y2 x3 y3 x4 y4`, fractions of the sides, of which the box around them is read"
        )
    beside = [path for path in folder.glob("*.txt") if path.with_suffix(".jpg").is_file()]
    if (folder / "labels").is_dir() or any(folder.glob("*.names")) or beside:
        return (
            "; YOLO's boxes need a data.yaml there: names: [first class, second class], train: images/train, "
            "val: images/val"
        )
    if any(folder.glob("*.csv")) and not any(folder.glob("*-export.csv")):
        return (
            "; boxes of a table: write each into labels/<image>.txt as `class x y width height`, fractions of the sides (x "
            "and y of the centre), with a data.yaml beside: names: [first class, second class], train: images"
        )
    return f"; to convert other forms: {conversion(folder)}"


def conversion(folder: Path, form: str = "coco_instances", *options: str) -> str:
    """Command that writes annotations of most programs in a form that is read."""
    command = f"datum convert -i {folder} -f {form} -o OUT --overwrite -- --save-media"
    return (
        f"pip install 'datumaro[cli]'; {' '.join((command, *options))} (where it finds several forms, add -if and one of "
        f"them before -f)"
    )


def _coco_files(folder: Path) -> Iterator[tuple[Path, ImagePart]]:
    """COCO's files with their splits: one for all, or those of folders or names as train and val."""
    for name in ANNOTATIONS:
        if (folder / name).is_file():
            yield folder / name, ImagePart.train
            return
    for path in sorted(folder.iterdir()):
        if path.is_dir() and path.name.casefold() in SPLITS:
            for name in ANNOTATIONS:
                if (path / name).is_file():
                    yield path / name, SPLITS[path.name.casefold()]
    files = _annotation_files(folder)
    if len(files) == 1 and split_in(files[0].stem) is None:
        yield files[0], ImagePart.train  # as CVAT's instances_default.json
    # of several kinds of one set, those of all objects, then of others, then of persons alone
    words = {path: {*path.stem.casefold().replace("-", "_").split("_")} for path in files}
    of_boxes = [path for path in files if not words[path] & {"captions", "panoptic"}]
    of_all = [path for path in of_boxes if "instances" in words[path]]
    others = [path for path in of_boxes if "person" not in words[path]]
    for path in of_all or others or of_boxes:
        part = split_in(path.stem)
        if part is not None:
            yield path, part


def _annotation_files(folder: Path) -> list[Path]:
    return sorted((folder / "annotations").glob("[!.]*.json"))


def _free_bytes() -> float:
    import psutil  # noqa: PLC0415 - for large files alone

    return float(psutil.virtual_memory().available)


def _without_outline(row: dict[str, Any]) -> dict[str, Any]:
    """A row without the polygons of an object that has a box; they are most of a file."""
    if row.get("bbox"):
        row.pop("segmentation", None)
    return row


def _key(value: Any) -> int | str:
    """An id: a whole number, also where it is written as a text or a float."""
    text = str(value)[:100].removesuffix(".0")
    return int(text) if text.lstrip("-").isdecimal() and text.count("-") < 2 else text


def _size(row: dict[str, Any]) -> tuple[int, int] | None:
    """Width and height; None where they are not stated."""
    try:
        width, height = float(row["width"]), float(row["height"])
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    if not (0 < width <= 100_000 and 0 < height <= 100_000):
        raise UserError(
            f"the image {printable(str(row.get('file_name')))[:100]} has {width:.0f} x {height:.0f} pixels"
        )
    return round(width), round(height)


def _coco_corners(row: dict[str, Any]) -> tuple[float, float, float, float] | None:
    """Corners of a box, or around polygons where there is no box."""
    try:
        if row.get("bbox"):
            left, top, width, height = (float(value) for value in row["bbox"])
            return left, top, left + width, top + height
        polygons = row["segmentation"]
        return _around([float(value) for polygon in polygons for value in polygon])
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _around(polygon: Sequence[float]) -> tuple[float, float, float, float]:
    return min(polygon[::2]), min(polygon[1::2]), max(polygon[::2]), max(polygon[1::2])


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float)


class _AsWritten(yaml.SafeLoader):
    """Keeps names as they are written: yes, 007 and 2024-05-17 are no truth value, number and date."""


_AsWritten.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in pairs if tag.endswith(":null")]
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _yaml(path: Path) -> dict[str, Any]:
    try:
        content = yaml.load(read_text(path), _AsWritten)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, UserError, OSError, RecursionError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _images_by_stem(folder: Path) -> dict[str, Path]:
    """Images of a folder by their names without the ending; of several the first."""
    files = sorted((file for file in folder.glob("*") if _is_image(file)), reverse=True)
    return {file.stem: file for file in files}


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in IMAGE_SUFFIXES and not path.name.startswith(".")
