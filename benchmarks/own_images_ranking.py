"""How well cheap signals rank 1,000 random cells of NAS-Bench-201; its own table is the judge.

    $ NAS_DATA=<folder of tables> python -m benchmarks.own_images_ranking --out results/
    $ python -m benchmarks.own_images_ranking --only supernet --minutes 9 --out results/     # one part
    $ python -m benchmarks.own_images_ranking --only none --out results/     # judges what is there
    $ python -m benchmarks.own_images_ranking --tiny --cells 4 --out tiny/                    # on a CPU

Needs a GPU, `images/cifar10-jpeg.parquet` and `nb201_accuracy.csv` in the data folder. Parts, each of
which may fail without the others:

- proxies: every proxy on one batch of 64 training images;
- short: 12 epochs on half of the training images (the benchmark's `valid` protocol), of 30 random
  cells and of the 30 that the predictor then finds most promising;
- supernet: weight sharing for the time that is left.

Judged by Kendall's tau with the test accuracy after 200 epochs, of all cells and of the true best
10 %. Also judged, by `nb201_latency_ms.csv`: the best cell within T by the supernet alone, for the
devices of `own_images_staged.py`. Writes `ranking.json` (all numbers) and `ranking.md` (the table).
"""

from __future__ import annotations

import argparse
import json
import math
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import as_completed
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import kendalltau

from benchmarks.own_images import (
    DEVICES,
    STARTED_S,
    accuracy_of_table,
    images_of,
    network_of,
    problem_of,
    say,
)
from benchmarks.own_images_proxies import PROXIES, SIGNALS
from nas.accuracy.base import Split
from nas.accuracy.proxies.scores import columns_of, scores, signal
from nas.accuracy.short import proxy_batch
from nas.accuracy.supernet.training import (
    initialised,
    path_accuracy,
    seconds_of_epoch,
    train_supernet,
)
from nas.accuracy.training.recipe import RECIPES
from nas.accuracy.training.together import TrainingPool
from nas.accuracy.training.trainer import TrainingOptions
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.trials.staged.predictor import Predictor, log_rank
from nas.trials.staged.stages import WEIGHT


def tse_ema(losses: Sequence[float]) -> float:
    """Training speed as the moving average of an epoch's mean training loss: e <- 0.1 e + 0.9 loss.

    Lower is better (Ru et al., "Speedy performance estimation for NAS", NeurIPS 2021, TSE-EMA).
    """
    average = losses[0]
    for loss in losses[1:]:
        average = 0.1 * average + 0.9 * loss
    return average


def device_of(rank: int) -> torch.device:
    gpus = torch.cuda.device_count()
    return torch.device("cuda", rank % gpus) if gpus else torch.device("cpu")


def score_cells(rank: int, cells: list[int], arguments: argparse.Namespace, queue: Any) -> None:
    """Score cells by every proxy; puts (cell, scores, seconds of each proxy)."""
    torch.set_num_threads(1)
    device = device_of(rank)
    images = images_of(tiny=arguments.tiny)
    batch = proxy_batch(images, 64).to(device)
    for number in cells:
        network = network_of(number, images).to(device)
        found: list[float] = []
        seconds = []
        for name in PROXIES:
            began_s = time.perf_counter()
            found += scores(network, batch, [name], 0, PROXIES)
            seconds.append(time.perf_counter() - began_s)
        queue.put((number, found, seconds))


def train_cells(rank: int, cells: list[int], arguments: argparse.Namespace, queue: Any) -> None:
    """Train cells shortly, side by side; puts (cell, accuracy, losses of the epochs, seconds)."""
    images = images_of(tiny=arguments.tiny)
    device = device_of(rank)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    recipe = replace(RECIPES["nas_bench_201"], epochs=arguments.epochs)
    at_once = min(len(cells), arguments.at_once)
    with TrainingPool(images, device=device, side_by_side=at_once) as pool:
        futures = {
            pool.submit(
                partial(network_of, number, images),
                recipe,
                TrainingOptions(seed=777, evaluate_every=arguments.epochs),
            ): number
            for number in cells
        }
        for future in as_completed(futures):
            error = future.exception()
            if error is not None:
                say(f"cell {futures[future]} failed: {error!r}")
                queue.put((futures[future], math.nan, [], math.nan))
            else:
                one = future.result()
                queue.put((futures[future], one.accuracy, list(one.losses), one.seconds))
        queue.close()
        queue.join_thread()  # before the pool ends, so that nothing is lost with the process


