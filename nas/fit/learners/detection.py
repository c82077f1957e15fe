"""`task=detection`: boxes of objects and their classes, judged by COCO's mean average precision."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64, UInt8
from numpy import ndarray
from PIL import Image, ImageDraw
from torch import Tensor, nn

from edgenas_core.command.plug_ins import how_to_install
from edgenas_core.types.errors import UserError
from edgenas_core.types.printable import printable
from nas.fit.data.decode import orientation
from nas.fit.data.groups import DataOptions
from nas.fit.learners.annotations import Annotations, BoxedImage
from nas.fit.learners.base import ClassMetric, Findings, LearnerDescription, Metric
from nas.fit.learners.data import moved
from nas.fit.learners.scenes import (
    SIDE,
    WORST,
    SceneBatches,
    ScenePixels,
    Scenes,
    beside,
    colour,
    resamples,
    some_of,
    title_of,
    unchanged,
)

_LEAST_SIDE = 1.0
"""Pixels of the shorter side of a box below which nothing can be drawn, learnt or matched."""

_SEEN_SIDE = 2
"""Pixels below which a box is hardly seen; it stays, and is counted."""

_MOST_BOXES = 100
"""Of an image."""

SCORE, OVERLAP, KEPT = 0.01, 0.45, 100
"""Least score of an answer, overlap of two of which the lesser is dropped, most answers of an image."""

SURE = 0.3
"""Least score of an answer that is drawn."""

_NEGATIVE = 3
"""Anchors of the background that are learnt for each of an object (Liu et al., "SSD", ECCV 2016)."""

MATCHED = 0.5
"""Least intersection over union of an anchor and the object that it learns."""

_TURNS = {5: (1, 1), 6: (-1, 1), 7: (-1, -1), 8: (1, -1)}
"""Signs of y and x of stored pixels as x and y of the upright image, by EXIF's orientation."""

_CENTRE, _SIZE = 0.1, 0.2
"""Scale of the offsets of a box from its anchor: of the centre, and of the sides."""


