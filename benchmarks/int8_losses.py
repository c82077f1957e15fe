"""Claim: ONNX Runtime's default int8 costs MobileNets 47 points, ours one or two; part of it is predicted.

    $ python -m benchmarks.int8_losses --weights FOLDER --data PHOTOS --sides 96 128 160 --out LOSSES.csv [--timed]

Each network of the folder at these sides has the linear layer on its frozen features. A row: accuracy on the
test images in fp32, by this project's int8 file (biases corrected), and by that of ONNX Runtime's `quantize_static` as it comes;
the loss that `predicted_loss` says; with `--timed`, milliseconds of the three files on one core, which must be
idle. Rows that are there are kept.

2026-11-23, ONNX Runtime 1.32, 44 networks of real weights (MobileNetV1, V2, V3, EdgeTPU) on 2,000 photos of ten
classes: the default loses 46.7 points in the median, ours before biases were corrected 1.25. Spearman of its
predicted and true loss was .68, when layers padded as in TensorFlow were not rounded; .8 was asked. Halves of the
test images agree at .58, so .86 is the most that could be seen.

2026-11-24, by hand on five networks that two epochs tuned, 1,000 test images: without biases corrected they lose
0.9 points in the mean, with them 0.1, and with four layers in fp32 as well 0.6. A point is noise.
"""

from __future__ import annotations

import argparse
import csv
import logging
import tempfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from scipy.stats import spearmanr

from nas.accuracy.fine_tuning.frozen import frozen_features, frozen_result
from nas.accuracy.fine_tuning.trial import PretrainedImages
from nas.accuracy.fine_tuning.tuning import set_classifier
from nas.export.accuracy import classes_of, prepared
from nas.export.int8 import CALIBRATED_ON, Int8Source, calibration
from nas.spaces.pretrained.space import pretrained_space
from runtime.machine.timing import Stopwatch, TimingConfig, time_interleaved
from runtime.network.formats.onnx_export import onnx_bytes
from runtime.network.formats.onnx_session import OnnxSession

FILES = ("fp32", "int8", "default")
COLUMNS = ("network", *FILES, "predicted", *(f"{name}_ms" for name in FILES))


class Reader:
    """ONNX Runtime's calibration data."""

    def __init__(self, batches: Iterable[np.ndarray]) -> None:
        self._batches = iter(batches)

    def get_next(self) -> dict[str, np.ndarray] | None:
        """The next input, by name; None after the last."""
        batch = next(self._batches, None)
        return None if batch is None else {"input_0": batch}


def by_default(onnx: bytes, batches: Iterable[np.ndarray]) -> bytes:
    """ONNX Runtime's static quantisation, without any setting."""
    from onnxruntime.quantization import quantize_static  # noqa: PLC0415 - writes to the root logger

    with tempfile.TemporaryDirectory() as folder:
        fp32, int8 = Path(folder) / "fp32.onnx", Path(folder) / "int8.onnx"
        fp32.write_bytes(onnx)
        quantize_static(str(fp32), str(int8), Reader(batches))
        return int8.read_bytes()


def measured(space, row, images, *, timed):
    """Accuracies, prediction and times of one network."""
    side = space.side(row)
    network = space.start(row, images.task)
    parts = frozen_features(network, [images.train, images.valid], images, torch.device("cpu"))
    labels = (np.asarray(split.labels) for split in (images.train, images.valid))
    head = frozen_result(*zip(parts, labels, strict=True), len(images.classes))
    set_classifier(network, head.weight, head.bias)
    network = network.to(memory_format=torch.contiguous_format).eval()
    example = prepared(images.train, images, side, slice(1))
    write = partial(onnx_bytes, examples=[torch.from_numpy(example)])
    source, fp32 = Int8Source(network, images, side), write(network)
    files = {
        "fp32": fp32,
        "int8": source.onnx(write).content,
        "default": by_default(fp32, calibration(images, side, 1)),
    }
    sessions = {name: OnnxSession(content) for name, content in files.items()}
    figures = {
        name: float((classes_of(each, images.test, images, side, 1) == images.test.labels).mean())
        for name, each in sessions.items()
    }
    figures["predicted"] = source.predicted_loss
    if timed:
        calls = [lambda each=each: each(example) for each in sessions.values()]
        samples = time_interleaved(calls, TimingConfig(), np.random.default_rng(0), Stopwatch())
        for name, each in zip(sessions, samples, strict=True):
            figures[f"{name}_ms"] = float(np.median(each.ms))
    return {"network": space.text(row), **figures}


def summary(path: Path) -> None:
    """Losses, their ranks by prediction, and how many int8 files are slower."""
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    values = {name: np.array([float(row[name] or "nan") for row in rows]) for name in COLUMNS[1:]}
    losses = {name: 100 * (values["fp32"] - values[name]) for name in ("int8", "default")}
    for name, loss in losses.items():
        slower = (values[f"{name}_ms"] > values["fp32_ms"]).sum()
        print(
            f"{name}: loses {np.median(loss):.2f} points in the median, {loss.min():.2f} to {loss.max():.2f}; "
            f"at most 0.3: {(loss <= 0.3).sum()} of {len(rows)}; slower than fp32: {slower}"
        )
    rank = spearmanr(values["predicted"], losses["int8"]).statistic
    print(f"Spearman of predicted and true loss: {rank:.2f}; calibrated on {CALIBRATED_ON}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weights", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--sides", type=int, nargs="+", default=[96])
    parser.add_argument("--most", type=int, default=1000)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--timed", action="store_true")
    settings = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    space = pretrained_space(settings.weights)
    images_of = PretrainedImages(space, settings.data)
    is_new = not settings.out.is_file()
    with settings.out.open("a+", newline="", encoding="utf-8") as file:
        file.seek(0)
        there = {row["network"] for row in csv.DictReader(file)}
        writer = csv.DictWriter(file, COLUMNS)
        if is_new:
            writer.writeheader()
        chosen = [row for row in space.every_network() if space.side(row) in settings.sides]
        for row in chosen[: settings.most]:
            if space.text(row) not in there:
                writer.writerow(measured(space, row, images_of(row), timed=settings.timed))
                file.flush()
    summary(settings.out)


if __name__ == "__main__":
    main()
