"""Claims: what a fit hands over beside its network is right.

    $ python -m benchmarks.handover labels --seeds 11 12 13 14 15
    $ python -m benchmarks.handover photos --cifar cifar10-jpeg.parquet --weights FOLDER --seeds 61 62 63 64 65 66 67 68 69 70
    $ python -m benchmarks.handover none --cifar cifar10-jpeg.parquet --weights FOLDER --seeds 31 32 33 34 35

Seeds that chose nothing. The labels are of made photos (synthetic), the others of photos of CIFAR-10 (`benchmarks.cifar_photos`).

labels: 5 % of the labels of a set are swapped; the share of swapped ones among the 20 doubtful labels that are shown.
photos: the forecast of 300 more photos beside 300, against a linear layer on frozen features that has learnt all 600: the mean over four
draws of these 300 more, judged on 3,000.
none: a fit of 750 photos of five classes, and the files that it exports: expected calibration error on 5,000 other photos, and how well
the files tell these from 500 photos of the other five classes (AUROC), with the rate of false alarms.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

import edgenas
from benchmarks import cifar_photos
from benchmarks.made_photos import write
from edgenas_core.inference.formats.onnx_session import OnnxSession
from nas.export.accuracy import outputs_of_images
from nas.export.probabilities import calibration_error, error_by_chance, none_scores, softened
from nas.fit.data.image_set import Images
from nas.fit.data.open import open_images
from nas.fit.data.unlabelled import unlabelled_images
from nas.fit.run.advice import more_photos
from nas.fit.starts.fine_tuning.frozen import frozen_features
from nas.fit.starts.fine_tuning.trial import PretrainedImages
from nas.fit.starts.pretrained.space import pretrained_space
from nas.fit.training.cross_fits import SHARES, cross_fits, doubtful, on_features, on_pixels
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


def labels(seed, chosen):  # noqa: ARG001 - made photos need no files
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


def photos(seed, chosen):
    """The forecast of 300 more photos against a linear layer that has learnt them, on frozen features."""
    with tempfile.TemporaryDirectory() as name:
        folder = cifar_photos.write(chosen.cifar, Path(name) / "set", seed, judges=600)
        space = pretrained_space(str(chosen.weights.absolute()))
        row = space.every_network()[0]
        images = PretrainedImages(space, str(folder / "photos"))(row)
        files = [sorted(folder.glob(f"{part}/*/*")) for part in ("photos", "outside_test")]
        every = [*files[0], *files[1]]
        labels = np.array([images.classes.index(file.parent.name) for file in every])
        splits = [unlabelled_images(part, images) for part in files]
        network = space.start(row, images.task)
        features = np.concatenate(frozen_features(network, splits, images, torch.device("cpu")))
    order = np.random.default_rng(seed).permutation(len(files[0]))
    few, *further = np.split(order, 5)
    classes, judges = len(images.classes), np.arange(len(order), len(labels))
    learn = on_features(features, labels, classes)

    def right_after(part):
        return (learn(part, judges).argmax(1) == labels[judges]).mean()

    half = right_after(few)
    whole = np.mean([right_after(np.concatenate([few, more])) for more in further])
    # The forecast sees 300 photos, and the accuracy of the model that has learnt them.
    fits = cross_fits(
        on_features(features[few], labels[few], classes), labels[few], np.arange(300), classes
    )
    right = np.stack([fits.probabilities[share].argmax(1) == labels[few] for share in SHARES], 1)
    *_, more = more_photos(right, 300, Judged(float(half), len(judges)))
    gained = 100 * (whole - half)
    row = {
        "seed": seed,
        "right_of_300": half,
        "right_of_600": whole,
        "points": gained,
        "forecast": more.points.value,
        "low": more.points.low,
        "high": more.points.high,
        "is_near": bool(abs(gained - more.points.value) <= 1.5),
    }
    print(json.dumps(row), flush=True)


def none(seed, chosen):
    """Calibration, and classes that were not learnt, of the files that a fit exports."""
    with tempfile.TemporaryDirectory() as name:
        photos = cifar_photos.write(chosen.cifar, Path(name) / "set", seed, learnt=150, judges=1000)
        weights = str(chosen.weights.absolute())
        found = edgenas.fit(
            data=str(photos / "photos"),
            T=chosen.limit,
            hours=chosen.seconds / 3600,
            weights=weights,
            out=f"{name}/runs",
            export=True,
            quiet=True,
        )
        space = pretrained_space(weights)
        row = space.parse(found.summary.best.arch)
        images = PretrainedImages(space, str(photos / "photos"))(row)
        inside, outside = sorted(photos.glob("outside_test/*/*")), sorted(photos.glob("other/*/*"))
        labels = np.array([images.classes.index(file.parent.name) for file in inside])
        judges = Images(unlabelled_images(inside, images).pixels, labels)
        others = unlabelled_images(outside, images)
        export = found.folder / "export"
        about = json.loads((export / "preprocessing.json").read_text())
        for file, known in about["probabilities"].items():
            session = OnnxSession((export / file).read_bytes())
            valid, test, other = (
                outputs_of_images(session, split, images, about["side"], 1)
                for split in (images.valid, judges, others)
            )
            answers = softened(test, known["temperature"])
            alarms = none_scores(test, known["temperature"]) < known["none_below"]
            caught = none_scores(other, known["temperature"]) < known["none_below"]
            scores = np.concatenate(
                [none_scores(test, known["temperature"]), none_scores(other, known["temperature"])]
            )
            row = {
                "seed": seed,
                "file": str(file),
                "arch": found.summary.best.arch,
                "accuracy": (test.argmax(1) == labels).mean(),
                "temperature": known["temperature"],
                "calibration_error": calibration_error(answers, labels),
                "by_chance": error_by_chance(answers),
                "auroc": roc_auc_score(np.repeat([1, 0], [len(test), len(other)]), scores),
                "false_alarms": alarms.mean(),
                "caught": caught.mean(),
            }
            print(json.dumps(row), flush=True)
            if chosen.dump is not None:
                outputs = {"valid": valid, "test": test, "other": other}
                row |= {key: np.round(each, 4).tolist() for key, each in outputs.items()}
                row |= {"valid_labels": images.valid.labels.tolist(), "labels": labels.tolist()}
                (chosen.dump / f"none-{seed}-{file}.json").write_text(json.dumps(row))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("claim", choices=["labels", "photos", "none"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--cifar", type=Path, help="cifar10-jpeg.parquet, for photos and none")
    parser.add_argument("--weights", type=Path, help="folder of pretrained networks, for both")
    parser.add_argument("--limit", default="8ms", help="of the fit of none")
    parser.add_argument("--seconds", type=float, default=85, help="of the fit of none")
    parser.add_argument("--dump", type=Path, help="folder for the outputs of none")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for number in arguments.seeds:
        {"labels": labels, "photos": photos, "none": none}[arguments.claim](number, arguments)