@final
class Detection:
    """Images, and boxes of COCO's JSON, YOLO's data.yaml or Pascal VOC's XML.

    A network gives (n, anchors, classes + 8): logits, four offsets from an anchor, and the anchor itself:
    left, top, right, bottom, in pixels.
    """

    has_equal_steps = True

    def __init__(self, data: str, side: int | None = None) -> None:
        """Reads the images and the boxes.

        Args:
          data: folder with images/ and annotations.json, or another layout of `Annotations`.
          side: pixels that images are resized to, 128 by default.

        Raises:
          UserError: if a file is missing, cannot be read, or does not fit the others.
        """
        options = DataOptions.of(data)
        self.folder, self.mirrors = Path(options.data).expanduser(), options.mirrors
        self.side = SIDE if side is None else side
        annotations = Annotations(self.folder)
        self.classes = ("background", *map(printable, annotations.classes))
        every = annotations.images
        images = ScenePixels.of([each.file for each in every], self.side, data)
        usable = [every[at] for at in images.usable]
        boxes = self._boxes(usable, images.sizes, annotations)
        parts = np.array([each.part for each in usable], np.int8)
        scenes = Scenes.of(images, boxes, parts, self.folder, data)
        self.scenes = replace(scenes, report=(*annotations.report, *scenes.report))
        shown = boxes[torch.from_numpy(self.scenes.splits["train"])][..., 4].unique().tolist()
        for number, name in enumerate(self.classes[1:], 1):
            if number not in shown:
                raise UserError(
                    f"data={data}: no training image shows the class {name}; "
                    f"{'; '.join(self.scenes.report)}"
                )

    def _boxes(
        self,
        images: Sequence[BoxedImage],
        sizes: Sequence[tuple[int, int]],
        annotations: Annotations,
    ) -> Float[Tensor, "n most 5"]:
        """Corners in pixels of the resized images, cut at their edges, and the number of the class.

        Raises:
          UserError: if a size is another than the annotations say, or an image has too many boxes.
        """
        numbers = {name: at for at, name in enumerate(annotations.classes, 1)}
        rows, narrow = [], 0
        for image, size in zip(images, sizes, strict=True):
            corners = _fractions(image, size, annotations)
            inside = (corners * self.side).clip(0, self.side)
            is_there = np.asarray((inside[:, 2:] > inside[:, :2]).all(1))
            sides = (inside[:, 2:] - inside[:, :2]).min(1, initial=self.side)
            kept = is_there & (sides >= _LEAST_SIDE)
            labels = [
                numbers[name] * (-1 if crowd else 1)
                for name, crowd in zip(image.labels, image.is_crowd, strict=True)
            ]
            rows.append(
                [
                    [*box, label]
                    for box, label, is_kept in zip(inside.tolist(), labels, kept, strict=True)
                    if is_kept
                ]
            )
            for reason, which in (
                ("boxes outside the image", ~is_there),
                (f"boxes narrower than a pixel at side={self.side}", is_there & ~kept),
            ):
                for _ in range(int(which.sum())):
                    annotations.leave_out(reason, image.file.name)
            narrow += int((kept & (sides < _SEEN_SIDE)).sum())
            beyond = np.abs(corners * self.side - inside).max(1, initial=0)
            for _ in range(int((kept & (beyond > 1)).sum())):
                annotations.leave_out("what of boxes lies beyond the image", image.file.name)
        if narrow:
            annotations.notes.append(
                f"{narrow:,} boxes are under {_SEEN_SIDE} pixels at side={self.side}; a larger side= shows them"
            )
        most = max(map(len, rows))
        if most > _MOST_BOXES:
            raise UserError(f"data={self.folder}: an image has more than {_MOST_BOXES} boxes")
        table = torch.zeros(len(rows), max(1, most), 5)
        for row, boxes in zip(table, rows, strict=True):
            row[: len(boxes)] = torch.tensor(boxes).reshape(-1, 5)
        return table

    def batches(self, split: str) -> SceneBatches:
        """Images of a split, and their objects: left, top, right, bottom, class.

        The class is 0 where there is no object, and negative of a crowd, which is not learnt.
        """
        return self.scenes.batches(split, self._mirrored if self.mirrors else unchanged)

    def _mirrored(self, images: Tensor, objects: Tensor) -> tuple[Tensor, Tensor]:
        """Half of the images mirrored, with their boxes."""
        left, top, right, bottom, label = objects.unbind(-1)
        flipped = torch.stack([self.side - right, top, self.side - left, bottom, label], -1)
        is_object = (label != 0)[..., None]
        return some_of(
            (images.flip(-1), torch.where(is_object, flipped, objects)), (images, objects)
        )

    def loss(self, network: nn.Module, batch: tuple[Tensor, Tensor]) -> Float[Tensor, ""]:
        """Cross-entropy of matched anchors and the hardest others, and smooth L1 of the offsets."""
        images, objects = batch
        outputs = network(images).float()
        logits, offsets, anchors = outputs[..., :-8], outputs[..., -8:-4], outputs[0, :, -4:]
        classes, wanted = matched(anchors, objects.to(logits.device))
        is_object = classes > 0
        surprise = nn.functional.cross_entropy(logits.mT, classes, reduction="none")
        negative = surprise.detach().masked_fill(is_object, -1)
        rank = negative.argsort(1, descending=True).argsort(1)
        learnt = is_object | (rank < _NEGATIVE * is_object.sum(1, keepdim=True))
        distance = nn.functional.smooth_l1_loss(offsets, wanted, reduction="none").sum(-1)
        total = (surprise * learnt).sum() + (distance * is_object).sum()
        return total / is_object.sum().clamp(min=1)

    def answers(
        self, network: nn.Module, images: Float[Tensor, "n 3 side side"]
    ) -> list[Float[Tensor, "k 6"]]:
        """Objects of each image: left, top, right, bottom, class, score; the surest first."""
        with torch.no_grad():
            outputs = network(images).float()
            boxes = decoded(outputs[..., -8:-4], outputs[..., -4:])
            return detections(outputs[..., :-8], boxes, self.side)

    def answered(
        self, network: nn.Module, batches: Iterable[Sequence[Tensor]]
    ) -> list[tuple[Float[Tensor, "objects 5"], Float[Tensor, "k 6"]]]:
        """Objects of each image beside the network's answers, on the CPU."""
        return [
            (objects.cpu(), answers)
            for pixels, every in batches
            for objects, answers in zip(every, self.answers(network, pixels), strict=True)
        ]

    def findings(self, network: nn.Module) -> Findings:
        """Average precision of each class, and the worst boxes beside the truth."""
        device = next(network.parameters()).device
        pairs = self.answered(network, (moved(each, device) for each in self.batches("test")))
        judged = _judged(pairs, len(self.classes) - 1)
        none = np.zeros(len(self.classes) - 1)
        values = (none if judged is None else _precisions(judged)).tolist()
        labels = torch.cat([objects[:, 4].clamp(min=0).long() for objects, _ in pairs])
        counts = torch.bincount(labels, minlength=len(self.classes))
        shown = []
        for at, (objects, answers) in enumerate(pairs):
            truth, sure = objects[objects[:, 4] > 0], answers[answers[:, 5] >= SURE]
            agrees = overlaps(truth[None, :, :4], sure[None, :, :4])[0] >= MATCHED
            agrees &= truth[:, 4, None] == sure[None, :, 4]
            missed, wrong = (int((~agrees.any(way)).sum()) for way in (1, 0))
            shown.append((missed, wrong, at, truth, sure))
        pictures = []
        for missed, wrong, at, *boxes in sorted(shown, key=lambda each: -each[0] - each[1])[:WORST]:
            pixels = self.scenes.pixels[self.scenes.splits["test"][at]].numpy()
            left, right = (self._drawn(pixels, each) for each in boxes)
            pictures.append(beside(left, right, f"{missed} missed, {wrong} wrong"))
        rows = zip(self.classes[1:], counts[1:].tolist(), values, strict=True)
        return Findings(
            tuple(ClassMetric(*each) for each in rows if not np.isnan(each[2])), tuple(pictures)
        )

    def _drawn(
        self, pixels: UInt8[ndarray, "h w 3"], objects: Float[Tensor, "k columns"]
    ) -> UInt8[ndarray, "h w 3"]:
        """An image with its boxes and the names of their classes."""
        picture = Image.fromarray(pixels)
        draw = ImageDraw.Draw(picture)
        for left, top, right, bottom, label, *_ in objects.tolist():
            corner = (max(left, right - 1), max(top, bottom - 1))  # an answer may be narrower
            draw.rectangle((left, top, *corner), outline=colour(int(label)))
            draw.text((left + 2, top), self.classes[int(label)], fill=colour(int(label)))
        return np.asarray(picture)

    def describe(self) -> LearnerDescription:
        """The images and the classes, the background first.

        Raises:
          UserError: if pycocotools is not installed, which the metric needs.
        """
        _coco()
        return self.scenes.described(title_of(self.folder), self.classes, "mAP")

    def example_input(self) -> Float[Tensor, "1 c side side"]:
        """Noise in the shape of an image."""
        return torch.randn(1, self.scenes.pixels.shape[-1], self.side, self.side)

    def metric(self, network: nn.Module, batches: Iterable[tuple[Tensor, Tensor]]) -> Metric:
        """Mean average precision; its interval is by resampled images."""
        pairs, classes = self.answered(network, batches), len(self.classes) - 1
        judged = _judged(pairs, classes)
        if judged is None:
            return Metric("mAP", 0.0, (0.0, 0.0))
        means = resampled_precisions(judged, resamples(len(pairs)))
        low, high = np.quantile(means, [0.025, 0.975]).tolist()
        return Metric("mAP", float(np.nan_to_num(np.nanmean(_precisions(judged)))), (low, high))


