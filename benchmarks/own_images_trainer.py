"""How fast is the trainer on one GPU, and does it agree with NAS-Bench-201's own table?

    $ NAS_DATA=<folder> python -m benchmarks.own_images_trainer --out out

Parts: images per second of a plain torch loop, of the trainer alone
and of several networks side by side; 12 cells of the table trained for 12 epochs by the benchmark's protocol
`valid`, in a drawn half of CIFAR-10's training images.
`--only full --minutes 20` has an independent loop train a cell for 200 epochs, on training and validation images
together, judged on the test images. `trainer.json` holds the results. `--tiny` tries the script out on a CPU.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np
import torch
from scipy.stats import kendalltau
from torch.nn import functional

from benchmarks.own_images import accuracy_of_table, images_of, network_of, say
from nas.fit.data.image_set import Images
from nas.fit.training.recipe import RECIPES
from nas.fit.training.together import TrainingPool
from nas.fit.training.trainer import TrainingOptions
from nas.spaces.nas_bench_201.plugin import SPACE

NAMED = (6111, 9930, 1462, 10636, 4317, 0, 1835)
"""Cells of the published table that the specification quotes."""

RECIPE = RECIPES["nas_bench_201"]


def first(images, count):
    """The set with the first of its images only."""
    few = {
        name: Images(part.pixels[:count], part.labels[:count])
        for name, part in (("train", images.train), ("valid", images.valid))
    }
    return replace(images, **few)


def plain_loop(number, images, steps):
    """Seconds of each tenth of the steps of a loop as one writes it by hand: bf16, channels last, images on the GPU."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = network_of(number, images, 0).to(device).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    pixels = torch.from_numpy(np.array(images.train.pixels)).to(device).permute(0, 3, 1, 2)
    labels = torch.from_numpy(np.array(images.train.labels)).to(device)
    mean = torch.tensor(images.mean, device=device).view(1, 3, 1, 1) * 255
    sd = torch.tensor(images.sd, device=device).view(1, 3, 1, 1) * 255
    batch_size = min(256, len(labels) // 4)
    times = []
    for step in range(steps):
        if step % max(1, steps // 10) == 0:
            if device == "cuda":
                torch.cuda.synchronize()
            times.append(time.perf_counter())
        which = torch.randint(len(labels), (batch_size,), device=device)
        batch = (pixels[which].float() - mean) / sd
        batch = functional.pad(batch, (4, 4, 4, 4))
        top, left = torch.randint(0, 9, (2,)).tolist()
        batch = batch[:, :, top : top + 32, left : left + 32]
        if step % 2:
            batch = batch.flip(3)
        batch = batch.contiguous(memory_format=torch.channels_last)
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            loss = functional.cross_entropy(model(batch), labels[which])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    tenth = max(1, steps // 10) * batch_size
    return [tenth / (end - begin) for begin, end in pairwise(times[2:])]


def rates(cells, images, window_s):
    """Images per second of all trainings together, while all of them run, in each of four windows.

    Also the seconds until all had ended an epoch: building, choice of kernels, captures.
    """
    per_epoch = len(images.train) // RECIPE.batch_size * RECIPE.batch_size or len(images.train)
    ends = [[] for _ in cells]
    began_s = time.perf_counter()

    def deadline_s():
        return max(end[0] for end in ends) + window_s if all(ends) else np.inf

    with TrainingPool(images, side_by_side=len(cells)) as pool:
        futures = [
            pool.submit(
                partial(network_of, cell, images, seed),
                RECIPE,
                TrainingOptions(
                    seed=seed,
                    on_epoch=lambda _, mine=mine: mine.append(time.perf_counter()),
                    stop=lambda: time.perf_counter() > deadline_s(),
                    evaluate_every=RECIPE.epochs,
                ),
            )
            for seed, (cell, mine) in enumerate(zip(cells, ends, strict=True))
        ]
        for future in futures:
            future.result()
    begin, end = max(end[0] for end in ends), min(end[-1] for end in ends)
    edges = np.linspace(begin, end, 5)
    done = sum(np.interp(edges, end, np.arange(len(end))) for end in ends) * per_epoch
    return list(np.diff(done) / np.diff(edges)), begin - began_s


def spread(values):
    return f"{median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})" if values else "-"


def speed(images, left_s, tiny):
    """Images per second of each way, for the best cell and a middling one."""
    speeds = {}
    small = replace(images, valid=Images(images.valid.pixels[:1000], images.valid.labels[:1000]))
    on_gpu = torch.cuda.is_available()
    middling = int(np.argsort(accuracy_of_table(np.arange(SPACE.size), 200))[SPACE.size // 2])
    for number in (6111, middling):
        row = speeds[number] = {"plain": plain_loop(number, images, 4 if tiny else 100)}
        plain = median(row["plain"])
        say(f"- cell {number}, plain loop: {spread(row['plain'])} images/s")
        for k in (1, 8, 16) if on_gpu else (1,):
            window_s = 1 if tiny else min(max(4.0, k), 15.0)
            if left_s() < window_s + 1.5 * k + 15:
                continue
            if on_gpu:
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
            row[f"beside {k}"], start_s = rates([number] * k, small, window_s)
            memory = torch.cuda.max_memory_reserved() / 1e9 if on_gpu else 0
            say(
                f"- cell {number}, {k} side by side: {spread(row[f'beside {k}'])} images/s, "
                f"{median(row[f'beside {k}']) / plain:.2f} times the plain loop; peak {memory:.1f} GB, "
                f"all have ended an epoch after {start_s:.1f} s"
            )
    return speeds


def chosen_cells():
    """The named cells, and five more at equal distances in the order of the full training."""
    order = np.argsort(accuracy_of_table(np.arange(SPACE.size), 200))[::-1]
    more = [int(order[int(share * SPACE.size)]) for share in (0.1, 0.3, 0.5, 0.7, 0.9)]
    return [*NAMED, *more]


def agreement_with_table(images, left_s, tiny):
    """Accuracies after 12 epochs, a network of each cell, beside the table's."""
    cells = chosen_cells()[: 3 if tiny else None]
    recipe = replace(RECIPE, epochs=1 if tiny else 12)
    seeds_done = []
    for seed in range(1 if tiny else 3):
        began_s = time.perf_counter()
        if seed and left_s() < 1.2 * seeds_done[-1]["seconds"]:
            break
        with TrainingPool(images, side_by_side=12) as pool:
            futures = [
                pool.submit(
                    partial(network_of, cell, images, seed),
                    recipe,
                    TrainingOptions(seed=seed, evaluate_every=99),
                )
                for cell in cells
            ]
            results = [future.exception() or future.result() for future in futures]
        seconds = time.perf_counter() - began_s
        ours = []
        for result in results:
            if isinstance(result, BaseException):
                say(f"failed: {result!r}")
            ours.append(np.nan if isinstance(result, BaseException) else 100 * result.accuracy)
        seeds_done.append({"accuracies": ours, "seconds": seconds})
        say(f"- seed {seed}: {len(cells)} cells in {seconds:.0f} s")
    ours = np.array([seed["accuracies"] for seed in seeds_done])
    theirs, full = (100 * accuracy_of_table(cells, epochs) for epochs in (12, 200))
    say(
        "\n| cell | table, 200 epochs | table, 12 epochs | ours, 12 epochs | difference |\n|---|---|---|---|---|"
    )
    for position in np.argsort(-full):
        mine = ours[:, position]
        say(
            f"| {cells[position]} | {full[position]:.2f} | {theirs[position]:.2f} | "
            f"{', '.join(f'{percent:.2f}' for percent in mine)} | {mine.mean() - theirs[position]:+.2f} |"
        )
    taus = [float(kendalltau(our, theirs).statistic) for our in ours]
    differences = (ours - theirs).mean(axis=1)
    say(f"\ntau {taus}, mean difference {differences.tolist()} points")
    return {
        "cells": cells,
        "table_epoch12": theirs.tolist(),
        "table": full.tolist(),
        "ours": ours.tolist(),
        "tau": taus,
        "mean_difference": differences.tolist(),
        "seconds": [seed["seconds"] for seed in seeds_done],
    }


def agreement_in_full(images, _left_s, tiny):
    """Test accuracy of a cell that the independent loop has trained for 200 epochs.

    That of the trainer is written by `python -m nas.train arch=6584 data=<images> epochs=200`.
    """
    number, epochs = 6584, 2 if tiny else 200
    train_on = (images.train, images.valid)
    accuracy = published_protocol(number, images, epochs, train_on, (images.test,))
    say(f"- cell {number}: plain float32 loop, {epochs} epochs: {accuracy:.2%}")
    return {number: accuracy}


def published_protocol(number, images, epochs, train_on, judged_on):
    """Accuracy after a loop that shares no code with the trainer."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    mean = torch.tensor(images.mean, device=device).view(1, 3, 1, 1)
    sd = torch.tensor(images.sd, device=device).view(1, 3, 1, 1)

    def loaded(splits):
        pixels = torch.cat([torch.from_numpy(np.array(split.pixels)) for split in splits])
        labels = torch.cat([torch.from_numpy(np.array(split.labels)) for split in splits])
        return pixels.to(device).permute(0, 3, 1, 2), labels.to(device)

    def normalized(batch):
        return (batch / 255 - mean) / sd

    pixels, labels = loaded(train_on)
    model = network_of(number, images, 0).to(device)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    generator = torch.Generator(device=device).manual_seed(0)
    shifts = torch.arange(32, device=device)
    for _ in range(epochs):
        order = torch.randperm(len(labels), generator=generator, device=device)
        for which in order.split(256):
            n = len(which)
            padded = functional.pad(pixels[which], (4, 4, 4, 4)).permute(0, 2, 3, 1)
            y, x = torch.randint(9, (2, n), generator=generator, device=device)
            flip = torch.rand(n, generator=generator, device=device) < 0.5
            columns = torch.where(flip[:, None], 31 - shifts, shifts) + x[:, None]
            rows = shifts + y[:, None]
            image = torch.arange(n, device=device)[:, None, None]
            batch = padded[image, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
            loss = functional.cross_entropy(model(normalized(batch)), labels[which])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
    model.eval()
    pixels, labels = loaded(judged_on)
    with torch.no_grad():
        right = sum(
            int((model(normalized(batch)).argmax(1) == truth).sum())
            for batch, truth in zip(pixels.split(500), labels.split(500), strict=True)
        )
    return right / len(labels)


PARTS = {
    "table": agreement_with_table,
    "speed": speed,
    "full": agreement_in_full,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--minutes", type=float, default=7.8)
    parser.add_argument("--only", default="table,speed", help="parts; or full")
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    until_s = time.monotonic() + 60 * chosen.minutes

    def left_s():
        return until_s - time.monotonic()

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    results = {"machine": f"torch {torch.__version__}, {gpu}"}
    images = images_of(tiny=chosen.tiny, side=32)
    if chosen.tiny:
        images = first(images, 48)
    for name in chosen.only.split(","):
        if left_s() < 0:
            say(f"no time is left for {name}")
            continue
        results[name] = PARTS[name](images, left_s, chosen.tiny)
        (chosen.out / "trainer.json").write_text(json.dumps(results, indent=1, default=str))


if __name__ == "__main__":
    main()