def share_weights(rank: int, cells: list[int], arguments: argparse.Namespace, queue: Any) -> None:
    """Train a supernet for the time that is left, and score cells; puts (cell, accuracy of its path)."""
    images, device = images_of(tiny=arguments.tiny), device_of(rank)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    began_s = time.monotonic()
    epoch_s = seconds_of_epoch(SPACE, images)
    began_s, started_s = time.monotonic(), time.monotonic() - began_s + arguments.started_s
    network = initialised(SPACE, images, 0)
    path_accuracy(SPACE, network, SPACE.architectures(np.array(cells[0])), images)
    scoring_s = 1.2 * len(cells) * (time.monotonic() - began_s)
    left_s = 60 * arguments.minutes - scoring_s - started_s
    ends_s = time.monotonic() + left_s
    epochs = max(1, min(2 if arguments.tiny else 250, int(0.9 * left_s / epoch_s)))
    losses: list[float] = []

    def on_epoch(epoch):
        losses.append(epoch.loss)
        say(f"supernet: epoch {epoch.number}, loss {epoch.loss:.3f}")

    say(f"supernet: {epoch_s:.1f} s an epoch, {epochs} epochs; then {scoring_s:.0f} s for scores")
    network = train_supernet(
        SPACE,
        images,
        epochs=epochs,
        seed=0,
        on_epoch=on_epoch,
        stop=lambda: time.monotonic() > ends_s,
    )
    for number in cells:
        row = SPACE.architectures(np.array(number))
        queue.put((number, path_accuracy(SPACE, network, row, images), len(losses)))
    queue.close()
    queue.join_thread()  # before the process ends, so that nothing is lost with it