def _coco() -> tuple[Any, Any]:
    try:
        from pycocotools.coco import COCO  # noqa: PLC0415 - an extra
        from pycocotools.cocoeval import COCOeval  # noqa: PLC0415 - loaded when needed
    except ImportError as error:
        raise UserError(
            f"task=detection needs pycocotools ({error}): {how_to_install('tasks')}"
        ) from error
    return COCO, COCOeval


def _judged(
    pairs: Sequence[tuple[Float[Tensor, "objects 5"], Float[Tensor, "k 6"]]], classes: int
) -> Any | None:
    """COCOeval of pycocotools, of objects of any size; None without answers."""
    truth: list[dict[str, Any]] = []
    answers: list[Float64[ndarray, "k 7"]] = []
    for image, (objects, answered) in enumerate(pairs, 1):
        for *corners, label in objects[objects[:, 4] != 0].tolist():
            box = _coco_box(image, label, corners)
            area, is_crowd = box["bbox"][2] * box["bbox"][3], int(label < 0)
            truth.append(box | {"id": len(truth) + 1, "area": area, "iscrowd": is_crowd})
        boxes, (label, score) = answered[:, :4].double(), answered[:, 4:].double().T
        sides = boxes[:, 2:] - boxes[:, :2]
        columns = [torch.full_like(score, image), *boxes[:, :2].T, *sides.T, score, label]
        answers.append(torch.stack(columns, 1).numpy())
    table = np.concatenate(answers)
    if not len(table):
        return None
    make, evaluation = _coco()
    with contextlib.redirect_stdout(io.StringIO()):  # it prints
        coco = make()
        coco.dataset = {
            "images": [{"id": image} for image in range(1, len(pairs) + 1)],
            "annotations": truth,
            "categories": [{"id": number} for number in range(1, classes + 1)],
        }
        coco.createIndex()
        judged = evaluation(coco, coco.loadRes(table), "bbox")
        judged.params.areaRng, judged.params.areaRngLbl = [[0, 1e10]], ["all"]
        judged.params.maxDets = [KEPT]
        judged.evaluate()
        judged.accumulate()
    return judged


