"""Who trains the most accurate network within T on the same photos, seconds and cores?

    $ python -m benchmarks.league photos/trash set10/ set11/ --weights FOLDER --seconds 600 --limit 8ms --seeds 0 1 2
    $ python -m benchmarks.league --page    # benchmarks/results/league.md of benchmarks/results/league.json

A set is a folder with `photos/` and `outside_test/`, each of class folders, or one of class folders alone, a third of which is
kept outside by the seed. All rows see the same photos, and choose among the same networks; those but the fit by the times of ONNX Runtime on these cores:

- `fit`: the command.
- `published baseline`: the network of the best ImageNet accuracy, all its time in one fine-tuning.
- `by hand, fixed choice`: the smallest network of 96 pixels or more, tuned by SGD with learnt batch statistics; `kept statistics`:
  with those of the photos; `AdamW`: with kept statistics by the fit's own recipe. `by hand, best in hindsight`: the best on outside
  photos of three networks, each tuned in these three ways for the whole time.
- `linear layer`: on frozen features of the published baseline.
- `plain CNN`: a residual network with random initialisation.
- `torch-pruning`: the most accurate network beyond T, tuned for half of the time, pruned to the multiply-accumulates of the published
  baseline, and tuned for the other half.

Each writes its row when it ends; rows that are there are not made again. Run it on quiet cores, as `taskset -c 0,1`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from scipy.stats import t

import edgenas
from edgenas_core.inference.formats.onnx_export import onnx_bytes
from nas.accuracy.slow import Fidelity
from nas.export.network import with_weights
from nas.fit.data.image_set import Images
from nas.fit.data.unlabelled import unlabelled_images
from nas.fit.run.winner import epochs_of_new, epochs_within
from nas.fit.starts.fine_tuning.trial import (
    FROZEN,
    FineTuningTrial,
    PretrainedImages,
    PretrainedNetwork,
)
from nas.fit.starts.fine_tuning.tuning import freeze
from nas.fit.starts.pretrained.space import pretrained_space
from nas.fit.training.evaluation import logits_of
from nas.fit.training.recipe import recipe_named
from nas.fit.training.trained_folder import WEIGHTS, trained_folder
from nas.fit.training.trainer import TrainingOptions, train
from nas.train.job import Start

RESULTS = Path(__file__).with_name("results")
OUTSIDE = "outside_test"
BY_HAND = 3
"""Networks that are tuned by hand."""

WAYS = {
    "SGD, learnt statistics": ("fine_tuning", True),
    "SGD, kept statistics": ("fine_tuning", False),
    "AdamW": ("adamw", False),
}
"""How: a recipe, and whether batch normalisation learns its statistics."""


class Contest:
    """One set of photos, one seed: what all rows share."""

    def __init__(self, folder: Path, seed: int, chosen: argparse.Namespace) -> None:
        self.seed, self.chosen = seed, chosen
        self.name = folder.name
        self.work = chosen.work / f"{folder.name}-{seed}"
        self.photos, self.outside = split(folder, self.work, seed)
        self.space = pretrained_space(str(chosen.weights.absolute()))
        self.images = PretrainedImages(self.space, str(self.photos))
        self.network = PretrainedNetwork(self.space, self.images, self.work / "heads")
        self.rows = np.zeros((0, 3), np.int64)
        """Networks within T, all of their layers tuned, the best published accuracy first."""

    def accuracy(self, network: torch.nn.Module, row: np.ndarray) -> float:
        """On the outside photos, as the network takes them."""
        images = self.images(row)
        files = sorted(path for path in self.outside.glob("*/*") if path.is_file())
        pixels = unlabelled_images(files, images).pixels
        labels = np.array([images.classes.index(file.parent.name) for file in files])
        answers = logits_of(network, Images(pixels, labels), images).argmax(1).cpu().numpy()
        return float((answers == labels).mean())

    def fit(self) -> tuple[float, str]:
        """The command."""
        chosen, runs = self.chosen, self.work / "runs"
        shutil.rmtree(runs, ignore_errors=True)
        found = edgenas.fit(
            data=str(self.photos),
            T=chosen.limit,
            hours=chosen.seconds / 3600,
            weights=str(chosen.weights),
            seed=self.seed,
            out=str(runs),
            quiet=True,
        )
        arch = found.summary.best.arch
        row = self.space.parse(arch)
        file = trained_folder(found.folder, arch) / WEIGHTS
        network = with_weights(self.space, row, self.images(row).task, file)
        return self.accuracy(network, row), arch

    def within(self) -> np.ndarray:
        """The networks of the best published accuracies within T, and the one of the least."""
        every = self.space.tuned_to(self.space.every_network(), 2)
        every = every[np.argsort(-self.space.prior(every), kind="stable")]
        limit_ms, kept = float(self.chosen.limit.removesuffix("ms")), []
        for row in every[:-1]:
            if len(kept) < BY_HAND and self.latency_ms(row) <= limit_ms:
                kept.append(row)
        return np.array([*kept, every[-1]])

    def latency_ms(self, row: np.ndarray) -> float:
        """Median of 30 runs of ONNX Runtime on these cores; timed once for all contests."""
        file, name = self.chosen.work / "latencies.json", self.space.text(row)
        known = json.loads(file.read_text()) if file.is_file() else {}
        if name not in known:
            example = torch.zeros(1, 3, self.space.side(row), self.space.side(row))
            network = self.space.network(row, self.images(row).task).eval()
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = len(os.sched_getaffinity(0))
            session = onnxruntime.InferenceSession(onnx_bytes(network, [example]), options)
            inputs, times = {session.get_inputs()[0].name: example.numpy()}, []
            for _ in range(40):
                began_s = time.perf_counter()
                session.run(None, inputs)
                times.append(1000 * (time.perf_counter() - began_s))
            known[name] = float(np.median(times[10:]))
            file.write_text(json.dumps(known, indent=1) + "\n")
        return float(known[name])

    def head(self, row: np.ndarray) -> torch.nn.Module:
        """A network with a linear layer on its frozen features."""
        images = self.images(row)
        trial = FineTuningTrial(self.network, recipe_named("fine_tuning"), len(images.classes))
        trial(row, Fidelity("frozen", FROZEN), self.seed)
        return self.network(row, images.task)

    def tuned(
        self, network: torch.nn.Module, row: np.ndarray, ends_s: float, way: str = "AdamW"
    ) -> torch.nn.Module:
        """The network, tuned until then."""
        name, learns = WAYS[way]
        if learns:
            for module in network.modules():
                vars(module).pop("train", None)  # which kept them
        images, recipe = self.images(row), recipe_named(name)
        left_s = ends_s - time.monotonic()
        start = Start(lambda *_: network)
        epochs = max(1, int(epochs_within(images, row, start, recipe.name, left_s)))
        options = TrainingOptions(seed=self.seed, keeps_best=True)
        train(network, images, replace(recipe, epochs=epochs), options)
        return network

    def by_hand(self, row: np.ndarray, way: str = "AdamW") -> tuple[float, str]:
        """One network, tuned for the whole time."""
        ends_s = time.monotonic() + self.chosen.seconds
        network = self.tuned(self.head(row), row, ends_s, way)
        return self.accuracy(network, row), self.space.text(row)

    def linear(self) -> tuple[float, str]:
        """A linear layer on frozen features of the published baseline."""
        row = self.rows[0]
        return self.accuracy(self.head(row), row), self.space.text(row)

    def plain(self) -> tuple[float, str]:
        """The largest network with random initialisation."""
        row, ends_s = self.space.new_networks()[-1], time.monotonic() + self.chosen.seconds
        images, recipe = self.images(row), recipe_named("from_scratch")
        start, left_s = Start(self.network), ends_s - time.monotonic()
        fit = int(epochs_within(images, row, start, recipe.name, left_s))
        epochs = max(1, min(fit, epochs_of_new(images, recipe.epochs)))
        network = self.network(row, images.task)
        train(network, images, replace(recipe, epochs=epochs), TrainingOptions(seed=self.seed))
        return self.accuracy(network, row), self.space.text(row)

    def pruned(self) -> tuple[float, str]:
        """The most accurate network, tuned, pruned by magnitude, and tuned again."""
        import torch_pruning  # noqa: PLC0415 - not installed with the package

        began_s, half_s = time.monotonic(), self.chosen.seconds / 2
        every = self.space.tuned_to(self.space.every_network(), 2)
        side = self.space.side(self.rows[0])
        every = every[[self.space.side(row) == side for row in every]]
        row = every[np.argmax(self.space.prior(every))]
        weights = self.tuned(self.head(row), row, began_s + half_s).cpu().state_dict()
        # Convolutions as timm has them, which torch-pruning knows.
        classes = len(self.images(row).classes)
        network, least = (self.space.pooled(each).built(classes) for each in (row, self.rows[0]))
        network.load_state_dict(weights)
        example = torch.zeros(1, 3, side, side)
        count = torch_pruning.utils.count_ops_and_params
        most, _ = count(least, example)
        pruner = torch_pruning.pruner.MagnitudePruner(
            network,
            example,
            importance=torch_pruning.importance.GroupMagnitudeImportance(p=2),
            iterative_steps=40,
            pruning_ratio=0.9,
            round_to=8,
            ignored_layers=[network.get_classifier()],
        )
        # The smallest share of channels that leaves as few multiply-accumulates.
        while count(network, example)[0] > most:
            pruner.step()
        freeze(network, dict(network.named_parameters()), keeps_statistics=True)
        network = self.tuned(network, row, began_s + 2 * half_s)
        return self.accuracy(network, row), f"{self.space.text(row)}, pruned"


def split(folder: Path, work: Path, seed: int) -> tuple[Path, Path]:
    """Folders of photos to train on and of outside photos; a set without them is split by the seed."""
    if (folder / OUTSIDE).is_dir():
        return folder / "photos", folder / OUTSIDE
    photos, outside = work / "photos", work / OUTSIDE
    shutil.rmtree(photos, ignore_errors=True)
    shutil.rmtree(outside, ignore_errors=True)
    for place in sorted(path for path in folder.iterdir() if path.is_dir()):
        files = sorted(place.iterdir())
        order = np.random.default_rng([seed, len(files)]).permutation(len(files))
        for number, at in enumerate(order.tolist()):
            to = (outside if number < len(files) // 3 else photos) / place.name
            to.mkdir(parents=True, exist_ok=True)
            shutil.copy(files[at], to / files[at].name)
    return photos, outside


def run(chosen: argparse.Namespace) -> None:
    """Make the rows that are missing."""
    stored = json.loads(chosen.results.read_text()) if chosen.results.is_file() else []
    for folder, seed in product(chosen.sets, chosen.seeds):
        contest = Contest(folder, seed, chosen)
        asked = {
            "fit": contest.fit,
            "published baseline": lambda c=contest: c.by_hand(c.rows[0]),
            "linear layer": contest.linear,
            "plain CNN": contest.plain,
            "torch-pruning": contest.pruned,
        }
        for at, way in product(range(BY_HAND), WAYS):
            asked[f"by hand {at}, {way}"] = lambda c=contest, at=at, way=way: c.by_hand(
                by_hand_rows(c)[min(at, len(c.rows) - 1)], way
            )
        for method in chosen.only or asked:
            key = {"set": contest.name, "seed": seed, "method": method}
            if any(key.items() <= row.items() for row in stored):
                continue
            if method != "fit" and not len(contest.rows):
                contest.rows = contest.within()
            began_s = time.monotonic()
            accuracy, network = asked[method]()
            row = {**key, "accuracy": accuracy, "network": network}
            stored.append(
                {**row, "seconds": round(time.monotonic() - began_s, 1), "asked_s": chosen.seconds}
            )
            chosen.results.write_text(json.dumps(stored, indent=1) + "\n")
            print(stored[-1], flush=True)


def by_hand_rows(contest: Contest) -> np.ndarray:
    """The smallest network of 96 pixels or more, then the best published accuracies."""
    smallest = contest.rows[np.argmin(contest.space.prior(contest.rows))]
    others = [row for row in contest.rows if not np.array_equal(row, smallest)]
    return np.array([smallest, *others])


def page(rows: list[dict]) -> str:
    """The table: what is better than the fit first; means over sets and seeds, differences paired."""
    by_method: dict[str, dict[tuple[str, int], float]] = {}
    for row in rows:
        by_method.setdefault(row["method"], {})[row["set"], row["seed"]] = row["accuracy"]
    hands = {name: kept for name, kept in by_method.items() if name.startswith("by hand")}
    both = set.intersection(*map(set, hands.values())) if hands else set()
    by_method = {name: kept for name, kept in by_method.items() if name not in hands}
    if hands:
        for way in WAYS:
            by_method[f"by hand, fixed choice, {way}"] = hands.get(f"by hand 0, {way}", {})
        by_method[f"by hand, best of {len(hands)} in hindsight"] = {
            key: max(kept[key] for kept in hands.values()) for key in both
        }
    fit, lines = by_method.get("fit", {}), []
    for name, kept in by_method.items():
        paired = 100 * np.array([kept[key] - fit[key] for key in kept.keys() & fit.keys()])
        if not len(paired):
            continue
        wide = "?"
        if len(paired) > 1:
            quantile = float(t.ppf(0.975, len(paired) - 1))
            wide = f"{quantile * paired.std(ddof=1) / len(paired) ** 0.5:.1f}"
        median = 100 * np.median(list(kept.values()))
        lines.append(
            (
                paired.mean(),
                f"| {name} | {median:.1f} % | {paired.mean():+.1f} (± {wide}) | {len(paired)} |",
            )
        )
    lines.sort(key=lambda line: -line[0])
    seconds = sorted({row["asked_s"] for row in rows})
    head = [
        "# Who trains the most accurate network within T on the same photos?",
        "",
        f"Seconds each: {', '.join(f'{each:g}' for each in seconds)}. Accuracy on photos from outside. Made by `python -m benchmarks.league`.",
        "",
        "| what | median | points above the fit, paired (95 %) | pairs |",
        "|---|---|---|---|",
    ]
    return "\n".join([*head, *(text for _, text in lines)]) + "\n"


def main() -> None:
    """Run the contests, or write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("sets", type=Path, nargs="*")
    parser.add_argument("--weights", type=Path, help="folder of pretrained networks")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--limit", default="8ms")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", help="rows to make; all by default, the fit first")
    parser.add_argument("--work", type=Path, default=Path("build/league"))
    parser.add_argument("--results", type=Path, default=RESULTS / "league.json")
    parser.add_argument("--page", action="store_true")
    chosen = parser.parse_args()
    if chosen.page:
        text = page(json.loads(chosen.results.read_text()))
        chosen.results.with_suffix(".md").write_text(text)
    else:
        run(chosen)


if __name__ == "__main__":
    main()
