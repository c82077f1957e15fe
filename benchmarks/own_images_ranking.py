"""How well cheap signals rank 1,000 random cells of NAS-Bench-201; its own table is the judge.

    $ NAS_DATA=<folder of tables> python -m benchmarks.own_images_ranking --out results/
    $ python -m benchmarks.own_images_ranking --only none --out results/     # judges what is there
    $ python -m benchmarks.own_images_ranking --tiny --cells 4 --short 4 --out tiny/      # on a CPU

Needs a GPU, `images/cifar10-jpeg.parquet` and `nb201_accuracy.csv` in the data folder. Parts:

- proxies: every proxy of a search, and FLOPs, on one batch of 64 training images;
- short: 12 epochs on half of the training images (the benchmark's `valid` protocol), of 30 random
  cells and of the 30 that the predictor then finds most promising.

Judged by Kendall's tau with the test accuracy after 200 epochs, of all cells and of the true best
10 %. Writes `ranking.json` (all numbers) and `ranking.md` (the table).
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from joblib import Parallel, delayed
from scipy.stats import kendalltau

from benchmarks.own_images import accuracy_of_table, images_of, network_of, say
from nas.accuracy.base import Split
from nas.fit.ranking.predictor import Predictor, log_rank
from nas.fit.ranking.stages import WEIGHT
from nas.fit.starts.proxies import scores as of_search
from nas.fit.starts.proxies.scores import columns_of, scores, signal
from nas.fit.training.recipe import RECIPES
from nas.fit.training.together import TrainingPool
from nas.fit.training.trainer import TrainingOptions
from nas.fit.training.trial import proxy_batch
from nas.spaces.counted import flops
from nas.spaces.nas_bench_201.plugin import SPACE

PROXIES = {
    "flops": (("flops",), lambda network, images: (flops(network, images),)),
    **of_search.PROXIES,
}
SIGNALS = {
    **{column: {column: 1.0} for column in columns_of(list(PROXIES), PROXIES)},
    "aggregate": of_search.SIGNALS["aggregate"],
}


def score_cells(cells, *, tiny):
    """Scores of each cell by every proxy, and the seconds of each proxy."""
    torch.set_num_threads(1)
    images = images_of(tiny=tiny)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch = proxy_batch(images, 64).to(device)
    results = []
    for number in cells:
        network = network_of(number, images).to(device)
        values, seconds = [], []
        for name in PROXIES:
            began_s = time.perf_counter()
            values += scores(network, batch, [name], 0, PROXIES)
            seconds.append(time.perf_counter() - began_s)
        results.append((number, values, seconds))
    return results


def proxies_part(cells, arguments):
    """Scores of all cells, shared among processes."""
    began_s = time.monotonic()
    shares = [cells[i :: arguments.processes].tolist() for i in range(arguments.processes)]
    scored = Parallel(arguments.processes)(
        delayed(score_cells)(share, tiny=arguments.tiny) for share in shares
    )
    results = [result for share in scored for result in share]
    seconds = np.median([seconds for *_, seconds in results], axis=0)
    return {
        "columns": columns_of(list(PROXIES), PROXIES),
        "scores": {str(number): values for number, values, _ in results},
        "seconds": dict(zip(PROXIES, seconds.tolist(), strict=True)),
        "wall_s": time.monotonic() - began_s,
    }


def accuracies_after_short_training(cells, arguments):
    """Validation accuracy of each cell, trained side by side."""
    images = images_of(tiny=arguments.tiny)
    recipe = replace(RECIPES["nas_bench_201"], epochs=arguments.epochs)
    options = TrainingOptions(seed=777, evaluate_every=arguments.epochs)
    with TrainingPool(images, side_by_side=min(len(cells), arguments.at_once)) as pool:
        futures = {
            str(number): pool.submit(partial(network_of, number, images), recipe, options)
            for number in cells.tolist()
        }
        return {number: future.result().accuracy for number, future in futures.items()}


def short_part(cells, arguments, prior):
    """Short trainings of random cells, then of those that the predictor finds most promising."""
    began_s = time.monotonic()
    half = arguments.short // 2
    accuracy = accuracies_after_short_training(cells[:half], arguments)
    predicted = Predictor(SPACE.architectures(cells), prior).after(
        np.arange(half), np.array([*accuracy.values()])
    )
    order = np.argsort(-(WEIGHT * log_rank(predicted) + prior))
    promising = cells[order[order >= half][: arguments.short - half]]
    accuracy |= accuracies_after_short_training(promising, arguments)
    return {"accuracy": accuracy, "wall_s": time.monotonic() - began_s}


def taus(values, truth):
    """Kendall's tau over all cells, and over the true best 10 %."""
    best = np.argsort(-truth)[: max(2, len(truth) // 10)]
    return [kendalltau(values[some], truth[some])[0] for some in (slice(None), best)]


def prior_of(cells, results):
    """Columns of scores, and the aggregate's log ranks."""
    values = np.array([results["proxies"]["scores"][str(number)] for number in cells])
    columns = dict(zip(results["proxies"]["columns"], values.T, strict=True))
    return columns, log_rank(signal("aggregate", columns))


def judged(cells, results):
    """Signal, number of cells and taus, for all that there is."""
    test, short = accuracy_of_table(cells, 200, Split.test), accuracy_of_table(cells, 12)
    yield "the table's own 12 epochs", len(cells), taus(short, test)
    columns, prior = prior_of(cells, results)
    for name in SIGNALS:
        yield name, len(cells), taus(signal(name, columns, SIGNALS), test)
    if "short" in results:
        trained = results["short"]["accuracy"]
        at = np.array([i for i, number in enumerate(cells) if str(number) in trained])
        labels = {
            "short trainings": np.array([trained[str(number)] for number in cells[at]]),
            "table's 12 epochs": short[at],
            "table's 200 epochs": test[at],  # no search sees them: what perfect labels would give
        }
        for name, values in labels.items():
            predicted = Predictor(SPACE.architectures(cells), prior).after(at, values)
            combined = WEIGHT * log_rank(predicted) + prior
            yield f"{name}, {len(at)} cells alone", len(at), taus(values, test[at])
            yield f"predictor by {len(at)} {name}", len(cells), taus(predicted, test)
            yield f"the same and proxies, {name}", len(cells), taus(combined, test)
    every_short = 0.2 * log_rank(short) + prior
    yield "0.2 x the table's 12 epochs of all, and proxies", len(cells), taus(every_short, test)


def report(cells, results, folder):
    """Write the results, and the table for readers."""
    lines = ["| signal | cells | tau | tau, true top 10 % |", "|---|---|---|---|"]
    lines += [
        f"| {name} | {count} | {tau:.3f} | {tau_top:.3f} |"
        for name, count, (tau, tau_top) in judged(cells, results)
    ]
    lines += [
        f"- {name}: {seconds * 1e3:.1f} ms a network, median"
        for name, seconds in results["proxies"]["seconds"].items()
    ]
    lines += [f"- {part}: {found['wall_s']:.0f} s in all" for part, found in results.items()]
    (folder / "ranking.json").write_text(json.dumps(results))
    (folder / "ranking.md").write_text("\n".join(lines) + "\n")
    print(*lines, sep="\n", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("ranking"))
    parser.add_argument("--only", default="proxies,short", help="parts")
    parser.add_argument("--cells", type=int, default=1000)
    parser.add_argument("--short", type=int, default=60)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--processes", type=int, default=8, help="that score")
    parser.add_argument("--at-once", type=int, default=16, help="trainings")
    parser.add_argument("--tiny", action="store_true", help="digits, for a test on a CPU")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    cells = np.random.default_rng(0).permutation(SPACE.size)[: arguments.cells]
    say("decoded", images_of(tiny=arguments.tiny).report)  # once, for all processes
    path, only = arguments.out / "ranking.json", arguments.only.split(",")
    results = json.loads(path.read_text()) if path.is_file() else {}
    if "proxies" in only:
        results["proxies"] = proxies_part(cells, arguments)
        report(cells, results, arguments.out)
    if "short" in only:
        results["short"] = short_part(cells, arguments, prior_of(cells, results)[1])
    report(cells, results, arguments.out)


if __name__ == "__main__":
    main()
