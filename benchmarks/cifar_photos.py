"""Photos of some of CIFAR-10's classes in class folders, with photos of the same and of other classes beside them.

    $ python -m benchmarks.cifar_photos cifar10-jpeg.parquet sets/ --seed 3

writes `sets/photos/` (300 training photos of each of five classes, drawn by the seed), `sets/outside_test/` (200 test photos of
each) and `sets/other/` (100 test photos of each of the five other classes).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq


def write(parquet, folder, seed, *, learnt=300, judges=200):
    """Write the folders, with so many photos of each class in photos and outside_test."""
    table = pq.read_table(parquet, columns=["split", "label", "jpeg"])
    split, label = (np.array(table[name].to_pylist()) for name in ("split", "label"))
    rng = np.random.default_rng(seed)
    inside, other = np.split(rng.permutation(10), 2)
    counts = {"photos": learnt, "outside_test": judges, "other": 100}
    for part, of_split, classes in (
        ("photos", "train", inside),
        ("outside_test", "test", inside),
        ("other", "test", other),
    ):
        for number in np.sort(classes).tolist():
            drawn = rng.permutation(np.flatnonzero((split == of_split) & (label == number)))
            path = Path(folder) / part / f"class{number}"
            path.mkdir(parents=True, exist_ok=True)
            for at in drawn[: counts[part]].tolist():
                (path / f"{at:05}.jpg").write_bytes(table["jpeg"][at].as_py())
    return Path(folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parquet", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    write(chosen.parquet, chosen.folder, chosen.seed)
