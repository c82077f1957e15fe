"""A folder with a folder of images for each class, perhaps with train, val and test above or below the classes."""

from __future__ import annotations

import os
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import final

import numpy as np

from edgenas_core.types.errors import UserError
from edgenas_core.types.printable import printable
from nas.fit.data.groups import GroupRule
from nas.fit.data.source import ImageListing, safe_name, stamp
from nas.fit.data.splits import ImagePart

SPLITS = {
    "train": ImagePart.train,
    "training": ImagePart.train,
    "val": ImagePart.valid,
    "valid": ImagePart.valid,
    "validation": ImagePart.valid,
    "dev": ImagePart.valid,
    "test": ImagePart.test,
    "testing": ImagePart.test,
}
"""Names of folders in any case. Folders of class folders that have one of them are splits."""

_SETS = re.compile(
    r"(fold|day|cam|camera|session|batch|part|set|patient|subject|site|clip|video|scene|seq|sequence|run)s?"
    r"[ _.-]*\d+|\d{4}[-_]?\d\d[-_]?\d\d"
)
"""Names of folders that hold images of one origin: fold1, camera_2, 2024-05-17."""

IMAGE_SUFFIXES = frozenset(
    [
        ".jpg",
        ".jpeg",
        ".jpe",
        ".jfif",
        ".mpo",
        ".png",
        ".bmp",
        ".gif",
        ".tif",
        ".tiff",
        ".webp",
        ".ppm",
        ".pgm",
        ".pbm",
        ".pnm",
    ]
)

_OF_PROGRAMS = {
    "thumbs.db", "desktop.ini", "__macosx", "__pycache__", "lost+found", "system volume information",
    "thumbnails",
}  # fmt: skip
"""Names, in lower case, of files and folders that programs make beside one's images."""

_OF_RUNS = ("config.yaml", "training.json", "summary.json", "export.json")
"""Files of a run's folder, whose pictures are no data."""

_HOW = "put the images of each class into a folder of its name"
_PICTURES = {"images", "imgs", "jpegimages", "image_2", "leftimg8bit", "rgb", "rgbleft"}
"""Names, in lower case, of folders of images beside folders of what they show."""

_TASKS = {
    **dict.fromkeys(
        ("masks", "masks_png", "segmentationclass", "gtfine", "semantic", "instance", "instances"),
        "segmentation",
    ),
    **dict.fromkeys(("gt", "gtleft", "semseg"), "segmentation"),
    **dict.fromkeys(("labels", "annotations", "labeltxt", "label_2"), "detection"),
}
"""Tasks by the names of folders beside images."""
_EXAMPLES = 3


