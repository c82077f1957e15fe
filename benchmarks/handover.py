"""Claims: what a fit hands over beside its network is right.

    $ python -m benchmarks.handover labels --seeds 11 12 13 14 15
    $ python -m benchmarks.handover photos --seeds 21 22 23 24 25 26 27 28 29 30
    $ python -m benchmarks.handover none --seeds 31 32 33 34 35

All on made photos (synthetic), with seeds that chose nothing; `none --cifar <cifar10-jpeg.parquet>` on classes of CIFAR-10.

labels: 5 % of the labels of a set are swapped; the share of swapped ones among the 20 doubtful labels that are shown.
photos: the forecast of twice as many training photos against a network that is trained on them, of the same recipe and judged on 600
photos.
none: expected calibration error of the fp32 and the int8 file on the test images, and how well the calibrated probability tells classes
that were learnt from two that were not (AUROC), with the rate of false alarms.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch
from sklearn.metrics import roc_auc_score
from torch import nn
from torch.nn import functional

from benchmarks.made_photos import write
from edgenas_core.inference.formats.onnx_export import onnx_bytes
from edgenas_core.inference.formats.onnx_quantisation import quantised
from edgenas_core.inference.formats.onnx_session import OnnxSession
from nas.export.accuracy import outputs_of_images
from nas.export.int8 import calibration
from nas.export.probabilities import probabilities_of, softened
from nas.fit.data.image_set import Images
from nas.fit.data.open import open_images
from nas.fit.run.advice import advise
from nas.fit.training.cross_fits import cross_fits, doubtful, on_pixels
from nas.fit.training.trained_folder import Judged

SIDE = 32


def made(seed, count, share=0.1, classes=6):
    """Made photos as a fit opens them."""
    with tempfile.TemporaryDirectory() as name:
        folder = write(
            Path(name) / f"made{seed}", seed=seed, count=count, classes=classes, hard=0.05
        )
        images = open_images(str(folder), side=SIDE, share=share, cache=Path(name) / "cache")
        return in_memory(images)


def in_memory(images):
    """The images without their file."""
    splits = (images.train, images.valid, images.test)
    train, valid, test = (Images(np.array(each.pixels), np.array(each.labels)) for each in splits)
    return replace(images, train=train, valid=valid, test=test)


def network(classes):
    """Wider, deeper and trained for longer than the one that advises."""
    layers, before = [], 3
    for width, stride in ((32, 1), (32, 2), (64, 1), (64, 2), (128, 2)):
        layers += [
            nn.Conv2d(before, width, 3, stride, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
        ]
        before = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes))


def prepared(images, pixels):
    """Pixels as a network takes them."""
    scaled = (pixels.astype(np.float32) / 255 - np.float32(images.mean)) / np.float32(images.sd)
    return torch.from_numpy(np.ascontiguousarray(scaled.transpose(0, 3, 1, 2)))


def trained(images, pixels, labels, epochs=30):
    """The network after a training with shifted and mirrored images."""
    torch.manual_seed(0)
    model, inputs = network(len(images.classes)), prepared(images, pixels)
    truth, steps = torch.from_numpy(labels), epochs * -(-len(labels) // 32)
    optimiser = torch.optim.AdamW(model.parameters(), 3e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3e-3, steps + 1)
    for _ in range(epochs):
        for batch in torch.randperm(len(labels)).split(32):
            if len(batch) < 2:
                continue
            shift = torch.randint(-3, 4, (2,)).tolist()
            shown = torch.roll(inputs[batch], shift, (2, 3))
            shown = shown.flip(3) if torch.rand(()) < 0.5 else shown
            optimiser.zero_grad()
            functional.cross_entropy(model(shown), truth[batch], label_smoothing=0.1).backward()
            optimiser.step()
            schedule.step()
    return model.eval()


def right(model, images, split):
    """Whether each answer is right."""
    with torch.no_grad():
        parts = [model(batch).argmax(1) for batch in prepared(images, split.pixels).split(256)]
    return torch.cat(parts).numpy() == split.labels


def labels(seed):
    """Swapped labels among the first 20 doubtful ones."""
    images = made(seed, 900)
    splits = (images.train, images.valid, images.test)
    pixels = np.concatenate([split.pixels for split in splits])
    truth = np.concatenate([split.labels for split in splits])
    rng, given = np.random.default_rng([seed, 1]), truth.copy()
    swapped = rng.choice(len(truth), len(truth) // 20, replace=False)
    classes = len(images.classes)
    given[swapped] = (truth[swapped] + rng.integers(1, classes, len(swapped))) % classes
    fits = cross_fits(
        on_pixels(pixels, given, classes), given, np.arange(len(given)), classes, (1.0,)
    )
    answers = fits.probabilities[1.0]
    first = [at for at, _ in doubtful(answers, given)[:20]]
    print(
        f"seed {seed}: {np.isin(first, swapped).sum()} of {len(first)} shown are swapped; the small network is right about "
        f"{(answers.argmax(1) == truth).mean():.1%}",
        flush=True,
    )


def photos(seed):
    """The forecast against the truth."""
    images = made(seed, 1500, share=0.2)
    splits = (images.train, images.valid, images.test)
    pixels = np.concatenate([split.pixels for split in splits])
    truth = np.concatenate([split.labels for split in splits])
    train, few = slice(0, 600), slice(0, 300)
    judges = Images(pixels[900:], truth[900:])
    half, whole = (
        right(trained(images, pixels[part], truth[part]), images, judges).mean()
        for part in (few, train)
    )
    # A fit on 300 photos has 40 validation and 40 test images beside them.
    seen = replace(
        images,
        train=Images(pixels[few], truth[few]),
        valid=Images(pixels[600:640], truth[600:640]),
        test=Images(pixels[640:680], truth[640:680]),
    )
    steps = advise(seen, Judged(float(half), 600), None, seconds=1e9)
    more = steps.more[-1]
    gained = 100 * (whole - half)
    print(
        f"seed {seed}: {half:.1%} of 300 photos, {whole:.1%} of 600: {gained:+.1f} points; forecast {more.points:+.1f} "
        f"[{more.low:.1f}, {more.high:.1f}], {'within' if abs(gained - more.points) <= 1.5 else 'NOT within'} 1.5",
        flush=True,
    )


def of_cifar(path, count=400):
    """Six classes of CIFAR-10 as an image set, and the other four."""
    import io  # noqa: PLC0415 - of one benchmark

    from PIL import Image  # noqa: PLC0415 - loaded when needed

    table = pq.read_table(path, columns=["split", "label", "jpeg"])
    split, label = (np.array(table[name].to_pylist()) for name in ("split", "label"))
    jpegs, rng = table["jpeg"], np.random.default_rng(0)

    def drawn(name, classes, each):
        at = np.concatenate(
            [
                rng.permutation(np.flatnonzero((split == name) & (label == k)))[:each]
                for k in classes
            ]
        )
        at = rng.permutation(at)
        pixels = [np.asarray(Image.open(io.BytesIO(jpegs[int(i)].as_py()))) for i in at]
        return Images(np.stack(pixels), label[at].astype(np.int64))

    train, valid = drawn("train", range(6), 5 * count // 2), drawn("train", range(6), count // 4)
    base = made(0, 60)
    images = replace(base, train=train, valid=valid, test=drawn("test", range(6), count // 2))
    mean, sd = ((train.pixels / 255).mean((0, 1, 2)), (train.pixels / 255).std((0, 1, 2)))
    images = replace(images, mean=tuple(mean), sd=tuple(sd), classes=tuple("abcdef"))
    return images, drawn("test", range(6, 10), count // 2)


def none(seed, cifar=None):
    """Calibration and unknown classes, in fp32 and int8."""
    if cifar is None:
        every = made(seed, 1200, share=0.2, classes=8)
        keep = [
            Images(split.pixels[split.labels < 6], split.labels[split.labels < 6])
            for split in (every.train, every.valid, every.test)
        ]
        unknown = Images(
            every.test.pixels[every.test.labels > 5], every.test.labels[every.test.labels > 5]
        )
        images = replace(
            every, train=keep[0], valid=keep[1], test=keep[2], classes=every.classes[:6]
        )
    else:
        images, unknown = of_cifar(cifar)
    model = trained(images, np.asarray(images.train.pixels), images.train.labels)
    fp32 = onnx_bytes(model, [prepared(images, images.train.pixels[:1])])
    int8 = quantised(fp32, calibration(images, SIDE, 1))
    for name, content in (("fp32", fp32), ("int8", int8)):
        valid, test, other = (
            outputs_of_images(OnnxSession(content), split, images, SIDE, 1)
            for split in (images.valid, images.test, unknown)
        )
        found = probabilities_of(images, valid, test)
        sure = [softened(each, found.temperature).max(1) for each in (test, other)]
        auroc = roc_auc_score(np.repeat([1, 0], [len(test), len(other)]), np.concatenate(sure))
        accuracy = (test.argmax(1) == images.test.labels).mean()
        caught = (sure[1] < found.none_below).mean()
        print(
            f"seed {seed}, {name}: accuracy {accuracy:.1%} of {len(test)}, temperature {found.temperature:.2f}, calibration error "
            f"{found.calibration_error:.3f} (95 % by chance: {found.error_by_chance:.3f}), AUROC {auroc:.3f}, false alarms {found.false_alarms:.1%}, unknown called none {caught:.1%}",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("claim", choices=["labels", "photos", "none"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--cifar", type=Path, help="cifar10-jpeg.parquet, for none")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    for number in chosen.seeds:
        if chosen.claim == "none":
            none(number, chosen.cifar)
        else:
            {"labels": labels, "photos": photos}[chosen.claim](number)