def spread(
    work: Any, cells: list[int], processes: int, arguments: argparse.Namespace, what: str
) -> list[Any]:
    """Results of all cells, shared among processes; those that have come when one dies or it is late."""
    context = torch.multiprocessing.get_context("spawn")
    queue = context.Queue()
    parts = [cells[i::processes] for i in range(processes)]
    workers = [
        context.Process(target=work, args=(rank, part, arguments, queue), daemon=True)
        for rank, part in enumerate(parts)
        if part
    ]
    for worker in workers:
        worker.start()
    found: list[Any] = []
    while len(found) < len(cells):
        late = time.monotonic() - STARTED_S > 60 * arguments.minutes
        if late or (queue.empty() and not any(worker.is_alive() for worker in workers)):
            say(f"{what}: {len(found)} of {len(cells)} only")
            break
        try:
            found.append(queue.get(timeout=1))
        except Exception:  # noqa: BLE001, S112 - the queue's Empty: look again whether it is late
            continue
        if len(found) % max(1, len(cells) // 10) == 0:
            say(f"{what}: {len(found)} of {len(cells)}")
    for worker in workers:
        worker.kill()
    return found


def taus(values: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    best = np.argsort(-truth)[: max(2, len(truth) // 10)]
    return {
        "tau": float(kendalltau(values, truth)[0]),
        "tau_top": float(kendalltau(values[best], truth[best])[0]),
    }


def proxies_part(cells: np.ndarray, arguments: argparse.Namespace, out: dict[str, Any]) -> None:
    processes = arguments.processes * max(1, torch.cuda.device_count())
    began_s = time.monotonic()
    found = spread(score_cells, cells.tolist(), processes, arguments, "proxies")
    out["proxies"] = {
        "columns": columns_of(list(PROXIES), PROXIES),
        "scores": {str(number): values for number, values, _ in found},
        "seconds": dict(
            zip(
                PROXIES, np.median([seconds for *_, seconds in found], axis=0).tolist(), strict=True
            )
        ),
        "wall_s": time.monotonic() - began_s,
        "processes": processes,
    }


def short_part(
    cells: np.ndarray, arguments: argparse.Namespace, out: dict[str, Any], prior: np.ndarray
) -> None:
    rows = SPACE.architectures(cells)
    chosen = list(range(min(arguments.short // 2, len(cells))))  # the cells are in random order
    out["short"] = {"epochs": arguments.epochs, "accuracy": {}, "losses": {}, "seconds": {}}
    began_s = time.monotonic()
    processes = max(1, torch.cuda.device_count())
    for half in range(2):
        if half == 1:
            trained = [i for i in chosen if str(cells[i]) in out["short"]["accuracy"]]
            accuracy = [out["short"]["accuracy"][str(cells[i])] for i in trained]
            predicted = Predictor(rows, prior).after(np.array(trained), np.array(accuracy))
            promise = WEIGHT * log_rank(predicted) + prior
            promise[chosen] = -np.inf
            part = np.argsort(-promise)[: arguments.short - len(chosen)].tolist()
            chosen += part
        else:
            part = chosen
        cells_of_part = [int(cells[i]) for i in part]
        for number, accuracy, losses, seconds in spread(
            train_cells, cells_of_part, processes, arguments, f"short {half + 1}"
        ):
            if math.isfinite(accuracy):
                out["short"]["accuracy"][str(number)] = accuracy
                out["short"]["losses"][str(number)] = losses
                out["short"]["seconds"][str(number)] = seconds
        out["short"]["wall_s"] = time.monotonic() - began_s
        save(out, arguments)


def supernet_part(cells: np.ndarray, arguments: argparse.Namespace, out: dict[str, Any]) -> None:
    began_s = time.monotonic()
    arguments.started_s = began_s - STARTED_S
    found = spread(share_weights, cells.tolist(), 1, arguments, "supernet")
    out["supernet"] = {
        "accuracy": {str(number): accuracy for number, accuracy, _ in found},
        "epochs": max(epochs for *_, epochs in found),
        "wall_s": time.monotonic() - began_s,
    }


def judged(cells: np.ndarray, out: dict[str, Any]) -> list[tuple[str, int, dict[str, float]]]:
    """Signal, number of cells and taus, for all that there is."""
    test, short = accuracy_of_table(cells, 200, Split.test), accuracy_of_table(cells, 12)
    found = [("the table's own 12 epochs", len(cells), taus(short, test))]
    if "proxies" in out:
        found += by_proxies(cells, out, test, short)
    if "supernet" in out:
        path = out["supernet"]["accuracy"]
        at = np.array([i for i, number in enumerate(cells) if str(number) in path])
        one_shot = np.array([path[str(cells[i])] for i in at])
        name = f"supernet, {out['supernet']['epochs']} epochs"
        found.append((name, len(at), taus(one_shot, test[at])))
    return found


def chosen_by_supernet(accuracy: dict[str, float]) -> list[str]:
    """The cell of the best shared weights within T of each device of the staged search, and its gap."""
    cells, values = np.array([int(number) for number in accuracy]), np.array([*accuracy.values()])
    lines = []
    for device, limit_ms in DEVICES:
        judge = problem_of(device, limit_ms, 200, Split.test)
        test = judge.accuracy.answer(SPACE.rows).fraction
        within = judge.oracle.answer(SPACE.rows).ms <= limit_ms
        if not within[cells].any():
            lines.append(
                f"- supernet alone, {device}, {limit_ms} ms: none of the cells is within T"
            )
            continue
        found = cells[within[cells]][np.argmax(values[within[cells]])]
        gap = 100 * (test[within].max() - test[found])
        of = int(within[cells].sum())
        lines.append(
            f"- supernet alone, {device}, {limit_ms} ms: cell {found} of {of}, gap {gap:.2f}"
        )
    return lines


def by_proxies(
    cells: np.ndarray, out: dict[str, Any], test: np.ndarray, short: np.ndarray
) -> list[tuple[str, int, dict[str, float]]]:
    """The signals that need the proxies: themselves, and the predictors that start from them."""
    columns, prior = prior_of(cells, out)
    found = [(name, len(cells), taus(signal(name, columns, SIGNALS), test)) for name in SIGNALS]
    place = {str(number): i for i, number in enumerate(cells)}
    rows = SPACE.architectures(cells)
    if "short" in out:
        numbers = list(out["short"]["accuracy"])
        at = np.array([place[number] for number in numbers])
        accuracy = np.array([out["short"]["accuracy"][number] for number in numbers])
        tse = np.array([-tse_ema(out["short"]["losses"][number]) for number in numbers])
        n = len(at)
        found += [
            (f"short trainings, {n} cells alone", n, taus(accuracy, test[at])),
            (f"TSE-EMA, {n} cells alone", n, taus(tse, test[at])),
            (f"table's 12 epochs, {n} cells alone", n, taus(short[at], test[at])),
        ]
        labels = {
            "short": accuracy,
            "TSE-EMA": tse,
            "table's 12": short[at],
            "table's 200": test[at],  # no search sees it: what perfect labels would give
        }
        for name, values in labels.items():
            predicted = Predictor(rows, prior).after(at, values)
            found.append((f"predictor by {n} {name}", len(cells), taus(predicted, test)))
            combined = WEIGHT * log_rank(predicted) + prior
            found.append((f"predictor and proxies by {n} {name}", len(cells), taus(combined, test)))
    for weight in (0.2, 0.5, 1.0):  # what 12 epochs of every cell would be worth
        name = f"{weight:g} x the table's 12 epochs of all, and proxies"
        found.append((name, len(cells), taus(weight * log_rank(short) + prior, test)))
    return found


def prior_of(cells: np.ndarray, out: dict[str, Any]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    scored = out["proxies"]["scores"]
    values = np.array([scored[str(number)] for number in cells])
    columns = dict(zip(out["proxies"]["columns"], values.T, strict=True))
    return columns, log_rank(signal("aggregate", columns))


def save(out: dict[str, Any], arguments: argparse.Namespace) -> None:
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "ranking.json").write_text(json.dumps(out))


def report(cells: np.ndarray, out: dict[str, Any], arguments: argparse.Namespace) -> None:
    lines = ["| signal | cells | tau | tau, true top 10 % |", "|---|---|---|---|"]
    for name, n, one in judged(cells, out):
        lines.append(f"| {name} | {n} | {one['tau']:.3f} | {one['tau_top']:.3f} |")
    lines.append("")
    lines += [
        f"- {name}: {seconds * 1e3:.1f} ms a network, median"
        for name, seconds in out.get("proxies", {}).get("seconds", {}).items()
    ]
    lines += [
        f"- {part}: {out[part]['wall_s']:.0f} s in all"
        for part in ("proxies", "short", "supernet")
        if part in out
    ]
    if "supernet" in out:
        lines += chosen_by_supernet(out["supernet"]["accuracy"])
    text = "\n".join(lines)
    (arguments.out / "ranking.md").write_text(text + "\n")
    print(text, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("ranking"))
    parser.add_argument("--only", default="proxies,short,supernet", help="parts")
    parser.add_argument("--cells", type=int, default=1000)
    parser.add_argument("--short", type=int, default=60)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--processes", type=int, default=8, help="that score, on each GPU")
    parser.add_argument("--at-once", type=int, default=16, help="trainings on each GPU")
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument(
        "--tiny", action="store_true", help="digits at 8 pixels, for a test on a CPU"
    )
    arguments = parser.parse_args()
    cells = np.random.default_rng(0).permutation(SPACE.size)[: arguments.cells]
    out: dict[str, Any] = {"cells": cells.tolist(), "torch": torch.__version__}
    say("decoded", images_of(tiny=arguments.tiny).report)  # once, for all processes
    path = arguments.out / "ranking.json"
    only = arguments.only.split(",")
    if "proxies" not in only and path.is_file():
        out |= json.loads(path.read_text())
    try:
        if "proxies" in only:
            proxies_part(cells, arguments, out)
            save(out, arguments)
        if "proxies" in out:
            cells = np.array([cell for cell in cells if str(cell) in out["proxies"]["scores"]])
            report(cells, out, arguments)
    except Exception:  # noqa: BLE001 - the other parts may still work
        traceback.print_exc()
    parts = {
        "short": lambda: short_part(cells, arguments, out, prior_of(cells, out)[1]),
        "supernet": lambda: supernet_part(cells, arguments, out),
    }
    for name, part in parts.items():
        if name not in only:
            continue
        try:
            part()
        except Exception:  # noqa: BLE001 - as above
            say(name, "failed")
            traceback.print_exc()
        save(out, arguments)
    report(cells, out, arguments)


if __name__ == "__main__":
    main()
