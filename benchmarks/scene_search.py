"""Claim, open: a searched part of a segmenter or detector beats widths scaled alike, at equal predicted time.

The start, torchvision's network, is trained from new weights on composed scenes. The search makes it smaller
within T. The rule of thumb, the slowest network of equally scaled widths within T, begins with the same weights
and is trained for twice the winner's epochs, as the winner also has the supernet's.

    $ python -m benchmarks.scenes cifar10-jpeg.parquet scenes/
    $ python -m benchmarks.scene_search scenes/ out/ --task segmentation --time 2ms
"""

import argparse
import json
from pathlib import Path

import edgenas
from nas.accuracy.learners.opened import open_data
from nas.accuracy.training.trained_folder import WEIGHTS, read_training, trained_folder
from nas.config.build import STARTS
from nas.spaces.registry import space_named

DEVICE = "epyc-vm/onnxruntime/fp32/b1"
"""Of the layers' times, which predict a network's."""


def compare(chosen):
    """Train the start, search among its parts, train the rule of thumb; test metric of each."""
    task, side = chosen.task, chosen.side
    settings_of_all = {"data": chosen.data, "task": task, "seed": chosen.seed, "quiet": True}
    outputs = open_data(f"{task}:{chosen.data}", side=side).task.num_classes
    space = space_named(f"elastic:{STARTS[task]}/{outputs},,{side}")
    start = edgenas.train(
        space=space.name,
        arch=space.text(space.largest),
        runs=chosen.out,
        recipe="scenes",
        epochs=chosen.epochs,
        settings={"side": side},
        **settings_of_all,
    )
    searched = edgenas.search(
        network=STARTS[task],
        T=chosen.time,
        accuracy="inherited",
        latency="layers",
        device=DEVICE,
        hours=chosen.hours,
        runs=chosen.out,
        settings={"side": side, "weights": start / WEIGHTS, "accuracy.draws": 60},
        **settings_of_all,
    )
    winner = trained_folder(searched.folder, searched.best.arch)
    (rule,) = (stage.favourite for stage in searched.summary.stages if stage.name == "rule")
    trained = read_training(winner)
    scaled = edgenas.train(
        run=searched.folder,
        arch=rule,
        recipe=trained.recipe["name"],
        epochs=2 * trained.epochs,
        seed=chosen.seed,
        quiet=True,
    )
    return {
        name: {"arch": each.arch, "epochs": each.epochs, each.metric: each.test}
        for name, each in zip(
            ("start", "rule", "searched"), map(read_training, (start, scaled, winner)), strict=True
        )
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("out", type=Path)
    parser.add_argument("--task", choices=list(STARTS), required=True)
    parser.add_argument("--time", required=True)
    parser.add_argument("--side", type=int, default=128)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    results = compare(chosen)
    print(json.dumps(results, indent=1, default=vars))


if __name__ == "__main__":
    main()
