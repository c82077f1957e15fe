"""How fast is the trainer on one GPU, and does it agree with NAS-Bench-201's own table?

    $ PYTHONPATH=. NAS_DATA=<folder> python benchmarks/own_images_trainer.py --out out

Parts: a captured step against an eager one; images per second of a plain torch loop, of the trainer alone
and of several networks side by side, beside what the traffic of the tensors allows; 12 cells of the
table trained for 12 epochs by the benchmark's protocol `valid`, in a drawn half of CIFAR-10's training
images, and some of them by an independent loop. `--only full --minutes 20` has that loop train a cell for
200 epochs, on training and validation images together, judged on the test images. Each part is a process
of its own; `trainer.json` and `trainer.md` hold the results of all. `--tiny` tries the script out on a CPU.
"""

import argparse
import dataclasses
import io
import json
import os
import subprocess
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import torch
from PIL import Image
from scipy.stats import kendalltau
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from nas.accuracy.images.image_set import Images, ImageSet
from nas.accuracy.training.recipe import RECIPES
from nas.accuracy.training.together import TrainingPool, train_together
from nas.accuracy.training.trainer import train
from nas.spaces.nas_bench_201.plugin import SPACE

BANDWIDTH_BYTES_S = 4.3e12
"""Copy bandwidth of an H200, measured."""

NAMED = (6111, 9930, 1462, 10636, 4317, 0, 1835)
"""Cells of the published table that the specification quotes."""

RECIPE = RECIPES["nas_bench_201"]
TASK = SPACE.tasks["cifar10"]
DATA = Path(os.environ.get("NAS_DATA", "data"))


class Report:
    """Lines for readers and results as JSON of one part, printed and saved as they come."""

    def __init__(self, folder, name, budget_s):
        self.folder = folder
        self.name = name
        self.began_s = time.perf_counter()
        self.budget_s = budget_s
        self.results = {"machine": machine()}
        self.lines = [f"# Trainer: {name}", "", machine(), ""]

    @property
    def left_s(self):
        """Seconds of the budget that are left."""
        return self.budget_s - (time.perf_counter() - self.began_s)

    def say(self, line):
        """Print a line, keep it, save all."""
        print(f"{self.name} {time.perf_counter() - self.began_s:6.1f} s  {line}", flush=True)
        self.lines.append(line)
        self.save()

    def save(self):
        """Write both files."""
        text = json.dumps(self.results, indent=1, default=str)
        (self.folder / f"trainer-{self.name}.json").write_text(text)
        (self.folder / f"trainer-{self.name}.md").write_text("\n".join(self.lines) + "\n")

    def part(self, work):
        """Do the part; an error is reported."""
        try:
            self.results[self.name] = work()
        except Exception:  # noqa: BLE001 - the report is what is left
            self.say("```\n" + traceback.format_exc() + "```")
        self.say(f"{time.perf_counter() - self.began_s:.0f} s in all")


def machine():
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    return f"torch {torch.__version__}, {gpu}, {os.cpu_count()} processors"


def decode(folder, tiny):
    """Write the training images, in a drawn order, and the test images as arrays."""
    table = pyarrow.parquet.read_table(DATA / "images" / "cifar10-jpeg.parquet")
    split = np.array(table["split"].to_pylist())
    labels = table["label"].to_numpy().astype(np.int64)
    encoded = table["jpeg"].to_pylist()

    def decoded(row):
        return np.asarray(Image.open(io.BytesIO(encoded[row])).convert("RGB"))

    rows = {
        "train": np.random.default_rng(0).permutation(np.flatnonzero(split == "train")),
        "test": np.flatnonzero(split == "test"),
    }
    with ThreadPoolExecutor() as threads:
        for name, chosen in rows.items():
            some = chosen[:96] if tiny else chosen
            np.save(folder / f"{name}.npy", np.stack(list(threads.map(decoded, some))))
            np.save(folder / f"{name}-labels.npy", labels[some])


def cifar10(folder):
    """A drawn half of the training images, the other half, and the test images."""
    pixels, labels = (np.load(folder / f"train{end}.npy", mmap_mode="r") for end in ("", "-labels"))
    half = len(labels) // 2
    test = (np.load(folder / f"test{end}.npy", mmap_mode="r") for end in ("", "-labels"))
    mean, sd = np.array([125.3, 123.0, 113.9]) / 255, np.array([63.0, 62.1, 66.7]) / 255
    return ImageSet(
        "cifar10",
        "CIFAR-10",
        tuple("0123456789"),
        Images(pixels[:half], labels[:half]),
        Images(pixels[half:], labels[half:]),
        Images(*test),
        tuple(mean.tolist()),
        tuple(sd.tolist()),
        "0",
        (),
    )