@final
@dataclass
class _Folder:
    """A folder that holds images, itself or in folders below."""

    path: Path
    images: list[Path] = field(default_factory=list)
    folders: list[_Folder] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Name as classes compare it: one Unicode form, without what cannot be seen."""
        return clean_name(self.path.name)

    @property
    def split(self) -> ImagePart | None:
        """Split of its name."""
        return SPLITS.get(self.name.casefold())

    def all_images(self) -> list[Path]:
        """Images of the folder and all below, by path."""
        below = [image for folder in self.folders for image in folder.all_images()]
        return sorted(self.images + below)


@final
class ClassFolders:
    """The images below a folder."""

    def __init__(self, folder: Path, groups: GroupRule | None = None) -> None:
        self._folder, self._groups = folder, groups
        whole = folder.resolve()
        is_split = whole.name.casefold() in SPLITS
        self.title = printable((whole.parent if is_split else whole).name)
        self.name = safe_name(self.title)
        self._left_out: dict[str, list[str]] = {}  # paths by reason
        self._shared: list[str] = []  # names of folders above the classes
        self._sets: list[Path] = []  # these folders

    def key(self) -> str:
        """Digest of the paths, sizes and times of all files."""
        digest = sha256(str(self._folder.resolve()).encode())
        for _, _, file in self._files:
            digest.update(os.fsencode(f"{stamp(file)}\n"))
        digest.update(repr(self._left_out).encode())
        return digest.hexdigest()

    def listing(self) -> ImageListing:
        """Find the images."""
        classes = tuple(sorted({name for _, name, _ in self._files}))
        if not classes:
            left_out = "; ".join(self._report())
            raise UserError(
                f"data={self._folder} has no class folders with images; {_HOW}{left_out and f' ({left_out})'}"
            )
        numbers = {name: number for number, name in enumerate(classes)}
        files = [file for _, _, file in self._files]
        names = [printable(str(file.relative_to(self._folder))) for file in files]
        rule = self._groups
        groups = None if rule is None else rule.of_paths(names)
        if groups is None and self._shared:
            groups = [self._set_of(file, name) for file, name in zip(files, names, strict=True)]
        return ImageListing(
            tuple(map(printable, classes)),
            np.array([numbers[name] for _, name, _ in self._files], np.int64),
            np.array([part for part, _, _ in self._files], np.int8),
            names,
            files,
            tuple(self._report()),
            groups,
        )

    def _set_of(self, file: Path, name: str) -> str:
        """The folder above the classes that a file is in; its own name where there is none."""
        above = (folder for folder in self._sets if file.is_relative_to(folder))
        return next((str(folder.relative_to(self._folder)) for folder in above), name)

    def _report(self) -> list[str]:
        lines = [f"{reason}: {few(paths)}" for reason, paths in self._left_out.items()]
        if self._shared:
            lines.append(
                f"read as sets of images above the classes, each of which stays in one split: "
                f"{few(self._shared)}"
            )
        return lines

    def _leave_out(self, path: Path, reason: str) -> None:
        name = printable(str(path.relative_to(self._folder)))
        self._left_out.setdefault(f"left out, {reason}", []).append(name)

    @cached_property
    def _files(self) -> list[tuple[ImagePart, str, Path]]:
        """Split, class and path of each file, in the order of their paths."""
        whole = self._scan(self._folder, frozenset([self._folder.resolve()]))
        self._refuse_other_tasks(whole)
        root = self._inner(whole)
        self._refuse_other_tasks(root)
        self._refuse_sets_of_classes(root)
        files = []
        for part, above in self._splits_of(root):
            if above is not root:
                self._refuse_other_tasks(above)
            for image in above.images:
                self._leave_out(image, "beside the class folders")
            for folder in self._class_folders(above):
                files += self._of_class(part, folder, is_split=above is not root)
        return sorted(files, key=lambda each: each[2])

    def _scan(self, folder: Path, seen: frozenset[Path]) -> _Folder:
        """The tree of folders with images; links are followed, but in no circle."""
        scanned = _Folder(folder)
        for path in sorted(folder.iterdir()):
            if is_hidden(path.name):
                inside = path.rglob("*") if path.is_dir() else iter([path])
                if any(each.suffix.lower() in IMAGE_SUFFIXES for each in inside):
                    self._leave_out(path, "hidden, or made by a program")
            elif path.is_dir():
                real = path.resolve()
                if real in seen or (path / "CACHEDIR.TAG").exists():
                    self._leave_out(path, "a link in a circle, or a cache")
                elif any((path / name).is_file() for name in _OF_RUNS):
                    self._leave_out(path, "the folder of a run")
                else:
                    below = self._scan(path, seen | {real})
                    if below.images or below.folders:
                        scanned.folders.append(below)
                    else:
                        self._leave_out(path, "without images")
            elif path.is_file():
                self._sort(path, scanned)
        return scanned

    def _sort(self, path: Path, folder: _Folder) -> None:
        if path.suffix.lower() in IMAGE_SUFFIXES or _begins_as_image(path):
            folder.images.append(path)
        elif folder.path == self._folder:
            self._leave_out(path, "beside the class folders")
        else:
            self._leave_out(path, "not JPEG, PNG, BMP, GIF, TIFF, WEBP or PPM")

    @staticmethod
    def _inner(root: _Folder) -> _Folder:
        """The folder within folders that an unpacked archive has: data/data/, train/train/."""
        while not root.images and len(root.folders) == 1:
            (inner,) = root.folders
            if not inner.folders or inner.split is not None:
                break
            root = inner
        return root

    def _splits_of(self, root: _Folder) -> list[tuple[ImagePart, _Folder]]:
        """Splits and the folders that hold their class folders; training alone where none are named."""
        named = [folder for folder in root.folders if folder.split is not None]
        others = [folder for folder in root.folders if folder.split is None]
        with_classes = [folder for folder in named if folder.folders]
        is_one_class = others and len(with_classes) < 2
        if not with_classes or is_one_class:
            if named and not others:
                names = few([folder.name for folder in named])
                raise UserError(
                    f"data={self._folder}: {names} have images, but no class folders; {_HOW}, below {names}"
                )
            return [(ImagePart.train, root)]
        for folder in others:
            self._leave_out(folder.path, "beside the folders of splits")
        if root.images:
            for image in root.images:
                self._leave_out(image, "beside the folders of splits")
        splits = []
        for folder in named:
            inner = folder
            while not inner.images and len(inner.folders) == 1 and inner.folders[0].folders:
                (inner,) = inner.folders
            splits.append((folder.split or ImagePart.train, inner))
        return splits

    def _class_folders(self, above: _Folder) -> list[_Folder]:
        """Folders of classes; those below folds, days or cameras, where all are named so."""
        are_sets = len(above.folders) > 1 and all(
            _SETS.fullmatch(folder.name.casefold())
            and not folder.images
            and len(folder.folders) > 1
            for folder in above.folders
        )
        if not are_sets:
            return above.folders
        self._shared += [folder.name for folder in above.folders]
        self._sets += [folder.path for folder in above.folders]
        return [below for folder in above.folders for below in folder.folders]

    def _of_class(
        self, part: ImagePart, folder: _Folder, *, is_split: bool
    ) -> list[tuple[ImagePart, str, Path]]:
        """Images of a class, in the splits that its own folders name."""
        below = [each for each in folder.folders if each.split is not None]
        if is_split or not below:
            return [(part, folder.name, image) for image in folder.all_images()]
        for each in folder.folders:
            if each.split is None:
                self._leave_out(each.path, "beside the folders of splits")
        for image in folder.images:
            self._leave_out(image, "beside the folders of splits")
        return [
            (each.split or ImagePart.train, folder.name, image)
            for each in below
            for image in each.all_images()
        ]

    def _refuse_other_tasks(self, root: _Folder) -> None:
        """Images of another task, whose folders would pass for classes."""
        with_images = [*root.folders, root] if root.images else root.folders
        names = {each.name.casefold() for each in with_images}
        beside = {path.name.casefold() for path in root.path.iterdir() if not is_hidden(path.name)}
        task = next((task for name, task in _TASKS.items() if name in beside), None)
        if any(name.endswith((".json", "data.yaml")) for name in beside) and "images" in names:
            task = task or "detection"
        if _PICTURES & names and task is not None:
            raise UserError(
                f"data={self._folder} looks like images and {task} of them, not like classes; add task={task}"
            )
        if "images" in names and len(names) > 1 and not root.images:
            others = few([folder.name for folder in root.folders if folder.name != "images"])
            raise UserError(
                f"data={self._folder}: a folder {root.path / 'images'} beside {others} is no class; {_HOW}, or name the "
                f"folder of the classes"
            )
        if "ground_truth" in beside:
            raise UserError(
                f"data={self._folder} looks like MVTec's: normal images in train/, defects in test/ only; "
                f"for classes good and each defect name "
                f"data={root.path / ('test' if 'test' in beside else '<its folder of test images>')}"
            )

    def _refuse_sets_of_classes(self, root: _Folder) -> None:
        """Folders of class folders that are named as sets of images, but not as `SPLITS` are."""
        folders = root.folders
        parts = [split_in(folder.name) for folder in folders]
        if not any(part is not None for part in parts) or all(
            each.split is not None for each in folders
        ):
            return
        if any(folder.images for folder in folders):
            named = [
                folder.name for folder, part in zip(folders, parts, strict=True) if part is not None
            ]
            # train/ and trainannot/, bounding_box_train/ and bounding_box_test/; a class `train` stands beside others
            are_splits = len({*parts} - {None}) > 1 and 2 * len(named) >= len(folders)
            if are_splits and not any(folder.folders for folder in folders):
                raise UserError(
                    f"data={self._folder}: {few(named)} are named as splits, and have images, but no class folders; {_HOW}, "
                    f"below train, val and test; images with masks need task=segmentation"
                )
            return
        inside = [{each.name for each in folder.folders} for folder in folders]
        if len(folders) > 1 and len(shared := sorted(set.intersection(*inside))) > 1:
            names = ", ".join(printable(folder.path.name) for folder in folders[:3])
            raise UserError(
                f"data={self._folder}: {names} look like sets of images, each with {printable(shared[0])} and "
                f"{printable(shared[1])}; name one in data=, or call them train, val and test; if they are the "
                f"classes, put their images into them, without folders below"
            )


def split_in(name: str) -> ImagePart | None:
    """The split that a word of a name says, as in `val2017` or `instances_train`; None if none does."""
    words = re.split("[^a-z0-9]+", name.casefold())
    known = (SPLITS.get(word.rstrip("0123456789")) for word in words)
    return next((part for part in known if part is not None), None)


def clean_name(text: str) -> str:
    """A name in one Unicode form, without blanks around it and characters that cannot be seen."""
    composed = unicodedata.normalize("NFC", text)
    return "".join(each for each in composed if unicodedata.category(each) != "Cf").strip()


def is_hidden(name: str) -> bool:
    """Whether a program made a file or folder for itself: those of systems, file servers and cameras."""
    return name.startswith((".", "@", "$", "#recycle", "~")) or name.lower() in _OF_PROGRAMS


def _begins_as_image(path: Path) -> bool:
    """Whether a file without an ending begins as JPEG, PNG, GIF, BMP, TIFF or WebP files do."""
    if path.suffix and not path.suffix[1:].isdigit():
        return False
    with path.open("rb") as file:
        start = file.read(4)
    return start.startswith(
        (b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"BM", b"II*\0", b"MM\0*", b"RIFF")
    )


def few(paths: Sequence[str]) -> str:
    """How many, and the first of them; many of one ending are counted by it, if any has one."""
    more = len(paths) - _EXAMPLES
    endings = Counter(Path(path).suffix or "without an ending" for path in paths)
    shown = ", ".join(paths[:_EXAMPLES])
    if more <= 0 or {*endings} == {"without an ending"}:
        return f"{shown} and {more:,} more" if more > 0 else shown
    counts = ", ".join(f"{count:,} {ending}" for ending, count in endings.most_common(4))
    return f"{shown} and {more:,} more ({counts})"
