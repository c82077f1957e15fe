"""Claim: what a search on own images says of its winner holds on photos from outside.

    $ python -m benchmarks.own_images_outside RUN_FOLDER PHOTOS_FOLDER

The photos are class folders with the names of the search's classes. Prints the accuracy of the winner's
exported fp32 network, prepared as its `infer.py` does, and its 95 % interval (Wilson).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime

from nas.export.on_board.check import normalised
from nas.export.on_board.infer import pixels_of
from nas.trials.survey import accuracy_text


def main(run: Path, photos: Path) -> None:
    """Classify each photo."""
    exported = run / "export" / "preprocessing.json"
    if not exported.is_file():
        sys.exit(f"{run} has no exported network: python -m nas.export run={run}")
    about = json.loads(exported.read_text(encoding="utf-8"))
    session = onnxruntime.InferenceSession(str(run / "export" / "network.onnx"))
    right = []
    for photo in sorted(photos.glob("*/*")):
        pixels = pixels_of(str(photo), about["cropped_to"], about["side"])
        (logits,) = session.run(None, {about["input"]: normalised(pixels[None], about)})
        right.append(about["classes"][int(np.argmax(logits))] == photo.parent.name)
    print(f"{len(right):,} photos: {accuracy_text(float(np.mean(right)), len(right))}")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