def network(number, seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return SPACE.network(SPACE.architectures(np.array(number)), TASK)


# --- a captured step against an eager one


def agreement_of_steps(images, report, _tiny):
    """Losses of captured, eager and side-by-side trainings of equal networks."""
    recipe = replace(RECIPE, epochs=2)
    small = replace(
        images,
        train=Images(images.train.pixels[:4096], images.train.labels[:4096]),
        valid=Images(images.valid.pixels[:4096], images.valid.labels[:4096]),
    )
    cell = 1462
    networks = {name: network(cell) for name in ("eager", "captured", "captured again")}
    outcomes = {}
    torch.backends.cudnn.deterministic = True
    for name, one in networks.items():
        subnetworks = (lambda *_: [lambda: None]) if name == "eager" else None
        outcomes[name] = train(one, small, recipe, seed=1, subnetworks=subnetworks)
        report.say(
            f"- {name}: losses {outcomes[name].losses}, accuracy {outcomes[name].accuracy:.4f}, notes {outcomes[name].notes}"
        )
    beside = [network(cell), network(6111), network(0), network(cell)]
    together = train_together(beside, small, recipe, seeds=[1, 2, 3, 1], side_by_side=4)
    for number, one in zip((cell, 6111, 0, cell), together, strict=True):
        if isinstance(one, BaseException):
            report.say("```\n" + "".join(traceback.format_exception(one)) + "```")
        else:
            report.say(
                f"- side by side, cell {number}: losses {one.losses}, accuracy {one.accuracy:.4f}"
            )
    networks["side by side"], networks["side by side again"] = beside[0], beside[3]
    torch.backends.cudnn.deterministic = False
    expected = networks["eager"].state_dict()
    differences = {}
    for name, one in networks.items():
        worst = max(
            float((tensor.float() - expected[key].float()).abs().max())
            for key, tensor in one.state_dict().items()
        )
        differences[name] = worst
        report.say(f"- largest difference of a weight, {name} against eager: {worst:.3g}")
    return {
        "losses": {name: one.losses for name, one in outcomes.items()},
        "differences": differences,
    }


# --- speed


class Traffic(TorchDispatchMode):
    """Bytes of the tensors that operators read and write, each once."""

    def __init__(self):
        super().__init__()
        self.bytes = 0
        self.operators = 0

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        result = function(*arguments, **(keywords or {}))
        outputs = [one for one in tree_leaves(result) if isinstance(one, torch.Tensor)]
        inputs = [
            one for one in tree_leaves((arguments, keywords)) if isinstance(one, torch.Tensor)
        ]
        is_view = function.is_view or "empty" in str(function)
        if not is_view:
            self.bytes += sum(one.nbytes for one in (*inputs, *outputs))
            self.operators += 1
        return result


def traffic(number, batch_size):
    """GB that one step reads and writes in two bytes a number, and its operators; counted on few images."""
    few = 8
    one = network(number)
    counts = {}
    for n in (few, 2 * few):
        with Traffic() as counted:
            loss = functional.cross_entropy(
                one(torch.randn(n, 3, 32, 32)), torch.zeros(n, dtype=torch.int64)
            )
            loss.backward()
        counts[n] = counted.bytes / 2
    per_image = (counts[2 * few] - counts[few]) / few
    return per_image * batch_size / 1e9, counted.operators


def plain_loop(number, images, steps):
    """Seconds of each tenth of the steps of a loop as one writes it by hand: bf16, channels last, images on the GPU."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = network(number).to(device).to(memory_format=torch.channels_last)
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
        return max(one[0] for one in ends) + window_s if all(ends) else np.inf

    with TrainingPool(images, side_by_side=len(cells)) as pool:
        futures = [
            pool.submit(
                partial(network, cell, seed),
                RECIPE,
                seed=seed,
                on_epoch=lambda _, mine=mine: mine.append(time.perf_counter()),
                stop=lambda: time.perf_counter() > deadline_s(),
                evaluate_every=RECIPE.epochs,
            )
            for seed, (cell, mine) in enumerate(zip(cells, ends, strict=True))
        ]
        for future in futures:
            future.result()
    begin, end = max(one[0] for one in ends), min(one[-1] for one in ends)
    edges = np.linspace(begin, end, 5)
    done = sum(np.interp(edges, one, np.arange(len(one))) for one in ends) * per_epoch
    return list(np.diff(done) / np.diff(edges)), begin - began_s


def spread(values):
    return f"{median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})" if values else "-"


def speed(images, report, tiny):
    """Images per second of each way, for the best cell and a middling one."""
    found = {}
    most = 16 if torch.cuda.is_available() else 1
    plain_steps = 4 if tiny else 100
    small = ImageSet(
        **{
            **{field.name: getattr(images, field.name) for field in dataclasses.fields(images)},
            "valid": Images(images.valid.pixels[:1000], images.valid.labels[:1000]),
        }
    )
    for number in (6111, middling_cell()):
        gb, operators = traffic(number, RECIPE.batch_size)
        limit = RECIPE.batch_size / (gb * 1e9 / BANDWIDTH_BYTES_S)
        report.say(
            f"- cell {number}: {gb:.1f} GB a step of 256 in {operators} operators (each operator reads and "
            f"writes its tensors once); at 4.3 TB/s {limit:,.0f} images/s"
        )
        row = {"traffic_gb": gb, "operators": operators, "limit": limit}
        row["plain"] = plain_loop(number, images, plain_steps)
        plain = median(row["plain"])
        report.say(f"- cell {number}, plain loop: {spread(row['plain'])} images/s")
        for k in (1, 8, 16):
            window_s = 1 if tiny else min(max(4.0, k), 15.0)
            if k > most or report.left_s < window_s + 1.5 * k + 15:
                continue
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
            began_s = time.perf_counter()
            row[f"beside {k}"], start_s = rates([number] * k, small, window_s)
            row[f"start {k}"] = start_s
            memory = torch.cuda.max_memory_reserved() / 1e9 if torch.cuda.is_available() else 0
            rate = median(row[f"beside {k}"])
            report.say(
                f"- cell {number}, {k} side by side: {spread(row[f'beside {k}'])} images/s, "
                f"{rate / plain:.2f} times the plain loop, {rate / limit:.0%} of the limit; "
                f"peak {memory:.1f} GB, all have ended an epoch after {start_s:.1f} s, {time.perf_counter() - began_s:.0f} s in all"
            )
        found[number] = report.results[number] = row
        report.save()
    return found


def middling_cell():
    """The cell whose table accuracy is the median."""
    return int(np.argsort(table()["cifar10_valid"])[SPACE.size // 2])


def kernels(images, report, _tiny):
    """Kernels of a replayed step of cell 6111, those that take longest first."""
    if not torch.cuda.is_available():
        return {}
    recipe = replace(RECIPE, epochs=2)
    part = replace(
        images,
        train=Images(images.train.pixels[:5120], images.train.labels[:5120]),
        valid=Images(images.valid.pixels[:256], images.valid.labels[:256]),
    )
    train(network(6111), part, recipe, seed=0)  # cuDNN chooses
    events = []

    def watched(epoch):
        if epoch.number == 1:
            profile.__enter__()
        else:
            torch.cuda.synchronize()
            profile.__exit__(None, None, None)
            events.extend(profile.events())

    profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
    train(network(6111), part, recipe, seed=0, on_epoch=watched, evaluate_every=2)
    steps = 20
    totals = {}
    for event in events:
        if str(event.device_type).endswith("CUDA"):
            time_us, count = totals.get(event.name, (0.0, 0))
            totals[event.name] = (time_us + event.time_range.elapsed_us(), count + 1)
    whole = sum(time_us for time_us, _ in totals.values())
    launched = sum(count for _, count in totals.values())
    report.say(
        f"- {launched / steps:.0f} kernels and {whole / steps / 1e3:.2f} ms of kernels a step"
    )
    rows = sorted(totals.items(), key=lambda one: -one[1][0])
    for name, (time_us, count) in rows[:30]:
        report.say(
            f"- {time_us / whole:6.1%}  {time_us / count:7.1f} us x {count / steps:6.1f}  {name[:110]}"
        )
    return {
        name: {"us": time_us / steps, "count": count / steps} for name, (time_us, count) in rows
    }


# --- agreement with the table


def table():
    """Columns of the benchmark's table; a row's place is the cell's official number."""
    read = pyarrow.csv.read_csv(DATA / "nb201_accuracy.csv")
    return {name: read[name].to_numpy() for name in ("cifar10_valid", "cifar10_epoch12_valid")}


def chosen_cells():
    """The named cells, and five more at equal distances in the order of the full training."""
    order = np.argsort(table()["cifar10_valid"])[::-1]
    more = [int(order[int(share * SPACE.size)]) for share in (0.1, 0.3, 0.5, 0.7, 0.9)]
    return [*NAMED, *more]


def agreement_with_table(images, report, tiny):
    """Accuracies after 12 epochs, a network of each cell, beside the table's."""
    columns = table()
    cells = chosen_cells()[: 3 if tiny else None]
    recipe = replace(RECIPE, epochs=1 if tiny else 12)
    seeds_done = []
    for seed in range(1 if tiny else 3):
        began_s = time.perf_counter()
        if seed and report.left_s < 1.2 * seeds_done[-1]["seconds"]:
            break
        with TrainingPool(images, side_by_side=12) as pool:
            futures = [
                pool.submit(
                    lambda cell=cell, seed=seed: network(cell, seed),
                    recipe,
                    seed=seed,
                    evaluate_every=99,
                )
                for cell in cells
            ]
            results = [future.exception() or future.result() for future in futures]
        seconds = time.perf_counter() - began_s
        ours = []
        for one in results:
            if isinstance(one, BaseException):
                report.say("```\n" + "".join(traceback.format_exception(one)) + "```")
            ours.append(np.nan if isinstance(one, BaseException) else 100 * one.accuracy)
        seeds_done.append({"accuracies": ours, "seconds": seconds})
        report.say(f"- seed {seed}: {len(cells)} cells in {seconds:.0f} s")
    ours = np.array([one["accuracies"] for one in seeds_done])
    theirs = columns["cifar10_epoch12_valid"][cells]
    full = columns["cifar10_valid"][cells]
    report.say(
        "\n| cell | table, 200 epochs | table, 12 epochs | ours, 12 epochs | difference |\n|---|---|---|---|---|"
    )
    for position in np.argsort(-full):
        mine = ours[:, position]
        report.say(
            f"| {cells[position]} | {full[position]:.2f} | {theirs[position]:.2f} | "
            f"{', '.join(f'{one:.2f}' for one in mine)} | {mine.mean() - theirs[position]:+.2f} |"
        )
    taus = [float(kendalltau(one, theirs).statistic) for one in ours]
    differences = (ours - theirs).mean(axis=1)
    report.say(f"\ntau {taus}, mean difference {differences.tolist()} points")
    return {
        "cells": cells,
        "table_epoch12": theirs.tolist(),
        "table": full.tolist(),
        "ours": ours.tolist(),
        "tau": taus,
        "mean_difference": differences.tolist(),
        "seconds": [one["seconds"] for one in seeds_done],
    }


def agreement_with_plain(images, report, tiny):
    """Accuracies of the trainer and of an independent loop in float32, channels first, as published.

    Both have the same images, so that what differs from the table in both is in the images.
    """
    epochs = 1 if tiny else 12
    found = {}
    for number in (9930, 5709, 6111)[: 1 if tiny else None]:
        if report.left_s < 30:
            break
        ours = train(
            network(number, 0),
            images,
            replace(RECIPE, epochs=epochs),
            seed=0,
            evaluate_every=epochs,
        )
        began_s = time.perf_counter()
        accuracy = published_protocol(number, images, epochs, (images.train,), (images.valid,))
        found[number] = {"ours": ours.accuracy, "plain": accuracy}
        report.say(
            f"- cell {number}: trainer {ours.accuracy:.2%} in {ours.seconds:.0f} s, plain float32 loop "
            f"{accuracy:.2%} in {time.perf_counter() - began_s:.0f} s, table {table()['cifar10_epoch12_valid'][number]:.2f}"
        )
    return found


def agreement_in_full(images, report, tiny):
    """Test accuracy of a cell that the independent loop has trained for 200 epochs.

    That of the trainer is written by `python -m nas.train arch=6584 data=<images> epochs=200`.
    """
    number, epochs = 6584, 2 if tiny else 200
    train_on = (images.train, images.valid)
    accuracy = published_protocol(number, images, epochs, train_on, (images.test,))
    report.say(f"- cell {number}: plain float32 loop, {epochs} epochs: {accuracy:.2%}")
    return {number: accuracy}


def published_protocol(number, images, epochs, train_on, judged_on):
    """Accuracy after a loop that shares no code with the trainer; its step is captured on a GPU."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    mean = torch.tensor(images.mean, device=device).view(1, 3, 1, 1)
    sd = torch.tensor(images.sd, device=device).view(1, 3, 1, 1)

    def loaded(splits):
        pixels = torch.cat([torch.from_numpy(np.array(one.pixels)) for one in splits])
        labels = torch.cat([torch.from_numpy(np.array(one.labels)) for one in splits])
        return pixels.to(device).permute(0, 3, 1, 2), labels.to(device)

    def normalized(batch):
        return (batch / 255 - mean) / sd

    pixels, labels = loaded(train_on)
    model = network(number).to(device)
    step = PlainStep(model, normalized(pixels[:256]), labels[:256])
    generator = torch.Generator(device=device).manual_seed(0)
    shifts = torch.arange(32, device=device)
    for epoch in range(epochs):
        step.lr.fill_(0.05 * (1 + np.cos(np.pi * epoch / epochs)))
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
            step(normalized(batch), labels[which])
    model.eval()
    pixels, labels = loaded(judged_on)
    with torch.no_grad():
        right = sum(
            int((model(normalized(one)).argmax(1) == truth).sum())
            for one, truth in zip(pixels.split(500), labels.split(500), strict=True)
        )
    return right / len(labels)


class PlainStep:
    """A step of SGD with Nesterov momentum 0.9 and weight decay 5e-4, as torch documents it."""

    def __init__(self, model, batch, labels):
        self.model, self.weights = model, list(model.parameters())
        self.momenta = [torch.zeros_like(one) for one in self.weights]
        self.lr = torch.zeros((), device=batch.device)
        self.graph = None
        if batch.is_cuda:
            self.batch, self.labels = batch.contiguous(), labels.clone()
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(3):  # at a learning rate of 0
                    self.take(self.batch, self.labels)
            torch.cuda.current_stream().wait_stream(stream)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.take(self.batch, self.labels)
            for one in self.momenta:
                one.zero_()
            for module in model.modules():
                if isinstance(module, torch.nn.BatchNorm2d):
                    module.reset_running_stats()

    def take(self, batch, labels):
        """One step, not captured."""
        loss = functional.cross_entropy(self.model(batch), labels)
        gradients = torch.autograd.grad(loss, self.weights)
        with torch.no_grad():
            for weight, gradient, momentum in zip(
                self.weights, gradients, self.momenta, strict=True
            ):
                decayed = gradient + 5e-4 * weight
                momentum.mul_(0.9).add_(decayed)
                weight.sub_(self.lr * (decayed + 0.9 * momentum))

    def __call__(self, batch, labels):
        """One step: replayed, if the batch is as large as the first."""
        if self.graph is None or len(labels) != len(self.labels):
            self.take(batch, labels)
            return
        self.batch.copy_(batch)
        self.labels.copy_(labels)
        self.graph.replay()


PARTS = {
    "steps": (agreement_of_steps, 30),
    "table": (agreement_with_table, 60),
    "plain": (agreement_with_plain, 60),
    "speed": (speed, 60),
    "kernels": (kernels, 30),
    "full": (agreement_in_full, 420),
}
"""Parts, and the seconds that each needs at least."""

SHARES_S = {"table": 190, "plain": 110, "speed": 130}
"""Seconds that a part takes at most beside others."""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--minutes", type=float, default=7.8)
    parser.add_argument("--only", default="steps,table,plain,speed,kernels", help="parts; or full")
    parser.add_argument(
        "--images", type=Path, help="folder of decoded images; then one part runs here"
    )
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    if chosen.images is not None:
        report = Report(chosen.out, chosen.only, 60 * chosen.minutes)
        report.part(lambda: PARTS[chosen.only][0](cifar10(chosen.images), report, chosen.tiny))
        return
    began_s = time.perf_counter()
    with TemporaryDirectory() as images:
        decode(Path(images), chosen.tiny)
        print(f"images are decoded after {time.perf_counter() - began_s:.0f} s", flush=True)
        names = chosen.only.split(",")
        for name in names:  # a process each: a lost GPU is lost to a process
            left_s = 60 * chosen.minutes - (time.perf_counter() - began_s)
            if left_s < PARTS[name][1]:
                print(f"{name} is left out: {left_s:.0f} s are left", flush=True)
                continue
            share_s = min(left_s, SHARES_S.get(name, left_s)) if len(names) > 1 else left_s
            command = [sys.executable, "-u", __file__, "--out", chosen.out, "--only", name]
            command += ["--images", images, "--minutes", str(share_s / 60)]
            with suppress(subprocess.TimeoutExpired):
                subprocess.run(
                    [*command, *["--tiny"] * chosen.tiny], check=False, timeout=share_s + 20
                )
    for end in ("json", "md"):
        files = sorted(chosen.out.glob(f"trainer-*.{end}"))
        texts = [file.read_text() for file in files]
        whole = "[" + ",\n".join(texts) + "]\n" if end == "json" else "\n".join(texts)
        (chosen.out / f"trainer.{end}").write_text(whole)
        for file in files:
            file.unlink()


if __name__ == "__main__":
    main()
