"""Claim: a fit for three limits costs at most 1.5 times one fit, and each network loses at most 0.5 points.

    $ python -m benchmarks.several_limits cifar10-jpeg.parquet --weights FOLDER --seeds 41 42 43 44 45 --out rows/

Each set has 750 photos of five classes of CIFAR-10 (`benchmarks.cifar_photos`), and is judged on 1,000 others. A fit for each limit
alone has `--seconds`; the fit for all has one and a half times as many. Each is a row, with its seconds and accuracies;
`--page rows/` prints the differences, paired by set, with 95 % intervals (Student's t).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy import stats

import edgenas
from benchmarks import cifar_photos
from nas.export.network import with_weights
from nas.fit.data.image_set import Images
from nas.fit.data.unlabelled import unlabelled_images
from nas.fit.starts.fine_tuning.trial import PretrainedImages
from nas.fit.starts.pretrained.space import pretrained_space
from nas.fit.training.evaluation import logits_of
from nas.fit.training.trained_folder import WEIGHTS, trained_folder

TIMES = 1.5
"""Time of the fit for all limits, as a multiple of one for one limit."""


def accuracy(found, arch, photos, weights):
    """On the photos outside, as the network takes them."""
    space = pretrained_space(str(weights.absolute()))
    row, images = space.parse(arch), PretrainedImages(space, str(photos / "photos"))
    images = images(row)
    file = trained_folder(found.folder, arch) / WEIGHTS
    network = with_weights(space, row, images.task, file)
    files = sorted((photos / "outside_test").glob("*/*"))
    pixels = unlabelled_images(files, images).pixels
    labels = np.array([images.classes.index(file.parent.name) for file in files])
    answers = logits_of(network, Images(pixels, labels), images).argmax(1).cpu().numpy()
    return float((answers == labels).mean())


def fitted(photos, limits, seconds, chosen):
    """A row for each limit of a fit: which limit, network, latency, accuracy, and seconds of the whole."""
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory() as runs:
        found = edgenas.fit(
            data=str(photos / "photos"),
            T=limits[0] if len(limits) == 1 else limits,
            hours=seconds / 3600,
            weights=str(chosen.weights),
            out=runs,
            quiet=True,
        )
        took_s = time.monotonic() - began_s
        summary = found.summary
        if not summary.handed:
            best = [(limits[0], summary.best.arch, summary.best.latency_ms)]
        else:
            best = [(each.limits["T"], each.arch, each.latency_ms) for each in summary.handed]
        return [
            {
                "limit": limit,
                "arch": arch,
                "ms": ms,
                "accuracy": accuracy(found, arch, photos, chosen.weights),
                "seconds": took_s,
            }
            for limit, arch, ms in best
        ]


def measure(seed, chosen):
    """The rows of a set; the fit for all is the first in every other set."""
    with tempfile.TemporaryDirectory() as folder:
        photos = cifar_photos.write(chosen.parquet, Path(folder), seed, learnt=150)
        fits = [("alone", [limit], chosen.seconds) for limit in chosen.limits]
        together = ("together", chosen.limits, TIMES * chosen.seconds)
        for kind, limits, seconds in [together, *fits] if seed % 2 else [*fits, together]:
            for row in fitted(photos, limits, seconds, chosen):
                text = json.dumps({"seed": seed, "kind": kind, **row})
                print(text, flush=True)
                with (chosen.out / f"limits-{seed}.jsonl").open("a") as file:
                    file.write(f"{text}\n")


def page(folder):
    """Differences of each limit, paired by set, and the cost."""
    rows = [json.loads(line) for path in folder.glob("limits-*.jsonl") for line in path.open()]
    for limit in sorted({row["limit"] for row in rows}, key=lambda text: float(text[:-2])):
        by_set = {
            kind: {
                row["seed"]: row["accuracy"]
                for row in rows
                if (row["limit"], row["kind"]) == (limit, kind)
            }
            for kind in ("alone", "together")
        }
        seeds = sorted(by_set["alone"].keys() & by_set["together"].keys())
        points = np.array([100 * (by_set["together"][s] - by_set["alone"][s]) for s in seeds])
        half = (
            stats.t.ppf(0.975, len(points) - 1) * stats.sem(points) if len(points) > 1 else np.nan
        )
        missing = len(by_set["alone"]) - len(seeds)
        print(
            f"T = {limit}: {points.mean():+.2f} points ({points.mean() - half:+.2f} to {points.mean() + half:+.2f}) of "
            f"{len(points)} sets, {np.round(points, 1).tolist()}; {missing} sets without a network"
        )
    largest = max({row["limit"] for row in rows}, key=lambda text: float(text[:-2]))
    alone, together = (
        np.mean([row["seconds"] for row in rows if (row["kind"], row["limit"]) == (kind, largest)])
        for kind in ("alone", "together")
    )
    print(
        f"{together:.0f} s together, {alone:.0f} s for {largest} alone: {together / alone:.2f} times"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parquet", type=Path, nargs="?")
    parser.add_argument("--weights", type=Path, help="folder of pretrained networks")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--limits", nargs="+", default=["2ms", "4ms", "8ms"])
    parser.add_argument("--seconds", type=float, default=95)
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--page", type=Path)
    arguments = parser.parse_args()
    if arguments.page is not None:
        page(arguments.page)
    else:
        for number in arguments.seeds:
            measure(number, arguments)