def _precisions(judged: Any) -> Float64[ndarray, "classes"]:
    """Average precision of each class over overlaps of .5 to .95; NaN without objects."""
    precision = judged.eval["precision"][:, :, :, 0, 0]  # overlap, recall, class
    return np.asarray(np.where(precision < 0, np.nan, precision).mean((0, 1)), np.float64)


def resampled_precisions(
    judged: Any, counts: Int64[ndarray, "draws images"]
) -> Float64[ndarray, "draws"]:
    """Mean average precision of images that are counted so often, as `COCOeval.accumulate` has it."""
    images, recalls = counts.shape[1], judged.params.recThrs
    sums, classes = np.zeros((2, len(counts)))
    rows = 2.0 * np.arange(len(counts))[:, None]
    for first in range(0, len(judged.evalImgs), images):  # a class
        of_class = enumerate(judged.evalImgs[first : first + images])
        matched_images = [(image, match) for image, match in of_class if match]
        if not matched_images:
            continue
        numbers, matches = zip(*matched_images, strict=True)
        objects = np.zeros(images)
        objects[[*numbers]] = [(match["gtIgnore"] == 0).sum() for match in matches]
        if not objects.any():
            continue
        n = counts @ objects
        image = np.repeat(numbers, [len(match["dtScores"]) for match in matches])
        scores = np.concatenate([match["dtScores"] for match in matches])
        order = np.argsort(-scores, kind="mergesort")
        right, ignored = (
            np.concatenate([match[name] for match in matches], 1)[:, order] > 0
            for name in ("dtMatches", "dtIgnore")
        )
        weights = counts[:, image[order].astype(int)]
        every = weights.cumsum(1)
        value = np.zeros(len(counts))
        for is_right, is_ignored in zip(right & ~ignored, ignored, strict=True):
            total = every if not is_ignored.any() else (weights * ~is_ignored).cumsum(1)
            true = weights[:, is_right].cumsum(1)
            precision = true / np.maximum(total[:, is_right], 1)
            precision = np.maximum.accumulate(precision[:, ::-1], 1)[:, ::-1]
            padded = np.pad(precision, ((0, 0), (0, 1)))
            recall = true / np.maximum(n, 1)[:, None] + rows  # of all draws: one search
            at = np.searchsorted(recall.ravel(), (recalls + rows).ravel()).reshape(len(rows), -1)
            at -= np.arange(len(rows))[:, None] * true.shape[1]
            value += np.take_along_axis(padded, at, 1).mean(1)
        sums, classes = sums + value / len(right), classes + (n > 0)
    return np.asarray(sums / np.maximum(classes, 1))


def _coco_box(image: int, label: float, corners: list[float]) -> dict[str, Any]:
    left, top, right, bottom = corners
    box = [left, top, right - left, bottom - top]
    return {"image_id": image, "category_id": abs(int(label)), "bbox": box}


def _fractions(
    image: BoxedImage, size: tuple[int, int], annotations: Annotations
) -> Float64[ndarray, "boxes 4"]:
    """Corners as fractions of the upright image's width and height.

    Boxes on the stored pixels of a photo that its camera turned are turned as the photo is.

    Raises:
      UserError: if the annotations state another size.
    """
    stated = size if image.size is None else image.size
    turn = None if stated == size else _TURNS.get(orientation(image.file))
    if stated != size and (turn is None or stated != size[::-1]):
        raise UserError(
            f"{image.file} is {size[0]} x {size[1]} pixels, and {stated[0]} x {stated[1]} in the annotations"
        )
    scale = (1, 1) if annotations.has_fractions else stated
    corners = np.asarray(np.array(image.boxes).reshape(-1, 4) / np.array([*scale, *scale]))
    if turn is None:
        return corners
    # x and y change places, and are counted from the other side where the sign is negative
    annotations.turned.append(image.file.name)
    points = corners.reshape(-1, 2, 2)[..., ::-1] * turn + np.less(turn, 0)
    return np.concatenate([points.min(1), points.max(1)], 1)


def matched(
    anchors: Float[Tensor, "anchors 4"], objects: Float[Tensor, "n objects 5"]
) -> tuple[Int64[Tensor, "n anchors"], Float[Tensor, "n anchors 4"]]:
    """Class of each anchor, 0 for the background, and the offsets of its object.

    An anchor learns the object that it overlaps most, if by half; each object has its best anchor.
    """
    n, count = objects.shape[:2]
    is_object = objects[..., 4] > 0
    overlap = overlaps(objects[..., :4], anchors.expand(n, -1, 4))
    overlap = overlap.masked_fill(~is_object[..., None], -1)
    best, which = overlap.max(1)
    first = overlap.argmax(2)
    for number in range(count):  # few; a later object takes the anchor of an earlier one
        at, there = first[:, number, None], is_object[:, number, None]
        which.scatter_(1, at, which.gather(1, at).masked_fill(there, number))
        best.scatter_(1, at, best.gather(1, at).masked_fill(there, 1))
    chosen = objects.gather(1, which[..., None].expand(-1, -1, 5))
    classes = chosen[..., 4].long() * (best >= MATCHED)
    return classes, encoded(chosen[..., :4], anchors)


def overlaps(
    boxes: Float[Tensor, "n k 4"], others: Float[Tensor, "n m 4"]
) -> Float[Tensor, "n k m"]:
    """Intersection over union of all pairs."""
    a, b = boxes[:, :, None], others[:, None]
    first, last = torch.maximum(a[..., :2], b[..., :2]), torch.minimum(a[..., 2:], b[..., 2:])
    both, *areas = (
        (right - left).clamp(0) * (bottom - top).clamp(0)
        for left, top, right, bottom in (
            torch.cat([first, last], -1).unbind(-1),
            a.unbind(-1),
            b.unbind(-1),
        )
    )
    return both / (areas[0] + areas[1] - both).clamp(min=1e-6)


def encoded(boxes: Float[Tensor, "n a 4"], anchors: Float[Tensor, "a 4"]) -> Float[Tensor, "n a 4"]:
    """Offsets of boxes from anchors: of the centre in sides, and logarithms of the sides."""
    size = anchors[:, 2:] - anchors[:, :2]
    sides = (boxes[..., 2:] - boxes[..., :2]).clamp(min=1e-3)
    centre = boxes[..., :2] + sides / 2 - (anchors[:, :2] + size / 2)
    return torch.cat([centre / size / _CENTRE, (sides / size).log() / _SIZE], -1)


def decoded(
    offsets: Float[Tensor, "n a 4"], anchors: Float[Tensor, "*n a 4"]
) -> Float[Tensor, "n a 4"]:
    """Boxes of offsets from anchors."""
    size = anchors[..., 2:] - anchors[..., :2]
    centre = anchors[..., :2] + size / 2 + _CENTRE * offsets[..., :2] * size
    half = (_SIZE * offsets[..., 2:]).clamp(max=4).exp() * size / 2
    return torch.cat([centre - half, centre + half], -1)


def detections(
    logits: Float[Tensor, "n anchors classes"], boxes: Float[Tensor, "n anchors 4"], side: int
) -> list[Float[Tensor, "k 6"]]:
    """Answers of each image, on the CPU, the surest first: left, top, right, bottom, class, score."""
    scores = logits.softmax(-1)[..., 1:]
    most = int((scores > SCORE).flatten(1).sum(1).max().clamp(1, 2 * KEPT))
    score, at = scores.flatten(1).topk(most)
    anchor, label = at // scores.shape[-1], at % scores.shape[-1]
    inside = boxes.gather(1, anchor[..., None].expand(-1, -1, 4)).clamp(0, side)
    same = label[:, :, None] == label[:, None]
    hides = ((overlaps(inside, inside) > OVERLAP) & same).triu(1)  # the surer hides those after it
    kept = score > SCORE
    for rank in range(most):  # of all images at once
        kept &= ~(hides[:, rank] & kept[:, rank, None])
    rows = torch.cat([inside, label[..., None] + 1, score[..., None]], -1).cpu()
    return [row[which][:KEPT] for row, which in zip(rows, kept.cpu(), strict=True)]
